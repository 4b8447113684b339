"""Appends what is new of an import: compares a file's events with the stored sessions.

A file's session is looked for under its name, then `name~2`, `name~3` …, which are its
continuations; sessions with another origin are skipped. `common/target.py` compares all of them
with the file at once, and appends to one of them or to a fork, which has the same origin: the next
import finds the fork.

Times and the origin's path are not compared: a file that was moved or copied is the same file.

A session that was erased in the store is left out of the file, with its branches.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.errors import ErasedError
from eventlog.history.catalog import SessionInfo
from eventlog.importers.common.candidate import BESIDE
from eventlog.importers.common.importer import ImportBatch, Report
from eventlog.importers.common.target import Target, begin_free, taken_and_free
from eventlog.store import Store
from eventlog.values import Origin


def reconcile(store: Store, batches: Iterable[ImportBatch], report: Report, scope: str | None) -> None:
    """Append what is new of `batches`; `report` gets the session ids and the event count.

    `scope` is as in `import_file`.
    """
    found = Reconciliation(store, report, scope)
    found.take(batches)
    found.finish()
    report.sessions = found.stored_ids(report.sessions)


class Reconciliation:
    """The sessions of one file, compared batch by batch; `report` gets the event count."""

    def __init__(self, store: Store, report: Report, scope: str | None) -> None:
        self._store = store
        self._report = report
        self._scope = scope
        self._targets: dict[str, Target] = {}
        self._names: dict[str, str] = {}
        self._erased: dict[str, ErasedError] = {}
        """Sessions of the file that are left out."""

    def take(self, batches: Iterable[ImportBatch]) -> None:
        """Compare batches, and append what is new; some of it may wait for `finish`."""
        try:
            for batch in batches:
                first = batch.items[0][1] if batch.items else None
                of = first.parent if isinstance(first, ev.SessionForked) else batch.session
                if of in self._erased:
                    self._erased[batch.session] = self._erased[of]
                    continue
                try:
                    self._take(batch)
                except ErasedError as error:
                    self._erased[batch.session] = error
                    self._targets.pop(batch.session, None)
                    self._report.skip(1, f"{error}; it is left out")
        finally:  # an append that is on its way would come between those of the next import
            for target in self._targets.values():
                target.settle()

    def _take(self, batch: ImportBatch) -> None:
        target = self._targets.get(batch.session)
        if target is None:
            time, first = batch.items[0]
            if isinstance(first, ev.SessionForked):
                self._names[batch.session] = self._branch(batch.session, time, first)
                return
            assert isinstance(first, ev.SessionStarted)
            self._rest()
            target = self._targets[batch.session] = Target(
                self._store,
                batch.session,
                self._report,
                lambda info: _same_origin(info, first.origin),
                _comparable,
                beside=BESIDE if batch.snapshot is None else (*BESIDE, ev.ForeignKept),
            )
            target.require_scope(self._scope)
            parent = first.parent and self._names.get(first.parent, first.parent)
            batch.items[0] = time, replace(first, parent=parent, scope=self._scope or "")
        target.add(batch.items, batch.bodies, batch.weight, batch.snapshot)
        self._names[batch.session] = target.name()

    def _branch(self, wanted: str, time: int, forked: ev.SessionForked) -> str:
        """Return the session that keeps an abandoned branch; it is made if it is absent."""
        source, at = self._targets[forked.parent].stored_version(forked.at)
        taken, free = taken_and_free(self._store, wanted)
        for info in taken:
            if _same_origin(info, forked.origin) and (info.fork_of, info.forked_at) == (source.name, at):
                return info.id
        scope = self._store.info(source.name).scope
        begin_free(self._store, replace(forked, parent=source.name, at=at, scope=scope), free, time)
        self._report.events += 1
        return free

    def _rest(self) -> None:
        """Append what waits, so that a file of many sessions takes the memory of one."""
        target = next(reversed(self._targets.values()), None)
        if target is not None:
            target.finish()
            self._names[target.wanted] = target.name()
            if target.chosen is not None:
                target.chosen.__dict__.pop("session", None)  # a later append loads it again
            if target.snapshot:  # its last batch has come
                del self._targets[target.wanted]

    def finish(self) -> None:
        """Append what waits. Batches may follow, of a format without snapshots.

        `ErasedError` if each session of the file was erased.
        """
        if self._erased and self._erased.keys() >= {*self._report.sessions}:
            raise next(iter(self._erased.values()))
        for target in self._targets.values():
            target.finish()
            self._names[target.wanted] = target.name()

    def go_on(self) -> None:
        """Regard what others have appended meanwhile: the next batches are compared with it."""
        for target in self._targets.values():
            target.go_on()

    def stored_ids(self, sessions: Iterable[str]) -> list[str]:
        """Return the ids that sessions of the file have in the store."""
        return [self._names.get(name, name) for name in sessions if name not in self._erased]


def _same_origin(info: SessionInfo, origin: Origin | None) -> bool:
    found = info.origin
    return (
        found is not None
        and origin is not None
        and (found.format, found.foreign_id) == (origin.format, origin.foreign_id)
    )


def _comparable(_time: int, event: ev.Event) -> ev.Event:
    """Return the event without fields in which two imports of one session may differ."""
    if isinstance(event, ev.SessionStarted) and event.origin is not None:
        return replace(event, origin=replace(event.origin, path=""), parent=None, scope="")
    return event
