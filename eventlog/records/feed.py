"""A feed of records: what a framework says, told to a session and read back whole.

A *record* is one JSON value of a framework. A mapping says what it means (`RecordMapping`); those
events, what no event has of it, and its end, `RecordKept`, are one append. The version of its end
is the record's number, for good: other writers' appends and rollbacks do not change it, and forks
share it.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any, TypeVar

from eventlog import events as ev
from eventlog.append.backoff import Backoff
from eventlog.append.transaction import result_of, transact
from eventlog.codec.redaction import part_of
from eventlog.errors import CallError, ConflictError
from eventlog.history.ancestry import forked_from
from eventlog.history.catalog import entry_of
from eventlog.history.name_streams import Name
from eventlog.history.ranges import covers
from eventlog.importers.common.builder import RecordMapping
from eventlog.log.commit import Committed
from eventlog.records.forget import forget
from eventlog.records.index import RecordIndex
from eventlog.records.json_value import digest_of, dumped, require_value
from eventlog.records.read import Forgotten, Redacted, events_of, stored_records, values_of
from eventlog.records.state_questions import Earlier
from eventlog.records.told import ToldBuilder, ToldConversation, digest_of_request, require_none_open
from eventlog.records.unseen import Seen
from eventlog.session.held_lease import Lease
from eventlog.session.session import Session
from eventlog.session.values import value_event
from eventlog.state.decide import decide
from eventlog.state.state import State
from eventlog.validation import each, require, require_function, require_or_none, require_version

T = TypeVar("T")


class Feed:
    """The records of one session, told in one format.  Safe across threads."""

    def __init__(self, session: Session, mapping: RecordMapping) -> None:
        require(Session, session, "a feed is of a session")
        read = getattr(mapping, "read", None)
        require_function(read, "a mapping has a `read`, which is given a record and a builder")
        require(str, getattr(mapping, "format", None), "a mapping's format is a str")
        self.session = session
        self.mapping = mapping
        self._executor = session.executor
        self._reader = session.reader
        self._log = session.store.log
        self._index = RecordIndex(self._log, session.reader.ancestry())
        self._lock = RLock()
        """Held to look at the index."""
        self._digests: dict[int, bytes] = {}
        """Digests of records that `replace` has seen, by their number."""

    # -- telling -------------------------------------------------------------------------------

    def add(
        self,
        values: Sequence[Any],
        *,
        after: int | None = None,
        keep: Mapping[str, str | bytes] | None = None,
        expected: int | None = None,
        version: int | None = None,
        request_id: str | None = None,
        wait: float = 0.0,
    ) -> list[int]:
        """Tell records, in one append, durable when it returns; returns their numbers.

        They come behind the record `after` (0: before all records), by default behind the newest.
        If that is not the newest, the append begins with a rollback to it. `expected` is the newest
        number that the caller knows, 0 for none: `ConflictError` if it is another by now. `keep`
        puts values of the session in the same append; what the caller has read of such values
        still counts if the session is at `version`, else `ConflictError`. A repeated `request_id`
        gives the first numbers.

        Takes the session's lease for the append: `LeaseHeldError` if another owner or task still
        holds it after `wait` seconds.
        """
        told = self._told(values)
        for number in (after, expected, version):
            if number is not None:
                require_version(number)
        require_or_none(Mapping, keep, "values to keep are a mapping of keys to values")
        kept = dict(keep or {})
        for key, content in kept.items():
            value_event(key, content, {})  # refuses what is no value
        require_or_none(str, request_id, "a request id is a str")
        digest = b"" if request_id is None else digest_of_request(self.mapping.format, told, after, kept)
        writer = self._executor.writer
        if request_id is not None and (known := result_of(writer, request_id, digest)) is not None:
            return self._numbers(known)
        is_alone = self._executor.leases.held is None

        def tell(lease: Lease) -> list[int]:
            backoff = Backoff()
            while True:
                now = self._version_now()
                if version is not None and version != now:
                    raise ConflictError(self.session.id, version, now)
                newest = self._newest(now)
                if expected is not None and expected != newest:
                    raise ConflictError(self.session.id, expected, newest)
                to = None if after is None or after == newest else self._target(after, now)
                if to is None and not told and not kept:
                    return []
                try:
                    base, seen = now if to is None else now + 1, self.seen(newest if after is None else after)
                    items, bodies = self._decided(told, kept, now, to, settles=is_alone, base=base, seen=seen)
                    committed = transact(
                        writer,
                        items,
                        bodies,
                        epoch=lease.epoch,
                        expected=now,
                        request=request_id,
                        digest=digest,
                        returns_lease=is_alone,
                    )
                except ConflictError:  # another writer, who needs no lease
                    if not backoff.goes_on():
                        raise
                    continue
                if committed.repeated:
                    return self._numbers(committed)
                events = [event for _, event in items]
                with self._lock:
                    self._index.note(committed.first, events)
                self._executor.leave_checkpoint(events)
                return [number for number, event in enumerate(events, committed.first) if type(event) is ev.RecordKept]

        return self._executor.writing(tell, wait=wait)

    def fork(self, values: Sequence[Any], *, after: int, name: Name | None = None) -> Session:
        """Begin a session that continues this one behind a record, with further records.

        They are in its first append, and so is its name: `AlreadyExistsError` if a session has it.
        `after` is the number of the last record that the fork keeps, `name` a name for the fork.
        """
        told = self._told(values)
        require_version(after)
        self._require_record(after)
        backoff = Backoff()
        while True:
            now = self._version_now()
            to = None if after == now else after
            try:
                base = after + (1 if name is None else 2)  # behind what begins the fork and gives its name
                items, bodies = self._decided(told, {}, now, to, settles=True, base=base, seen=self.seen(after))
            except ConflictError:  # another writer's event
                if not backoff.goes_on():
                    raise
                continue
            then = [event for _, event in items[0 if to is None else 1 :]]
            return self.session.store.fork(self.session, after, name=name, then=then, bodies=bodies)

    def _version_now(self) -> int:
        """Return the newest version, with what this handle has accepted committed."""
        while True:
            try:
                return self._reader.version
            except ConflictError:  # of an append by another thread, which hears of it as well
                continue

    def _decided(
        self,
        told: list[tuple[Any, str]],
        keep: Mapping[str, str | bytes],
        version: int,
        to: int | None,
        *,
        settles: bool,
        base: int,
        seen: Seen | None,
    ) -> tuple[list[tuple[int, ev.Event]], dict[bytes, bytes]]:
        """Return the events of an append, and their bodies, as decided at a version."""
        executor = self._executor

        def ask(question: Callable[[State], T]) -> T:
            """Ask the state that the records are told in: right behind `after`."""
            with self._reader.deciding() as state:
                if state.version != version:
                    raise ConflictError(self.session.id, version, state.version)
                if to is None:
                    return question(state)
                try:
                    decide(state, [(0, ev.RolledBack(to))])
                    return question(state)
                finally:
                    state.retract(version)

        now = executor.host.clock()
        items: list[tuple[int, ev.Event]] = [] if to is None else [(now, ev.RolledBack(to))]
        bodies: dict[bytes, bytes] = {}
        if told:
            conversation = ToldConversation(
                self.session.id,
                self.mapping.format,
                now,
                ask=ask,
                earlier=Earlier(self._reader, version if to is None else to),
                new_id=executor.host.new_id,
                base=base,
                seen=seen,
                number_of=self._number_of,
                priced=executor.host.priced,
            )
            if not settles:
                require_none_open(conversation, self.session.id)
            builder = ToldBuilder(conversation, now)
            for place, (value, text) in enumerate(told, 1):
                builder.tell(self.mapping, value, text, is_last=place == len(told))
            items += conversation.batch.items
            bodies = conversation.batch.bodies
        items += [(now, value_event(key, content, bodies)) for key, content in keep.items()]
        return items, bodies

    def replace(self, values: Sequence[Any], *, expected: int | None = None, wait: float = 0.0) -> list[int]:
        """Make the records these, a framework's whole list; returns the numbers of all.

        Records at the beginning that are equal stay. The others are told again behind a rollback,
        whose parts are new ones: pins and prunes of their old parts are lost. `expected` is the
        count of records that the caller read: `ConflictError` for another. `wait` is the seconds to
        wait for the lease.
        """
        values = each(values, "records are a list of JSON values")
        if expected is not None:
            require_version(expected)
        digests = [digest_of(text) for _, text in self._told(values)]
        path = self.path()
        if expected is not None and expected != (path[-1] if path else 0):
            raise ConflictError(self.session.id, expected, path[-1] if path else 0)
        same = 0
        known = self._known_digests(path[: len(digests)])
        while same < len(known) and known[same] == digests[same]:
            same += 1
        if same == len(path) == len(values):
            return path
        numbers = self.add(
            values[same:], after=path[same - 1] if same else 0, expected=path[-1] if path else 0, wait=wait
        )
        self._digests.update(zip(numbers, digests[same:], strict=True))
        return [*path[:same], *numbers]

    def _known_digests(self, numbers: list[int]) -> list[bytes]:
        lacking = [number for number in numbers if number not in self._digests]
        for number, value in zip(lacking, self.read(lacking), strict=True):
            try:
                self._digests[number] = digest_of(dumped(self.record_of(value)))
            except TypeError:
                return [self._digests.get(other, b"") for other in numbers]
        return [self._digests[number] for number in numbers]

    # -- reading -------------------------------------------------------------------------------

    def path(self, at: int | None = None, *, newest: int | None = None, hidden: bool = False) -> list[int]:
        """Return the numbers of the effective records in order, right after a version.

        With `newest` only so many of the newest, which cost what they are. With `hidden` those that
        rollbacks hide, too: all records in the order in which they were told.
        """
        if newest is not None and (type(newest) is not int or newest < 0):
            raise CallError(f"`newest` is a whole number from 0, not {newest!r:.40}")
        version = self._reader.resolve(at)
        with self._lock:
            self._index.advance(version)
            pieces: list[list[int]] = []
            left = sys.maxsize if newest is None else newest
            for piece in self._index.newest_first(version, self._reader.forgotten(), hidden=hidden):
                if left <= 0:
                    break
                pieces.append(piece[-left:])
                left -= len(piece)
        return [number for piece in reversed(pieces) for number in piece]

    def read(self, numbers: Sequence[int]) -> list[Any]:
        """Return the records with these numbers, deep-equal to what was told, in their order.

        `NotFoundError` for a number that is no record's.
        """
        numbers = each(numbers, "numbers are a list of int")
        for number in numbers:
            require_version(number)
        self._reader.resolve(None)
        streams = self._reader.ancestry()
        forgotten = self._reader.forgotten()
        redacted = {part for head, _ in forked_from(self._log, self.session.id) for part in entry_of(head).redacted}
        hidden: dict[int, Any] = {}
        if redacted:
            found = stored_records(self._log, streams, numbers)
            hidden = {
                record[1]: Redacted(record[1])
                for record in found
                if any(part_of(event) in redacted for event in events_of(record))
            }
        if forgotten:
            for number in numbers:
                if covers(forgotten, number):
                    self._require_record(number)
            hidden.update((number, Forgotten(number)) for number in numbers if covers(forgotten, number))
        shown = [number for number in numbers if number not in hidden] if hidden else numbers
        records = values_of(self._log, self.session.id, streams, shown)
        values = {number: self.value_of(record) for number, record in records.items()}
        values.update(hidden)
        return [values[number] for number in numbers]

    def forget(self, numbers: Sequence[int]) -> None:
        """Hide records, with all that they mean, in every view of every version, and in forks.

        It cannot be undone. `Store.scrub` removes the bytes. Needs no lease. `NotFoundError` for a
        number that is no record's.
        """
        numbers = each(numbers, "numbers are a list of int")
        for number in numbers:
            require_version(number)
        self._reader.resolve(None)
        forget(self.session, numbers)

    def at(self, number: int) -> int:
        """Return the version right after a record; `NotFoundError` if the number is of none."""
        require_version(number)
        self._reader.resolve(None)
        self._require_record(number)
        return number

    # -- for feeds of frameworks -----------------------------------------------------------------

    def record_of(self, value: Any) -> Any:
        """Return the record of a value that a program tells: here the value itself."""
        return value

    def value_of(self, record: Any) -> Any:
        """Return the value that was told as a record."""
        return record

    def seen(self, after: int) -> Seen | None:
        """Return what the model was sent of whose answers are told behind a record.

        None: all that stands before them.
        """
        del after
        return None

    def _told(self, values: Sequence[Any]) -> list[tuple[Any, str]]:
        """Return the records of values, each with its text."""
        return list(map(self._with_text, each(values, "records are a list of JSON values")))

    def _with_text(self, value: Any) -> tuple[Any, str]:
        record = self.record_of(value)
        return record, require_value(record)

    # -- where records are -----------------------------------------------------------------------

    def _require_record(self, number: int) -> None:
        """Raise `NotFoundError` unless a version is that of a record; reads one append."""
        list(stored_records(self._log, self._reader.ancestry(), [number]))

    def _number_of(self, version: int, *, is_told: bool = False) -> int:
        """Return the number of the record that has an event; 0 if none has it, unless `is_told`."""
        with self._lock:
            self._index.advance(self._reader.version)
            place = bisect_left(self._index.numbers, version)
            number = self._index.numbers[place] if place < len(self._index.numbers) else 0
        if number and not is_told:
            (record,) = stored_records(self._log, self._reader.ancestry(), [number])
            number = number if version >= number - record[2].events else 0
        return number

    def _newest(self, version: int) -> int:
        """Return the number of the newest effective record, 0 if there is none."""
        with self._lock:
            self._index.advance(version)
            pieces = self._index.newest_first(version, self._reader.forgotten())
            return next((piece[-1] for piece in pieces if piece), 0)

    def _target(self, after: int, version: int) -> int | None:
        """Return the version to roll back to for records behind `after`, not the newest one."""
        if after:
            self._require_record(after)
            return after
        first = self.path(version)[0]
        (record,) = stored_records(self._log, self._reader.ancestry(), [first])
        return first - record[2].events - 1

    def _numbers(self, committed: Committed) -> list[int]:
        """Return the numbers of the records in an append."""
        events = self._reader.events(committed.first - 1, committed.last)
        return [recorded.version for recorded in events if isinstance(recorded.event, ev.RecordKept)]
