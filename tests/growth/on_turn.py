"""Operations of a turn: asked for the first time, again, and begun again after a failure."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress

from eventlog import Turn, settled
from eventlog.aio import AsyncSession, AsyncTurn
from tests.growth.operation import Table, constant
from tests.growth.place import Place


def _turn(at: Place, request: str) -> None:
    with at.long.turn("a question", request) as turn:
        if turn.mine:
            with at.long.assistant() as reply:
                reply.finish()


@contextmanager
def _request(at: Place) -> Generator[str]:
    request = at.name("turn")
    yield request


@contextmanager
def _answered(at: Place) -> Generator[str]:
    """A turn with its answer."""
    request = at.name("turn")
    _turn(at, request)
    yield request


def _fail(at: Place, request: str) -> None:
    with suppress(ValueError), at.long.turn("a question", request), at.long.assistant():
        raise ValueError


@contextmanager
def _failed(at: Place) -> Generator[Turn]:
    """A turn whose reply failed."""
    request = at.name("turn")
    _fail(at, request)
    with at.long.turn("a question", request) as turn:
        yield turn


@contextmanager
def _failed_in_a_task(at: Place) -> Generator[AsyncTurn]:
    request = at.name("turn")
    _fail(at, request)
    turn = AsyncSession(at.long).turn("a question", request)
    at.awaited(turn.__aenter__())
    yield turn
    at.awaited(turn.__aexit__(None, None, None))


async def _in_a_task(at: Place, request: str) -> None:
    async with AsyncSession(at.long).turn("a question", request):
        pass


TURN: Table = {
    "settled": constant(lambda at, _: at.awaited(settled(at.long.set_note, "a note"))),
    "Session.turn": constant(_turn, _request),
    "Session.turn, asked again": constant(_turn, _answered),
    "AsyncSession.turn": constant(lambda at, request: at.awaited(_in_a_task(at, request)), _request),
    "Session.turn_state": constant(lambda at, request: at.long.turn_state(request), _answered),
    "AsyncSession.turn_state": constant(
        lambda at, request: at.awaited(AsyncSession(at.long).turn_state(request)), _answered
    ),
    "Turn.patience": constant(lambda _, turn: turn.patience(), _failed),
    "Turn.mine": constant(lambda _, turn: turn.mine, _failed),
    "Turn.begin": constant(lambda _, turn: turn.begin(), _failed),
    "Turn.ask": constant(lambda _, turn: turn.ask(), _failed),
    "Turn.decide": constant(lambda _, turn: turn.decide(), _failed),
    "Turn.release": constant(lambda _, turn: turn.release(), _failed),
    "Turn.begin_again": constant(lambda _, turn: turn.begin_again(), _failed),
    "Turn.retry": constant(lambda _, turn: turn.retry(), _failed),
    "AsyncTurn.answer": constant(lambda _, turn: turn.answer, _failed_in_a_task),
    "AsyncTurn.error": constant(lambda _, turn: turn.error, _failed_in_a_task),
    "AsyncTurn.lease": constant(lambda _, turn: turn.lease, _failed_in_a_task),
    "AsyncTurn.message": constant(lambda _, turn: turn.message, _failed_in_a_task),
    "AsyncTurn.mine": constant(lambda _, turn: turn.mine, _failed_in_a_task),
    "AsyncTurn.state": constant(lambda _, turn: turn.state, _failed_in_a_task),
    "AsyncTurn.retry": constant(lambda at, turn: at.awaited(turn.retry()), _failed_in_a_task),
}
