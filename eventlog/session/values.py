"""Values of a session or a shelf: texts and bytes under keys, the newest of which counts.

A value is an event like any other, so it is durable and in the hash tree, but no activity: it moves
no session in a list, a rollback does not undo it, and the model sees nothing of it. Equal large
values are stored once. What was replaced or dropped cannot be read any more, and `Store.scrub`
removes its bytes.

A fork begins with the values as of its version, without those that were freed before it began.
Which version is a key's newest is asked of an index for each stream (`history/value_index.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from eventlog import events as ev
from eventlog.append.backoff import Backoff
from eventlog.codec.batch import PutEntry
from eventlog.codec.decoded import entries_of
from eventlog.codec.large_texts import to_content, to_data
from eventlog.errors import CallError, ConflictError, DamagedError
from eventlog.errors.base import brief
from eventlog.history.ancestry import commits_with
from eventlog.history.catalog import entry_of
from eventlog.history.effective_history import END
from eventlog.history.value_index import ValueIndex
from eventlog.ids import check_key
from eventlog.validation import require, require_or_none, require_version
from eventlog.values import Body

if TYPE_CHECKING:
    from eventlog.history.effective_history import StreamRange
    from eventlog.history.value_tree import Change
    from eventlog.session.executor import Executor

FIRST, TOGETHER = 8, 512
"""Values whose events are read together: the first ones, and at most."""


class StoredValue(msgspec.Struct, frozen=True):
    """A value with its key, and its revision: the version of the event that put it."""

    key: str
    value: str | bytes
    revision: int


def value_event(key: str, value: str | bytes, bodies: dict[bytes, bytes]) -> ev.ValuePut:
    """Return the event that puts a value; what is large of it is added to `bodies`."""
    require(str, key, "a value's key is a str")
    require((str, bytes), value, "a value is a str or bytes")
    if isinstance(value, str):
        return ev.ValuePut(check_key(key), text=to_content(value, bodies))
    return ev.ValuePut(check_key(key), data=to_data(value, bodies))


def _key_of(name: bytes) -> str:
    return name.decode("utf-8", "surrogatepass")


class Values:
    """Texts and bytes under keys of 1 to 256 bytes; reached as `session.values`.

    No command needs the lease. Inside `with session.pipeline()` a command without `expected`
    returns at once, and is committed with the others.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._indexes: dict[str, ValueIndex] = {executor.id: executor.writer.queue.values}

    def __repr__(self) -> str:
        return f"<Values of {self._executor.id}>"

    def put(self, key: str, value: str | bytes, *, expected: int | None = None) -> int:
        """Store a value under a key; returns its revision, 0 inside a pipeline.

        With `expected` the key must have this revision (0: no value) when the value is committed:
        otherwise `ConflictError`, and nothing is written.
        """
        bodies: dict[bytes, bytes] = {}
        return self._append(value_event(key, value, bodies), bodies, expected)

    def drop(self, key: str, *, expected: int | None = None) -> None:
        """Remove the value of a key, if it has one; `expected` as for `put`."""
        require(str, key, "a value's key is a str")
        self._append(ev.ValueDropped(check_key(key)), {}, expected)

    def get(self, key: str) -> StoredValue | None:
        """Return the value of a key, None if it has none.

        `DamagedError` if its content cannot be read.
        """
        found = self._find(key, self._streams())
        if found is None:
            return None
        value = self._content(*found)
        if value is None:
            raise DamagedError(
                f"the value of {brief(key)} was freed after the state that this store was restored to: put another one",
                session=found[0].session,
                version=found[1].version,
            )
        return StoredValue(key, value, found[1].version)

    def revision(self, key: str) -> int:
        """Return the revision of a key's value, 0 if it has none; the value is not read."""
        found = self._find(key, self._streams())
        return 0 if found is None else found[1].version

    def items(self, prefix: str = "") -> Iterator[StoredValue]:
        """Yield the values whose keys begin with a prefix, in the order of their keys.

        The keys are those of now; each value is read when it is yielded.
        """
        self._executor.host.require_open()
        version = self._executor.reader.version
        return self._read(prefix, version, self._listed(prefix, limit=FIRST, upto=version))

    def keys(self, prefix: str = "", *, after: str = "", limit: int | None = None) -> list[str]:
        """Return the keys that begin with a prefix, in their order; no value is read.

        A page has at most `limit` keys, those next after the key `after`. In a session that is no
        fork, and on a shelf, a page costs what it shows and the dropped keys in between.
        """
        require(str, after, "a key to go on after is a str")
        require_or_none(int, limit, "a limit is a whole number, or None")
        if limit is not None and limit < 1:
            raise CallError(f"a limit is 1 or more, not {limit}: leave it out for all keys")
        keys: list[str] = []
        while True:
            listed = self._listed(prefix, after, limit)
            keys += [key for name, found in listed if not self._was_freed(*found, key := _key_of(name))]
            if limit is None or len(keys) >= limit or len(listed) < limit:
                return keys[:limit]
            after = _key_of(listed[-1][0])

    def _listed(
        self, prefix: str, after: str = "", limit: int | None = None, upto: int = END
    ) -> list[tuple[bytes, tuple[StreamRange, Change]]]:
        """Return the newest change of each key with a prefix up to a version, not dropped ones.

        Where one stream has all values, `limit` keys are enough.
        """
        require(str, prefix, "a prefix is a str")
        newest: dict[bytes, tuple[StreamRange, Change]] = {}
        streams = self._streams()
        for stream in streams:
            most = limit if len(streams) == 1 else None
            for change in self._index(stream).newest_of_all(prefix, min(stream.last, upto), after, most):
                newest[change.key] = (stream, change)
        return sorted((key, found) for key, found in newest.items() if not found[1].dropped)

    def _read(
        self, prefix: str, version: int, found: Sequence[tuple[bytes, tuple[StreamRange, Change]]]
    ) -> Iterator[StoredValue]:
        """Yield the values that begin with `found`; those of many keys are read together."""
        limit = FIRST
        while found:
            events = self._events([place for _, place in found])
            for name, (stream, change) in found:
                key, event = _key_of(name), events.get((stream.session, change.version))
                try:
                    value = None if event is None else self._value(event, stream)
                except DamagedError:  # it may be freed since its event was read; else `get` raises the error, too
                    value = None
                stored = StoredValue(key, value, change.version) if value is not None else self.get(key)
                if stored is not None:  # freed meanwhile: another one took its place
                    yield stored
            if len(found) != limit:
                return
            limit = min(4 * limit, TOGETHER)
            found = self._listed(prefix, _key_of(found[-1][0]), limit, version)

    def _events(self, places: Sequence[tuple[StreamRange, Change]]) -> dict[tuple[str, int], ev.ValuePut]:
        """Return the events that put values, by stream and version; a commit is read once."""
        events: dict[tuple[str, int], ev.ValuePut] = {}
        for session in {stream.session for stream, _ in places}:
            versions = sorted(change.version for stream, change in places if stream.session == session)
            for commit, held in commits_with(self._executor.host.log, session, versions):
                entries = entries_of(commit, PutEntry)
                for version in held if entries else ():
                    event = entries[version - commit.first].event
                    if isinstance(event, ev.ValuePut):
                        events[session, version] = event
        return events

    # -- looking up --------------------------------------------------------------------------------

    def _streams(self) -> Sequence[StreamRange]:
        """Return the streams that the values lie in, once all that was accepted is in them."""
        reader = self._executor.reader
        self._executor.host.require_open()
        _ = reader.version  # commits what this handle has accepted
        return reader.ancestry()

    def _index(self, stream: StreamRange) -> ValueIndex:
        index = self._indexes.get(stream.session)
        if index is None:
            index = self._indexes[stream.session] = ValueIndex(self._executor.host.log, stream.session)
        return index

    def _find(
        self, key: str, streams: Sequence[StreamRange], upto: int | None = None
    ) -> tuple[StreamRange, Change] | None:
        """Return the event that put a key's value, and its stream."""
        require(str, key, "a value's key is a str")
        for stream in reversed(streams):
            found = self._index(stream).newest(key, stream.last if upto is None else min(stream.last, upto))
            if found is not None:
                return None if found.dropped or self._was_freed(stream, found, key) else (stream, found)
        return None

    def _was_freed(self, stream: StreamRange, found: Change, key: str) -> bool:
        """Whether an inherited value, which its own session replaced, was freed before the fork.

        What an erased session replaced it with is gone, too.
        """
        if stream.last == END:
            return False
        newest, head = self._index(stream).newest(key), self._executor.host.log.head(stream.session)
        is_newest = newest is None or newest.version == found.version
        if is_newest and not (head is not None and entry_of(head).erased):
            return False
        return self._content(stream, found) is None

    def _content(self, stream: StreamRange, change: Change) -> str | bytes | None:
        """Read a value; None if it was freed."""
        event = self._events([(stream, change)]).get((stream.session, change.version))
        if event is None:
            raise DamagedError("the value is missing", session=stream.session, version=change.version)
        return self._value(event, stream)

    def _value(self, event: ev.ValuePut, stream: StreamRange) -> str | bytes | None:
        content = event.data if event.text is None else event.text
        if not isinstance(content, Body):
            return content
        read = self._executor.host.data if event.text is None else self._executor.host.text
        return read(content, stream.session)

    # -- appending ---------------------------------------------------------------------------------

    def _append(self, event: ev.ValuePut | ev.ValueDropped, bodies: dict[bytes, bytes], expected: int | None) -> int:
        executor = self._executor
        if expected is not None:
            require_version(expected)
        if expected is None and executor.in_pipeline:
            executor.command([event], bodies)
            return 0
        if expected is None:
            return executor.commit([event], bodies=bodies).first
        backoff = Backoff()
        while True:
            version = self._version_with(event.key, expected)
            try:
                return executor.commit([event], bodies=bodies, expected=version).first
            except ConflictError:  # something else was appended: perhaps the key has its revision all the same
                if not backoff.goes_on():
                    raise

    def _version_with(self, key: str, expected: int) -> int:
        """Return the version of now, at which the key has the expected revision."""
        reader = self._executor.reader
        version = reader.version
        found = self._find(key, reader.ancestry(), version)
        revision = 0 if found is None else found[1].version
        if revision != expected:
            raise ConflictError(self._executor.id, expected, revision, key)
        return version
