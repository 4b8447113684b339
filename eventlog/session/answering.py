"""Answer for calls that wait for a person, and list them.

Anybody may answer, without the lease and in any process: the commit decides which answer is first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from eventlog import events as ev
from eventlog.codec.large_texts import to_content
from eventlog.errors import CallError, EventlogError, RefusedError
from eventlog.errors.base import brief
from eventlog.session.asking import ask_at, call_digest, is_redacted, tool_of
from eventlog.session.inputs import as_json
from eventlog.session.subsessions import stop_asked, waiting_subsession
from eventlog.state.facts import versions_of
from eventlog.state.waiting_calls import asked, asked_at, effective_call, may_run, waits_for_answer
from eventlog.validation import a_kind, json_value, require
from eventlog.values import Json

if TYPE_CHECKING:
    from eventlog.session.executor import Executor
    from eventlog.session.registry import SessionRegistry
    from eventlog.state.facts import PartFacts
    from eventlog.state.state import State


class Allow(msgspec.Struct, frozen=True):
    """The call may run as it is."""


class Deny(msgspec.Struct, frozen=True):
    """The call may not run; the model is told the `reason`."""

    reason: str = ""


class Edit(msgspec.Struct, frozen=True):
    """The call may run with these arguments instead: JSON text, or a dict."""

    arguments: Json | dict[str, object]


Answer: TypeAlias = Allow | Deny | Edit
"""An answer of a person for a call."""


class Given(NamedTuple):
    """An answer as it is compared and recorded."""

    verdict: Literal["allow", "deny"]
    reason: str = ""
    edit: Json | None = None
    by: str = ""

    @classmethod
    def of(cls, answer: Answer, by: str) -> Given:
        """Check an answer, and the name of who gives it; `CallError` for what is none."""
        require(str, by, "`by` is the name of the person who answers, a str")
        require((Allow, Deny, Edit), answer, "an answer is Allow(), Deny(reason) or Edit(arguments)")
        if isinstance(answer, Deny):
            require(str, answer.reason, "the reason of a denial is a str")
            return cls("deny", answer.reason, by=by)
        if isinstance(answer, Allow):
            return cls("allow", by=by)
        text = as_json(answer.arguments) or "{}"
        if not isinstance(json_value(text), dict):
            raise CallError(f"the arguments of a call are a JSON object, not {a_kind(json_value(text))}")
        return cls("allow", edit=text, by=by)


class AskedCall(msgspec.Struct, frozen=True):
    """A call that waits for a person's answer.  A redacted one has no arguments and no reason.

    `Session.answer_call` takes `message` and `call`, the provider's id. `time` is UTC milliseconds.
    `session` is the sub-session of a `task` call, in which the calls of its own are answered.
    """

    message: str
    call: str
    part: str
    tool: str
    arguments: Json
    reason: str
    time: int
    session: str | None = None


def asked_calls(executor: Executor) -> list[AskedCall]:
    """Return the calls that wait for an answer, the oldest first; see `Session.asked_calls`."""
    reader = executor.reader
    with reader.deciding() as state:
        waiting = [
            (part, facts, asked_at(state, facts))
            for part in asked(state)
            if state.status(facts := state.parts[part]) == "asked"
        ]
    found: list[AskedCall] = []
    for part, facts, version in sorted(waiting, key=lambda entry: entry[2]):
        ask, time = ask_at(reader, version)
        arguments, reason = ("{}", "") if is_redacted(facts) else (reader.text(ask.input), ask.reason)
        child = waiting_subsession(executor, facts)
        tool = tool_of(reader, facts).tool
        found.append(AskedCall(facts.message, facts.call, part, tool, arguments, reason, time, child))
    return found


def has_asked(executor: Executor) -> bool:
    """Whether calls that were asked have no result, also calls that a person has allowed."""
    with executor.reader.deciding() as state:
        return bool(asked(state))


def answer_call(executor: Executor, registry: SessionRegistry, message: str, call: str, given: Given) -> int:
    """Answer for a call that waits; see `Session.answer_call`.

    A `task` call whose sub-session waits goes on with the last answer there, and with a denial the
    sub-session is stopped.
    """
    for name, rule in ((message, "a message is named by its id, a str"), (call, "a call is named by its id, a str")):
        require(str, name, rule)
    executor.host.require_open(writing=True)
    version = _answer(executor, message, call, given)
    if given.verdict == "deny":
        with executor.reader.deciding() as state:
            facts = effective_call(state, message, call)[1]
        stop_asked(registry, executor, [facts], "its call was denied")
    _wake_parent(executor, registry, given.by)
    return version


def _wake_parent(executor: Executor, registry: SessionRegistry, by: str) -> None:
    """Let the `task` call that a sub-session works for go on, if nothing waits here any more."""
    parent = executor.reader.info.parent
    if parent is None:
        return
    with executor.reader.deciding() as state:
        if waits_for_answer(state):
            return
    with suppress(EventlogError):  # the parent is gone, or was answered for
        above = registry.get(parent)
        for found in asked_calls(above):
            if found.session == executor.id:
                answer_call(above, registry, found.message, found.call, Given("allow", by=by))


def _answer(executor: Executor, message: str, call: str, given: Given) -> int:
    reader = executor.reader
    if executor.writer.is_ahead:
        executor.writer.flush()
    with reader.deciding() as state:
        part, facts = effective_call(state, message, call)
        status, asked, done = state.status(facts), asked_at(state, facts), _answers(state, facts)
        waits = status == "asked" and may_run(state, facts)
    if not waits:
        return _same(executor, call, done, given, status)
    if is_redacted(facts) and given.verdict == "allow":
        raise RefusedError(f"call {brief(call)} is redacted", expected="Deny()", session=executor.id)
    if given.edit is not None and any(versions_of(facts.changes, "running")):
        expected = "Allow() or Deny(reason): its sub-session has begun"
        raise RefusedError(f"other arguments for call {brief(call)}", expected=expected, session=executor.id)
    ask, _ = ask_at(reader, asked)
    bodies: dict[bytes, bytes] = {}
    edit, digest = None, ask.digest
    if given.edit is not None:
        edit = to_content(given.edit, bodies)
        digest = call_digest(ask.salt, tool_of(reader, facts).tool, given.edit, ask.schema)
    event = ev.CallAnswered(part, asked, given.verdict, given.by, given.reason, edit, digest)
    try:
        return executor.commit([event], bodies=bodies).last
    except RefusedError:
        with reader.deciding() as state:  # another's answer, or a rollback, came first
            facts = effective_call(state, message, call)[1]
            status, done = state.status(facts), _answers(state, facts)
            if status == "asked":
                raise
        return _same(executor, call, done, given, status)


def _answers(state: State, facts: PartFacts) -> list[int]:
    """Return the versions that may have answered the newest ask of this session, newest first."""
    since = asked_at(state, facts)
    ended = (*versions_of(facts.changes, "allowed"), *versions_of(facts.changes, "failed"))
    return sorted((at for at in ended if at > since > state.started and state.history.holds(at)), reverse=True)


def _same(executor: Executor, call: str, versions: Sequence[int], given: Given, status: str) -> int:
    """Return the version of the same answer; `RefusedError` if there is another, or none."""
    for version in versions:
        (known,) = executor.reader.events(version - 1, version)
        event = known.event
        if not isinstance(event, ev.CallAnswered):  # the tool's failure
            continue
        edit = None if event.edit is None else executor.reader.text(event.edit)
        if (event.verdict, event.reason, edit) == (given.verdict, given.reason, given.edit):
            return version
        was = "stopped by an interrupt" if event.verdict == "stop" else f"answered with {event.verdict}"
        changed = "" if edit is None else " and changed arguments"
        by = f" by {brief(event.by)}" if event.by else ""
        expected = "this answer again, or none: the first one holds"
        raise RefusedError(f"call {brief(call)} was {was}{changed}{by}", expected=expected, session=executor.id)
    expected = "a call that waits for an answer"
    raise RefusedError(f"call {brief(call)} is {status}", expected=expected, session=executor.id)
