"""Tree of keys and their changes, whose nodes are rows of an index of values.

A compressed radix tree over the UTF-8 of the keys:

* a *leaf* has up to `LEAF_KEYS` keys, in order;
* an *inner* node has the longest common prefix of all keys below it, the next byte of each child,
  and the versions of the key that ends there. A child is named by the prefix and that byte.

So a key is found, and a value put, in a few small rows among any number of keys, and keys with a
prefix are read without the others. Of a key's versions the newest are in its node, and older ones
in chunks of `CHUNK` that never change: a fork finds what was newest at its version.

Keys are never removed, so the state of a node follows from the events alone, however many of them
are applied at a time. To apply an event again changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from eventlog import events as ev
from eventlog.history.derived import decoded
from eventlog.history.effective_history import END

LEAF_KEYS = 16
CHUNK = 32
"""Versions of a key in one chunk."""
NODE, CHUNK_ROW = b"n", b"c"
"""Kinds of rows."""


class Change(NamedTuple):
    """A value that was put or dropped, at a version."""

    version: int
    key: bytes
    dropped: bool


class Entry(msgspec.Struct, array_like=True):
    """A key with the versions of its changes, oldest first, doubled: odd ones are drops."""

    key: bytes
    versions: list[int]
    chunks: int = 0
    """Full chunks of older versions."""

    def __lt__(self, other: Entry) -> bool:
        return self.key < other.key


class Node(msgspec.Struct, array_like=True):
    """A leaf, or an inner node: one with children."""

    prefix: bytes
    children: bytes
    """The next bytes after the prefix, ascending."""
    entries: list[Entry]


_decode_node = msgspec.msgpack.Decoder(Node).decode
_decode_chunk = msgspec.msgpack.Decoder(list[int]).decode


def key_bytes(key: str) -> bytes:
    """Return a key as it is compared: its UTF-8, so that the order is that of code points."""
    return key.encode("utf-8", "surrogatepass")


def changes_in(items: Iterable[tuple[int, object]]) -> list[Change]:
    """Return the changes of values among events with their versions."""
    return [
        Change(version, key_bytes(event.key), type(event) is ev.ValueDropped)
        for version, event in items
        if isinstance(event, (ev.ValuePut, ev.ValueDropped))
    ]


class ValueTree:
    """The nodes of an index, read when they are needed; `changed` has those to be stored."""

    def __init__(self, row: Callable[[bytes], bytes | None], key: Callable[[bytes, bytes], bytes]) -> None:
        self._row = row
        self._key = key
        self._nodes: dict[bytes, Node] = {}
        self.changed: dict[bytes, tuple[int, Node | list[int]]] = {}
        """Rows by key, each with the version that changed it."""
        self._chunks: dict[bytes, list[int]] = {}

    def __len__(self) -> int:
        return len(self._nodes) + len(self._chunks)

    # -- looking up --------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether it has no root."""
        return self._node(b"") is None

    def newest(self, key: bytes, upto: int) -> Change | None:
        """Return the newest change of a key up to a version, None if there is none."""
        name = b""
        while (node := self._node(name)) is not None:
            entry = _find(node, key)
            if entry is not None:
                return self._as_of(entry, upto)
            at = len(node.prefix)
            if not node.children or not key.startswith(node.prefix) or len(key) == at or key[at] not in node.children:
                return None
            name = key[: at + 1]
        return None

    def newest_of_all(self, prefix: bytes, upto: int, after: bytes = b"") -> Iterator[Change]:
        """Yield the newest change up to a version of every key with a prefix, in key order.

        Nodes whose keys are all up to `after` are not read.
        """
        waiting: list[bytes] = [b""]
        while waiting:
            node = self._node(waiting.pop())
            if node is None:
                continue
            for entry in node.entries:
                if (
                    entry.key > after
                    and entry.key.startswith(prefix)
                    and (found := self._as_of(entry, upto)) is not None
                ):
                    yield found
            below = [node.prefix + bytes((byte,)) for byte in reversed(node.children)]
            below = [name for name in below if name >= after[: len(name)]]
            waiting += [name for name in below if name.startswith(prefix) or prefix.startswith(name)]

    def _as_of(self, entry: Entry, upto: int) -> Change | None:
        bound = min(upto, END) * 2 + 1
        versions = entry.versions
        if versions[0] > bound and entry.chunks:
            number = bisect_right(range(entry.chunks), bound, key=lambda each: self._chunk(entry.key, each)[0]) - 1
            versions = self._chunk(entry.key, number) if number >= 0 else []
        place = bisect_right(versions, bound) - 1
        if place < 0:
            return None
        return Change(versions[place] // 2, entry.key, versions[place] % 2 == 1)

    # -- changing ----------------------------------------------------------------------------------

    def apply(self, change: Change) -> None:
        """Take in a change; one that is known already changes nothing."""
        key, version = change.key, change.version
        name = b""
        node = self._node(name)
        if node is None:
            node = self._nodes[b""] = Node(b"", b"", [])
        while node.children and key != node.prefix:
            if not key.startswith(node.prefix):
                self._branch(name, node, key, version)
                continue
            at = len(node.prefix)
            below = key[: at + 1]
            if key[at] in node.children:
                child = self._node(below)
                assert child is not None  # or it is lost, and `_node` has raised
            else:
                node.children = bytes(sorted((*node.children, key[at])))
                self._change(name, node, version)
                child = self._nodes[below] = Node(b"", b"", [])
            name, node = below, child
        self._add(name, node, change)

    def _branch(self, name: bytes, node: Node, key: bytes, version: int) -> None:
        """Put a node with a shorter prefix above one whose prefix the key does not have."""
        length = _common(node.prefix, key)
        below = node.prefix[: length + 1]
        self._nodes[below] = Node(node.prefix, node.children, node.entries)
        self._change(below, self._nodes[below], version)
        node.prefix, node.children, node.entries = below[:length], below[length:], []
        self._change(name, node, version)

    def _add(self, name: bytes, node: Node, change: Change) -> None:
        entry = _find(node, change.key)
        if entry is None:
            entry = Entry(change.key, [])
            insort(node.entries, entry)
        elif entry.versions[-1] // 2 >= change.version:
            return
        entry.versions.append(change.version * 2 + change.dropped)
        if len(entry.versions) > CHUNK:
            key = self._key(CHUNK_ROW, _chunk_name(entry.key, entry.chunks))
            self._chunks[key] = entry.versions[:CHUNK]
            self.changed[key] = (entry.versions[CHUNK - 1] // 2, self._chunks[key])
            entry.versions, entry.chunks = entry.versions[CHUNK:], entry.chunks + 1
        self._change(name, node, change.version)
        if not node.children and len(node.entries) > LEAF_KEYS:
            self._split(node, change.version)

    def _split(self, node: Node, version: int) -> None:
        """Turn a leaf into an inner node with leaves below it."""
        entries = node.entries
        length = _common(entries[0].key, entries[-1].key)
        node.prefix = entries[0].key[:length]
        node.entries = [entry for entry in entries if len(entry.key) == length]
        for entry in entries[len(node.entries) :]:
            below = entry.key[: length + 1]
            if below[-1:] not in node.children:
                node.children += below[-1:]
                self._nodes[below] = Node(b"", b"", [])
                self._change(below, self._nodes[below], version)
            self._nodes[below].entries.append(entry)

    def _change(self, name: bytes, node: Node, version: int) -> None:
        self.changed[self._key(NODE, name)] = (version, node)

    # -- rows --------------------------------------------------------------------------------------

    def _node(self, name: bytes) -> Node | None:
        """Return the node of a name; None if it is the root and there is none."""
        node = self._nodes.get(name)
        if node is None:
            row = self._row(self._key(NODE, name))
            if row is None and not name:
                return None
            node = self._nodes[name] = decoded(_decode_node, row)
        return node

    def _chunk(self, key: bytes, number: int) -> list[int]:
        name = self._key(CHUNK_ROW, _chunk_name(key, number))
        if name not in self._chunks:
            self._chunks[name] = decoded(_decode_chunk, self._row(name))
        return self._chunks[name]


def _find(node: Node, key: bytes) -> Entry | None:
    entries = node.entries
    at = bisect_left(entries, key, key=lambda entry: entry.key)
    return entries[at] if at < len(entries) and entries[at].key == key else None


def _chunk_name(key: bytes, number: int) -> bytes:
    return number.to_bytes(4, "big") + key


def _common(one: bytes, other: bytes) -> int:
    """Return the length of the longest common prefix."""
    length = min(len(one), len(other))
    return next((at for at in range(length) if one[at] != other[at]), length)
