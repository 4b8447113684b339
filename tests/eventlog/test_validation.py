"""Wrong calls: each is a `CallError` with the expectation, and nothing is written."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import CallError, ClosedError, ErasedError, NotFoundError, RefusedError
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Limits, Tokens, Usage
from projections import ModelView
from projections.loop import ContextWindow, Wait

WRONG = object()
"""A value of a type that no argument takes."""


@pytest.mark.parametrize("address", ["postgresql+psycopg://h/x", "mysql://h/x", "sqlite:///x", "s3://bucket/x"])
def test_an_address_is_no_directory(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server address is refused wherever a directory would be made; a colon is no address."""
    monkeypatch.chdir(tmp_path)
    for path in (address, Path(address)):
        calls: list[Callable[[str | Path], object]] = [
            eventlog.open,
            lambda to: eventlog.restore("b", to),
            lambda to: eventlog.repair("b", to),
        ]
        for call in calls:
            with pytest.raises(CallError, match=f"{address.partition(':')[0].replace('+', '.')}:// is the address"):
                call(path)
    with eventlog.open("a:b") as store, pytest.raises(CallError, match="is the address"):
        store.backup(address)
    assert [path.name for path in tmp_path.iterdir()] == ["a:b"]


@pytest.mark.parametrize("path", [None, 5, b"chats", WRONG])
def test_a_path_is_a_path(path: Any) -> None:
    """A wrong type for a path is `CallError`, no error of another library."""
    with pytest.raises(CallError, match="a path is a str or a Path, not"):
        eventlog.open(path)


SAID: list[tuple[Callable[[Session], object], str]] = [
    (lambda s: s.user(_any(5)), "a user message is a str or a list of parts, not an int"),
    (lambda s: s.user(_any({"text": "hi"})), "a user message is a str or a list of parts, not a dict"),
    (lambda s: s.user(_any([5])), r"PartStarted.kind is of type Text, Reasoning, .* or Opaque, not an int"),
    (lambda s: s.user("x", files=_any(5)), "files are a list of files, not an int"),
    (lambda s: s.user("x", tools=_any(["t"])), "UserMessageAdded.tools is of type str or None, not a list"),
    (lambda s: s.user("x", tools=_any(WRONG), request_id="r"), "UserMessageAdded.tools is of type str or None"),
    (lambda s: s.user("x", system=_any(5)), "a text is a str, not an int"),
    (lambda s: s.user("x", delivery=_any("now")), "UserMessageAdded.delivery is 'steer' or 'queue', not 'now'"),
    (lambda s: s.user("x", model=_any(5)), 'a model is a Model, or a str such as "provider/name", not an int'),
    (lambda s: s.rename(_any(5)), "SessionRenamed.title is of type str, not an int"),
    (lambda s: s.set_metadata("k", _any([])), "MetadataSet.value is of type str or None, not a list"),
    (lambda s: s.record_usage(_any({})), "UsageRecorded.usage is of type Usage, not a dict"),
    (
        lambda s: s.record_usage(Usage(Tokens(_any("5")))),
        "UsageRecorded.usage.tokens.input is of type int, not a str",
    ),
    (lambda s: s.record_usage(Usage(Tokens(1 << 64))), "UsageRecorded.usage.tokens.input is a whole number of 64 bits"),
    (
        lambda s: s.record_usage(Usage(Tokens(), _any(0.5))),
        "UsageRecorded.usage.cost is of type Decimal or None, not a f",
    ),
    (lambda s: s.set_tools(_any([{"name": "read"}])), "tool schemas are a JSON array, as a str, not a list"),
    (lambda s: s.set_tools("{nope"), "tool schemas are a JSON array, as a str; this is no JSON at line 1, column 2"),
    (lambda s: s.set_tools("{}"), "tool schemas are a JSON array, as a str, not a dict"),
    (lambda s: s.set_settings(limits=Limits(-5)), "Limits.context is -5; a limit is not less than zero"),
    (lambda s: s.set_settings(limits=Limits(9, output=-1)), "Limits.output is -1; a limit is not less than zero"),
    (lambda s: s.set_settings(limits=Limits(_any("9"))), "Limits.context is a whole number, not a str"),
    (lambda s: s.set_settings(limits=_any({})), "limits are a Limits, not a dict"),
    (lambda s: s.set_settings(policy="{nope"), "a context policy is a JSON object; this is no JSON"),
    (lambda s: s.set_system_prompt(_any(None)), "a text is a str, not None"),
    (lambda s: s.set_todos(_any(5)), "todos are a list of todos, not an int"),
    (lambda s: s.set_todos(_any(["buy milk"])), r"TodosSet.todos\[0\] is of type Todo, not a str"),
    (lambda s: s.pin(_any(5)), "a text is a str, not an int"),
    (lambda s: s.context.prune("prt_1"), "parts are a list of ids, not a str"),
    (lambda s: s.context.unprune(_any(5)), "parts are a list of ids, not an int"),
    (lambda s: s.fork(_any("3")), "a version is a whole number, not a str"),
    (lambda s: s.rollback(_any("3")), "a version is a whole number, not a str"),
    (lambda s: s.fork(1, id=_any(5)), "an id is a str, not an int"),
    (lambda s: ModelView.of(s, at=_any("1")), "a version is a whole number, not a str"),
    (lambda s: s.append(_any([ev.SessionArchived()])), "as .milliseconds, event., not as a SessionArchived"),
    (lambda s: s.append(_any([ev.SessionArchived()]), request_id="r"), "as .milliseconds, event., not as a SessionA"),
    (lambda s: s.append([(1, _any(WRONG))], request_id="r"), "a object is no event"),
    *(
        (lambda s, time=time: s.append([(_any(time), ev.SessionArchived())]), "an event's time is whole milliseconds")
        for time in ("1", 1.5, True, 2**70)
    ),
    (lambda s: _any(s.store).create_session(id=_any(5)), "an id is a str, not an int"),
    (lambda s: _any(s.store).create_session(model=_any(5)), "a model is a Model, or a str"),
    (lambda s: _any(s.store).create_session(title=_any(5)), "SessionStarted.title is of type str, not an int"),
    (lambda s: _any(s.store).create_session(parent=_any(5)), "a parent is the id of a session, not an int"),
    (lambda s: s.store.session(_any(5)), "an id is a str, not an int"),
    (lambda s: ContextWindow(s, limits=_any({})), "limits are a Limits, not a dict"),
    (lambda s: ContextWindow(s, limits=Limits(-5)), "Limits.context is -5"),
    (lambda s: ContextWindow(s, model=_any(5)), "a model is a Model, or a str"),
    (lambda s: ContextWindow(s, _any({})), "a policy is a ContextPolicy, or the name of one, not a dict"),
]


def _any(value: object) -> Any:
    """Pass a value of any type, as a program without type checks may."""
    return value


@pytest.mark.parametrize("number", range(len(SAID)))
def test_a_wrong_argument_is_named(number: int) -> None:
    """Every command names a wrong argument and its type; nothing is appended or started."""
    call, said = SAID[number]
    with eventlog.open("memory:") as store:
        session = store.create_session(id="s")
        before = store.head()
        with pytest.raises(CallError, match=said):
            call(session)
        session.flush()
        assert store.head() == before
        session.user("and the session goes on")


def test_a_wrong_argument_in_a_reply_is_named(store: Store) -> None:
    """A wrong argument inside a reply is named; its streams stay open and the reply goes on."""
    session = store.create_session()
    with session.assistant("p/m") as reply:
        text = reply.stream_text()
        call = reply.tool("bash", call_id="c1")
        wrong: list[tuple[Callable[[], object], str]] = [
            (lambda: text.append(_any(5)), "a delta is a str, not an int"),
            (lambda: text.end(_any({"a": 1})), "PartEnded.metadata is of type str or None, not a dict"),
            (lambda: call.start(_any({1})), "cannot be written as JSON: Object of type set"),
            (lambda: call.start({"rate": float("nan")}), "cannot be written as JSON"),
            (
                lambda: reply.tool("bash", call_id="c2", input=_any({1})),
                "cannot be written as JSON: Object of type set",
            ),
            (lambda: reply.tool(_any(5), call_id="c2"), "PartStarted.kind.tool is of type str, not an int"),
            (lambda: reply.finish(usage=_any({})), "UsageRecorded.usage is of type Usage, not a dict"),
            (
                lambda: reply.abort(_any("x")),
                r'an abort is told a MessageError, such as MessageError\("aborted", "why"\), not a str',
            ),
        ]
        for make, said in wrong:
            with pytest.raises(CallError, match=said):
                make()
        call.stream_input("{}")
        call.start({})
        call.stream_output("so far")
        wrong = [
            (lambda: call.succeed(_any(5)), "an output is a str, or a binary file of one, not an int"),
            (
                lambda: call.succeed(_any(io.StringIO("text"))),
                "a file of an output is binary, its pieces bytes, not a str",
            ),
            (lambda: call.succeed("x", attachments=_any("a.png")), "attachments are a list of attachments, not a str"),
            (lambda: call.fail(_any(5)), "a text is a str, not an int"),
        ]
        for make, said in wrong:
            with pytest.raises(CallError, match=said):
                make()
        call.stream_output(" and so on")
        call.succeed("done")
        text.append("said")
        reply.finish()
    assert not session.reader.state().open_messages()


def test_a_reply_is_used_in_its_block(store: Store) -> None:
    """A reply used before or after its `with` block says so, for every method."""
    session = store.create_session()
    reply = session.assistant("p/m")
    uses: list[Callable[[], object]] = [
        reply.stream_text,
        reply.stream_reasoning,
        lambda: reply.add_text("x"),
        lambda: reply.tool("bash", call_id="c"),
        lambda: reply.part(eventlog.File("image/png", "data:")),
        reply.step,
        reply.end_step,
        reply.finish,
        reply.abort,
    ]
    for use in uses:
        with pytest.raises(RefusedError, match="the reply has not begun; expected `with session"):
            use()
    with reply:
        reply.add_text("x")
        reply.finish()
        ended = session.version
    for use in uses:
        with pytest.raises(RefusedError, match="the reply is finished"):
            use()
    assert session.version == ended


def test_a_parent_is_there() -> None:
    """A sub-session of a missing or erased session is refused and not created."""
    with eventlog.open("memory:") as store:
        with pytest.raises(NotFoundError, match="no session 'nope'"):
            store.create_session(id="child", parent="nope")
        store.create_session(id="gone")
        store.erase("gone")
        with pytest.raises(ErasedError):
            store.create_session(id="child", parent="gone")
        assert list(store.sessions()) == []
        store.create_session(id="there")
        assert store.create_session(id="child", parent="there").info.parent == "there"


def test_a_delta_that_is_refused_later_leaves_no_message_open(store: Store) -> None:
    """Leaving a reply reports a refused delta and still closes the message."""
    session = store.create_session()
    session.user("question")
    reply = session.assistant("p/m")
    reply.__enter__()
    reply.tool("bash", call_id="c1").stream_output("before it runs")
    deadline = time.monotonic() + 30
    while session.executor.writer.is_ahead and time.monotonic() < deadline:
        store.host.flusher.tick()
    with pytest.raises(RefusedError, match="pending; expected a part that is running"):
        reply.__exit__(None, None, None)
    assert not session.reader.state().open_messages()
    assert not session.executor.holds_lease
    assert not isinstance(ContextWindow(session).next_step(), Wait)


def test_a_closed_store_is_called_closed(tmp_path: Path) -> None:
    """Every use of a closed store raises the same error text."""
    store = eventlog.open(tmp_path / "s")
    session = store.create_session()
    reply = session.assistant()
    reply.__enter__()
    ended = reply.stream_text()
    ended.end()
    text = reply.stream_text()
    store.close()
    uses: list[Callable[[], object]] = [
        lambda: text.append("x"),
        lambda: ended.append("x"),
        lambda: session.user("x"),
        lambda: session.version,
        lambda: list(session.events()),
        lambda: store.session(session.id),
        lambda: store.log.head(session.id),
        reply.stream_text,
        lambda: reply.__exit__(None, None, None),
    ]
    for use in uses:
        with pytest.raises(ClosedError, match="the store is closed"):
            use()
