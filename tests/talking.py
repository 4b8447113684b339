"""What the session tests share: a small exchange, and ways to look at what a session holds."""

from __future__ import annotations

import threading
from collections.abc import Callable

from eventlog import events as ev
from eventlog.session import Session
from eventlog.values import (
    Tokens,
    Usage,
)

__all__ = ["ODD", "USAGE", "exchange", "kinds", "last", "run_together", "said"]

ODD = "a\ud800b\U0010ffff\udc80"
USAGE = Usage(Tokens(10, 5))


def kinds(session: Session, after: int = 0) -> list[str]:
    """The kinds of the session's events."""
    return [type(recorded.event).__name__ for recorded in session.events(after)]


def last(session: Session) -> ev.Event:
    """The newest event."""
    return list(session.events(session.version - 1))[-1].event


def said(session: Session, at: int | None = None) -> dict[str, str]:
    """The streamed text by part in the effective history, deltas joined."""
    found: dict[str, str] = {}
    for span in session.history(at):
        for recorded in span.events():
            if isinstance(recorded.event, ev.PartDelta):
                found[recorded.event.part] = found.get(recorded.event.part, "") + recorded.event.text
    return found


def exchange(session: Session, text: str = "hello") -> None:
    """A question, and an answer of one streamed word."""
    session.user("question")
    with session.assistant("p/m") as reply:
        reply.say(text)
        reply.finish()


def run_together(count: int, work: Callable[[int], object]) -> None:
    """Run `work(0) … work(count - 1)` in threads that start at once; raises the first error."""
    start = threading.Barrier(count)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
