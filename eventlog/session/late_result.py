"""A result that comes after its call was settled as interrupted, without a lease.

A worker that is slow, or whose lease another owner has taken, need not throw away what a tool did.
The append is made at the version that it was decided at, so it changes nothing that it has not
seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventlog import events as ev
from eventlog.append.backoff import Backoff
from eventlog.append.transaction import transact
from eventlog.codec.large_texts import to_content
from eventlog.errors import ConflictError, NotFoundError, RefusedError
from eventlog.errors.base import brief
from eventlog.session.executor import Executor
from eventlog.session.inputs import require_sound_json, stored_attachment, stored_truncation
from eventlog.state.facts import PartFacts, versions_of
from eventlog.state.state import State
from eventlog.validation import each, require, require_or_none
from eventlog.values import Attachment, Json, Truncation

__all__ = ["effective_call", "late_result"]


def late_result(
    executor: Executor,
    message: str,
    call: str,
    output: str,
    *,
    failed: bool = False,
    title: str = "",
    metadata: Json | None = None,
    attachments: Sequence[Attachment] = (),
    truncation: Truncation | None = None,
) -> int:
    """Complete an interrupted call; see `Session.late_result`."""
    for name, rule in ((message, "a message is named by its id, a str"), (call, "a call is named by its id, a str")):
        require(str, name, rule)
    require(str, output, "an output is a str")
    require_or_none(Truncation, truncation, "a truncation is a Truncation")
    executor.host.require_open(writing=True)
    bodies: dict[bytes, bytes] = {}
    content = to_content(output, bodies)
    truncation = stored_truncation(truncation, bodies)
    files = tuple(stored_attachment(one, bodies) for one in each(attachments, "attachments are a list of attachments"))
    writer = executor.writer
    backoff = Backoff()
    while True:
        try:
            if writer.is_ahead:
                writer.flush()
            with executor.reader.deciding() as state:
                version = state.version
                part, facts = effective_call(state, message, call)
                status = state.status(facts)
                done = None if status == "interrupted" else _newest_change(state, facts, status)
            event: ev.ToolCompleted | ev.ToolFailed
            if failed:
                event = ev.ToolFailed(part, content, metadata=metadata)
            else:
                event = ev.ToolCompleted(part, content, truncation, title, metadata, files)
            require_sound_json([event])
            if done is not None:
                return _same(executor, call, done, event)
            items: list[tuple[int, ev.Event]] = [(executor.host.clock(), event)]
            return transact(writer, items, bodies, expected=version).last
        except ConflictError:
            if not backoff.goes_on():
                raise


def effective_call(state: State, message: str, call: str) -> tuple[str, PartFacts]:
    """Return the part of an effective call, and its facts."""
    for part, facts in state.message(message).parts.items():
        is_there = facts.kind == "tool" and facts.call == call and state.history.holds(facts.added)
        if is_there and state.status(facts) != "removed":
            return part, facts
    raise NotFoundError("call", call)


def _newest_change(state: State, facts: PartFacts, status: str) -> int:
    """Return the version of a call's end; `RefusedError` if it goes on."""
    if status not in {"completed", "failed"}:
        raise RefusedError(f"the call is {status}", expected="a call that was settled as interrupted")
    return next(filter(state.history.holds, versions_of(facts.changes, status)))


def _same(executor: Executor, call: str, version: int, event: ev.Event) -> int:
    """Return the version of a result that is there already; `RefusedError` if it is another."""
    (known,) = executor.reader.events(version - 1, version)
    if known.event != event:
        expected = "the same result, or a call that was settled as interrupted"
        raise RefusedError(f"call {brief(call)} has another result", expected=expected, session=executor.id)
    return version
