"""A session without a store: timed events become spans with versions, as from a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from eventlog.codec.batch import encode
from eventlog.codec.decoded import DecodedCommit, Span, decode_commit
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.large_texts import body_text
from eventlog.events import LASTING, Event, PartDelta, RolledBack
from eventlog.history.effective_history import History, StreamRange
from eventlog.importers.common.importer import ImportBatch
from eventlog.log.commit import Commit
from eventlog.session.reader import SessionReader
from eventlog.values import Body, Content

Timed = tuple[int, Event]


def bundled(items: Sequence[Timed]) -> list[Timed | DeltaRun]:
    """The items with neighbouring deltas as runs, as a handle stores them."""
    result: list[Timed | DeltaRun] = []
    run: list[tuple[int, PartDelta]] = []
    base = items[0][0] if items else 0

    def close() -> None:
        if run:
            result.append(DeltaRun.from_deltas(run, base))
            run.clear()

    for time, event in items:
        if isinstance(event, PartDelta):
            run.append((time, event))
            continue
        close()
        result.append((time, event))
    close()
    return result


class Recording(SessionReader):
    """Timed events that read like a session (`spans`, `history`) and its store (`text`)."""

    def __init__(
        self,
        items: Iterable[Timed],
        bodies: Mapping[bytes, bytes] | None = None,
        *,
        name: str = "s",
        runs: bool = True,
    ) -> None:
        self.id = name
        self._bodies = dict(bodies or {})
        self._runs = runs
        self._decoded: list[DecodedCommit] = []
        self._rollbacks: list[tuple[int, int]] = []
        self._newest = 0
        self.add(items)

    @property
    def version(self) -> int:
        """Version of the newest event that can be read."""
        return self._newest

    @version.setter
    def version(self, newest: int) -> None:
        self._newest = newest

    @classmethod
    def of(cls, batch: ImportBatch) -> Recording:
        """The events that an importer emitted."""
        return cls(batch.items, batch.bodies, name=batch.session)

    def add(self, items: Iterable[Timed]) -> None:
        """Append events."""
        found = list(items)
        if not found:
            return
        count = len(found)
        payload = encode(bundled(found) if self._runs else found, found[0][0])
        commit = Commit(self.id, self.version + 1, count, self.version + 1, 0, found[-1][0], payload)
        decoded = decode_commit(commit)
        assert decoded is not None
        self._decoded.append(decoded)
        for span in decoded.spans():
            if isinstance(span.item, RolledBack):
                self._rollbacks.append((span.first, span.item.to))
        self.version += count

    @property
    def store(self) -> Recording:
        """The store, for callers that ask a session for it."""
        return self

    def text(self, content: Content) -> str:
        """The text of a content."""
        return body_text(content, self._bodies[content.digest]) if isinstance(content, Body) else content

    def decoded_commits(self, after: int = 0, upto: int | None = None) -> Iterator[DecodedCommit]:
        """Yield the runs append by append."""
        for decoded in self._decoded:
            part = decoded.cut(after, upto)
            if part is not None:
                yield part

    def effective_ranges(self, at: int | None = None) -> list[tuple[int, int]]:
        """The effective versions."""
        last = self.version if at is None else at
        history = History()
        for version, to in self._rollbacks:
            if version <= last:
                history.roll_back(version, to)
        return history.at(last)

    def ancestry(self) -> tuple[StreamRange, ...]:
        """The one stream that these events are of."""
        return (StreamRange(self.id, 1, self.version),)

    def inherited_redactions(self) -> tuple[str, ...]:
        """No part: this is no fork."""
        return ()

    def forgotten(self) -> tuple[tuple[int, int], ...]:
        """No version."""
        return ()

    def history(self, at: int | None = None, after: int = 0) -> Iterator[Span]:
        """The effective history."""
        last = self.version if at is None else at
        ranges = self.effective_ranges(last)
        for span in self.spans(after, last):
            if isinstance(span.item, LASTING):
                yield span
                continue
            for first, end in ranges:
                part = span.cut(first - 1, end)
                if part is not None:
                    yield part
