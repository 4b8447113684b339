"""The tracer and disk model behind the fault tests do what they are asked to."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.faults.disk import Recorder
from tests.support.faults.tracing import CHANGES, SHORT, Call, traced

pytestmark = pytest.mark.usefixtures("tracing")


def write(path: Path, *texts: bytes, flush: bool = True) -> None:
    """Write a file, one call for each text."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    for text in texts:
        os.write(fd, text)
    if flush:
        os.fsync(fd)
    os.close(fd)


def at(path: Path, name: str, number: int, answer: int | None) -> list[Call]:
    """Calls seen by a decider that answers the `number`-th call of a kind on a file."""
    seen: list[Call] = []

    def decide(call: Call) -> int | None:
        if call.name not in CHANGES or call.path != str(path):
            return 0
        seen.append(call)
        return answer if [one.name for one in seen].count(name) == number and call.name == name else 0

    traced(lambda: write(path, b"one ", b"two ", b"three"), decide)
    return seen


def test_calls_are_seen_before_they_are_made(tmp_path: Path) -> None:
    """Each call comes with file, offset and bytes, also from a child process."""
    path = tmp_path / "file"
    seen = at(path, "write", 9, None)
    assert [(call.name, call.offset, call.data) for call in seen] == [
        ("create", 0, b""),
        ("write", 0, b"one "),
        ("write", 4, b"two "),
        ("write", 8, b"three"),
        ("flush", 0, b""),
    ]
    calls: list[Call] = []

    def note(call: Call) -> int:
        calls.append(call)
        return 0

    program = (
        f"import os; os.mkdir({str(tmp_path / 'new')!r}); os.rename({str(path)!r}, {str(tmp_path / 'new' / 'x')!r})"
    )
    ended = traced(lambda: subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True), note)
    assert ended.status == 0
    mine = [(call.name, Path(call.path).name, Path(call.other).name) for call in calls if str(tmp_path) in call.path]
    assert mine == [("mkdir", "new", ""), ("rename", "file", "x")]


def test_calls_are_refused_cut_short_and_killed(tmp_path: Path) -> None:
    """A decider's answer applies to its call and to no other."""
    path = tmp_path / "file"
    at(path, "write", 2, None)
    assert path.read_bytes() == b"one "
    at(path, "write", 3, SHORT)
    assert path.read_bytes() == b"one two th"

    def work() -> None:
        try:
            write(path, b"text")
        except OSError as error:
            os._exit(error.errno or 0)

    for name, code in (("open", errno.EMFILE), ("write", errno.ENOSPC), ("flush", errno.EIO)):
        ended = traced(work, lambda call: code if (call.name, call.path) == (name, str(path)) else 0)  # noqa: B023 - used at once
        assert ended.status == code
    ended = traced(work, lambda call: None if call.path == str(path) else 0)
    assert ended.status == -signal.SIGKILL


def test_an_image_has_what_was_flushed_and_no_more_than_was_written(tmp_path: Path) -> None:
    """An image has everything flushed, some of the unflushed writes, and nothing else."""
    place = tmp_path / "place"
    place.mkdir()
    recorder = Recorder(place)

    def work() -> None:
        write(place / "safe", b"s" * 3000)
        fd = os.open(place, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        write(place / "lost", b"l" * 3000, flush=False)
        (place / "safe").rename(place / "moved")

    assert traced(work, recorder.note).status == 0
    chance = random.Random(1)
    names: set[tuple[str, ...]] = set()
    texts: set[bytes] = set()
    for number, how in enumerate(["kept", "lost", *["any", "torn"] * 20]):
        recorder.image(tmp_path / str(number), len(recorder.calls), how, chance)
        files = {file.name: file.read_bytes() for file in (tmp_path / str(number)).iterdir()}
        names.add(tuple(sorted(files)))
        assert files.get("safe", files.get("moved")) == b"s" * 3000
        if "lost" in files:
            texts.add(files["lost"])
    assert names == {("safe",), ("lost", "safe"), ("lost", "moved")}
    assert len(texts) > 5
    assert all(len(text) <= 3000 and set(text) <= {0, ord("l")} for text in texts)
