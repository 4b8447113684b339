"""JSON in events: commands refuse invalid JSON, and every reader survives stored ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args

import msgspec
import pytest

import eventlog
from eventlog import events as ev
from eventlog import values
from eventlog.errors import CallError
from eventlog.session.inputs import JSON_FIELDS
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Attachment, File, MessageError, Model, Reasoning, Retry, Text, Tokens, Tool, Usage
from projections import ModelView
from projections.cli.app import run
from projections.cli.exits import Exit
from projections.exports.opencode import opencode_pieces
from projections.requests.ai_sdk import model_messages
from projections.requests.anthropic import anthropic_request
from projections.requests.forms import FORMS
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from tests.support.opencode_schema import document_faults

NO_JSON = {
    "broken": "{nope",
    "zero": "\0",
    "not a number": '{"n":NaN}',
    "open without an end": "[" * 100_000,
    "deep": '{"a":' * 5_000 + "1" + "}" * 5_000,
    "deep by one": "[" * 201 + "]" * 201,
    "digits": '{"n":' + "9" * 5_000 + "}",
}
"""Texts that no command accepts as JSON."""
ODD = {
    **NO_JSON,
    "empty": "",
    "deep, as is taken": '{"a":' * 200 + "1" + "}" * 200,
    "30 digits": '{"path":"a","n":' + "9" * 30 + "}",
    "infinite": '{"n":1e400}',
    "no object": "5",
    "null": "null",
    "a text": '"\\ud800"',
    "other members": '{"anthropic":{"signature":5},"openai":[],"renderer":"neutral/1","options":{"model":5}}',
}
"""Texts a store may hold in JSON fields: event appends and imports store them unchecked."""


def commands(session: Session, text: str) -> dict[str, Callable[[], object]]:
    """Each command with this text where it takes JSON; a reply's commands on an open one."""
    reply = session.assistant("p/m")
    reply.__enter__()
    stream, call, running = (
        reply.stream_text(),
        reply.tool("bash", call_id="c1"),
        reply.tool("bash", call_id="c2", input={}),
    )
    error = MessageError("api", data=text)
    return {
        "set_metadata": lambda: session.set_metadata("k", text),
        "record_custom": lambda: session.record_custom("a", text),
        "user tools": lambda: session.user("x", tools=text),
        "user format": lambda: session.user("x", format=text),
        "user part": lambda: session.user([Text("x", metadata=text)]),
        "user file": lambda: session.user("x", files=[File("image/png", "data:", metadata=text)]),
        "set_tools": lambda: session.set_tools(text),
        "policy": lambda: session.set_settings(policy=text),
        "text": lambda: reply.stream_text(metadata=text),
        "reasoning": lambda: reply.stream_reasoning(metadata=text),
        "end": lambda: stream.end(text),
        "part": lambda: reply.part(Retry(1, error)),
        "tool": lambda: reply.tool("bash", call_id="c3", metadata=text),
        "tool input": lambda: reply.tool("bash", call_id="c3", input=text),
        "run": lambda: call.start(text),
        "run metadata": lambda: call.start({}, metadata=text),
        "progress": lambda: running.progress("t", text),
        "succeed": lambda: running.succeed("x", metadata=text),
        "fail": lambda: running.fail("x", metadata=text),
        "step": lambda: reply.step(render=text),
        "step patch": lambda: reply.step(patch=text),
        "abort": lambda: reply.abort(error),
    }


@pytest.mark.parametrize("text", NO_JSON.values(), ids=NO_JSON)
def test_no_command_takes_what_is_no_json(text: str) -> None:
    """Each command refuses text that is not portable JSON without quoting it; replies go on."""
    with eventlog.open("memory:") as store:
        session = store.create_session(id="s")
        session.user("question")
        made = commands(session, text)
        session.flush()
        before = session.version
        for name, call in made.items():
            with pytest.raises(CallError, match="JSON") as refused:
                call()
            assert len(str(refused.value)) < 300, name
            assert "nope" not in str(refused.value)
        session.flush()
        assert session.version == before
        session.set_metadata("k", '{"a":1}')


def test_deep_arguments_are_refused_as_a_dict_too() -> None:
    """A dict of arguments has the same depth limit as a text."""
    deep: dict[str, object] = {}
    for _ in range(300):
        deep = {"a": deep}
    with eventlog.open("memory:") as store, store.create_session().assistant() as reply:
        huge: dict[str, object] = {"n": 10**5_000}
        for given in (deep, huge):
            with pytest.raises(CallError, match="JSON"):
                reply.tool("bash", call_id="c", input=given)
        reply.tool("bash", call_id="c", input="").succeed("a model that says nothing means no arguments")
        reply.tool("bash", call_id="d", input={"n": 10**30}).succeed("kept exactly")
        reply.finish()


def test_every_field_of_json_is_known() -> None:
    """The table of checked JSON fields has every field that events declare as JSON."""
    kinds: list[type[msgspec.Struct]] = [*cast("Any", ev.Event).__args__]
    kinds += [found for name in values.__all__ if isinstance(found := getattr(values, name), type)]
    for kind in kinds:
        declared = {
            name
            for name, said in getattr(kind, "__annotations__", {}).items()
            if "Json" in str(said) and get_args(said) != (NoneType,)
        }
        if kind is not ev.ForeignKept:  # events that importers use only
            assert declared <= {*JSON_FIELDS.get(kind, ())}, kind


def history(text: str, *, cost: str, large: int) -> list[ev.Event]:
    """Events of every kind with JSON, this text in its place; two messages, one compaction."""
    error = MessageError("weird", "m", text)
    return [
        ev.MetadataSet("k", text),
        ev.ToolsSet(text),
        ev.UserMessageAdded("m1", tools=text, format=text),
        ev.PartStarted("m1", "p1", Text("hi", metadata=text)),
        ev.PartStarted("m1", "p2", File("image/png", "data:image/png;base64,AAAA", metadata=text)),
        ev.AssistantMessageStarted("m2", "m1", model=Model("p", "m")),
        ev.StepStarted("m2", "s1", "turn", 3, bytes(range(32)), text, None, large, text, "", text),
        ev.PartStarted("m2", "r1", Reasoning("", text)),
        ev.PartEnded("r1", text),
        ev.PartStarted("m2", "c1", Tool("call1", "read", False, text)),
        ev.ToolRunning("c1", text, "t", text),
        ev.ToolProgress("c1", "t", text),
        ev.ToolCompleted("c1", "output", None, "t", text, (Attachment("image/png", "data:image/png;base64,AA"),)),
        ev.PartStarted("m2", "c2", Tool("call2", "edit", True, text)),
        ev.ToolRunning("c2", text, "t", text),
        ev.ToolFailed("c2", "err", False, "o", text),
        ev.PartStarted("m2", "rt", Retry(1, error)),
        ev.StepFinished("m2", "s2", "stop"),
        ev.UsageRecorded(Usage(Tokens(large, large), Decimal(cost)), "m2", "s2", Model("p", "m")),
        ev.MessageFinished("m2", "stop", error),
        ev.Custom("ns", text),
    ]


def keep(store: Store, name: str, text: str) -> Session:
    """A session that holds these events, appended as they are."""
    session = store.create_session(id=name)
    events = history(text, cost="9e300" if name == "infinite" else "0.5", large=(1 << 64) - 1)
    session.append([(1_700_000_000_000 + number, event) for number, event in enumerate(events)])
    return session


def strict(data: bytes) -> Any:
    """The value of strict JSON: no NaN, no Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(data, parse_constant=refuse)


@pytest.mark.parametrize("name", ODD)
def test_every_renderer_takes_what_a_store_may_hold(name: str) -> None:
    """Each renderer and export yields valid JSON for any stored text in a JSON field."""
    with eventlog.open("memory:") as store:
        session = keep(store, name, ODD[name])
        messages = ModelView.of(session).messages
        for render in (chat_messages, responses_request, anthropic_request, model_messages):
            strict(msgspec.json.encode(render(messages)))
        document = b"".join(opencode_pieces(session))
        assert not document_faults(strict(document))


COMMANDS = [
    ["export", "NAME", "--format", "opencode", "--output", "OUT"],
    ["export", "NAME", "--format", "jsonl", "--output", "OUT"],
    ["export", "NAME", "--format", "markdown", "--output", "OUT"],
    *(["view", "NAME", "--format", form] for form in ("neutral", *FORMS)),
    *(
        [command, "NAME", *more]
        for command in ("events", "show", "stats", "audit", "timeline")
        for more in ([], ["--json"])
    ),
    ["audit", "NAME", "--step", "1"],
    ["window", "NAME", "--json"],
    ["window", "NAME", "--policy", "superseded"],
    ["verify", "NAME"],
    ["diff", "NAME", "4", "20"],
    ["recall", "NAME", "c1"],
    ["sessions", "--json"],
]


@pytest.mark.parametrize(
    "name", ["broken", "open without an end", "deep", "digits", "30 digits", "infinite", "no object"]
)
def test_no_command_line_stumbles_over_what_a_store_may_hold(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command that reads a session ends normally with invalid JSON stored in it."""
    with eventlog.open(tmp_path / "s") as store:
        keep(store, name, ODD[name])
    for command in COMMANDS:
        words = [word.replace("NAME", name).replace("OUT", str(tmp_path / "out")) for word in command]
        assert run(["--store", str(tmp_path / "s"), *words]) in {Exit.OK, Exit.FAULTS}, (words, capsys.readouterr().err)


def test_sums_of_usage_stay_numbers() -> None:
    """Token sums saturate at the largest number, and a cost that may overflow is refused."""
    with eventlog.open("memory:") as store:
        session = store.create_session(id="s")
        most = (1 << 64) - 1
        for _ in range(3):
            session.record_usage(Usage(Tokens(most, most), Decimal("9e300")))
        assert store.info("s").tokens == most
        with pytest.raises(CallError, match="cost has 1000000 digits, at most 301"):
            session.record_usage(Usage(Tokens(), Decimal("9e999999")))
        assert store.info("s").cost == Decimal("27e300")
