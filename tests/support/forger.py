"""Forge committed history below every check, for tests that the change is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from eventlog import Session, Store
from eventlog import events as ev
from eventlog.codec.batch import Entry, decode
from eventlog.codec.deltas import DeltaRun
from eventlog.compression import PLAIN
from eventlog.log.commit import Commit, Head
from eventlog.log.embedded.generations import files_of
from eventlog.log.embedded.segments import layout
from eventlog.log.embedded.segments.blocks import Block, lay
from eventlog.log.embedded.segments.chunk import encode_chunk
from eventlog.log.embedded.segments.layout import ChunkRow, HeadRow, PieceLocation
from eventlog.log.embedded.segments.segments import Segments
from eventlog.log.memory import MemoryLog
from eventlog.log.merkle import TAG_BYTES, grow, leaf_data, leaf_hash

_encode = msgspec.msgpack.Encoder().encode
_FORGED = ev.SessionRenamed("forged")
Items = list[Any]


class Forgery(NamedTuple):
    """Another history: the forger's action, the first changed version, and the commits."""

    name: str
    version: int
    commits: list[Commit]


def begun(store: Store) -> Session:
    """The session `a` to forge: with deltas, a tool and a large text."""
    session = store.create_session(id="a", title="t")
    session.user("question")
    with session.assistant(model="acme/one") as reply:
        text = reply.stream_text()
        text.append("an ")
        text.append("answer")
        reply.tool("bash", call_id="c1", input={"command": "ls"}).succeed("x" * 2000)
        reply.finish("stop")
    return session


def forgeries(commits: list[Commit]) -> Iterator[Forgery]:
    """Every event dropped, edited, swapped, and one inserted at every version."""
    batches = [list(_items(commit)) for commit in commits]
    places = [(number, index) for number, items in enumerate(batches) for index in range(len(items))]
    for (number, index), following in zip(places, [*places[1:], None], strict=True):
        version = commits[number].first
        shown = f"event {index} of the append at {version}"
        for name, change in (("dropped", _drop), ("edited", _edit), ("inserted before", _insert)):
            changed = [*batches[:number], change(batches[number], index), *batches[number + 1 :]]
            yield Forgery(f"{name} {shown}", version, _numbered(commits, changed))
        if following is not None:
            changed = [list(items) for items in batches]
            (other, place) = following
            changed[number][index], changed[other][place] = batches[other][place], batches[number][index]
            if changed != batches:
                yield Forgery(f"swapped {shown} with the next", version, _numbered(commits, changed))
    extra = [*batches, [_FORGED]]
    last = commits[-1]
    appended = [*commits, replace(last, first=last.last + 1, position=last.position + last.count)]
    yield Forgery("appended", last.last + 1, _numbered(appended, extra))
    for number, commit in enumerate(commits):
        rest: list[Items] = [[] if place == number else items for place, items in enumerate(batches)]
        yield Forgery(f"dropped the append at {commit.first}", commit.first, _numbered(commits, rest))


def _items(commit: Commit) -> Iterator[Any]:
    """The events of a commit, deltas one by one."""
    for entry in decode(commit.payload).entries:
        if isinstance(entry, DeltaRun):
            yield from (entry.cut(place, place + 1) for place in range(entry.count))
        else:
            yield entry.event


def _drop(items: Items, at: int) -> Items:
    return items[:at] + items[at + 1 :]


def _insert(items: Items, at: int) -> Items:
    return [*items[:at], _FORGED, *items[at:]]


def _edit(items: Items, at: int) -> Items:
    item = items[at]
    changed = replace(item, text=item.text[:-1] + "~") if isinstance(item, DeltaRun) else _FORGED
    return [*items[:at], changed, *items[at + 1 :]]


def _numbered(commits: list[Commit], batches: list[Items]) -> list[Commit]:
    """Commits of these events, with versions and positions without gaps; empty ones dropped."""
    first, position = commits[0].first, commits[0].position
    found: list[Commit] = []
    for commit, items in zip(commits, batches, strict=True):
        if items:
            entries = [item if isinstance(item, DeltaRun) else Entry(0, item) for item in items]
            same = items == list(_items(commit))
            payload = commit.payload if same else _encode(replace(decode(commit.payload), entries=entries))
            found.append(replace(commit, first=first, count=len(items), position=position, payload=payload))
        first, position = first + len(items), position + len(items)
    return found


def careful(commits: list[Commit]) -> list[Commit]:
    """Return the commits with leaves that fit them."""
    return [replace(commit, leaf=leaf_hash(leaf_data(commit))[:TAG_BYTES]) for commit in commits]


def head_of(head: Head, commits: list[Commit], *, tree: bool) -> Head:
    """The head of such a history; with `tree` also the hash tree made anew."""
    last = commits[-1]
    changed = replace(head, version=last.last, position=last.position + last.count - 1)
    if not tree:
        return changed
    peaks = b""
    for number, commit in enumerate(commits):
        peaks = grow(number, peaks, leaf_hash(leaf_data(commit)))
    return replace(changed, appends=len(commits), peaks=peaks)


def rewrite_memory(log: MemoryLog, session: str, commits: list[Commit], *, tree: bool) -> None:
    """Replace a session's history in memory."""
    log._sessions[session] = commits
    log._heads[session] = head_of(log._heads[session], commits, tree=tree)


def rewrite(path: Path, session: str, commits: list[Commit], *, tree: bool) -> None:
    """Put another history in place of a session's, in the folded part of a closed store."""
    segments = Segments(files_of(path) / "lmdb", read_only=False, map_bytes=1 << 20)
    trees = segments.environment.trees

    def job(txn: Any) -> None:
        row = segments.row_in(txn, session)
        assert row is not None
        with txn.cursor(db=trees["commits"]) as cursor:
            keys = [bytes(key) for key in cursor.iternext(values=False) if layout.PAIR.unpack(key)[0] == row.number]
        for key in keys:
            txn.delete(key, db=trees["commits"])
        with txn.cursor(db=trees["data"]) as cursor:
            assert cursor.last()
            slot = layout.NUMBER.unpack(cursor.key())[0] + 1
        head = head_of(row.head(session), commits, tree=tree)
        for number, piece in enumerate(_without_gaps(commits)):
            plain, last = b"".join(encode_chunk(session, piece)), piece[-1]
            block = lay(Block(plain, len(plain), PLAIN), slot + number, 0)
            txn.put(layout.NUMBER.pack(slot + number), block, db=trees["data"])
            where = PieceLocation(slot + number, 0, 0, len(plain))
            chunk = ChunkRow(where, last.last, piece[0].position, last.position + last.count - 1)
            key = layout.PAIR.pack(row.number, piece[0].first)
            txn.put(key, layout.protect(key, layout.encode(chunk)), db=trees["commits"])
        _put_row(txn, trees["sessions"], session, row, head)

    try:
        segments.environment.writing(job)
    finally:
        segments.close()


def _without_gaps(commits: list[Commit]) -> Iterator[list[Commit]]:
    """The commits, in pieces whose versions are contiguous."""
    start = 0
    for number in range(1, len(commits) + 1):
        if number == len(commits) or commits[number].first != commits[number - 1].last + 1:
            yield commits[start:number]
            start = number


def _put_row(txn: Any, tree: Any, session: str, row: HeadRow, head: Head) -> None:
    key = layout.session_key(session)
    changed = replace(row, version=head.version, position=head.position, appends=head.appends, peaks=head.peaks)
    txn.put(key, layout.protect(key, layout.encode(changed)), db=tree)
