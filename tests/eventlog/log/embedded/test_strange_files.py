"""Non-regular and endless files in a store's place: an error at once, never a wait."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import eventlog
from eventlog.errors import DamagedError, EventlogError, KeysError
from projections.cli.app import run
from projections.cli.exits import Exit

TERABYTES = 4 << 40


@contextmanager
def within(seconds: int) -> Generator[None]:
    """Interrupt a call that would wait for ever."""

    def late(_number: int, _frame: object) -> None:
        raise AssertionError("this waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fifo(path: Path) -> None:
    """Make a named pipe without a writer."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    """A device of endless zeros."""
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def hole(path: Path) -> None:
    """The file, followed by terabytes of hole."""
    path.touch()
    os.truncate(path, TERABYTES)


NAMES = [
    "format",
    "lock",
    "turn",
    "mark",
    "open",
    "unfinished",
    "generation",
    "1/journal/0000000001.log",
    "1/lmdb/data.mdb",
    "1/lmdb/lock.mdb",
]
USES: dict[str, Callable[[Path, Path], object]] = {
    "open": lambda store, _: read(store, read_only=False),
    "open to read": lambda store, _: read(store, read_only=True),
    "restore": eventlog.restore,
    "repair": eventlog.repair,
    "restore into": lambda store, new: eventlog.restore(new, store),
}


def read(path: Path, *, read_only: bool) -> None:
    """Open the store and read everything."""
    with eventlog.open(path, read_only=read_only) as store:
        assert len([*store.session("a").events()]) > 1


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small store."""
    path = tmp_path_factory.mktemp("sound") / "store"
    with eventlog.open(path) as store:
        store.create_session(id="a").user("hello")
    return path


@pytest.mark.parametrize("make", [fifo, device])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_waits_for_what_is_no_file(
    name: str, make: Callable[[Path], None], sound: Path, tmp_path: Path
) -> None:
    """A FIFO or device in place of any file of the store is damage, named at once."""
    store, new = tmp_path / "store", tmp_path / "new"
    shutil.copytree(sound, store)
    make(store / name)
    for use, call in USES.items():
        with within(20), pytest.raises(EventlogError) as refused:
            call(store, new if use != "restore into" else sound)
        assert isinstance(refused.value, DamagedError) or use == "restore into", use
        assert use == "restore into" or f"{store / name} is a " in str(refused.value)
    with within(20):
        assert run(["--store", str(store), "verify"]) == Exit.FAULTS


@pytest.mark.parametrize("name", NAMES)
def test_a_hole_without_an_end_is_not_read(name: str, sound: Path, tmp_path: Path) -> None:
    """A file that claims terabytes is refused or read to its data, fast, in little memory."""
    store = tmp_path / "store"
    shutil.copytree(sound, store)
    hole(store / name)
    for number, call in enumerate(USES.values()):
        with within(20), suppress(EventlogError):
            call(store, tmp_path / f"new{number}")


def test_a_journal_with_a_hole_behind_it_is_read(sound: Path, tmp_path: Path) -> None:
    """A journal with a sparse end of terabytes reads as without it, and repair saves it."""
    store = tmp_path / "store"
    shutil.copytree(sound, store)
    hole(store / "1" / "journal" / "0000000001.log")
    with within(20):
        read(store, read_only=True)
        assert eventlog.repair(store, tmp_path / "new").losses == ()
    read(tmp_path / "new", read_only=False)


@pytest.mark.parametrize("number", ["²", "٣", "9" * 5000, "-1"])
@pytest.mark.parametrize(
    ("name", "text"),
    [("format", "eventlog store\nformat {}\nlmdb 0\n"), ("generation", "generation {}\nrewriting 9b1c\n")],
)
def test_a_number_that_is_none_is_damage(name: str, text: str, number: str, sound: Path, tmp_path: Path) -> None:
    """A small file whose number is no decimal one of 64 bits is damage, for every use."""
    store = tmp_path / "store"
    shutil.copytree(sound, store)
    (store / name).write_text(text.format(number), encoding="utf-8")
    for read_only in (True, False):
        with pytest.raises(DamagedError):
            read(store, read_only=read_only)
    with suppress(EventlogError):
        eventlog.repair(store, tmp_path / "new")


def test_a_key_file_is_a_file(tmp_path: Path) -> None:
    """A FIFO in place of the key file is refused at once."""
    with eventlog.open(tmp_path / "s", keys=tmp_path / "k"):
        pass
    fifo(tmp_path / "k")
    with within(20), pytest.raises(KeysError, match="is not a file"):
        eventlog.open(tmp_path / "s", keys=tmp_path / "k")


def test_a_path_that_is_no_utf8(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A path may have every byte of the file system: of a store, its copies and exports."""
    place = tmp_path / os.fsdecode(b"p\xe9")
    place.mkdir()
    with eventlog.open(place / "s") as store:
        store.create_session(id="a").user("hi")
        store.backup(place / "b")
    for command in (
        ["restore", place / "b", "--into", place / "r"],
        ["--store", place / "r", "repair", "--into", place / "n"],
        ["--store", place / "n", "vacuum"],
        ["--store", place / "n", "search", "hi"],
        ["--store", place / "n", "export", "--format", "sqlite", "-o", place / "x.db"],
    ):
        assert run([*map(str, command)]) == Exit.OK, capfd.readouterr().err
