"""Loads event JSONL into a store; ids, times, versions, appends and forks stay the same.

A session is looked for under its own id, because a given session id is an identity, then under
`ID~2`, `ID~3` …, which hold what diverged. `common/target.py` compares stored events one by one,
times included, and appends what is new.

An event that the session's rules refuse is reported with its line, and ends that session. A name
that a session brings is reserved for it; if another session has it, the imported one loses it.
`format.py` reads the file.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.errors import CallError, NotFoundError
from eventlog.errors.base import brief
from eventlog.importers.common.candidate import BEGINNING, Place
from eventlog.importers.common.importer import ImportBatch, Report
from eventlog.importers.common.target import Target
from eventlog.importers.event_jsonl.format import JsonlAppend
from eventlog.integrity.fork_anchor import portable
from eventlog.session.session_names import keep_told
from eventlog.store import Store

__all__ = ["load"]


def load(store: Store, batches: Iterable[ImportBatch], report: Report) -> None:
    """Append what is new of the batches; `report` gets the sessions and the event count."""
    targets: dict[str, Target] = {}
    try:
        _take(store, batches, report, targets)
    finally:  # an append that is on its way would come between those of the next import
        for target in targets.values():
            target.settle()
    for target in targets.values():
        target.finish()
    stored = [found for target in targets.values() if (found := target.found()) is not None]
    report.sessions = [found.name for found in stored]
    for found in stored:
        if report.events and (name := found.session.info.name) is not None:
            keep_told(store, found.session, name)


def _take(store: Store, batches: Iterable[ImportBatch], report: Report, targets: dict[str, Target]) -> None:
    refused: set[str] = set()
    for batch in batches:
        assert isinstance(batch, JsonlAppend)
        if batch.session in refused:
            continue
        try:
            target = targets.get(batch.session)
            if target is None:
                for other in targets.values():
                    other.finish()  # a fork reads its parent
                target = targets[batch.session] = _begun(store, batch, targets, report)
            target.add_append(batch.items, batch.bodies, batch.request)
        except CallError as error:
            report.skip(batch.line, f"{error}; the rest of session {brief(batch.session)} is not imported")
            refused.add(batch.session)


def _begun(store: Store, batch: JsonlAppend, targets: dict[str, Target], report: Report) -> Target:
    """Return the target that begins with this append; a fork gets its parent's id here."""
    time, event = batch.items[0]
    place = BEGINNING
    if isinstance(event, ev.SessionForked):
        if event.at != batch.first - 1:
            raise CallError(f"a fork at version {event.at} that begins at version {batch.first}")
        parent = targets.get(event.parent)
        found = None if parent is None else parent.found()
        if found is not None:
            place = Place(event.at, found.version(event.at), found.version, found.is_shifted)
        elif parent is None:
            place = Place(event.at, event.at)
            store.info(event.parent)  # there must be one
        else:
            raise NotFoundError("session", event.parent)
        name = event.parent if found is None else found.name
        batch.items[0] = time, replace(portable(event), parent=name, at=place.after)
    elif batch.first != 1:
        raise CallError(f"a session that begins at version {batch.first} and is no fork")
    return Target(
        store,
        batch.session,
        report,
        lambda info: info.version > place.after,
        lambda time, event: (time, portable(event)),
        place=place,
    )
