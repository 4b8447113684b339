"""Committed events with their versions, positions and times, as they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, repeat
from typing import Any, NamedTuple, Protocol

import msgspec

from eventlog.codec.batch import Batch, Entry, decode_sized, entry_decoder, split, tags_in
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import DamagedError, DataError
from eventlog.events import AssistantMessageStarted, Base, Event, UserMessageAdded
from eventlog.log.commit import Commit


class Mark(Protocol):
    """Where the reader of an event stands."""

    def cursor(self, position: int) -> str:
        """Return the cursor behind the event at a position."""
        ...


_ADDED = (UserMessageAdded, AssistantMessageStarted)


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """An event with its place in the log: what `Session.events()` yields to projections."""

    session: str
    version: int
    position: int
    """Number in its partition, in commit order; 0 of an event that is not committed yet."""
    time: int
    """UTC milliseconds."""
    epoch: int
    event: Event
    mark: Mark | None = None
    """Where the subscription stands that delivered it; see `cursor`."""

    @property
    def cursor(self) -> str | None:
        """Opaque text with which a subscription goes on behind this event.

        None of an event that is not committed yet, and of one that no subscription delivered.
        """
        return None if self.mark is None else self.mark.cursor(self.position)


class Span(NamedTuple):
    """Consecutive versions: a single event, or a whole run of deltas.

    `first` and `position` are those of the first event; a run of n deltas has versions `first ..
    first + n - 1`.
    """

    session: str
    first: int
    position: int
    time: int
    """UTC milliseconds of the first event; a run's later times are `item.times(time -
    item.start)`.
    """
    epoch: int
    item: Event | DeltaRun

    @property
    def last(self) -> int:
        """Version of the last event."""
        return self.first + self.item.count - 1 if isinstance(self.item, DeltaRun) else self.first

    def events(self, mark: Mark | None = None) -> list[Recorded]:
        """Return the events one by one, with the mark of their reader."""
        session, first, position, time, epoch, item = self
        if not isinstance(item, DeltaRun):
            return [Recorded(session, first, position, time, epoch, item, mark)]
        times, deltas = item.times(time - item.start), item.deltas()
        return list(
            map(Recorded, repeat(session), count(first), count(position), times, repeat(epoch), deltas, repeat(mark))
        )

    def cut(self, after: int, upto: int | None) -> Span | None:
        """Return the part of the span in versions `after + 1 .. upto`, or None."""
        start = max(after + 1 - self.first, 0)
        count = self.last - self.first + 1
        stop = count if upto is None else min(count, upto + 1 - self.first)
        if start >= stop:
            return None
        item = self.item
        if not isinstance(item, DeltaRun) or (start == 0 and stop == count):
            return self
        time = item.times(self.time - item.start)[start]
        return self._replace(
            first=self.first + start, position=self.position + start, time=time, item=item.cut(start, stop)
        )


class DecodedCommit(msgspec.Struct, frozen=True, gc=False):
    """The decoded events of one commit, or of a part of it, with their versions and positions."""

    session: str
    first: int
    """Version of the first event."""
    last: int
    """Version of the last event."""
    position: int
    """Position of the first event."""
    epoch: int
    batch: Batch

    def spans(self) -> list[Span]:
        """Return the events as spans, with runs of deltas whole."""
        session, version, position, epoch, batch = self.session, self.first, self.position, self.epoch, self.batch
        base = batch.time
        spans: list[Span] = []
        for entry in batch.entries:
            if isinstance(entry, DeltaRun):
                spans.append(Span(session, version, position, base + entry.start, epoch, entry))
                length = entry.count
            else:
                spans.append(Span(session, version, position, base + entry.after, epoch, entry.event))
                length = 1
            version += length
            position += length
        return spans

    @property
    def messages(self) -> int:
        """By how much it changes the number of visible messages.

        Earlier programs counted what an append adds.
        """
        if self.batch.messages is not None:
            return self.batch.messages
        return sum(isinstance(entry, Entry) and isinstance(entry.event, _ADDED) for entry in self.batch.entries)

    def cut(self, after: int, upto: int | None) -> DecodedCommit | None:
        """Return the part in versions `after + 1 .. upto`, or None.

        The part with the last event has what the commit changes the number of messages by.
        """
        first = max(self.first, after + 1)
        last = self.last if upto is None else min(self.last, upto)
        if first > last:
            return None
        if first == self.first and last == self.last:
            return self
        entries: list[Entry | DeltaRun] = []
        version = self.first
        for entry in self.batch.entries:
            length = entry.count if isinstance(entry, DeltaRun) else 1
            start, stop = max(first - version, 0), min(last + 1 - version, length)
            if start < stop:
                entries.append(entry.cut(start, stop) if isinstance(entry, DeltaRun) else entry)
            version += length
        messages = self.batch.messages if self.batch.messages is None or last == self.last else 0
        batch = Batch(self.batch.schema, self.batch.time, False, entries, messages)
        return DecodedCommit(self.session, first, last, self.position + first - self.first, self.epoch, batch)


def decode_commit(commit: Commit, after: int = 0, upto: int | None = None) -> DecodedCommit | None:
    """Decode the events of a commit that have versions `after + 1 .. upto`.

    None if it has none, or was erased. Errors as in `decode`, with the place, and `DamagedError` if
    there are not as many events as the commit says.
    """
    payload, first, length = commit.payload, commit.first, commit.count
    if not payload and commit.emptied:
        return None
    try:
        batch, decoded_count = decode_sized(payload)
        if decoded_count != length:
            raise DamagedError(f"a commit of {length} events holds {decoded_count}")
    except DataError as error:
        raise type(error)(error.message, session=commit.session, version=first, position=commit.position) from error
    last = first + length - 1
    return DecodedCommit(commit.session, first, last, commit.position, commit.epoch, batch).cut(after, upto)


def spans_of(commit: Commit, after: int = 0, upto: int | None = None) -> list[Span]:
    """Return the spans of a commit in versions `after + 1 .. upto`; none if it was erased.

    Runs of deltas are whole where the range holds them whole.
    """
    decoded = decode_commit(commit, after, upto)
    return [] if decoded is None else decoded.spans()


def events_of(commit: Commit, after: int = 0, upto: int | None = None, mark: Mark | None = None) -> Iterator[Recorded]:
    """Yield the events of a commit one by one, with the mark of their reader."""
    for span in spans_of(commit, after, upto):
        yield from span.events(mark)


class _Single(msgspec.Struct, gc=False):
    event: object


def _one_by_one(commit: Commit) -> Sequence[Any]:
    """Return an entry for each event of a commit, those of runs without one."""
    decoded = decode_commit(commit)
    entries: list[Any] = []
    for entry in () if decoded is None else decoded.batch.entries:
        entries += [_Single(None)] * entry.count if isinstance(entry, DeltaRun) else (entry,)
    return entries


class _Entries(Sequence[Any]):
    """The entries of a commit, each decoded when it is asked for."""

    def __init__(self, commit: Commit, pieces: Sequence[Any], kind: type) -> None:
        self._commit = commit
        self._pieces = pieces
        self._decode = entry_decoder(kind)

    def __len__(self) -> int:
        return len(self._pieces)

    def __getitem__(self, index: Any) -> Any:
        try:
            return self._decode(self._pieces[index])
        except TypeError:  # it is a slice
            return list(map(self.__getitem__, range(*index.indices(len(self._pieces)))))
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):  # it says where, or can read it
            return _one_by_one(self._commit)[index]


def entries_of(commit: Commit, kind: type = Entry) -> Sequence[Any]:
    """Return an entry for each event of a commit; none if it was erased.

    Only those that are asked for are decoded, unless it has runs of deltas, escaped texts or an
    older schema. `kind` is what most that are asked for will be.
    """
    pieces = split(commit.payload)
    return _Entries(commit, pieces, kind) if len(pieces) == commit.count else _one_by_one(commit)


def events_of_kinds(commit: Commit, kinds: tuple[type[Base], ...]) -> Iterator[tuple[int, Any]]:
    """Yield the events of these kinds with their versions; of the others only the tag is read."""
    tags = tags_in(commit.payload)
    wanted = {kind.__struct_config__.tag for kind in kinds}
    places = [place for place, tag in enumerate(tags) if tag in wanted]
    if len(tags) != commit.count:
        places = list(range(commit.count))
    entries = entries_of(commit) if places else ()
    for place in places if entries else ():
        if isinstance(event := entries[place].event, kinds):
            yield commit.first + place, event
