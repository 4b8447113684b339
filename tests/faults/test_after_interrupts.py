"""After Ctrl-C at any place of a command no lease, pipeline or false ack is left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import EventlogError
from eventlog.session.session import Session
from eventlog.values import Text, Todo
from tests.faults.tally import SLOW
from tests.support.interrupter import breaks_off

STEP = 1 if SLOW else 7
"""Every place is tried, or one of so many."""
A_SESSION = 40
"""Interrupts of one session."""


def _message(session: Session, text: str) -> None:
    session.user(text)


def _one_shot(session: Session, text: str) -> None:
    session.set_todos([Todo(text)])


def _pipeline(session: Session, text: str) -> None:
    with session.pipeline():
        session.user(f"{text} one")
        session.user(f"{text} two")


def _lease(session: Session, text: str) -> None:
    with session.lease():
        session.set_metadata("key", f'"{text}"')
        session.set_todos([])


def _reply(session: Session, text: str) -> None:
    with session.assistant() as reply:
        stream = reply.stream_text()
        stream.append(text)
        stream.end()
        reply.finish()


WAYS: dict[str, Callable[[Session, str], None]] = {
    "message": _message,
    "one-shot-lease": _one_shot,
    "pipeline": _pipeline,
    "lease": _lease,
    "reply": _reply,
}


def _add(session: Session, text: str) -> bool:
    """Add a message; the first try may report what the interrupted command left."""
    for _ in range(3):
        with suppress(EventlogError):
            session.user(text)
            return True
    return False


def _take_lease(session: Session, _: str) -> bool:
    """Take the lease and give it back; the first try may be refused."""
    for _try in range(3):
        with suppress(EventlogError), session.lease():
            return True
    return False


def _in_thread(work: Callable[[Session, str], bool], session: Session, text: str) -> bool:
    """Return whether some work succeeds, within seconds, in a thread that inherits no lease."""
    done: list[bool] = []
    thread = Thread(target=lambda: done.append(work(session, text)), daemon=True)
    thread.start()
    thread.join(10.0)
    return done == [True]


def _here(work: Callable[[Session, str], bool], session: Session, text: str) -> bool:
    return work(session, text)


def _texts(session: Session) -> Counter[str]:
    """Count each text in the log."""
    events = [recorded.event for recorded in session.events()]
    kinds = [event.kind for event in events if isinstance(event, ev.PartStarted)]
    return Counter(kind.text for kind in kinds if isinstance(kind, Text) and isinstance(kind.text, str) and kind.text)


@pytest.mark.promise(1, 4)
@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_after_an_interrupt(tmp_path: Path, way: str) -> None:
    """After Ctrl-C at any place, every thread's acks are durable and the lease is free."""
    at, ended = 1, False
    with eventlog.open(tmp_path / "s", flush_interval=60.0) as store:
        while not ended:
            session = store.create_session()
            acknowledged: list[str] = []
            for number in range(A_SESSION):
                ended = not breaks_off(at, partial(WAYS[way], session, f"interrupted {number}"))
                for who, ask in (("this thread", _here), ("another thread", _in_thread)):
                    text = f"{who} {number}"
                    assert ask(_add, session, text), (at, who)
                    acknowledged.append(text)
                    assert not session.executor.writer.is_ahead, (at, who, "acknowledged, and not durable")
                assert _in_thread(_take_lease, session, ""), (at, "the lease is held")
                if ended:
                    break
                at += STEP
            found = _texts(session)
            assert {text: found[text] for text in acknowledged} == dict.fromkeys(acknowledged, 1)
            assert max(found.values()) == 1
