"""Operations of a feed, on a session with as many records as the long one has messages."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from eventlog import Feed, NotFoundError, OpenAIChatMapping
from tests.growth.operation import Table, constant, history, output
from tests.growth.place import Place

TOGETHER = 500


def _record(name: str) -> dict[str, Any]:
    return {"role": "user", "content": f"a record of this name: {name}"}


def _feed(at: Place) -> Feed:
    """A feed of the session with records, made at the first call."""
    try:
        return Feed(at.store.session("records"), OpenAIChatMapping())
    except NotFoundError:
        feed = Feed(at.store.create_session(id="records"), OpenAIChatMapping())
        for start in range(0, at.shape.messages, TOGETHER):
            feed.add([_record(str(number)) for number in range(start, start + TOGETHER)])
        return feed


@contextmanager
def _fed(at: Place) -> Generator[Feed]:
    """A feed that has been used."""
    feed = _feed(at)
    feed.path()
    yield feed


@contextmanager
def _cold(at: Place) -> Generator[Feed]:
    """A feed whose index is not read yet."""
    yield _feed(at)


@contextmanager
def _told(at: Place) -> Generator[tuple[Feed, list[int]]]:
    """A feed, and the number of a new record."""
    feed = _feed(at)
    yield feed, feed.add([_record(at.name("r"))])


@contextmanager
def _list(at: Place) -> Generator[tuple[Feed, list[Any]]]:
    """A feed, and all its records, which it has compared before."""
    feed = _feed(at)
    values = feed.read(feed.path())
    feed.replace(values)
    yield feed, values


@contextmanager
def _interrupted(at: Place) -> Generator[tuple[str, str]]:
    """A call that was settled: its message and id."""
    call = at.name("late")
    message = at.name("m")
    with suppress(ConnectionError), at.long.assistant(id=message) as reply:
        reply.tool("bash", call_id=call, input={})
        raise ConnectionError  # as when a worker dies
    with at.long.lease():
        pass
    yield message, call


RECORDS: Table = {
    "Feed.add": constant(lambda at, feed: feed.add([_record(at.name("r"))]), _fed),
    "Feed.add, behind an old one": constant(
        lambda at, feed: feed.add([_record(at.name("r"))], after=feed.path()[50]), _fed, copied=True
    ),
    "Feed.add, cold": history(
        lambda at, feed: feed.add([_record(at.name("r"))]), "reads the index of the list, once", _cold
    ),
    "Feed.at": constant(lambda _, feed: feed.at(feed.path(at=500)[-1]), _cold),
    "Feed.fork": constant(lambda at, feed: feed.fork([_record(at.name("r"))], after=feed.path(newest=1)[-1]), _fed),
    "Feed.forget": constant(lambda _, told: told[0].forget(told[1]), _told),
    "Feed.path": output(lambda _, feed: len(feed.path()), _fed),
    "Feed.path, cold": output(lambda _, feed: len(feed.path()), _cold),
    "Feed.path, of an early version": constant(lambda _, feed: feed.path(at=500), _cold),
    "Feed.read, 50 old ones": constant(lambda _, feed: feed.read(feed.path(at=500)[:50]), _cold),
    "Feed.read, all": output(lambda _, feed: len(feed.read(feed.path())), _fed),
    "Feed.replace, the last one": history(
        lambda at, found: found[0].replace([*found[1][:-1], _record(at.name("r"))]),
        "compares every record of the list",
        _list,
    ),
    "Session.late_result": constant(lambda at, call: at.long.late_result(call[0], call[1], "done"), _interrupted),
}
"""Operations on the feed, and on calls that were settled."""
