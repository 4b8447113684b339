"""One of several programs that write to the same session at once.

Usage: `python -m tests.support.race_writer DIRECTORY SESSION NAME WAY COUNT`.
"""

from __future__ import annotations

import sys

import eventlog
from eventlog import events as ev
from eventlog.errors import AlreadyExistsError, ConflictError
from eventlog.session.session import Session


def by_version(session: Session, name: str, count: int) -> str:
    """Append events by optimistic concurrency; returns the attempts."""
    attempts = 0
    for number in range(count):
        while True:
            attempts += 1
            version = session.version
            try:
                committed = session.append([(0, ev.Custom(name, str(number)))], expected_version=version)
            except ConflictError as conflict:
                if conflict.actual == version:
                    raise AssertionError("a conflict without another writer") from conflict
                continue
            if (committed.first, committed.last) != (version + 1, version + 1):
                raise AssertionError(f"committed at {committed.first}, not at {version + 1}")
            break
    return str(attempts)


def by_lease(session: Session, name: str, count: int) -> str:
    """Stream messages, waiting for the lease; returns their number."""
    for number in range(count):
        with session.assistant(id=f"{name} {number}", wait=60.0) as reply:
            text = reply.stream_text(id=f"text {name} {number}")
            for word in range(20):
                text.append(f"{word} ")
            reply.finish()
    return str(count)


def by_message(session: Session, name: str, count: int) -> str:
    """Add user messages; returns their number."""
    for number in range(count):
        session.user("hi", id=f"{name} {number}")
    return str(count)


def by_id(session: Session, _: str, count: int) -> str:
    """Add user messages that other programs add as well; return the ids won."""
    won: list[str] = []
    for number in range(count):
        try:
            won.append(session.user("hi", id=f"message {number}"))
        except AlreadyExistsError:
            continue
    return "\n".join(won)


def by_request(session: Session, _: str, count: int) -> str:
    """Send requests that other programs send too; return each one's message or position."""
    results: list[str] = []
    for number in range(count):
        request = f"r{number}"
        if number % 2:
            results.append(session.user("hi", request_id=request))
            continue
        committed = session.append([(0, ev.UserMessageAdded(f"message {number}"))], request_id=request)
        results.append(f"{committed.first} {committed.last} {committed.position}")
    return "\n".join(results)


WAYS = {"version": by_version, "lease": by_lease, "message": by_message, "id": by_id, "request": by_request}


def main(directory: str, session: str, name: str, way: str, count: str) -> None:
    """Write, and print the outcome."""
    with eventlog.open(directory) as store:
        print(WAYS[way](store.session(session), name, int(count)))


if __name__ == "__main__":
    main(*sys.argv[1:])
