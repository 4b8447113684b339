"""`Store.unfinished` names the sessions that a loop has to go on with, and no others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import eventlog
from eventlog.session.owner import LIVE
from eventlog.session.session import Session
from eventlog.session.status import KEY
from eventlog.store import Store
from tests.support.engines import Engine


def listed(store: Store) -> list[str]:
    """The ids of the unfinished sessions, which are the same if nothing is known before."""
    found = [info.id for info in store.unfinished()]
    store.log.put_derived([(KEY, None)])
    assert [info.id for info in store.unfinished()] == found
    return found


def answer(session: Session) -> None:
    """Answer with a whole reply."""
    with session.assistant() as reply:
        reply.finish()


def fail(session: Session, error: type[BaseException]) -> None:
    """Answer with a reply that breaks off."""
    with suppress(error), session.assistant():
        raise error


def asked_for_a_compaction(session: Session) -> None:
    """Have a loop begin a compaction, and die."""
    answer(session)
    session.context.request_compaction()


def compacted(session: Session) -> None:
    """Carry out a compaction behind the answer."""
    answer(session)
    part = session.context.request_compaction()
    with session.lease():
        session.context.start_compaction(part)
        with session.assistant(summary=True) as reply:
            reply.finish()
        session.context.complete_compaction(part, reply.id)


def queued(session: Session) -> None:
    """Ask something else meanwhile."""
    session.user("and then", delivery="queue")
    answer(session)


def steered(session: Session) -> None:
    """Ask something else while the answer is made."""
    with session.assistant() as reply:
        session.user("and then")
        reply.finish()


def gone_back(session: Session) -> None:
    """Roll back to before the answer."""
    before = session.version
    answer(session)
    session.rollback(before)


def stopped(session: Session) -> None:
    """Have a user stop the turn."""
    session.interrupt()


def called(session: Session) -> None:
    """Call a tool, and stop there."""
    with session.assistant() as reply:
        reply.tool("bash", call_id="c", input={}).succeed("out")
        reply.finish("tool-calls")


UNFINISHED: list[Callable[[Session], object]] = [
    lambda _session: None,
    lambda session: fail(session, KeyboardInterrupt),
    asked_for_a_compaction,
    queued,
    steered,
    gone_back,
    called,
]
FINISHED: list[Callable[[Session], object]] = [
    answer,
    lambda session: fail(session, KeyError),
    lambda session: session.rollback(1),
    stopped,
    compacted,
]


@pytest.mark.parametrize("work", [*UNFINISHED, *FINISHED])
def test_a_session_with_open_work_is_listed(engine: Engine, work: Callable[[Session], object]) -> None:
    """A question without an answer, and what broke off, are listed, and nothing else is."""
    store = engine.open()
    session = store.create_session(id="s")
    assert listed(store) == []
    session.user("hi")
    assert listed(store) == ["s"]
    work(session)
    assert listed(store) == listed(engine.open()) == (["s"] if work in UNFINISHED else [])


def test_a_session_that_runs_is_not_listed_until_its_owner_is_gone(engine: Engine) -> None:
    """A live lease hides a session; that of a dead owner does not."""
    store, other = engine.open(), engine.open()
    session = store.create_session(id="s")
    session.user("hi")
    with session.assistant() as reply:
        assert listed(store) == []  # the lease is not written yet
        reply.stream_text().append("half")
        session.flush()
        assert listed(other) == []
        LIVE.pop(store.host.owner.store, None)  # the process dies
        assert listed(other) == ["s"]
        LIVE[store.host.owner.store] = store.host
        reply.finish()
    assert listed(other) == []


def test_a_later_call_reads_only_what_was_written_since(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call looks at the listed sessions and at those written to since."""
    store = engine.open()
    for number in range(300):
        session = store.create_session(id=f"s{number}")
        session.user("hi")
        answer(session)
    store.session("s7").user("more")
    assert [info.id for info in store.unfinished()] == ["s7"]
    store.session("s9").user("more")
    looked: list[str] = []
    head = store.log.head

    def counted(session: str) -> object:
        looked.append(session)
        return head(session)

    def never(after: str = "") -> object:
        raise AssertionError(after)

    monkeypatch.setattr(store.log, "head", counted)
    monkeypatch.setattr(store.log, "heads", never)
    for _ in range(2):
        assert [info.id for info in store.unfinished()] == ["s7", "s9"]
    assert set(looked) == {"s7", "s9"}


def test_a_damaged_or_foreign_index_is_made_anew(engine: Engine) -> None:
    """A derived value that is damaged, or of a longer log, changes no result."""
    store = engine.open()
    store.create_session(id="s").user("hi")
    assert [info.id for info in store.unfinished()] == ["s"]
    value = store.log.get_derived(KEY)
    assert value is not None
    for number in range(len(value)):
        store.log.put_derived([(KEY, value[:number] + bytes([value[number] ^ 1]) + value[number + 1 :])])
        assert [info.id for info in store.unfinished()] == ["s"]
    shorter = Store(eventlog.open("memory:").log)
    shorter.log.put_derived([(KEY, value)])
    assert shorter.unfinished() == []


def test_a_store_that_is_only_read_lists_them_too(tmp_path: Path) -> None:
    """Without the right to write the list is the same."""
    with eventlog.open(tmp_path / "store") as store:
        store.create_session(id="s").user("hi")
    with eventlog.open(tmp_path / "store", read_only=True) as store:
        for _ in range(2):
            assert [info.id for info in store.unfinished()] == ["s"]
