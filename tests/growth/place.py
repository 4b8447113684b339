"""A store of a given size on disk: built once, opened once, copied if spoilt."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Coroutine, Generator, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import eventlog
from eventlog import Session, Store
from eventlog import events as ev
from eventlog.codec.batch import encode, encode_value
from eventlog.codec.payload import NAMES
from eventlog.history.catalog import CatalogEntry
from eventlog.history.cursor import StreamMark, tag_of
from eventlog.history.name_streams import NameState, state_append
from eventlog.log.commit import Append
from eventlog.values import Limits, Origin, Reasoning, Text, Tokens, Tool, Usage
from projections import LiveView, ModelView, Transcript
from projections.exports.jsonl import jsonl_lines
from projections.loop import ContextWindow
from projections.window import CompactionPolicy, ContextPolicy, OverflowPolicy
from tests.support.window_loop import LIMITS, MODEL, sections

T = TypeVar("T")

POLICY = ContextPolicy(
    compaction=CompactionPolicy(tail_turns=2, preserve_recent_tokens=2_000),
    overflow=OverflowPolicy(auto=False),
    counter="chars/4",
)
START = 1_700_000_000_000
_TOGETHER = 200
"""Events in one append."""
_OLDER = 40
"""Messages after the compaction."""
_AGE = 50
"""Turns between compactions of the session that has many."""


class Shape(msgspec.Struct, frozen=True):
    """Sizes: messages of the two long sessions, small sessions, forks one behind another."""

    messages: int
    sessions: int
    forks: int = 1


SMALL, LARGE = Shape(1_000, 125), Shape(8_000, 1_000)


def turn(number: int) -> Iterator[ev.Event]:
    """A question and its answer, with a call in every fourth answer."""
    asked, answered = f"u{number:06}", f"a{number:06}"
    yield ev.UserMessageAdded(asked)
    yield ev.PartStarted(asked, f"{asked}p", Text(f"question {number}"))
    yield ev.AssistantMessageStarted(answered, asked, "", "", MODEL)
    if number % 4 == 0:
        part = f"{answered}c"
        yield ev.PartStarted(answered, part, Tool(f"call{number}", "bash"))
        yield ev.ToolRunning(part, '{"command":"ls"}')
        yield ev.ToolCompleted(part, f"file{number}.py " * 20)
    part = f"{answered}p"
    yield ev.PartStarted(answered, part, Text() if number % 2 else Reasoning())
    yield ev.PartDelta(part, "text", f"answer {number}: ")
    yield ev.PartDelta(part, "text", "as it should be")
    yield ev.PartEnded(part)
    yield ev.UsageRecorded(Usage(Tokens(100, 20)), answered)
    yield ev.MessageFinished(answered, "stop")


def talk(session: eventlog.Session, first: int, last: int) -> None:
    """Turns `first .. last - 1`, many in one append."""
    waiting: list[tuple[int, ev.Event]] = []
    for number in range(first, last):
        waiting += [(START + number * 1_000, event) for event in turn(number)]
        if len(waiting) >= _TOGETHER:
            session.append(waiting)
            waiting = []
    if waiting:
        session.append(waiting)


def _fill(path: Path, shape: Shape) -> None:
    """Write a store, with fixed names for everything that an operation uses."""
    with eventlog.open(path) as store:
        turns = shape.messages // 2
        for name in ("long", "wide"):
            session = store.create_session(id=name, title=name, scope="growth", model=MODEL)
            session.set_settings(limits=LIMITS)
            talk(session, 0, turns - _OLDER // 2 if name == "long" else turns)
        long = store.session("long")
        with ContextWindow(long, POLICY, summarizer=lambda _: sections(), environment={}) as window:
            assert window.compact().completed
        talk(long, turns - _OLDER // 2, turns)
        aged = store.create_session(id="aged", title="aged", model=MODEL)
        for first in range(0, turns, _AGE):
            talk(aged, first, first + _AGE)
            _compact(aged)
        for name in ("long", "wide"):
            session = store.session(name)
            with session.lease():
                ModelView.of(session)
                Transcript(session).oldest_first()
        parent = long
        for number in range(shape.forks):
            parent = parent.fork(id=f"fork{number:06}")
            parent.user("on another branch")
        for executor in (
            store.create_session(id="valued").executor,
            store.registry.get(store.shelf("shelf").id),
        ):
            for first in range(0, shape.messages, _TOGETHER):
                keys = [f"key {number:06}" for number in range(first, min(first + _TOGETHER, shape.messages))]
                executor.append([(START, ev.ValuePut(key, "a value")) for key in keys])
        for ticket in [store.log.submit(append) for number in range(shape.sessions) for append in _small(number)]:
            ticket.wait()
        for name in ("long", "wide"):  # the newest events are in the long sessions
            store.session(name).rename(name)


def _compact(session: eventlog.Session) -> None:
    """Let a summary stand for all that was said."""
    with session.lease():
        part = session.context.request_compaction()
        session.context.start_compaction(part)
        with session.assistant(summary=True) as reply:
            reply.add_text(sections())
        session.context.complete_compaction(part, reply.id)


def _small(number: int) -> Iterator[Append]:
    """All of a small session, in one append, behind that of its name."""
    time = START + number
    title, session, name = f"small {number}", f"small{number:06}", ("growth", f"{number:06}")
    yield state_append(f"{NAMES}{':'.join(name)}", None, NameState(session, leaving=False), time)
    started: list[tuple[int, ev.Event]] = [
        (time, ev.SessionStarted(title, "small", origin=Origin("test", f"foreign {number}"))),
        (time, ev.NameGiven(*name)),
        (time, ev.UserMessageAdded(f"m{number}")),
        (time, ev.PartStarted(f"m{number}", f"p{number}", Text("hello"))),
    ]
    entry = CatalogEntry(title, "small", origin=Origin("test", f"foreign {number}"), name=name)
    yield Append(
        session=session,
        payload=encode(started, time),
        count=len(started),
        time=time,
        messages=1,
        entry=encode_value(entry),
        creates_at=0,
    )


class Place:
    """A directory with a store, opened in this process on first use, closed by `close`."""

    def __init__(self, directory: Path, shape: Shape) -> None:
        self.directory = directory
        self.path = directory / "store"
        self.shape = shape
        self._made = count()

    @cached_property
    def store(self) -> Store:
        """The store, open for writing."""
        return eventlog.open(self.path, flush_interval=60.0)

    @cached_property
    def long(self) -> Session:
        """The session whose view is small."""
        return self.store.session("long")

    @cached_property
    def wide(self) -> Session:
        """The session whose view is as long as its history."""
        return self.store.session("wide")

    @cached_property
    def aged(self) -> Session:
        """The session with many compactions."""
        return self.store.session("aged")

    @cached_property
    def window(self) -> ContextWindow:
        """The window of the session whose view is small, which has counted it."""
        return self._window(self.long)

    @cached_property
    def wide_window(self) -> ContextWindow:
        """The window of the session whose view is as long as its history."""
        return self._window(self.wide)

    @cached_property
    def roomy_window(self) -> ContextWindow:
        """A window of the same session for a model that takes far more than the view has."""
        return self._window(self.wide, Limits(100_000_000, 1_000))

    def _window(self, session: Session, limits: Limits = LIMITS) -> ContextWindow:
        window = ContextWindow(session, POLICY, limits=limits, summarizer=lambda _: sections(), environment={})
        assert window.tokens
        return window

    @cached_property
    def live(self) -> LiveView:
        """A live view of the session whose view is small."""
        return LiveView(self.long)

    @cached_property
    def wide_live(self) -> LiveView:
        """A live view of the session whose view is as long as its history."""
        return LiveView(self.wide)

    @cached_property
    def compaction(self) -> str:
        """The part of the first compaction of `long`."""
        return next(
            span.item.part for span in self.long.reader.spans() if isinstance(span.item, ev.CompactionCompleted)
        )

    @property
    def recent(self) -> str:
        """A cursor before the newest 50 events of now: other operations append."""
        log = self.store.log
        (commit,) = log.commits_after(log.last_positions()[0] - 51, 1)
        return StreamMark(log.identity, ((0, b""),), 0, tag_of(commit)).cursor(commit.last_position)

    @cached_property
    def jsonl(self) -> bytes:
        """The wide session as event JSONL."""
        return b"".join(jsonl_lines(self.wide))

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """An event loop for the handles of asyncio."""
        return asyncio.new_event_loop()

    @cached_property
    def closed(self) -> Place:
        """A copy that this process has not open: for commands and for work in fresh processes."""
        return self.copy()

    @property
    def last_turn(self) -> int:
        """Number of the newest turn."""
        return self.shape.messages // 2 - 1

    def name(self, prefix: str) -> str:
        """A name not returned before."""
        return f"{prefix}-{next(self._made)}"

    def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result."""
        return self.loop.run_until_complete(work)

    def copy(self) -> Place:
        """Copy the store as built into another directory."""
        to = self.directory / self.name("copy")
        shutil.copytree(self.directory / "built", to / "store")
        return Place(to, self.shape)

    def close(self) -> None:
        """Close everything open."""
        for held in ("store", "loop", "closed"):
            found = self.__dict__.pop(held, None)
            if found is not None:
                found.close()

    def remove(self) -> None:
        """Close the place and remove its directory."""
        self.close()
        shutil.rmtree(self.directory)


@contextmanager
def both_sizes(directory: Path) -> Generator[tuple[Place, Place]]:
    """Two stores, one eight times as large as the other in every respect."""
    with closing(built(directory / "small", SMALL)) as small, closing(built(directory / "large", LARGE)) as large:
        yield small, large


def built(directory: Path, shape: Shape) -> Place:
    """Build a store of this shape in a new directory."""
    directory.mkdir(parents=True)
    _fill(directory / "built", shape)
    shutil.copytree(directory / "built", directory / "store")
    return Place(directory, shape)
