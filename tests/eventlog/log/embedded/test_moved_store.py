"""A store that is moved, deleted or replaced in use acknowledges nothing any more."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Never

import pytest

import eventlog
from eventlog import events as ev
from eventlog.codec.batch import encode
from eventlog.errors import PoisonedError, StopError
from eventlog.log.embedded.engine import EmbeddedLog, open_log
from eventlog.maintenance.vacuum import rewrite
from eventlog.store import Store
from tests.support.embedded_log import put
from tests.support.python_process import Program, printed
from tests.support.watched_io import T, WatchedIO

SMALL: dict[str, Any] = {"journal_bytes": 64 << 10, "fold_bytes": 32 << 10}
"""Files that are folded and reused soon."""
SAYS = "moved, deleted or replaced.*open it again"


def held(log: EmbeddedLog) -> list[bytes]:
    """Return the payloads of a log."""
    return [commit.payload for commit in log.read("s")]


def contents(path: Path) -> dict[Path, bytes]:
    """Return all files below a path with their content."""
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def ask(path: Path, many: int) -> None:
    """Make a store with so many questions of 4 KB."""
    with Store(open_log(path, **SMALL)) as store:
        session = store.create_session(id="s")
        for _ in range(many):
            session.user(os.urandom(2048).hex())


def moved(path: Path) -> Path:
    """Move a store away, as an operator does before another one takes its place."""
    return path.rename(path.with_name("moved"))


def deleted(path: Path) -> None:
    """Delete a store that is in use."""
    shutil.rmtree(path)


@pytest.mark.promise(1, 12)
@pytest.mark.parametrize("size", [20, 100_000])  # one that the journal file has room for, one that begins the next
@pytest.mark.parametrize("goes", [moved, deleted])
@pytest.mark.parametrize("comes", ["another store", "its backup", "nothing"])
def test_a_writer_leaves_what_took_the_place_of_its_store_alone(
    tmp_path: Path, goes: Callable[[Path], Path | None], comes: str, size: int
) -> None:
    """Promises 1, 12: from then on no append is acknowledged, and no file is touched."""
    path, backup = tmp_path / "s", tmp_path / "backup"
    ask(path, 40)
    shutil.copytree(path, backup)
    old, other = open_log(path, **SMALL), open_log(path, **SMALL)
    for _ in range(3):  # behind the short file that a closed store has
        put(old, encode([(1, ev.InterruptRequested("before"))], 1))
    left = goes(path)
    if comes == "another store":
        ask(path, 120)
    elif comes == "its backup":
        shutil.copytree(backup, path)
    there, kept = contents(path), held(old)
    with pytest.raises(StopError):
        rewrite(old)
    for log in (old, other, old):
        with pytest.raises(PoisonedError, match=SAYS):
            put(log, encode([(1, ev.InterruptRequested("x" * size))], 1))
        assert log.stopped
        assert held(log) == kept
    assert contents(path) == there
    if left is not None:
        with closing(open_log(left)) as log:
            assert (log.check(), held(log)) == ([], kept)
    for log in (other, old):
        with suppress(PoisonedError):
            log.close()
    assert contents(path) == there


def without_its_file(path: Path) -> None:
    """Delete the journal file alone."""
    for file in path.glob("1/journal/*.log"):
        file.unlink()


def with_a_copy_of_its_file(path: Path) -> None:
    """Put a copy in the place of the journal file, as a restored one is."""
    for file in path.glob("1/journal/*.log"):
        copy = file.with_suffix(".copy")
        shutil.copy(file, copy)
        copy.replace(file)


def without_its_journal(path: Path) -> None:
    """Move the journal's directory away."""
    (path / "1" / "journal").rename(path.with_name("journal"))


def below_another_directory(path: Path) -> None:
    """Move the directory above the store away."""
    path.parent.rename(path.parent.with_name("elsewhere"))


def behind_a_link_to_another(path: Path) -> None:
    """Leave the store, and lead its path to a copy."""
    shutil.copytree(path, path.with_name("copy"))
    moved(path)
    path.symlink_to(path.with_name("copy"))


def behind_a_file(path: Path) -> None:
    """Leave a file at the path."""
    moved(path)
    path.write_text("a note")


@pytest.mark.promise(1, 12)
@pytest.mark.parametrize(
    "place",
    [
        without_its_file,
        with_a_copy_of_its_file,
        without_its_journal,
        below_another_directory,
        behind_a_link_to_another,
        behind_a_file,
    ],
)
def test_whatever_of_the_path_goes_nothing_is_acknowledged(tmp_path: Path, place: Callable[[Path], None]) -> None:
    """Promises 1, 12: the next command says what to do, and the log counts as stopped."""
    path = tmp_path / "above" / "s"
    path.parent.mkdir()
    with suppress(PoisonedError), eventlog.open(path) as store:
        session = store.create_session(id="s")
        session.user("before")
        place(path)
        for _ in range(2):
            with pytest.raises(PoisonedError, match=SAYS):
                session.user("after")
        assert store.log.stopped
        assert session.info.messages == 1


def test_a_link_to_the_moved_store_is_its_path(tmp_path: Path) -> None:
    """A store that is moved, with a link to it where it was, is the same store."""
    log = open_log(tmp_path / "s")
    put(log, b"before")
    (tmp_path / "s").symlink_to(moved(tmp_path / "s"))
    put(log, b"after")
    log.close()
    with closing(open_log(tmp_path / "moved")) as again:
        assert held(again) == [b"before", b"after"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system names no paths of open files")
def test_a_commit_asks_for_no_times_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at them makes the next flush slower by half; the directory is looked at."""
    with closing(open_log(tmp_path / "s")) as log:
        put(log, b"before")
        stat, asked = os.stat, list[str]()

        def watched(path: Any, **given: Any) -> os.stat_result:
            asked.append(str(path))
            return stat(path, **given)

        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", watched)
            patch.setattr(os, "fstat", watched)
            put(log, b"after")
        assert asked == [str(tmp_path / "s" / "1" / "journal")]


def test_a_path_that_may_not_be_looked_at_is_no_moved_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon without rights on a directory above goes on in the files that it has open."""
    with closing(open_log(tmp_path / "s")) as log:
        put(log, b"before")

        def refused(*_: object, **__: object) -> Never:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", refused)
            put(log, b"after")
        assert held(log) == [b"before", b"after"]


class MovingIO(WatchedIO):
    """Journal I/O that moves the store while it flushes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.armed = False

    def call(self, name: str, run: Callable[..., T], *given: Any) -> T:
        """Make the call; move the store behind the next flush."""
        done = run(*given)
        if name == "fdatasync" and self.armed:
            self.armed = False
            moved(self.path)
        return done


@pytest.mark.promise(1, 3)
def test_a_store_that_is_moved_during_a_flush(tmp_path: Path) -> None:
    """Promises 1, 3: the append is refused, and is not in the store where that is now."""
    io = MovingIO(tmp_path / "s")
    log = open_log(tmp_path / "s", io=io)
    put(log, b"before")
    io.armed = True
    with pytest.raises(PoisonedError, match=SAYS):
        put(log, b"during")
    assert printed(READER, tmp_path / "moved").split() == ["before"]
    with suppress(PoisonedError):
        log.close()
    with closing(open_log(tmp_path / "moved")) as again:
        assert held(again) == [b"before"]


READER = (
    "import sys; from eventlog.log.embedded.engine import open_log\n"
    "log = open_log(sys.argv[1], read_only=True)\n"
    "print(' '.join(commit.payload.decode() for commit in log.read('s')))"
)
WORKER = """
import sys
import eventlog
with eventlog.open(sys.argv[1]) as store:
    session = store.session("s")
    session.user("from the worker")
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            session.user("after")
            print("acknowledged", flush=True)
        except eventlog.PoisonedError:
            print("refused", store.log.stopped, flush=True)
"""


@pytest.mark.promise(1, 12)
def test_a_restored_store_in_the_place_of_one_that_others_have_open(tmp_path: Path) -> None:
    """Promises 1, 12: all processes that opened the old one are refused, a new one goes on."""
    path = tmp_path / "s"
    with suppress(PoisonedError), eventlog.open(path) as store:
        session = store.create_session(id="s")
        session.user("here")
        store.backup(tmp_path / "backup")
        workers = [Program("-c", WORKER, path) for _ in range(2)]
        assert [worker.hear() for worker in workers] == ["ready", "ready"]
        eventlog.restore(tmp_path / "backup", tmp_path / "new")
        moved(path)
        (tmp_path / "new").rename(path)
        for worker in workers:
            worker.tell("go on")
            assert worker.hear() == "refused True"
        with pytest.raises(PoisonedError, match=SAYS):
            session.user("after")
        with eventlog.open(path) as restored:
            restored.session("s").user("in the restored one")
            assert restored.info("s").messages == 2
        for worker in workers:
            worker.end()
    with eventlog.open(tmp_path / "moved", read_only=True) as store:
        assert store.info("s").messages == 3
