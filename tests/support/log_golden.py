"""The golden store: its content, and the program that wrote it.

`python -m tests.support.log_golden VERSION` writes `golden/log-vVERSION-*.zip`; only ever for a new
format version.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from hashlib import sha256
from pathlib import Path

from eventlog import events as ev
from eventlog.codec.batch import encode
from eventlog.codec.deltas import DeltaRun
from eventlog.compression import pack
from eventlog.errors import PoisonedError
from eventlog.log.commit import Append, LeaseState
from eventlog.log.embedded.engine import EmbeddedLog, open_log
from eventlog.log.embedded.filesystem import JournalIO

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


TEXT = b"A body that is kept unpacked among others.\n" * 50
CARD = b"a long card " * 30
_KEY = ("part", "text")


STREAMED = encode(
    [
        (6000, ev.SessionRenamed("before")),
        DeltaRun.from_flat([_KEY, "a run", 6001, _KEY, " of deltas", 6003, ("other", "input"), "{}", 6010], 6000),
        (6011, ev.SessionRenamed("between")),
        DeltaRun.from_flat([_KEY, "and another", 6012, _KEY, "", 6013], 6000),
        (6014, ev.SessionRenamed("behind")),
    ],
    6000,
)
SLOW = encode(
    [DeltaRun.from_flat([_KEY, "with", 7000, _KEY, " a long", 7900, _KEY, " pause" * 60, 70_000], 7000)], 7000
)
"""Deltas with gaps and lengths of two bytes each."""


class FixedIO(JournalIO):
    """Journal I/O with salts that are the same in every run."""

    def __init__(self) -> None:
        self._salts = 0

    def salt(self) -> bytes:
        """The next salt."""
        self._salts += 1
        return b"salt%04d" % self._salts

    def random(self, size: int) -> bytes:
        """Numbers from 1 on, sixteen digits each."""
        return b"".join(b"%016d" % number for number in range(1, size // 16 + 1))


def fill(log: EmbeddedLog) -> None:
    """Write everything the format can express, in a few commits."""
    for append in (
        Append(session="a", payload=b"first", count=2, time=1000, creates_at=0, messages=1, entry=b"card a"),
        Append(
            session="fork of \u00e4",
            payload=b"second" * 100,
            count=1,
            time=2000,
            creates_at=41,
            request="r1",
            digest=b"d1",
        ),
        Append(session="a", payload=b"", count=3, time=3000, bodies=[(bytes(range(32)), b"packed body")]),
    ):
        log.submit(append).wait(30)
    log.set_lease("a", LeaseState(7, b"owner", 4000), replaces=LeaseState())
    log.submit(Append(session="a", payload=b"last", count=1, time=5000, epoch=7, entry=b"", request="r2")).wait(30)
    for append in (
        Append(session="streamed", payload=STREAMED, count=8, time=6000, creates_at=0, entry=CARD),
        Append(session="streamed", payload=SLOW, count=3, time=7000, bodies=[(sha256(TEXT).digest(), pack(TEXT))]),
    ):
        log.submit(append).wait(30)
    log.put_derived([(b"derived", b"a value that is kept compressed" * 20), (b"small", b"value")])


def write(version: str, directory: Path) -> None:
    """Write both archives into a directory."""
    for kind in ("unfolded", "folded"):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "store"
            log = open_log(path, io=FixedIO(), map_bytes=1 << 20)
            fill(log)
            if kind == "unfolded":
                log._partition.tail.poison = PoisonedError("not to be folded")
            log.close()
            with zipfile.ZipFile(directory / f"log-v{version}-{kind}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for name in ("format", "mark", "1/journal/0000000001.log", "1/lmdb/data.mdb"):
                    archive.writestr(name, (path / name).read_bytes())


if __name__ == "__main__":
    write(sys.argv[1], GOLDEN)
