"""Ask a person whether a call may run, and make ready one that was allowed.

An ask has a salted digest of tool, arguments and schema, and so has its answer. Where the schema is
another one by the time the call would run, it is asked again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.large_texts import to_content
from eventlog.errors import RefusedError
from eventlog.session.inputs import as_json
from eventlog.session.tool_functions import functions_in, parameters_of
from eventlog.state.facts import PartFacts, versions_of
from eventlog.state.waiting_calls import asked_at, may_run
from eventlog.values import INTERRUPTED, Json, Tool

if TYPE_CHECKING:
    from eventlog.session.executor import Executor
    from eventlog.session.reader import SessionReader
    from eventlog.state.state import State

SALT = 16
"""Bytes of a salt."""


def ask_event(
    executor: Executor,
    part: str,
    reason: str,
    input: Json | dict[str, object] | None,
    bodies: dict[bytes, bytes],
    *,
    states: Sequence[str] = (),
) -> ev.CallAsked:
    """Return the event that asks for a call, by default with the arguments that streamed.

    `RefusedError` unless the call is in one of the `states`, if any are given.
    """
    reader = executor.reader
    executor.writer.flush()
    with reader.deciding() as state:
        facts, tools = state.part(part), _tools_version(state)
        status = state.status(facts)
    if states and status not in states:
        expected = f"a call that is {' or '.join(states)}"
        if status == "running":
            expected += "; `input` of `tool` starts a call: give the arguments to `ask(input=…)` instead"
        raise RefusedError(f"the call is {status}", expected=expected, session=executor.id)
    text = _streamed(reader, part, facts) if input is None else as_json(input)
    if input is None:
        as_json(text)
    salt = secrets.token_bytes(SALT)
    schema = _schema_digest(reader, salt, facts, tools)
    digest = call_digest(salt, tool_of(reader, facts).tool, text, schema)
    return ev.CallAsked(part, to_content(text or "{}", bodies), reason, salt, schema, digest)


def streamed_input(executor: Executor, part: str) -> Json:
    """Return the arguments that streamed into a call; `RefusedError` unless it is pending."""
    reader = executor.reader
    executor.writer.flush()
    with reader.deciding() as state:
        facts = state.part(part)
        status = state.status(facts)
    if status != "pending":
        raise RefusedError(f"the call is {status}", expected="a call that is pending", session=executor.id)
    return _streamed(reader, part, facts) or "{}"


def ready_to_run(executor: Executor, part: str) -> Json | None:
    """Return the arguments that an allowed call runs with; None if it may not run now.

    Then it is asked again, because its tool has another schema by now, or it has failed: it ran in
    a history that was left, or it was redacted. The caller has the lease.
    """
    reader = executor.reader
    executor.writer.flush()
    with reader.deciding() as state:
        facts, tools = state.part(part), _tools_version(state)
        state.message(facts.message)
        allowed, at, status = allowed_at(state, facts), asked_at(state, facts), state.status(facts)
        is_over = not may_run(state, facts)
    if status != "allowed":
        raise RefusedError(f"the call is {status}", expected="a call that a person allowed", session=executor.id)
    if is_over or is_redacted(facts):
        executor.command([ev.ToolFailed(part, INTERRUPTED, interrupted=is_over)])
        return None
    ask, _ = ask_at(reader, at)
    (known,) = reader.events(allowed - 1, allowed)
    answer = known.event
    assert isinstance(answer, ev.CallAnswered)
    text = reader.text(ask.input if answer.edit is None else answer.edit)
    schema = _schema_digest(reader, ask.salt, facts, tools)
    has_begun = any(versions_of(facts.changes, "running"))  # a task: what a person allowed is in its sub-session
    if has_begun or answer.digest == call_digest(ask.salt, tool_of(reader, facts).tool, text, schema):
        return text
    bodies: dict[bytes, bytes] = {}
    executor.command([ask_event(executor, part, ask.reason, text, bodies)], bodies)
    return None


# -- helpers -------------------------------------------------------------------------------------


def is_redacted(facts: PartFacts) -> bool:
    """Whether the content of a part was redacted."""
    return any(versions_of(facts.edits, "redacted"))


def allowed_at(state: State, facts: PartFacts) -> int:
    """Return the version that allowed the newest ask of a call; 0 if none did."""
    since = asked_at(state, facts)
    return next((at for at in versions_of(facts.changes, "allowed") if at > since and state.history.holds(at)), 0)


def ask_at(reader: SessionReader, version: int) -> tuple[ev.CallAsked, int]:
    """Return the ask of a version, and its time."""
    (found,) = reader.events(version - 1, version)
    assert isinstance(found.event, ev.CallAsked)
    return found.event, found.time


def tool_of(reader: SessionReader, facts: PartFacts) -> Tool:
    """Return the tool call that a part began as."""
    (found,) = reader.events(facts.added - 1, facts.added)
    assert isinstance(found.event, ev.PartStarted)
    return cast("Tool", found.event.kind)


def _streamed(reader: SessionReader, part: str, facts: PartFacts) -> str:
    """Return the arguments of a call as they streamed."""
    runs = (span.item for span in reader.spans(facts.added) if isinstance(span.item, DeltaRun))
    return "".join(run.joined().get((part, "input"), "") for run in runs)


def _tools_version(state: State) -> int:
    """Return the version that recorded the tools last; 0 if none did."""
    return next((version for version, _ in state.tools.newest_first(state.history)), 0)


def _schema_digest(reader: SessionReader, salt: bytes, facts: PartFacts, tools: int) -> bytes:
    """Return the salted digest of the schema of a call's tool among those recorded last."""
    name, schema = tool_of(reader, facts).tool, ""
    if tools:
        (found,) = reader.events(tools - 1, tools)
        assert isinstance(found.event, ev.ToolsSet)
        schema = _schema_of(reader.text(found.event.schemas), name)
    return sha256(salt + schema.encode("utf-8", "surrogatepass")).digest()


def _schema_of(tools: Json, name: str) -> str:
    """Return name and parameters of a tool as canonical JSON, alike in any provider's form.

    Gemini may have the types of a schema in upper case. All of a function without parameters, as a
    provider's own tool is; "" without one.
    """
    function = next((each for each in functions_in(tools) if each.get("name") == name), None)
    if function is None:
        return ""
    parameters = parameters_of(function)
    if parameters is None:
        return json.dumps(function, sort_keys=True)
    lower = json.loads(json.dumps(parameters), object_hook=_with_lower_type)
    return json.dumps([name, lower], sort_keys=True)


def _with_lower_type(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    return {**schema, "type": kind.lower()} if isinstance(kind, str) else schema


def call_digest(salt: bytes, tool: str, arguments: Json, schema: bytes) -> bytes:
    """Return the salted digest of a call with its tool, arguments and digest of the schema."""
    fields = (tool.encode("utf-8", "surrogatepass"), (arguments or "{}").encode("utf-8", "surrogatepass"), schema)
    return sha256(b"".join((salt, *(len(field).to_bytes(8) + field for field in fields)))).digest()
