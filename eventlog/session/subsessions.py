"""The sub-sessions of a session's calls, and a stop that no loop passes on to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import msgspec

from eventlog import events as ev
from eventlog.errors import KeyMissingError, LeaseHeldError, NotFoundError
from eventlog.history.catalog import info_of
from eventlog.session.status import is_run, is_unfinished
from eventlog.state.facts import PartFacts, versions_of
from eventlog.state.waiting_calls import asked, asked_at
from eventlog.validation import json_value
from eventlog.values import Json

if TYPE_CHECKING:
    from eventlog.session.executor import Executor
    from eventlog.session.registry import SessionRegistry
    from eventlog.state.state import State

_KEY = "sessionId"
"""Names the sub-session in the metadata of a call, as OpenCode does."""


def subsession_metadata(child: str) -> Json:
    """Return the metadata of a call whose work a sub-session does."""
    return msgspec.json.encode({_KEY: child}).decode()


def subsession_in(metadata: Json | None) -> str | None:
    """Return the sub-session that the metadata of a call names; None without one."""
    found = None if metadata is None else json_value(metadata)
    child = cast("dict[str, object]", found).get(_KEY) if isinstance(found, dict) else None
    return child if isinstance(child, str) else None


def stop_subsessions(registry: SessionRegistry, session: Executor, reason: str) -> None:
    """Stop and settle the sub-sessions that the newest reply's calls left unfinished.

    A sub-session with an owner hears of the stop from the loop that waits for it. This is for those
    whose owner is dead: no loop goes on with them.
    """
    for name in _subsessions(session):
        head = registry.log.head(name)
        if head is None or is_run(registry, head) or not is_unfinished(registry, head):
            continue
        if info_of(head).parent != session.id:  # of the session that this is a fork of
            continue
        with suppress(NotFoundError, KeyMissingError, LeaseHeldError):  # erased, locked or taken meanwhile
            child = registry.get(name)
            with child.lease():
                child.interrupt(reason)
                stop_subsessions(registry, child, reason)


def interrupt_all(registry: SessionRegistry, session: Executor, reason: str) -> None:
    """Interrupt a session, and the sub-sessions that its calls wait for."""
    with session.reader.deciding() as state:
        waiting = [state.parts[part] for part in asked(state)]
    stop_asked(registry, session, waiting, reason)
    session.interrupt(reason)


def stop_asked(registry: SessionRegistry, session: Executor, calls: Sequence[PartFacts], reason: str) -> None:
    """Stop the sub-sessions of `task` calls that wait because calls there wait for a person."""
    for name in filter(None, (waiting_subsession(session, facts) for facts in calls)):
        with suppress(NotFoundError, KeyMissingError):  # erased or locked meanwhile
            child = registry.get(name)
            if child.reader.info.parent == session.id:
                interrupt_all(registry, child, reason)


def waiting_subsession(session: Executor, facts: PartFacts) -> str | None:
    """Return the sub-session of a call that was asked after it had begun; None without one."""
    with session.reader.deciding() as state:
        since = asked_at(state, facts)
        ran = versions_of(facts.changes, "running")
        version = next((at for at in ran if at < since and state.history.holds(at)), 0)
    spans = session.reader.spans(version - 1, version) if version else ()
    found = (span.item for span in spans)
    return next((subsession_in(item.metadata) for item in found if isinstance(item, ev.ToolRunning)), None)


def _subsessions(session: Executor) -> Iterator[str]:
    """Yield the sub-session of each call of the newest reply that runs or was interrupted."""
    with session.reader.deciding() as state:
        begun = _begun(state)
    for version in begun:
        for span in session.reader.spans(version - 1, version):
            child = subsession_in(span.item.metadata) if isinstance(span.item, ev.ToolRunning) else None
            if child is not None:
                yield child


def _begun(state: State) -> list[int]:
    """Return the versions at which those calls began to run."""
    parts = next((facts.parts.values() for _, facts in state.replies()), ())
    calls = (part for part in parts if part.kind == "tool" and state.status(part) in {"running", "interrupted"})
    return [version for part in calls for version in versions_of(part.changes, "running")]
