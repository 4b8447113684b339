"""A small exchange, and functions that read what a session holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from typing import TypeVar

from eventlog import events as ev
from eventlog.codec.decoded import DecodedCommit
from eventlog.log.contract import Log
from eventlog.session.session import Session
from eventlog.values import Tokens, Usage

ODD = "a\ud800b\U0010ffff\udc80"
USAGE = Usage(Tokens(10, 5))
T = TypeVar("T")


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


def started(session: Session, messages: Collection[str] | None = None) -> list[str]:
    """The parts that were begun, of these messages or of all."""
    events = (recorded.event for recorded in session.events())
    found = (event for event in events if isinstance(event, ev.PartStarted))
    return [event.part for event in found if messages is None or event.message in messages]


def exchange(session: Session, text: str = "hello") -> None:
    """A question, and an answer of one streamed word."""
    session.user("question")
    with session.assistant("p/m") as reply:
        reply.add_text(text)
        reply.finish()


def derived_reads(log: Log) -> list[bytes]:
    """Record the keys of derived values that the log reads from here on."""
    read: list[bytes] = []
    get = log.get_derived

    def watched(key: bytes) -> bytes | None:
        read.append(key)
        return get(key)

    log.get_derived = watched  # type: ignore[method-assign]  # to see what is read
    return read


def apart(work: Callable[[], T], seconds: float = 60.0) -> T:
    """Do something as another task: in a thread of its own, which shares no lease."""
    return begin(work).result(seconds)


def begin(work: Callable[[], T]) -> Future[T]:
    """Begin something as another task; return its result or error to come."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


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


def read_by(session: Session, work: Callable[[], object]) -> list[int]:
    """Return the versions that some work reads, as often as it reads each."""
    read: list[int] = []
    commits = session.reader.decoded_commits

    def watched(after: int = 0, upto: int | None = None) -> Iterator[DecodedCommit]:
        for commit in commits(after, upto):
            read.extend(range(commit.first, commit.last + 1))
            yield commit

    session.reader.decoded_commits = watched  # type: ignore[method-assign]  # to see what is read
    try:
        work()
    finally:
        del session.reader.decoded_commits
    return read
