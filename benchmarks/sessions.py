"""Recorded sessions: how fast they are imported, and how fast their view is opened."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import eventlog
import projections
from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting
from benchmarks.limits import decode_lines, decode_stream
from benchmarks.measure import in_turn, timed
from benchmarks.workloads import generated_session, recorded_sessions, recorded_streams
from eventlog.errors import ImportFormatError
from eventlog.importers import detect, import_file
from projections.view.model_view import LiveView, ModelView

__all__ = ["CASES", "data_in_use"]

DEMO = Path(projections.__file__).parent / "demo"
VIEW_ROUNDS = 5
"""Times each view is measured in one round."""


def data_in_use(recorded: Path | None) -> str:
    """Return in words which sessions are imported."""
    if recorded is not None and recorded_sessions(recorded):
        return "recorded sessions"
    return "no recorded sessions: a generated one and the packaged demo stand for them"


def session_files(setting: Setting) -> list[Path]:
    """Return the files to import as whole sessions, longest first."""
    files = recorded_sessions(setting.recorded) if setting.recorded is not None else []
    return files or [generated_session(setting.directory / "generated.jsonl", setting.sizes.generated)]


def stream_files(setting: Setting) -> list[Path]:
    """Return the recorded streams whose formats have an importer."""
    files = recorded_streams(setting.recorded) if setting.recorded is not None else []
    return list(known_files(files)) or sorted(DEMO.glob("*.sse"))


def known_files(paths: Sequence[Path], formats: Sequence[str] = ()) -> Iterator[Path]:
    """Yield the files that have an importer, of these formats if any are named."""
    for path in paths:
        try:
            with path.open("rb") as file:
                format = detect(file.read(1 << 16), str(path))
        except ImportFormatError:
            continue
        if not formats or format in formats:
            yield path


def _import_rate(setting: Setting, name: str, paths: Sequence[Path], decode: Callable[[Path], object]) -> Measurement:
    """Return MB imported per second into a new store, until they are durable."""
    numbers = count()

    def engine() -> list[float]:
        with opened(setting.directory, f"{name}-{next(numbers)}") as store:
            return [timed(lambda: [import_file(store, path) for path in paths])]

    sides = {"engine": engine, "limit": lambda: [timed(lambda: [decode(path) for path in paths])]}
    samples = in_turn(sides, setting.sizes.rounds)
    size = sum(path.stat().st_size for path in paths) / 1e6
    return Measurement(size / samples["engine"].median, size / samples["limit"].median)


def _imports(setting: Setting) -> dict[str, Measurement]:
    return {
        "import.sessions": _import_rate(setting, "sessions", session_files(setting), decode_lines),
        "import.streams": _import_rate(setting, "streams", stream_files(setting), decode_stream),
    }


@contextmanager
def _longest(path: Path) -> Generator[eventlog.Session]:
    """Yield the session with the most messages, in a store that was just opened."""
    with eventlog.open(path) as store:
        longest = max(store.sessions(), key=lambda info: info.messages)
        yield store.session(longest.id)


def _views(setting: Setting) -> dict[str, Measurement]:
    source = session_files(setting)[0]
    path = setting.directory / "views"
    with eventlog.open(path) as store:
        import_file(store, source)

    def cold() -> list[float]:
        with _longest(path) as session:
            return [timed(lambda: ModelView.of(session).messages)]

    def following() -> list[float]:
        with _longest(path) as session:
            live = LiveView(session)
            live.advance()
            times: list[float] = []
            for _ in range(VIEW_ROUNDS):
                session.user("Go on")
                times.append(timed(lambda: live.advance().messages))
            return times

    sides: dict[str, Callable[[], list[float]]] = {
        "cold": cold,
        "next": following,
        "limit": lambda: [timed(lambda: decode_lines(source))],
    }
    samples = in_turn(sides, setting.sizes.rounds)
    first, following_ = samples["cold"].median, samples["next"].median
    return {
        "view.cold": Measurement(first * 1e3, samples["limit"].median * 1e3),
        "view.next": Measurement(following_ * 1e6, first * 1e6),
    }


CASES = (
    Case(
        "import",
        (
            Figure(
                "import.sessions", "import of long sessions, until durable", "MB/s", "decode the lines with msgspec"
            ),
            Figure(
                "import.streams", "import of recorded streams, until durable", "MB/s", "decode the lines with msgspec"
            ),
        ),
        _imports,
    ),
    Case(
        "view",
        (
            Figure("view.cold", "first view of the longest session, just opened", "ms", "decode its file with msgspec"),
            Figure("view.next", "next view, after one more message", "µs", "the first view"),
        ),
        _views,
    ),
)
