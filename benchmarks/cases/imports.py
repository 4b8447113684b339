"""Recorded sessions and streams imported: how fast, how large, and in how much memory.

Without recordings a generated session and the packaged demo stand for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import eventlog
import projections
from benchmarks.children import child
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.limits import decode_lines
from benchmarks.measure import disk_bytes, in_turn, timed
from benchmarks.workloads import generated_session, recorded_sessions, recorded_streams
from eventlog.errors import ImportFormatError
from eventlog.importers import detect, import_file
from projections.exports.jsonl import jsonl_lines

DEMO = Path(projections.__file__).parent / "demo"
MOST = 200.0
"""MB that an importing process may take."""

_IMPORT = """
import json, sys
import eventlog
from eventlog.importers import import_file
with eventlog.open(sys.argv[1]) as store:
    for path in sys.argv[2:]:
        import_file(store, path)
with open("/proc/self/status") as status:
    print(next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")), 0))
"""


def session_files(setting: Setting) -> list[Path]:
    """Return the files to import as whole sessions, longest first."""
    files = recorded_sessions(setting.recorded) if setting.recorded is not None else []
    return files or [generated_session(setting.directory / "generated.jsonl", setting.sizes.generated)]


def _stream_files(setting: Setting) -> list[Path]:
    files = recorded_streams(setting.recorded) if setting.recorded is not None else []
    return list(_known(files)) or sorted(DEMO.glob("*.sse"))


def _known(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that have an importer."""
    for path in paths:
        try:
            with path.open("rb") as file:
                detect(file.read(1 << 16), str(path))
        except ImportFormatError:
            continue
        yield path


def _imports(setting: Setting) -> dict[str, Measurement]:
    sessions, streams, numbers = session_files(setting), _stream_files(setting), count()
    place = setting.directory / "imported"
    with eventlog.open(place) as store:
        for path in sessions:
            import_file(store, path)
        longest = max(store.sessions(), key=lambda info: info.messages)
        events = setting.directory / "events.jsonl"
        events.write_bytes(b"".join(jsonl_lines(store.session(longest.id))))
    kept = Measurement(disk_bytes(place) / 1e6, sum(path.stat().st_size for path in sessions) / 1e6)

    def new(paths: Sequence[Path]) -> Callable[[], list[float]]:
        def side() -> list[float]:
            with eventlog.open(setting.directory / f"new-{next(numbers)}") as store:
                return [timed(lambda: [import_file(store, path) for path in paths])]

        return side

    def again() -> list[float]:
        with eventlog.open(place) as store:
            return [timed(lambda: [import_file(store, path) for path in sessions])]

    sides: dict[str, Callable[[], list[float]]] = {
        "sessions": new(sessions),
        "again": again,
        "sessions decoded": lambda: [timed(lambda: [decode_lines(path) for path in sessions])],
        "streams": new(streams),
        "streams decoded": lambda: [timed(lambda: [decode_lines(path, b"data: ") for path in streams])],
        "events": new([events]),
        "events decoded": lambda: [timed(lambda: decode_lines(events))],
    }
    found = {name: samples.median * 1e3 for name, samples in in_turn(sides, setting.sizes.rounds).items()}
    memory = child(_IMPORT, str(setting.directory / "memory"), *map(str, sessions)) / 1e6
    return {
        "imports.sessions": Measurement(found["sessions"], found["sessions decoded"]),
        "imports.sessions.again": Measurement(found["again"], found["sessions decoded"]),
        "imports.streams": Measurement(found["streams"], found["streams decoded"]),
        "imports.events": Measurement(found["events"], found["events decoded"]),
        "imports.kept": kept,
        "imports.memory": Measurement(memory, MOST),
    }


BARE = "decoding its lines with msgspec"

CASE = Case(
    "imports",
    (
        Figure("imports.sessions", "long sessions, imported until durable", "ms", BARE),
        Figure("imports.sessions.again", "the same files, imported again", "ms", BARE),
        Figure("imports.streams", "recorded streams, imported until durable", "ms", BARE),
        Figure("imports.events", "event JSONL, imported until durable", "ms", BARE),
        Figure("imports.kept", "the imported sessions on the disk", "MB", "their files", Target("<=", 0.3)),
        Figure("imports.memory", "memory of a process that imports them", "MB", f"{MOST:.0f} MB", Target("<=", 1)),
    ),
    _imports,
)
