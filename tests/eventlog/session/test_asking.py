"""A call waits for a person: asked, answered once by anyone, run at most once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from eventlog import Allow, AskedCall, AsyncSession, Deny, Edit, MessageError, Session, events
from eventlog.errors import CallError, NotFoundError, RefusedError
from eventlog.session.asking import ready_to_run
from eventlog.session.reply import Reply
from eventlog.session.tool_call import ToolCall
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places

engine = places(*ENGINES, ENCRYPTED)

TOOLS = '[{"name": "drop", "input_schema": {"type": "object"}}]'


def ask(session: Session, *, question: str = "drop it", call: str = "c1") -> AskedCall:
    """Ask a person for a call of a new reply; returns the call as it is listed."""
    session.user(question)
    with session.assistant("a/b") as reply:
        tool = reply.tool("drop", call_id=call)
        tool.stream_input('{"name":')
        tool.stream_input('"old"}')
        tool.ask("it cannot be undone")
    return session.asked_calls()[-1]


def run(session: Session, asked: AskedCall, done: list[str], output: str = "gone") -> None:
    """Run an allowed call as the loop does: its tool once its run is durable."""
    with session.lease() as lease:
        arguments = ready_to_run(session.executor, asked.part)
        if arguments is not None:
            tool = ToolCall(session.executor, asked.part, asked.call, lease)
            tool.start(arguments)
            done.append(arguments)
            tool.succeed(output)


def status(session: Session, part: str) -> str:
    """The state of a call."""
    with session.reader.deciding() as state:
        return state.status(state.part(part))


def test_a_call_waits_until_it_is_answered_and_runs_once(engine: Engine) -> None:
    """An asked call leaves its message finished, waits for its answer, and then runs once."""
    with engine.open() as store:
        session = store.create_session(id="s")
        session.set_tools(TOOLS)
        asked = ask(session)
        assert replace(asked, message="", part="", time=0) == AskedCall(
            "", "c1", "", "drop", '{"name":"old"}', "it cannot be undone", 0
        )
        (finished,) = [each.event for each in session.events() if isinstance(each.event, events.MessageFinished)]
        assert (finished.reason, finished.error) == ("tool-calls", None)
        assert store.unfinished() == []
        assert store.newest_sessions(limit=1).sessions[0].state == "asked"
    with engine.open() as store:  # another process, days later
        session = store.session("s")
        assert session.asked_calls() == [asked]
        session.answer_call(asked.message, "c1", Allow(), by="ann")
        assert session.asked_calls() == []
        assert [found.id for found in store.unfinished()] == ["s"]
    with engine.open() as store:
        session, done = store.session("s"), list[str]()
        run(session, asked, done)
        assert done == ['{"name":"old"}']
        with pytest.raises(RefusedError, match="completed"):
            run(session, asked, done)
        assert status(session, asked.part) == "completed"


ANSWERS = [Allow(), Deny(), Deny("not on a Friday"), Edit({"name": "other"}), Edit('{"name":"a"}')]


@pytest.mark.parametrize("first", ANSWERS, ids=str)
@pytest.mark.parametrize("second", ANSWERS, ids=str)
def test_the_first_answer_wins(engine: Engine, first: Any, second: Any) -> None:
    """An answer given again, by anyone, is the first one; another answer is refused."""
    with engine.open() as store:
        session = store.create_session()
        asked = ask(session)
        version = session.answer_call(asked.message, asked.call, first, by="ann")
        (answered,) = [each.event for each in session.events() if isinstance(each.event, events.CallAnswered)]
        assert answered.by == "ann"
        if first == second:
            assert session.answer_call(asked.message, asked.call, second, by="bob") == version
        else:
            with pytest.raises(RefusedError, match="by 'ann'"):
                session.answer_call(asked.message, asked.call, second, by="bob")
        assert session.version == version


def _interrupt(session: Session, _: AskedCall) -> None:
    session.interrupt("no more")


def _roll_back(session: Session, asked: AskedCall) -> None:
    session.rollback(before=asked.message)


def _remove(session: Session, asked: AskedCall) -> None:
    session.remove_message(asked.message)


def _deny(session: Session, asked: AskedCall) -> None:
    session.answer_call(asked.message, asked.call, Deny("no"))


ENDS: list[Callable[[Session, AskedCall], None]] = [_interrupt, _roll_back, _remove, _deny]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("allowed", [False, True])
def test_an_answer_to_a_call_that_waits_no_more_is_refused(
    engine: Engine, end: Callable[[Session, AskedCall], None], *, allowed: bool
) -> None:
    """A call that was interrupted, rolled back, removed or denied is not answered and not run."""
    with engine.open() as store:
        session = store.create_session()
        asked = ask(session)
        if allowed and end is not _deny:
            session.answer_call(asked.message, asked.call, Allow())
        end(session, asked)
        with pytest.raises((RefusedError, NotFoundError)):
            session.answer_call(asked.message, asked.call, Allow())
        with pytest.raises((RefusedError, NotFoundError)), session.lease():
            ready_to_run(session.executor, asked.part)
        assert session.asked_calls() == []


def test_an_interrupt_denies_all_that_waits(engine: Engine) -> None:
    """`interrupt()` denies asked calls and allowed ones that have not begun, in one append."""
    with engine.open() as store:
        session = store.create_session()
        first, second = ask(session), ask(session, call="c2")
        session.answer_call(second.message, second.call, Allow())
        session.interrupt()
        told = [each.event for each in session.events() if isinstance(each.event, events.CallAnswered)]
        assert [(each.part, each.verdict) for each in told[1:]] == [(first.part, "stop"), (second.part, "stop")]


def test_a_fork_inherits_what_waits_as_failed(engine: Engine) -> None:
    """A fork never runs the parent's call, also after a rollback; the parent's goes on."""
    with engine.open() as store:
        session = store.create_session()
        asked = ask(session)
        at = session.version
        session.answer_call(asked.message, asked.call, Allow())
        for version in (at, session.version):
            fork = session.fork(version)
            assert fork.asked_calls() == []
            assert status(fork, asked.part) == "failed"
            fork.user("go on")
            fork.rollback(version)
            assert fork.asked_calls() == []
            with pytest.raises(RefusedError):
                fork.answer_call(asked.message, asked.call, Allow())
            with pytest.raises(RefusedError), fork.lease():
                ready_to_run(fork.executor, asked.part)
        done: list[str] = []
        run(session, asked, done)
        assert done == ['{"name":"old"}']


def test_no_rollback_and_no_redo_runs_a_call_again(engine: Engine) -> None:
    """A rollback behind the ask brings a call back asked, unless it ran: then it has ended."""
    with engine.open() as store:
        session, done = store.create_session(), list[str]()
        asked = ask(session)
        at_ask = session.version
        session.answer_call(asked.message, asked.call, Allow())
        session.rollback(at_ask)
        assert session.asked_calls() == [asked]
        session.redo()
        assert session.asked_calls() == []
        run(session, asked, done)
        ran = session.version
        session.rollback(at_ask)
        assert session.asked_calls() == []
        assert status(session, asked.part) == "interrupted"
        with pytest.raises(RefusedError):
            session.answer_call(asked.message, asked.call, Allow())
        session.redo()
        assert status(session, asked.part) == "completed"
        session.rollback(at_ask + 1)
        with pytest.raises(RefusedError), session.lease():
            ready_to_run(session.executor, asked.part)
        assert len(done) == 1
        session.rollback(ran)
        assert status(session, asked.part) == "completed"


def test_a_raw_rollback_is_settled_by_the_next_lease(engine: Engine) -> None:
    """A rollback that no command made lets a call that ran neither be answered nor run."""
    with engine.open() as store:
        session, done = store.create_session(), list[str]()
        asked = ask(session)
        at_ask = session.version
        session.answer_call(asked.message, asked.call, Allow())
        run(session, asked, done)
        session.append([(0, events.RolledBack(at_ask))])
        with pytest.raises(RefusedError):
            session.answer_call(asked.message, asked.call, Deny())
        with session.lease():
            assert status(session, asked.part) == "interrupted"


def test_another_schema_asks_again(engine: Engine) -> None:
    """A call that was allowed for one schema of its tool is asked again under another."""
    with engine.open() as store:
        session, done = store.create_session(), list[str]()
        session.set_tools(TOOLS)
        asked = ask(session)
        session.answer_call(asked.message, asked.call, Edit({"name": "x"}))
        session.set_tools('[{"type": "function", "function": {"name": "drop", "parameters": {"type": "null"}}}]')
        run(session, asked, done)
        (again,) = session.asked_calls()
        assert (again.part, again.arguments, again.reason) == (asked.part, '{"name":"x"}', asked.reason)
        assert done == []
        session.answer_call(asked.message, asked.call, Allow())
        session.set_tools(session.text(TOOLS).replace("object", "string"))
        session.set_tools('[{"type": "function", "function": {"name": "drop", "parameters": {"type": "null"}}}]')
        run(session, asked, done)
        assert done == ['{"name":"x"}']


PARAMETERS: dict[str, object] = {"type": "object", "properties": {"name": {"type": "string"}}}
UPPER = json.dumps(PARAMETERS).replace('"object"', '"OBJECT"').replace('"string"', '"STRING"')
FUNCTION = {"name": "drop", "description": "Drops.", "parameters": PARAMETERS}
WRAPPINGS: list[dict[str, object]] = [
    {"name": "drop", "description": "Drops a table.", "input_schema": PARAMETERS},
    {"type": "function", "function": FUNCTION},
    {"type": "function", "strict": True, **FUNCTION},
    {"functionDeclarations": [{"name": "read"}, FUNCTION]},
    {"function_declarations": [{"name": "drop", "parameters_json_schema": PARAMETERS}]},
    {"functionDeclarations": [{"name": "drop", "parameters": json.loads(UPPER)}]},
]


@pytest.mark.parametrize("first", range(len(WRAPPINGS)))
def test_another_providers_form_of_a_schema_asks_nothing(engine: Engine, first: int) -> None:
    """An allowed call runs under any provider's form of the tool's parameters."""
    with engine.open() as store:
        session, done = store.create_session(), list[str]()
        for number, wrapping in enumerate(WRAPPINGS):
            session.set_tools(json.dumps([WRAPPINGS[first]]))
            asked = ask(session, call=f"c{number}")
            session.answer_call(asked.message, asked.call, Allow())
            session.set_tools(json.dumps([{"googleSearch": {}}, wrapping]))
            run(session, asked, done)
        assert (len(done), session.asked_calls()) == (len(WRAPPINGS), [])


def test_a_redacted_call_is_only_denied(engine: Engine) -> None:
    """Redaction takes arguments, reason, edit, salt and digests; the call is only denied."""
    with engine.open() as store:
        session = store.create_session()
        asked, other = ask(session), ask(session, call="c2")
        session.answer_call(other.message, other.call, Edit({"name": "secret"}))
        for each in (asked, other):
            session.redact(each.part)
        (listed,) = session.asked_calls()
        assert (listed.arguments, listed.reason) == ("{}", "")
        with pytest.raises(RefusedError, match="redacted"):
            session.answer_call(asked.message, asked.call, Allow())
        done: list[str] = []
        run(session, other, done)
        assert done == []
        session.answer_call(asked.message, asked.call, Deny())
        if engine.name in {"memory", "partitioned"}:
            return  # nothing lies on a disk
        store.scrub()
        for event in (found.event for found in session.events()):
            if isinstance(event, events.CallAsked):
                assert (event.input, event.reason, event.salt, event.schema, event.digest) == ("{}", "", b"", b"", b"")
            elif isinstance(event, events.CallAnswered):
                assert (event.reason, event.edit in {None, "{}"}, event.digest) == ("", True, b"")


def test_what_leaves_a_reply_leaves_what_waits(engine: Engine) -> None:
    """Exits of any kind leave an asked call; only `abort` and a retry of the answer end it."""
    with engine.open() as store:
        session = store.create_session()
        for error in (None, KeyboardInterrupt(), ConnectionError(), ValueError("the program's own")):
            session.user("q")
            call = f"c{error!r}"
            with pytest.raises(type(error)) if error else session.lease(), session.assistant() as reply:
                reply.tool("drop", call_id=call, id=call).ask()
                reply.tool("other", call_id="b", id=f"b{call}")
                if error is not None:
                    raise error
            assert status(session, call) == "asked"
            assert status(session, f"b{call}") == "interrupted"
        with session.assistant() as reply:
            tool = reply.tool("drop", call_id="c", id="aborted")
            tool.ask()
            reply.abort(MessageError("aborted", "never mind"))
        assert status(session, "aborted") == "interrupted"
        with session.assistant() as reply:
            reply.tool("drop", call_id="c", id="tried").ask()
            reply.retry(MessageError("api", "overloaded"))
            reply.finish()
        assert "tried" not in {each.part for each in session.asked_calls()}


def _not_text(_reply: Reply, tool: ToolCall, _session: Session) -> None:
    tool.ask(7)  # type: ignore[arg-type]


def _no_json(_reply: Reply, tool: ToolCall, _session: Session) -> None:
    tool.stream_input('{"a"')
    tool.ask()


def _provider(reply: Reply, _tool: ToolCall, _session: Session) -> None:
    reply.tool("search", call_id="p", provider_executed=True).ask()


def _running(reply: Reply, _tool: ToolCall, _session: Session) -> None:
    ran = reply.tool("drop", call_id="r", input={})
    ran.succeed("done")
    ran.ask()


def _no_answer(reply: Reply, tool: ToolCall, session: Session) -> None:
    tool.ask()
    session.answer_call(reply.id, "c", "yes")  # type: ignore[arg-type]


def _no_object(reply: Reply, tool: ToolCall, session: Session) -> None:
    tool.ask()
    session.answer_call(reply.id, "c", Edit("[1]"))


def _abort_text(reply: Reply, _tool: ToolCall, _session: Session) -> None:
    reply.abort("x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [_not_text, _no_json, _provider, _running, _no_answer, _no_object, _abort_text], ids=lambda f: f.__name__
)
def test_what_is_wrong_is_named(engine: Engine, wrong: Callable[[Reply, ToolCall, Session], None]) -> None:
    """Wrong asks and answers are call errors that say what was given; nothing is written."""
    with engine.open() as store:
        session = store.create_session()
        session.user("q")
        with session.assistant() as reply:
            tool = reply.tool("drop", call_id="c")
            with pytest.raises(CallError) as caught:
                wrong(reply, tool, session)
            assert str(caught.value)


def test_an_async_program_asks_and_answers(engine: Engine) -> None:
    """The asyncio twins do what the originals do."""

    async def program() -> None:
        chat = AsyncSession(store.create_session())
        await chat.user("q")
        async with chat.assistant("a/b") as reply:
            tool = await reply.tool("drop", call_id="c1")
            await reply.ask(tool, "why not", input={"name": "old"})
        (asked,) = await chat.asked_calls()
        assert (asked.arguments, asked.reason) == ('{"name":"old"}', "why not")
        version = await chat.answer_call(asked.message, asked.call, Allow(), by="ann")
        assert await chat.answer_call(asked.message, asked.call, Allow()) == version

    with engine.open() as store:
        asyncio.run(program())


def test_a_dead_owner_leaves_what_waits_and_no_running_tool(engine: Engine) -> None:
    """Taking the lease ends an allowed call that ran when its owner died; others wait on."""
    with engine.open() as store:
        session = store.create_session(id="s")
        ran, waits = ask(session), ask(session, call="c2")
        session.answer_call(ran.message, ran.call, Allow())
        with session.lease() as lease:
            arguments = ready_to_run(session.executor, ran.part)
            assert arguments is not None
            ToolCall(session.executor, ran.part, ran.call, lease).start(arguments)
        with session.lease():
            assert status(session, ran.part) == "interrupted"
            assert status(session, waits.part) == "asked"
        session.late_result(ran.message, ran.call, "gone after all")
        assert status(session, ran.part) == "completed"
