"""Round trips of a command; no answer that is out of date is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

import eventlog
from eventlog.errors import ErasedError, NotFoundError
from eventlog.log.commit import Append
from eventlog.log.postgres import attempt
from eventlog.log.postgres.connections import Connections
from eventlog.log.postgres.opening import open_log
from eventlog.session.session import Session
from eventlog.store import Store
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import state_at
from projections.transcript.transcript import Transcript
from projections.view.model_view import ModelView
from projections.view.targets import PROJECTION


@pytest.fixture
def stores(place: str) -> Iterator[tuple[Store, Store]]:
    """Two stores in one place, as two processes have them."""
    with eventlog.open(place) as one, eventlog.open(place) as two:
        yield one, two


def counted(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """How many round trips a work takes."""
    trips: list[None] = []
    one = Connections.one

    def counting(self: Connections, timeout: float | None = None) -> object:
        trips.append(None)
        return one(self, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(Connections, "one", counting)
        work()
    return len(trips)


def test_a_user_message_is_one_round_trip(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message in an open session asks nothing first, and goes in behind others."""
    with eventlog.open(place) as store, eventlog.open(place) as other:
        session = store.create_session(id="s")
        assert [counted(monkeypatch, lambda: session.user("hello")) for _ in range(3)] == [1, 1, 1]
        other.session("s").user("from elsewhere")
        assert counted(monkeypatch, lambda: session.user("behind that")) < 6
        assert counted(monkeypatch, lambda: session.user("and on")) == 1
        assert [message.parts[0].text for message in Transcript(session).oldest_first()][-3:] == [
            "from elsewhere",
            "behind that",
            "and on",
        ]


def test_a_turn_waits_little_more_than_for_what_it_writes(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turns of the pages read a head to take the lease, and an outcome at their end."""

    def call(session: Session) -> None:
        with session.assistant(model="m") as reply:
            reply.stream_text().append("Hello")
            reply.tool("bash", call_id="c", input={}).succeed("out")
            reply.finish("tool-calls")

    def bare(session: Session, number: int) -> None:
        session.user(f"{number}")
        call(session)

    def asked(session: Session, number: int) -> None:
        with session.turn(f"{number}", f"r{number}"):
            call(session)
            _answer(session)

    with eventlog.open(place, flush_interval=60) as store:
        session = store.create_session(id="s")
        for work, most in ((bare, 4 + 1), (asked, 5 + 5)):
            trips = [counted(monkeypatch, partial(work, session, number)) for number in range(6)]
            assert min(trips[1:]) <= most, trips


@pytest.mark.parametrize("kept", [True, False])
def test_a_cold_view_is_three_round_trips(place: str, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view in a fresh handle asks for head, checkpoint and the events behind it."""
    with eventlog.open(place) as store:
        session = store.create_session(id="s")
        for number in range(20):
            session.user(f"{number}")
            _answer(session)
            if kept and number == 10:
                state = state_at(session, PROJECTION, session.version).state
                Checkpoints(store.log).save(PROJECTION, session.reader, session.version, state, ())
        whole = ModelView.of(session).messages
    with eventlog.open(place) as store:
        session = store.session("s")
        seen: list[ModelView] = []
        assert counted(monkeypatch, lambda: seen.append(ModelView.of(session))) == 3
        assert seen[0].messages == whole
    with eventlog.open(place) as store:
        assert counted(monkeypatch, lambda: store.session("s").user("cold")) <= 5
        assert len(ModelView.of(store.session("s")).messages) == 41


def test_a_refusal_is_read_for(stores: tuple[Store, Store]) -> None:
    """A command that only a state out of date refuses goes in."""
    here, there = (stores[0].create_session(id="s"), stores[1].session("s"))
    here.user("first")
    message = there.user("second")
    here.remove_message(message)
    assert [one.removed for one in Transcript(here).oldest_first()] == [False, True]


def test_an_acceptance_is_taken_back(stores: tuple[Store, Store]) -> None:
    """A command that another process has made impossible is refused to the caller who waits."""
    here, there = (stores[0].create_session(id="s"), stores[1].session("s"))
    message = here.user("first")
    there.remove_message(message)
    version = there.version
    with pytest.raises(NotFoundError):
        here.remove_message(message)
    assert here.version == version
    here.user("on")
    assert there.version == version + 2


def test_an_erasure_elsewhere_is_heard_of(stores: tuple[Store, Store]) -> None:
    """A message to a session that another process has erased is refused as such."""
    here = stores[0].create_session(id="s")
    here.user("first")
    stores[1].erase("s")
    with pytest.raises(ErasedError):
        here.user("too late")


def _answer(session: Session) -> None:
    with session.assistant(model="m") as reply:
        reply.stream_text().append("Hello")
        reply.finish()


def test_two_processes_take_turns(stores: tuple[Store, Store]) -> None:
    """Sessions that two processes write in turn have all messages, each once and in order."""
    sessions = [stores[0].create_session(id="s"), stores[1].session("s")]
    for number in range(12):
        sessions[number % 2].user(f"{number}")
        _answer(sessions[number // 2 % 2])
    texts = [message.parts[0].text for message in Transcript(sessions[0]).oldest_first()]
    assert texts == [text for number in range(12) for text in (f"{number}", "Hello")]
    assert len(ModelView.of(sessions[1]).messages) == 24
    assert stores[0].log.check() == []


def test_a_batch_keeps_the_heads_that_it_has_read(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that fills the memory of heads is decided on all that it has read for it."""
    names = [f"s{number}" for number in range(12)]
    with eventlog.open(place) as other:
        for name in names:
            other.create_session(id=name)
    monkeypatch.setattr(attempt, "_MOST", 4)
    log = open_log(place)
    heads = log._commits._heads
    for begin in range(0, 12, 3):
        batch = names[begin : begin + 3]
        tickets = [log.submit(Append(session=name, payload=b"x", count=1, time=1)) for name in batch]
        assert [ticket.wait().session for ticket in tickets] == batch
    for name in names:
        log.head(name)
    assert len(heads) <= 7  # a batch beyond the limit, and nothing of reads
    log.close()
