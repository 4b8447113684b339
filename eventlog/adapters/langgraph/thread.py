"""Thread of LangGraph: its checkpoints are values of a session, its messages records.

A checkpoint of the root namespace and its messages are one append, so the list of messages at a
checkpoint is that of the records as of the version that put it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from threading import RLock
from typing import Any, TypeVar
from urllib.parse import unquote

from langgraph.checkpoint.base import WRITES_IDX_MAP, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot  # pyright: ignore[reportPrivateUsage]  # savers store it
from msgspec.structs import replace

from eventlog.adapters.langgraph.message_list import Entry, MessageList
from eventlog.adapters.langgraph.stored import (
    BLOB,
    DELTAS,
    MESSAGES,
    Since,
    Stored,
    Typed,
    Write,
    bytes_of,
    decode_checkpoint,
    decode_since,
    decode_writes,
    encode,
    key_of,
    quoted,
    run_in,
)
from eventlog.adapters.langgraph.sturdy import sturdy
from eventlog.append.backoff import Backoff
from eventlog.errors import ConflictError, DamagedError, LeaseHeldError, NotFoundError
from eventlog.session.held_lease import unless_held
from eventlog.session.session import Session

SMALL = 48
"""Longest value, in bytes, that a checkpoint has itself: as long as a reference."""

T = TypeVar("T")


class Thread:
    """The checkpoints of one session.  Safe across threads; each write is one append, or none."""

    def __init__(self, session: Session, serde: SerializerProtocol) -> None:
        self.session = session
        self.given = serde
        """Kept, because threads are found by it."""
        self.serde: SerializerProtocol = sturdy(serde)
        self.list: MessageList = MessageList(session, self.serde)
        self.lock: RLock = RLock()
        self._values = session.values
        self._tells = not isinstance(serde, EncryptedSerializer)

    # -- reading -------------------------------------------------------------------------------

    def revision(self, ns: str, id: str) -> int:
        """Return the version that put a checkpoint, 0 if there is none."""
        return self._values.revision(key_of("c", ns, id))

    def has(self, ns: str, id: str) -> bool:
        """Whether a checkpoint is there, once what is being put is there or refused."""
        with self.lock:
            return self.revision(ns, id) > 0

    def stored(self, ns: str, id: str | None) -> Stored | None:
        """Return a checkpoint, by default the newest of its namespace; None if there is none."""
        while id is None:
            newest = self._values.get(key_of("h", ns))
            if newest is None:
                return None
            found = self.stored(ns, str(newest.value))
            if found is not None:  # else it was removed meanwhile
                return found
        value = self._values.get(key_of("c", ns, id))
        return None if value is None else decode_checkpoint(bytes_of(value.value))

    def ids(self, ns: str) -> list[str]:
        """Return the ids of the checkpoints of a namespace, newest first."""
        start = key_of("c", ns, "")
        keys = self._values.keys(start)
        return sorted((unquote(key.removeprefix(start)) for key in keys), reverse=True)

    def all(self) -> list[tuple[Stored, int]]:
        """Return the checkpoints of all namespaces, each with the version that put it."""
        return [(decode_checkpoint(bytes_of(found.value)), found.revision) for found in self._values.items("c/")]

    def spaces(self) -> list[str]:
        """Return the namespaces that have checkpoints."""
        newest = [(found.key.removeprefix("h"), str(found.value)) for found in self._values.items("h/")]
        values = [self._values.get(f"c{space}/{quoted(id)}") for space, id in newest]
        return sorted(decode_checkpoint(bytes_of(found.value)).ns for found in values if found is not None)

    def channel(self, stored: Stored, name: str) -> Any:
        """Return the value of a channel that a checkpoint has."""
        if name not in stored.values:
            with self.lock:
                items = self.list.load(self.revision(stored.ns, stored.id))
            return items if stored.told == "list" else _DeltaSnapshot(items)
        kind, data = stored.values[name]
        if kind == BLOB:
            found = self._values.get(f"b/{data.decode()}")
            if found is None:
                raise DamagedError("the value of a channel is missing", session=self.session.id)
            packed, _, data = bytes_of(found.value).partition(b"\0")
            kind = packed.decode()
        return self.serde.loads_typed((kind, data))

    def writes(self, ns: str, id: str) -> list[Write]:
        """Return what tasks wrote to a checkpoint, in the order in which it is applied."""
        found: list[Write] = []
        for one in self._values.items(key_of("w", ns, id, "")):
            task = unquote(one.key.rpartition("/")[2])
            found += [replace(write, task=task) for write in decode_writes(bytes_of(one.value))]
        return sorted(found, key=lambda write: writes_sort_key(write.path, write.task, write.place))

    def before(self, stored: Stored) -> tuple[Stored | None, list[Write]]:
        """Return what a checkpoint comes of, if that is left, and what was written since."""
        ns = stored.ns
        parent = None if stored.parent is None else self.stored(ns, stored.parent)
        if parent is not None:
            return parent, self.writes(ns, parent.id)
        since = self.since(ns, stored.id)
        return None if since.id is None else self.stored(ns, since.id), since.writes

    def since(self, ns: str, id: str) -> Since:
        """Return what a checkpoint comes of whose parent was removed."""
        found = self._values.get(key_of("s", ns, id))
        return Since(None, []) if found is None else decode_since(bytes_of(found.value))

    # -- writing -------------------------------------------------------------------------------

    def put(
        self,
        ns: str,
        parent: str | None,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        *,
        new: Mapping[str, Any],
        wait: float,
        is_copy: bool = False,
    ) -> None:
        """Store a checkpoint and, of the root namespace, its messages; a copy needs no parent."""
        given: dict[str, Any] = dict(checkpoint.get("channel_values") or {})
        body = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        id: str = checkpoint["id"]
        told, items = self._messages(ns, given)

        def append(version: int) -> bool:
            before = None if parent is None else self.stored(ns, parent)
            if parent is not None and before is None and not is_copy and not self._is_left(ns, parent):
                raise NotFoundError("checkpoint", parent, session=self.session.id)
            same = self._unchanged(before, body["channel_versions"], new)
            keep: dict[str, str | bytes] = {}
            values: dict[str, Typed] = {}
            has = told
            if before is not None:
                values = {name: value for name, value in before.values.items() if name in same}
                has = before.told if MESSAGES in same and not told else told
            values |= {name: self._kept(value, keep) for name, value in given.items() if name not in values}
            dumps = self.serde.dumps_typed
            keep[key_of("c", ns, id)] = encode(Stored(ns, id, parent, dumps(body), dumps(metadata), values, has))
            found = self._values.get(key_of("h", ns))
            newest = "" if found is None else str(found.value)
            if newest < id:
                keep[key_of("h", ns)] = id
            run = run_in(metadata)
            if run and not self._values.revision(key_of("r", run)):
                keep[key_of("r", run)] = b""
            if ns:
                self.list.feed.add([], keep=keep, version=version)
                return False
            line = [] if before is None else self.list.line(self.revision(ns, before.id))
            if MESSAGES in same:
                entries = line
            elif told or MESSAGES in given:
                entries = self.list.given(line, items)
            elif MESSAGES in (metadata.get(DELTAS) or ()):
                entries = self._from_writes(line, before, body["channel_versions"])
            else:  # the channel is empty
                entries = []
            line = self.list.tell(line, entries, keep, version)
            self.list.keep(self.revision(ns, id), line)
            return newest > id

        if self._decided(append, wait):
            self._decided(self._show_newest, wait)

    def _show_newest(self, version: int) -> None:
        """Show the list of the newest checkpoint again, after one that was made before it."""
        newest = self.stored("", None)
        numbers = [] if newest is None else self.list.feed.path(self.revision("", newest.id))
        self.list.feed.add([], after=numbers[-1] if numbers else 0, version=version)

    def put_writes(
        self, ns: str, id: str, writes: Sequence[tuple[str, Any]], task: str, path: str, *, run: str, wait: float
    ) -> bool:
        """Store what a task wrote to a checkpoint; False if there is no such checkpoint."""
        key = key_of("w", ns, id, task)
        given = [(channel, self.serde.dumps_typed(value)) for channel, value in writes]

        def append(version: int) -> bool:
            if not self.revision(ns, id):
                return self._is_left(ns, id)  # it was pruned, and the one that comes of it has what was written
            found = self._values.get(key)
            before = {} if found is None else {one.place: one for one in decode_writes(bytes_of(found.value))}
            after = dict(before)
            for index, (channel, value) in enumerate(given):
                place = WRITES_IDX_MAP.get(channel, index)
                if place < 0 or place not in before:
                    after[place] = Write(channel, value, place, path, run=run)
            if after != before:
                self.list.feed.add([], keep={key: encode(list(after.values()))}, version=version)
            return True

        return self._decided(append, wait)

    def _decided(self, append: Callable[[int], T], wait: float) -> T:
        """Decide and append at the version of now, again if another writer was quicker.

        The lease is waited for without the lock: its holder needs the lock to go on.
        """
        executor = self.session.executor

        def decide() -> T:
            backoff = Backoff()
            with self.lock:
                while True:
                    try:
                        return append(self.session.version)
                    except ConflictError:
                        if not backoff.goes_on():
                            raise

        def decide_again() -> T:
            executor.require_no_owner()  # deciding costs more than this look
            return decide()

        try:
            return decide()
        except LeaseHeldError:
            if executor.leases.held is not None or wait <= 0:
                raise
        return unless_held(decide_again, wait)

    def _is_left(self, ns: str, id: str) -> bool:
        """Whether a checkpoint was removed, and others that come of it were not."""
        return any(found is not None and found.parent == id for found in (self.stored(ns, one) for one in self.ids(ns)))

    def _messages(self, ns: str, given: dict[str, Any]) -> tuple[str, list[Any]]:
        """Take the messages out of the values; return how a checkpoint has them, and them."""
        found = None if ns or not self._tells else given.get(MESSAGES)
        told = "snapshot" if isinstance(found, _DeltaSnapshot) else "list"
        items = found.value if isinstance(found, _DeltaSnapshot) else found
        if not isinstance(items, list):
            return "", []
        del given[MESSAGES]
        return told, items  # pyright: ignore[reportUnknownVariableType]

    def _unchanged(self, before: Stored | None, versions: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
        """Return the channels that have the value that they have in the checkpoint before."""
        if before is None:
            return set()
        known = self.serde.loads_typed(before.checkpoint)["channel_versions"]
        return {name for name, version in versions.items() if name not in new and known.get(name) == version}

    def _from_writes(self, line: list[Entry], before: Stored | None, versions: Mapping[str, Any]) -> list[Entry]:
        """Return the messages of a checkpoint that has no list of them: a `DeltaChannel`'s."""
        if before is None or MESSAGES not in versions or not self._tells:
            return []
        writes = (one.value for one in self.writes(before.ns, before.id) if one.channel == MESSAGES)
        return self.list.written(line, map(self.serde.loads_typed, writes))

    def _kept(self, value: Any, keep: dict[str, str | bytes]) -> Typed:
        """Return how a checkpoint has a value, which is stored once for all that have it."""
        kind, data = self.serde.dumps_typed(value)
        if len(data) <= SMALL:
            return kind, data
        packed = kind.encode() + b"\0" + data
        digest = sha256(packed).hexdigest()[:32]
        if not self._values.revision(f"b/{digest}"):
            keep[f"b/{digest}"] = packed
        return BLOB, digest.encode()
