"""Size of the project: lines, words, rooms, and the code that four calls run through.

`python -m tests.size` prints the figures of commit a505be48, those of today, and the budgets.  With
`--check` it exits with 1 if a budget is exceeded.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from tests.support.pages import PAGES
from tests.test_layers import FILES, ROOT, arrows, circle, imports_of, room_of

PRODUCT = ("eventlog", "projections")
LONGEST = 400
"""Lines of the longest file that is not counted as long."""


class Size(NamedTuple):
    """One figure: its name, before, now, and the most that it may be."""

    name: str
    before: int
    now: int
    most: int | None = None


def sizes() -> list[Size]:
    """Return all figures."""
    rooms = {f"{top}.{room}": below for top in PRODUCT for room, below in arrows(top).items()}
    long = [module for module in FILES if _top(module) in PRODUCT and _lines(FILES[module]) > LONGEST]
    words = sum(len(text.split()) for name, text in PAGES.items() if not name.endswith("NAMES.md"))
    found = [
        Size("lines of eventlog and projections", 82_556, _lines_of(*PRODUCT), 77_500),
        Size("lines of tests", 83_016, _lines_of("tests"), 76_000),
        Size("lines of benchmarks", 9_094, _lines_of("benchmarks"), 4_500),
        Size("words of the pages, without the public names", 62_772, words, 36_000),
        Size("files over 400 lines", 19, len(long), 0),
        Size("rooms: folders and top files", 47, len(rooms)),
        Size("arrows between rooms of a package", 245, sum(map(len, rooms.values()))),
        Size("arrows inside projections.window and loop, and between", 96, _arrows_of_the_loop(), 60),
        Size("circles", 0, sum(bool(circle(arrows(top))) for top in PRODUCT), 0),
        Size("floors: the longest chain of imports among rooms", 17, _floors(), 17),
    ]
    for name, (files, lines, functions, calls), (old_files, old_lines, old_functions, old_calls) in _paths():
        found += [
            Size(f"{name}: files", old_files, files),
            Size(f"{name}: lines in them", old_lines, lines),
            Size(f"{name}: functions", old_functions, functions),
            Size(f"{name}: calls", old_calls, calls),
        ]
    return found


def _arrows_of_the_loop() -> int:
    """Pairs of files and folders of `window` and `loop` that import each other."""
    inside = [name for name in FILES if name.startswith(("projections.window.", "projections.loop."))]
    pairs = {(_place(name), _place(other)) for name in inside for other in imports_of(name) if other in inside}
    return sum(one != other for one, other in pairs)


def _place(module: str) -> str:
    """The file or folder of `window` or `loop` that contains a module."""
    return ".".join(module.split(".")[:3])


def _top(module: str) -> str:
    return module.partition(".")[0]


@cache
def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _lines_of(*tops: str) -> int:
    return sum(_lines(path) for top in tops for path in (ROOT / top).rglob("*.py"))


def _floors() -> int:
    """Return the longest chain of imports among the rooms of both packages."""
    names = {module: f"{_top(module)}.{room_of(module, _top(module))}" for module in FILES if _top(module) in PRODUCT}
    graph: dict[str, set[str]] = {}
    for module, room in names.items():
        below = {names[name] for name in imports_of(module) if name in names}
        graph.setdefault(room, set()).update(below - {room})

    @cache
    def height(room: str) -> int:
        return 1 + max(map(height, graph[room]), default=0)

    return max(map(height, graph))


@contextmanager
def _counted() -> Generator[Counter[tuple[str, str]]]:
    """Count the calls of this thread into the two packages."""
    calls: Counter[tuple[str, str]] = Counter()
    places = tuple(str(ROOT / top) for top in PRODUCT)

    def seen(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(places):
            calls[frame.f_code.co_filename, frame.f_code.co_qualname] += 1

    sys.setprofile(seen)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def _path_of(work: Callable[[], object]) -> tuple[int, int, int, int]:
    with _counted() as calls:
        work()
    files = {Path(file) for file, _ in calls}
    return len(files), sum(map(_lines, files)), len(calls), sum(calls.values())


def _paths() -> Iterator[tuple[str, tuple[int, int, int, int], tuple[int, int, int, int]]]:
    """Yield four calls with the code that each runs through, now and before."""
    import eventlog
    from eventlog import importers
    from projections import ModelView, summarize_offline
    from projections.loop import ContextWindow

    with tempfile.TemporaryDirectory() as directory, eventlog.open(Path(directory) / "s") as store:
        session = store.create_session()
        for number in range(20):
            session.user(f"question {number} " + "word " * 400)
            with session.assistant("a/b", view=ModelView.of(session)) as reply:
                reply.add_text("answer " * 200)
                reply.finish()
        session.user("hello")
        yield "a warm user()", _path_of(lambda: session.user("hello again")), (31, 8_145, 72, 78)
        ModelView.of(session)
        yield "a view with nothing new", _path_of(lambda: ModelView.of(session)), (39, 8_804, 135, 1_808)
        limits = eventlog.Limits(12_000, 2_000)
        with ContextWindow(session, model="a/b", limits=limits, summarizer=summarize_offline) as window:
            yield "a compaction", _path_of(window.compact), (98, 20_830, 551, 8_142)
        records = [_record(number) for number in range(54)]
        file = Path(directory) / "chat.jsonl"
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        yield "an import of 54 records", _path_of(lambda: importers.import_file(store, file)), (81, 18_348, 356, 10_007)


def _record(number: int) -> dict[str, Any]:
    """Return a record of a Claude Code transcript."""
    said: dict[str, Any] = {"role": ("user", "assistant")[number % 2], "content": f"text {number}"}
    if number % 2:
        said |= {"id": f"msg_{number}", "type": "message", "model": "m", "content": [{"type": "text", "text": "yes"}]}
    return {
        "type": said["role"],
        "message": said,
        "uuid": f"00000000-0000-4000-8000-{number:012d}",
        "parentUuid": None if number == 0 else f"00000000-0000-4000-8000-{number - 1:012d}",
        "sessionId": "11111111-1111-4111-8111-111111111111",
        "isSidechain": False,
        "timestamp": f"2026-01-01T00:00:{number:02d}.000Z",
        "cwd": "/p",
        "version": "2.1.0",
    }


def _main() -> int:
    found = sizes()
    width = max(len(size.name) for size in found)
    for size in found:
        budget = (
            "" if size.most is None else f"   at most {size.most:,}" + (" EXCEEDED" if size.now > size.most else "")
        )
        print(f"{size.name:{width}}  {size.before:>8,} -> {size.now:>8,}{budget}")
    return int("--check" in sys.argv and any(size.most is not None and size.now > size.most for size in found))


if __name__ == "__main__":
    sys.exit(_main())
