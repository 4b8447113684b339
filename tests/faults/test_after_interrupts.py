"""After Ctrl-C at any place of a command nothing is left behind: no lease, no open pipeline, no false ack."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import EventlogError
from eventlog.session.session import Session
from tests.faults.tally import SLOW
from tests.support.interrupter import Interrupter

STEP = 1 if SLOW else 7
"""Every place is tried, or one of so many."""
A_SESSION = 40
"""Interrupts of one session."""


def _pipeline(session: Session, text: str) -> None:
    with session.pipeline():
        session.user(f"{text} one")
        session.user(f"{text} two")


def _lease(session: Session, text: str) -> None:
    with session.lease():
        session.set_metadata("key", text)
        session.set_todos([])


def _reply(session: Session, text: str) -> None:
    with session.assistant() as reply:
        stream = reply.stream_text()
        stream.append(text)
        stream.end()
        reply.finish()


WAYS: dict[str, Callable[[Session, str], None]] = {
    "message": lambda session, text: session.user(text) and None,
    "one-shot-lease": lambda session, _: session.set_todos([]),
    "pipeline": _pipeline,
    "lease": _lease,
    "reply": _reply,
}


def _acknowledged(session: Session, text: str) -> bool:
    """Add a message; the first try may report what the interrupted command left."""
    for _ in range(3):
        with suppress(EventlogError):
            session.user(text)
            return True
    return False


def _run_it(session: Session) -> bool:
    """Whether the session can be run."""
    for _ in range(3):
        with suppress(EventlogError), session.lease():
            return True
    return False


def _in_thread(work: Callable[[], bool]) -> bool:
    """Whether some work succeeds in a thread that inherits no lease, within seconds."""
    done: list[bool] = []
    thread = Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(10.0)
    return done == [True]


def _texts(session: Session) -> Counter[str]:
    """How often each text is in the log."""
    events = [recorded.event for recorded in session.events()]
    kinds = [event.kind for event in events if isinstance(event, ev.PartStarted)]
    return Counter(kind.text for kind in kinds if isinstance(kind, eventlog.Text) and isinstance(kind.text, str))


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
                sys.setprofile(Interrupter(at, KeyboardInterrupt))
                try:
                    WAYS[way](session, f"interrupted {number}")
                except KeyboardInterrupt:
                    ended = False
                else:
                    ended = True
                finally:
                    sys.setprofile(None)
                for who, ask in (("this thread", _here), ("another thread", _in_thread)):
                    text = f"{who} {number}"
                    assert ask(lambda text=text: _acknowledged(session, text)), (at, who)
                    acknowledged.append(text)
                    assert not session.writer.is_ahead, (at, who, "acknowledged, and not durable")
                assert _in_thread(lambda: _run_it(session)), (at, "the lease is held")
                if ended:
                    break
                at += STEP
            found = _texts(session)
            assert {text: found[text] for text in acknowledged} == dict.fromkeys(acknowledged, 1)
            assert max(found.values()) == 1


def _here(work: Callable[[], bool]) -> bool:
    return work()
