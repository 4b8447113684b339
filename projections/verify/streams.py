"""Check the event streams of sessions, each read once, however many forks inherit it.

A fork inherits the beginning of another session's stream, and its faults: a fault up to the version
of the fork is reported for the fork, too. Bodies are read with the stream that refers to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from eventlog.codec.decoded import Span
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.redaction import contents
from eventlog.errors import DataError, EventlogError
from eventlog.history.ancestry import continued, decoded_commits
from eventlog.history.catalog import CatalogEntry, evolve_entry
from eventlog.history.effective_history import StreamRange
from eventlog.integrity.fork_anchor import anchor_of, inherited_fault, unchanged
from eventlog.log.commit import Head
from eventlog.log.merkle_check import Mismatch, TreeState
from eventlog.store import Store
from eventlog.values import Body


class Problem(msgspec.Struct, frozen=True):
    """One fault; `version` is None if it is not known."""

    problem: str
    version: int | None = None


class StreamCheck:
    """The check of one session's own stream, which can stop at a version and go on later.

    It stops where a fork begins, for the fork's sake.
    """

    def __init__(self, store: Store, head: Head, position: int) -> None:
        """`position` is that of the version before, 0 where it is in another partition."""
        self._store = store
        self._stream = StreamRange(head.session, head.base + 1, head.base)
        self._position = position
        self._problems: list[tuple[int, Problem]] = []
        """Faults, each with the first version that it concerns."""
        self._broken = False
        self._seen: set[bytes] = set()
        self.version: int = head.base
        """The last version that was read."""
        self.entry: CatalogEntry = CatalogEntry()
        self.messages: int = 0
        """The visible messages that its appends say."""
        self.counted: bool = False
        """Whether the newest of them was written by a program that counts them."""

    @property
    def events(self) -> int:
        """Return how many events were read."""
        return self.version - self._stream.first + 1

    @property
    def bodies(self) -> int:
        """Return how many distinct bodies they refer to."""
        return len(self._seen)

    def problems(self, upto: int) -> list[Problem]:
        """Return the faults up to version `upto`."""
        return [problem for version, problem in self._problems if version <= upto]

    def read_on(self, upto: int, on_progress: Callable[[int], None] | None = None) -> None:
        """Read up to version `upto`; does nothing once the stream could not be read.

        `on_progress` is called with each version.
        """
        if self._broken or upto <= self.version:
            return
        stream = self._stream._replace(last=upto)
        try:
            for commit in decoded_commits(self._store.log, [stream], self.version):
                self.messages += commit.messages
                self.counted = commit.batch.messages is not None
                for span in commit.spans():
                    self._check(span)
                    if on_progress is not None:
                        on_progress(span.last)
        except DataError as error:
            self._break(Problem(error.message, error.version))
        except EventlogError as error:
            self._break(Problem(str(error)))

    def _break(self, problem: Problem) -> None:
        self._broken = True
        self._problems.append((self.version + 1, problem))

    def _check(self, span: Span) -> None:
        if span.position <= self._position:
            problem = f"position {span.position} does not come after {self._position}"
            self._problems.append((span.first, Problem(problem, span.first)))
        self.version = span.last
        self._position = span.position + span.last - span.first
        if not isinstance(span.item, DeltaRun):
            self.entry = evolve_entry(self.entry, span.item)
        for body in _bodies(span):
            if body.digest not in self._seen:
                self._seen.add(body.digest)
                try:
                    self._store.host.data(body, span.session)
                except DataError as error:
                    self._problems.append((span.first, Problem(error.message, span.first)))


class StreamChecks:
    """The stream checks of a store, for the sessions that are verified."""

    def __init__(self, store: Store, names: Iterable[str]) -> None:
        self.store = store
        self._names = names
        self._checks: dict[str, StreamCheck] = {}
        self._above: dict[str, tuple[Problem, ...]] = {}
        """By fork: the faults of what it inherits."""
        self._unchanged: dict[str, set[TreeState]] | None = None

    def of(self, head: Head) -> StreamCheck:
        """Return the check of a session's own stream; for a fork call `inherited` first."""
        check = self._checks.get(head.session)
        if check is None:
            check = self._checks[head.session] = StreamCheck(self.store, head, 0)
        return check

    def inherited(self, head: Head) -> tuple[Problem, ...]:
        """Return the faults of what a fork inherits; reads it if it was not read yet."""
        log = self.store.log
        forks: list[tuple[Head, Head]] = []
        fork = head
        while fork.session not in self._above and (above := continued(log, fork)) is not None:
            forks.append((fork, above))
            fork = above
        for fork, above in reversed(forks):
            check = self.of(above)
            check.read_on(fork.base)
            problems = (*self._above.get(above.session, ()), *check.problems(fork.base))
            together = log.partition_of(fork.session) == log.partition_of(above.session)
            position = self._position(above.session, fork.base) if together and not problems else 0
            self._checks.setdefault(fork.session, StreamCheck(self.store, fork, position))
            self._above[fork.session] = problems
        return self._above.get(head.session, ())

    def changed(self, head: Head) -> Mismatch | None:
        """Return the first change since the fork in what a fork inherits, or None.

        Raises an error if it cannot be read.
        """
        anchor = anchor_of(self.store.log, head)
        if anchor is None or isinstance(anchor, Mismatch):
            return anchor
        if self._unchanged is None:
            self._unchanged = dict(self._compared())
        above, grown = anchor
        if grown in self._unchanged.get(above.session, ()):
            return None
        return inherited_fault(self.store.log, above, grown)

    def _compared(self) -> Iterator[tuple[str, set[TreeState]]]:
        """Yield, by session, the anchors of forks that agree with its stream.

        Each stream is read once for all its forks.
        """
        log = self.store.log
        anchors: dict[str, tuple[Head, set[TreeState]]] = {}
        for name in self._names:
            with suppress(EventlogError):  # reported with the session itself
                head = log.head(name)
                anchor = anchor_of(log, head) if head is not None and head.base else None
                if anchor is not None and not isinstance(anchor, Mismatch):
                    anchors.setdefault(anchor[0].session, (anchor[0], set()))[1].add(anchor[1])
        for above, heads in anchors.values():
            with suppress(EventlogError):
                yield above.session, unchanged(log, above, heads)

    def _position(self, session: str, version: int) -> int:
        commit = next(iter(self.store.log.read(session, version - 1, version)), None)
        return 0 if commit is None else commit.position + version - commit.first


def _bodies(span: Span) -> Iterator[Body]:
    if not isinstance(span.item, DeltaRun):
        yield from (content for content in contents(span.item) if isinstance(content, Body))
