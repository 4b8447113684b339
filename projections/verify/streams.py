"""What is wrong in the streams of a store, each of which is read once, however many forks inherit it.

A fork is as sound as what it inherited, which lies in streams that other sessions have, too: what was found there up to the version
that it continues is told of the fork as well.  Bodies are read with the stream that names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from eventlog import events as ev
from eventlog.codec.decoded import Span
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.redaction import contents
from eventlog.errors import DataError, EventlogError
from eventlog.history.catalog import CatalogEntry, evolve_entry
from eventlog.history.lineage import StreamRange
from eventlog.history.streams import continued, spans
from eventlog.integrity.fork_anchor import inherited_fault, kept_of, unchanged
from eventlog.log.contract import Head
from eventlog.log.merkle_check import Mismatch, TreeState
from eventlog.store import Store
from eventlog.values import Body

__all__ = ["Problem", "Reading", "Streams"]


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong; `version` as far as it is known."""

    problem: str
    version: int | None = None


class Reading:
    """One session's own stream as far as it was read, which may be up to where a fork continues it, and later on from there."""

    def __init__(self, store: Store, head: Head, position: int) -> None:
        """`position`: that of the version before the stream's first."""
        self._store = store
        self._stream = StreamRange(head.session, head.base + 1, head.base)
        self._position = position
        self._found: list[tuple[int, Problem]] = []
        """What is wrong, each with the version from which on it counts."""
        self._broken = False
        self._seen: set[bytes] = set()
        self.version = head.base
        """The version up to which it was read."""
        self.entry = CatalogEntry()
        self.messages = 0

    @property
    def events(self) -> int:
        """How many events were read."""
        return self.version - self._stream.first + 1

    @property
    def bodies(self) -> int:
        """How many distinct large texts they name."""
        return len(self._seen)

    def problems(self, upto: int) -> list[Problem]:
        """What is wrong with versions up to `upto`, which were asked for."""
        return [problem for version, problem in self._found if version <= upto]

    def read_on(self, upto: int, told: Callable[[int], None] | None = None) -> None:
        """Read up to version `upto`, unless the stream could not be read on before; `told` hears of each version."""
        if self._broken or upto <= self.version:
            return
        stream = self._stream._replace(last=upto)
        try:
            for span in spans(self._store.log, [stream], self.version):
                self._take(span)
                if told is not None:
                    told(span.last)
        except DataError as error:
            self._break(Problem(error.message, error.version))
        except EventlogError as error:
            self._break(Problem(str(error)))

    def _break(self, problem: Problem) -> None:
        self._broken = True
        self._found.append((self.version + 1, problem))

    def _take(self, span: Span) -> None:
        if span.position <= self._position:
            problem = f"position {span.position} does not come after {self._position}"
            self._found.append((span.first, Problem(problem, span.first)))
        self.version = span.last
        self._position = span.position + span.last - span.first
        if not isinstance(span.item, DeltaRun):
            self.entry = evolve_entry(self.entry, span.item)
            self.messages += isinstance(span.item, (ev.UserMessageAdded, ev.AssistantMessageStarted))
        for body in _bodies(span):
            if body.digest not in self._seen:
                self._seen.add(body.digest)
                try:
                    self._store.text(body, span.session)
                except DataError as error:
                    self._found.append((span.first, Problem(error.message, span.first)))


class Streams:
    """The streams of a store, for a look at these sessions."""

    def __init__(self, store: Store, names: Iterable[str]) -> None:
        self.store = store
        self._names = names
        self._readings: dict[str, Reading] = {}
        self._above: dict[str, tuple[Problem, ...]] = {}
        """Of each fork that was looked at: what is wrong with what it inherited."""
        self._unchanged: dict[str, set[TreeState]] | None = None

    def reading(self, head: Head) -> Reading:
        """What was read of a session's own stream; of a fork after `inherited`."""
        found = self._readings.get(head.session)
        if found is None:
            found = self._readings[head.session] = Reading(self.store, head, 0)
        return found

    def inherited(self, head: Head) -> tuple[Problem, ...]:
        """What is wrong with what a fork inherited: read if it was not yet."""
        log = self.store.log
        forks: list[tuple[Head, Head]] = []
        fork = head
        while fork.session not in self._above and (above := continued(log, fork)) is not None:
            forks.append((fork, above))
            fork = above
        for fork, above in reversed(forks):
            reading = self.reading(above)
            reading.read_on(fork.base)
            problems = (*self._above.get(above.session, ()), *reading.problems(fork.base))
            position = 0 if problems else self._position(above.session, fork.base)
            self._readings.setdefault(fork.session, Reading(self.store, fork, position))
            self._above[fork.session] = problems
        return self._above.get(head.session, ())

    def changed(self, head: Head) -> Mismatch | None:
        """The first thing that a fork inherited and that is not what it was at the fork, or None; what cannot be read raises."""
        found = kept_of(self.store.log, head)
        if found is None or isinstance(found, Mismatch):
            return found
        if self._unchanged is None:
            self._unchanged = dict(self._compared())
        above, kept = found
        if kept in self._unchanged.get(above.session, ()):
            return None
        return inherited_fault(self.store.log, above, kept)

    def _compared(self) -> Iterator[tuple[str, set[TreeState]]]:
        """The heads that forks keep of each stream, those that it had: each stream is read once for all its forks."""
        log = self.store.log
        kept: dict[str, tuple[Head, set[TreeState]]] = {}
        for name in self._names:
            with suppress(EventlogError):  # told where this one is looked at
                head = log.head(name)
                found = kept_of(log, head) if head is not None and head.base else None
                if found is not None and not isinstance(found, Mismatch):
                    kept.setdefault(found[0].session, (found[0], set()))[1].add(found[1])
        for above, heads in kept.values():
            with suppress(EventlogError):
                yield above.session, unchanged(log, above, heads)

    def _position(self, session: str, version: int) -> int:
        commit = next(iter(self.store.log.read(session, version - 1, version)), None)
        return 0 if commit is None else commit.position + version - commit.first


def _bodies(span: Span) -> Iterator[Body]:
    if not isinstance(span.item, DeltaRun):
        yield from (content for content in contents(span.item) if isinstance(content, Body))
