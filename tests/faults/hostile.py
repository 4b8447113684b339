"""What is fed to everything that reads bytes from outside, and what may become of it: a typed error or nothing, never anything else.

Each function takes any bytes.  It fails where an error is not one of those that the interface names.  Used by the tests of Hypothesis and
by the coverage-guided fuzzer (`fuzz.py`), which share what they find.  Imported by the tests of this folder.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

import eventlog
from eventlog.blobs import to_file, unpack
from eventlog.codec import decode, events_of
from eventlog.codec import unpack as unpack_value
from eventlog.errors import CallError, DamagedError, DataError, ImportFormatError
from eventlog.head import StoreHead
from eventlog.importers import FORMATS, detect, import_file
from eventlog.log import frames
from eventlog.log.base import Commit
from eventlog.state import State
from eventlog.values import Body, Origin

__all__ = ["TARGETS", "corpus"]

NAMES = sorted(FORMATS)


def stored(data: bytes) -> None:
    """Bytes that lie in a store: payloads, cards, bodies, frames, checkpoints."""
    with suppress(DataError):
        decode(data)
    for count in (1, 3):
        with suppress(DataError):
            assert len(list(events_of(Commit("s", 1, count, 1, 0, 0, data)))) == count
    with suppress(DataError):
        unpack_value(data, Origin)
    with suppress(DamagedError):
        frames.decode_records(data, 1)
    with suppress(DamagedError):
        unpack(Body(bytes(32), 100, 100), data)
    with suppress(DamagedError):
        to_file(Body(bytes(32), 100, 100), data, io.BytesIO())
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        State.decode(data)


def frame(data: bytes) -> None:
    """Bytes that lie in a journal file."""
    if len(data) < 8 + frames.FRAME_HEADER_BYTES:
        return
    header = frames.parse_frame_header(data, 0, data[:8])
    if header is not None:
        frames.payload_matches(header, data[frames.FRAME_HEADER_BYTES :], data[:8], 0)
    with suppress(DataError):
        frames.parse_file_header(data[: frames.FILE_HEADER_BYTES], 1)


def head(data: bytes) -> None:
    """A head that was kept elsewhere."""
    with suppress(CallError):
        StoreHead.parse(data)


def imported(data: bytes, format: str | None = None) -> None:
    """A file of whatever format: imported again, it adds nothing; and everything that it gave can be read."""
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
    """The first byte names the format; or it is told from the bytes."""
    with suppress(ImportFormatError):
        detect(data, "file")
    imported(data[1:], None if not data else ([None, *NAMES])[data[0] % (len(NAMES) + 1)])


def _file(data: bytes) -> Any:
    file = io.BytesIO(data)
    file.name = "hostile"
    return file


TARGETS: dict[str, Callable[[bytes], None]] = {"stored": stored, "frame": frame, "head": head, "importers": importers}


def corpus(target: str, data: Path) -> list[bytes]:
    """Sound inputs to begin with: small recorded files, and what this program writes itself."""
    if target == "importers":
        files = sorted(path for path in data.rglob("*") if path.is_file() and 0 < path.stat().st_size < 12_000)
        found: list[bytes] = []
        for path in files:
            with suppress(ImportFormatError):
                format = detect(path.read_bytes(), path.name)
                found.append(bytes([1 + NAMES.index(format)]) + path.read_bytes())
        return found
    with eventlog.open("memory:") as store:
        session = store.create_session(id="s", title="t")
        session.user("a question " * 200)
        with session.assistant(model="m/x") as reply:
            text = reply.text()
            text.append("an answer")
            text.append(" in pieces")
            reply.tool("bash", call_id="c", input={"a": 1}).succeed("output " * 400)
            reply.finish("stop")
        if target == "head":
            return [store.head().text().encode()]
        payloads = [commit.payload for commit in store.log.read("s")]
        bodies = [store.log.body(digest) or b"" for digest in store.log.bodies()]
        record = frames.CommitRecord("s", 1, 1, 1, 1, b"x", bytes(16), bytes(8), base=0)
        made = bytearray()
        frames.encode_records([record], made)
        frames.seal(made, bytes(8), 0, 1, frames.FILE_HEADER_BYTES)
        return [*payloads, *bodies, session.state().encode(), bytes(made), frames.pack_file_header(1, bytes(8), 0)]
