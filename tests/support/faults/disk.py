"""Possible disk contents after a power failure, from a process's traced system calls."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.support.faults.tracing import CHANGES, Call

SECTOR = 512
HOW = ("kept", "lost", "any", "torn")
"""Fates of unflushed writes: all, none, any of them in any order, any sectors."""


class _Write(NamedTuple):
    """Bytes at an offset, or (None) a new size: exactly, or at least."""

    at: int
    data: bytes | None
    exactly: bool = True


@dataclass
class _Node:
    """A file or a directory, independent of its names."""

    entries: dict[str, _Node] | None = None
    """A directory's current entries."""
    base: bytearray = field(default_factory=bytearray)
    """A file's bytes on disk."""
    writes: list[tuple[_Write, bool]] = field(default_factory=list[tuple[_Write, bool]])
    """The writes after that, and whether each is on disk too."""
    seen: list[bytes] = field(default_factory=list[bytes])
    """The values that mapped memory had."""

    def flush(self) -> None:
        """Take all writes as on disk."""
        for write, _ in self.writes:
            _put(self.base, write)
        self.writes.clear()

    def after(self, how: str, chance: random.Random) -> bytes:
        """The file's bytes after the power failure."""
        if self.seen:
            return self.seen[-1] if how == "kept" else chance.choice([bytes(len(self.seen[0])), *self.seen])
        found = bytearray(self.base)
        for write, durable in self.writes:
            for piece in [write] if durable or how == "kept" else _pieces(write, how, chance):
                _put(found, piece)
        return bytes(found)


@dataclass
class _Change:
    """A name that appears, or (`node` None) disappears; a rename is both at once."""

    directory: _Node
    name: str
    node: _Node | None
    source: tuple[_Node, str] | None = None
    durable: bool = False

    def touches(self, directory: _Node) -> bool:
        """Whether a flush of the directory makes this change durable."""
        return self.directory is directory or (self.source is not None and self.source[0] is directory)


class Recorder:
    """Records the calls that change a directory, to build what they may leave on disk."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.calls: list[tuple[Call, dict[str, bytes]]] = []
        """The calls, each with the watermarks that changed."""
        self._known: dict[str, bytes] = {}
        self._begin = _copy(root)

    def note(self, call: Call) -> int:
        """Record the call and let it be made, for `tracing.traced`."""
        if call.name in CHANGES and f"{call.path}/".startswith(f"{self._root}/"):
            self.calls.append((call, self._changed_marks()))
        return 0

    def _changed_marks(self) -> dict[str, bytes]:
        changed: dict[str, bytes] = {}
        for path in self._root.glob("*/mark"):
            data = path.read_bytes()
            if self._known.get(str(path)) != data:
                self._known[str(path)] = changed[str(path)] = data
        return changed

    def forget_flushes(self) -> None:
        """Make it a recording of a disk that ignores every flush."""
        self.calls = [(call._replace(synced=False), marks) for call, marks in self.calls if call.name != "flush"]

    def telling(self) -> list[int]:
        """Counts of calls right before a flush or a rename, where most is still unflushed."""
        due = {"flush", "rename", "unlink", "rmdir"}
        calls = [call for call, _ in self.calls]
        return [
            count
            for count in range(1, len(calls) + 1)
            if count == len(calls) or calls[count].name in due or calls[count].synced
        ]

    def image(
        self, into: Path, count: int, how: str, chance: random.Random, *, told: frozenset[str] = frozenset()
    ) -> None:
        """Build in `into` what a power failure after `count` calls leaves, `told` files whole."""
        disk = _Disk(self._root, self._begin.copied())
        for call, marks in self.calls[:count]:
            disk.do(call)
            for path, data in marks.items():
                disk.seen(path, data)
        disk.after(into, how, chance, told)


class _Tree(NamedTuple):
    """A snapshot of a directory."""

    files: dict[str, bytes]
    directories: dict[str, _Tree]

    def copied(self) -> _Node:
        """Copy the tree into new nodes."""
        entries = {name: _Node(base=bytearray(data)) for name, data in self.files.items()}
        return _Node(entries | {name: tree.copied() for name, tree in self.directories.items()})


def _copy(root: Path) -> _Tree:
    tree = _Tree({}, {})
    for entry in root.iterdir():
        if entry.is_dir():
            tree.directories[entry.name] = _copy(entry)
        else:
            tree.files[entry.name] = entry.read_bytes()
    return tree


class _Disk:
    """The disk: flushed contents, and the writes that are not flushed yet."""

    def __init__(self, root: Path, node: _Node) -> None:
        self._root = root
        self._node = node
        self._changes: list[_Change] = []
        self._before = _names(node)

    def _find(self, path: str) -> tuple[_Node, str, _Node | None] | None:
        """The directory, the name, and its node; None if the directory does not exist."""
        *above, name = Path(path).relative_to(self._root).parts
        node: _Node | None = self._node
        for step in above:
            node = None if node is None or node.entries is None else node.entries.get(step)
        if node is None or node.entries is None:
            return None
        return node, name, node.entries.get(name)

    def seen(self, path: str, data: bytes) -> None:
        """The values that a watermark had."""
        found = self._find(path)
        if found is not None and found[2] is not None:
            found[2].seen.append(data)

    def do(self, call: Call) -> None:
        """Apply one recorded call; a call that failed on the real disk changes nothing."""
        if call.name == "flush" and Path(call.path) == self._root:
            self._flush_names(self._node)
            return
        found = self._find(call.path)
        if found is None:
            return
        directory, name, node = found
        assert directory.entries is not None
        match call.name:
            case "create" | "mkdir" if node is None:
                made = _Node({} if call.name == "mkdir" else None)
                directory.entries[name] = made
                self._changes.append(_Change(directory, name, made))
            case "unlink" | "rmdir" if node is not None and not node.entries:
                del directory.entries[name]
                self._changes.append(_Change(directory, name, None))
            case "rename" if node is not None:
                to = self._find(call.other)
                assert to is not None
                assert to[0].entries is not None
                to[0].entries[to[1]] = directory.entries.pop(name)
                self._changes.append(_Change(to[0], to[1], node, (directory, name)))
            case "link" if node is not None:
                to = self._find(call.other)
                assert to is not None
                assert to[0].entries is not None
                if to[2] is None:
                    to[0].entries[to[1]] = node
                    self._changes.append(_Change(to[0], to[1], node))
            case "write" if node is not None:
                node.writes.append((_Write(call.offset, call.data), call.synced))
            case "truncate" if node is not None:
                node.writes.append((_Write(call.offset, None), False))
            case "allocate" if node is not None:
                node.writes.append((_Write(call.offset, None, exactly=False), False))
            case "flush" if node is not None and node.entries is None:
                node.flush()
            case "flush" if node is not None:
                self._flush_names(node)
            case "create" | "mkdir" | "unlink" | "rmdir" | "rename" | "link":
                pass
            case _:
                raise AssertionError(f"what does this leave? {call}")

    def _flush_names(self, directory: _Node) -> None:
        for change in self._changes:
            change.durable = change.durable or change.touches(directory)

    def after(self, into: Path, how: str, chance: random.Random, told: frozenset[str]) -> None:
        """Build the directory after the power failure."""
        last = len(self._changes)
        cut = last if how == "kept" else 0 if how == "lost" else chance.randrange(last + 1)
        names = self._before
        for number, change in enumerate(self._changes):
            mine = change.directory is self._node and change.name in told
            if not (change.durable or mine or number < cut):
                continue
            entries = names.setdefault(id(change.directory), {})
            if change.source is not None:
                names.setdefault(id(change.source[0]), {}).pop(change.source[1], None)
            if change.node is None:
                entries.pop(change.name, None)
            else:
                entries[change.name] = change.node
        waiting = [(into, self._node)]
        made: dict[int, Path] = {}
        while waiting:
            path, node = waiting.pop()
            path.mkdir(mode=0o700)
            for name, entry in names.get(id(node), {}).items():
                if entry.entries is not None:
                    waiting.append((path / name, entry))
                elif id(entry) in made:
                    (path / name).hardlink_to(made[id(entry)])
                else:
                    lasts = name in told and path == into
                    (path / name).write_bytes(entry.after("kept" if lasts else how, chance))
                    (path / name).chmod(0o600)
                    made[id(entry)] = path / name


def _names(node: _Node) -> dict[int, dict[str, _Node]]:
    """The names in every directory."""
    found: dict[int, dict[str, _Node]] = {}
    if node.entries is not None:
        found[id(node)] = dict(node.entries)
        for entry in node.entries.values():
            found |= _names(entry)
    return found


def _pieces(write: _Write, how: str, chance: random.Random) -> list[_Write]:
    """The parts of a write that reach the disk; a new size does or does not."""
    if write.data is None:
        return [write] if how != "lost" and chance.random() < 0.5 else []
    if how == "kept" or (how == "any" and chance.random() < 0.5):
        return [write]
    if how != "torn":
        return []
    first, end = write.at, write.at + len(write.data)
    edges = [first, *range(first // SECTOR * SECTOR + SECTOR, end, SECTOR), end]  # aligned as the disk's are
    return [_Write(at, write.data[at - first : to - first]) for at, to in pairwise(edges) if chance.random() < 0.5]


def _put(file: bytearray, write: _Write) -> None:
    end = write.at if write.data is None else write.at + len(write.data)
    if len(file) < end:
        file.extend(bytes(end - len(file)))
    if write.data is not None:
        file[write.at : end] = write.data
    elif write.exactly:
        del file[end:]
