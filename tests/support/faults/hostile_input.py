"""Feeds any bytes to every reader of outside bytes and allows typed errors only."""

from __future__ import annotations

import io
import os
import struct
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import msgspec

import eventlog
from eventlog.codec.batch import decode, decode_value
from eventlog.codec.decoded import events_of
from eventlog.codec.large_texts import body_text, pieces_of
from eventlog.codec.payload import LEDGER, REMAINS
from eventlog.compression import pack
from eventlog.errors import CallError, DamagedError, DataError, ImportFormatError
from eventlog.events import SessionForked
from eventlog.importers import FORMATS, detect, import_file
from eventlog.integrity.fork_anchor import read_prefix
from eventlog.integrity.heads import StoreHead
from eventlog.integrity.scrub_ledger import read_ledger
from eventlog.log.commit import Append, Commit
from eventlog.log.embedded.journal import frames
from eventlog.log.embedded.segments.chunk import decode_chunk, encode_chunk
from eventlog.log.embedded.segments.pages import is_whole
from eventlog.state.chunk import pack_rows, unpack_rows
from eventlog.state.run import Bucket
from eventlog.state.stored import canonical, decode_state
from eventlog.values import Body, Origin
from projections.cli.app import run
from projections.cli.exits import Exit
from projections.cli.registry import COMMANDS
from tests.support.stored_rows import DictRows

NAMES = sorted(FORMATS)


def stored(data: bytes) -> None:
    """Stored bytes: payloads, catalog entries, bodies, frames, checkpoints."""
    with suppress(DataError):
        decode(data)
    for count in (1, 3):
        with suppress(DataError):
            assert len(list(events_of(Commit("s", 1, count, 1, 0, 0, data)))) == count
    with suppress(DataError):
        decode_value(data, Origin)
    with suppress(DataError):
        frames.decode_records(data, 1)
    with suppress(DamagedError):
        body_text(Body(bytes(32), 100, 100), data)
    with suppress(DamagedError):
        list(pieces_of(Body(bytes(32), 100, 100), data))
    with suppress(msgspec.MsgspecError, ValueError):
        decode_state(data, DictRows(), "s")
    with suppress(msgspec.MsgspecError, ValueError):
        decode_state(pack(data), DictRows(), "s")
    with suppress(msgspec.MsgspecError, ValueError):
        unpack_rows(data)
    with suppress(ValueError):
        Bucket(data)


def frame(data: bytes) -> None:
    """Bytes of a journal file."""
    if len(data) < 8 + frames.FRAME_HEADER_BYTES:
        return
    header = frames.parse_frame_header(data, 0, data[:8])
    if header is not None:
        frames.payload_matches(header, data[frames.FRAME_HEADER_BYTES :], data[:8], 0)
    with suppress(DataError):
        frames.parse_file_header(data[: frames.FILE_HEADER_BYTES], 1)


def kept(data: bytes) -> None:
    """Bytes of a chunk, a fork's anchor, a scrub ledger, and LMDB's meta pages."""
    with suppress(DamagedError):
        decode_chunk(data, None, 1)
    with suppress(DamagedError):
        assert read_prefix(data).appends
    with eventlog.open("memory:") as store:
        append = Append(session=LEDGER, payload=REMAINS + data, count=1, time=1, entry=REMAINS, creates_at=0)
        store.log.submit(append).wait()
        with suppress(DataError):
            read_ledger(store.log)
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "data.mdb").write_bytes(data)
        with suppress(DamagedError):
            is_whole(Path(directory))


def head(data: bytes) -> None:
    """A saved head."""
    with suppress(CallError):
        StoreHead.parse(data)


def imported(data: bytes, format: str | None = None) -> None:
    """Import a file of any format: repeating adds nothing, and every event can be read."""
    with eventlog.open("memory:") as store:
        try:
            report = import_file(store, _file(data), format=format)
        except ImportFormatError:
            return
        assert report.events == sum(store.info(name).events for name in report.sessions)
        for name in report.sessions:
            for _ in store.session(name).events():
                pass
        assert import_file(store, _file(data), format=report.format).events == 0


def importers(data: bytes) -> None:
    """Import bytes whose first names the format; or detect it."""
    with suppress(ImportFormatError):
        detect(data, "file")
    imported(data[1:], None if not data else ([None, *NAMES])[data[0] % (len(NAMES) + 1)])


def _file(data: bytes) -> Any:
    file = io.BytesIO(data)
    file.name = "hostile"
    return file


LASTING = {"demo", "serve"}
"""Commands that last for a while, or until they are stopped."""


def commands(data: bytes) -> None:
    """Run a command line, one word per line: a documented exit code and no traceback."""
    words = [word for word in data.decode(errors="surrogateescape").split("\n") if "\0" not in word]
    if any("/" in word or ".." in word or "http" in word or word in LASTING for word in words):
        return  # outside that directory, or too long
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as directory:
        try:
            os.chdir(directory)
            with eventlog.open("store") as store:
                session = store.create_session(id="ses_a1", title="Fix it")
                session.user("The tests fail", id="m1")
            told, warned = io.StringIO(), io.StringIO()
            with redirect_stdout(told), redirect_stderr(warned):
                code = run(["--store", "store", *words])
            assert code in set(Exit) - {Exit.DEFECT, Exit.INTERRUPTED, Exit.PIPE}, (words, code, warned.getvalue())
            assert "Traceback" not in warned.getvalue(), words
        finally:
            os.chdir(before)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "stored": stored,
    "frame": frame,
    "kept": kept,
    "head": head,
    "importers": importers,
    "commands": commands,
}


def corpus(target: str, data: Path) -> list[bytes]:
    """Sound inputs to start with: small recorded files and this program's own output."""
    if target == "importers":
        files = sorted(path for path in data.rglob("*") if path.is_file() and 0 < path.stat().st_size < 12_000)
        found: list[bytes] = []
        for path in files:
            with suppress(ImportFormatError):
                format = detect(path.read_bytes(), path.name)
                found.append(bytes([1 + NAMES.index(format)]) + path.read_bytes())
        return found
    if target == "commands":
        ends = [
            b"",
            b"\n--json",
            b"\nses_a1",
            b"\nses_a1\n--json",
            b"\nses_a1\n--at\n2",
            b"\nses_a1\nm1",
            b"\n--into\nnew",
            b"\nnew",
        ]
        return [name.encode() + end for name in COMMANDS if name not in LASTING for end in ends]
    with eventlog.open("memory:") as store:
        session = store.create_session(id="s", title="t")
        session.user("a question " * 200)
        with session.assistant(model="m/x") as reply:
            text = reply.stream_text()
            text.append("an answer")
            text.append(" in pieces")
            reply.tool("bash", call_id="c", input={"a": 1}).succeed("output " * 400)
            reply.finish("stop")
        if target == "head":
            return [store.head().text().encode()]
        payloads = [commit.payload for commit in store.log.read("s")]
        if target == "kept":
            fork = session.fork(id="f")
            chunk = b"".join(encode_chunk("s", list(store.log.read("s"))))
            first = next(iter(fork.reader.spans(after=session.version))).item
            assert isinstance(first, SessionForked)
            meta = struct.pack("=8xHH4xII8x8xI44x48xQQ", 0, 8, 0xBEEFC0DE, 1, 4096, 3, 2)
            row = msgspec.msgpack.encode((1, [("s", 3, 2, bytes(32))]))
            return [chunk, first.parent_head, row, meta.ljust(4096, b"\0") * 4]
        bodies = [store.log.body(digest) or b"" for digest in store.log.bodies()]
        record = frames.CommitRecord("s", 1, 1, 1, 1, b"x", bytes(16), bytes(8), base=0)
        made = bytearray()
        frames.encode_records([record], made)
        frames.finish_frame(made, bytes(8), 0, 1, frames.FILE_HEADER_BYTES)
        return [
            *payloads,
            *bodies,
            canonical(session.reader.state()),
            pack_rows([*session.reader.state().messages.items()]),
            bytes(made),
            frames.pack_file_header(1, bytes(8), 0),
        ]
