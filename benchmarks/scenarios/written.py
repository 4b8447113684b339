"""Bytes that turns write for each byte of their text: to the system, to the disk, kept.

Each side writes in a process of its own, into a store that has been in use, and closes it: folding
is included.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import eventlog
from benchmarks.children import child
from benchmarks.engine import take_turn
from benchmarks.figures import Case, Figure, Measurement, Setting
from benchmarks.history import seasoned
from benchmarks.measure import disk_bytes, of_process, written
from benchmarks.scenarios.sqlite_sessions import SQLITE, SqliteSessions
from benchmarks.workloads import Turn, turns

__all__ = ["CASES", "write_turns", "write_turns_to_sqlite"]

TIMES = 5
"""Factor on the number of turns of other cases."""
SECTOR = 512
COUNTED = ("handed", "counted", "disk", "kept")
"""A child's counts, in their order."""


def _counted(path: Path) -> list[int]:
    """Return bytes handed to `write`, counted for the disk, and written by it; 0 if unknown."""
    os.sync()
    return [written(), of_process("io", "write_bytes"), _disk_wrote(path)]


def _disk_wrote(path: Path) -> int:
    device = path.stat().st_dev
    try:
        statistics = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(statistics.split()[6]) * SECTOR


def write_turns(path: Path, work: Iterable[Turn]) -> list[int]:
    """Take turns in a new session and close the store; return the counts."""
    size = disk_bytes(path)
    with eventlog.open(path) as store:
        session = store.create_session(title="written")
        before = _counted(path)
        with session.lease():
            for turn in work:
                take_turn(session, turn)
    return [*_since(before, path), max(disk_bytes(path) - size, 0)]


def write_turns_to_sqlite(path: Path, work: Iterable[Turn]) -> list[int]:
    """Add two rows for each turn and close the file; return the counts."""
    with SqliteSessions(path) as sqlite:
        sqlite.fill()
        sqlite.finish_work()
        size = sqlite.kept_bytes()
        before = _counted(path)
        for turn in work:
            sqlite.turn(turn)
    return [*_since(before, path), disk_bytes(path) - size]


def _since(before: Iterable[int], path: Path) -> list[int]:
    return [max(after - once, 0) for once, after in zip(before, _counted(path), strict=True)]


_CHILD = """
import json, sys
from pathlib import Path
from benchmarks.scenarios import written
from benchmarks.workloads import turns
print(json.dumps(getattr(written, sys.argv[1])(Path(sys.argv[2]), turns(int(sys.argv[3]), seed=13))))
"""


def _written(setting: Setting) -> dict[str, Measurement]:
    count = setting.sizes.turns * TIMES
    text = sum(len(turn.text_bytes()) for turn in turns(count, seed=13))
    ours, theirs = setting.directory / "engine", setting.directory / "sqlite"
    seasoned(ours)
    counts: dict[str, list[float]] = {}
    for path, write in ((ours, write_turns), (theirs, write_turns_to_sqlite)):
        counted = child(_CHILD, write.__name__, str(path), str(count))
        counts[path.name] = [number / text for number in counted]
    return {
        f"written.{name}": Measurement(one, other)
        for name, one, other in zip(COUNTED, counts["engine"], counts["sqlite"], strict=True)
    }


CASES = (
    Case(
        "written",
        (
            Figure("written.handed", "bytes of turns handed to write and its kin, folding included", "B/B", SQLITE),
            Figure(
                "written.counted",
                "write_bytes of the process: whole folios, of up to megabytes, are counted",
                "B/B",
                SQLITE,
            ),
            Figure("written.disk", "bytes that the disk wrote meanwhile, for any process", "B/B", SQLITE),
            Figure("written.kept", "growth of the closed store", "B/B", SQLITE),
        ),
        _written,
    ),
)
