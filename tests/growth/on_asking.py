"""Operations about calls that wait for a person; what they leave is denied."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import eventlog
from eventlog import AskedCall, Deny, Session, ToolCall
from tests.growth.on_commands import run_command
from tests.growth.operation import Table, constant, history
from tests.growth.place import Place

_EACH = "looks at a small record of every session"


def _deny(session: Session) -> None:
    """Leave no call that waits: other operations meet the same session."""
    for asked in session.asked_calls():
        session.answer_call(asked.message, asked.call, Deny())
    assert not session.asked_calls()


@contextmanager
def _pending(at: Place) -> Generator[ToolCall]:
    """A call that can be asked."""
    with at.long.assistant() as reply:
        yield reply.tool("bash", call_id=at.name("c"))
    _deny(at.long)


@contextmanager
def _asked(at: Place) -> Generator[AskedCall]:
    """A call that waits."""
    with at.long.assistant() as reply:
        reply.tool("bash", call_id=at.name("c")).ask("it deletes", input={"command": "rm"})
    yield at.long.asked_calls()[-1]
    _deny(at.long)


@contextmanager
def _asked_in_closed(at: Place) -> Generator[str]:
    """A call that waits, in the long session of a closed store."""
    call = at.name("c")
    with eventlog.open(at.closed.path) as store, store.session("long").assistant() as reply:
        reply.tool("bash", call_id=call).ask("it deletes", input={"command": "rm"})
    yield call
    with eventlog.open(at.closed.path) as store:
        _deny(store.session("long"))


ASKING: Table = {
    "ToolCall.ask": constant(lambda _, call: call.ask("it deletes", input={"command": "rm"}), _pending),
    "Session.asked_calls": constant(lambda at, _: at.long.asked_calls(), _asked),
    "Session.answer_call": constant(
        lambda at, asked: at.long.answer_call(asked.message, asked.call, Deny("no")), _asked
    ),
    "Executor.interrupt": constant(lambda at, _: at.long.executor.interrupt("stop")),
    "Executor.interrupt, of a call that waits": constant(lambda at, _: at.long.executor.interrupt("stop"), _asked),
    "eventlog asked": constant(lambda at, _: run_command(at.closed, "asked", "long"), _asked_in_closed),
    "eventlog asked, of the store": history(lambda at, _: run_command(at.closed, "asked"), _EACH, _asked_in_closed),
    "eventlog answer": constant(
        lambda at, call: run_command(at.closed, "answer", "long", call, "--deny"), _asked_in_closed
    ),
}
