"""Generations of a store's files: a rewriting makes the next one beside the one in force.

`lmdb/`, `journal/` and `derived/` of generation N are in the directory `N`.  A rewriting fills the
directory of the next number. Then the file `generation` is renamed into place: from that moment the
next one is the store, whole. A store without the file, never rewritten, is of generation 1.

Each process locks the directory of the generation that it reads (`Hold`). An earlier generation is
overwritten and removed by the first process that finds it unlocked (`sweep`); every step can be
repeated. The directory of the store itself is locked by the process that rewrites it.

The word *rewriting* is random, new with every rewriting: a copy that has another is written anew.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from eventlog.errors import BusyError, DamagedError
from eventlog.log.embedded.filesystem import (
    NO_ROOM,
    is_number,
    read_small,
    remove_all,
    sync_directory,
    unreadable,
    write_small,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from eventlog.log.embedded.filesystem import JournalIO

DERIVED = "derived"
"""Directory of what layers above the log made of it: made again after a rewriting."""
_NAME = "generation"
_PIECE = 1 << 20
_PATIENCE = 60.0
_POLL = 0.02
_TRIES = 100
"""Rewritings that may overtake an opening."""


class Generation(NamedTuple):
    """Which of the directories are the store, and which content they have."""

    number: int = 1
    rewriting: str = ""
    """ "" if the store was never rewritten."""

    @property
    def text(self) -> str:
        """The content of the file."""
        return f"generation {self.number}\nrewriting {self.rewriting}\n"


class Hold:
    """The shared lock on a generation that a process reads; it ends with the last reference."""

    def __init__(self, fd: int, generation: Generation) -> None:
        self._fd = fd
        self._pid = os.getpid()
        self.generation = generation

    def close(self) -> None:
        """Release the lock; a child of `os.fork` only closes what it has inherited of it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if self._pid == os.getpid():
                _unlock(fd)
            else:
                os.close(fd)

    __del__ = close

    def __reduce__(self) -> NoReturn:  # the end of a copy would close the descriptor, or another's by then
        raise TypeError("the lock on a generation cannot be copied")


def _unlock(fd: int) -> None:
    """Release a lock and close its file, which a child of `os.fork` may have inherited."""
    try:
        flock(fd, LOCK_UN)
    finally:
        os.close(fd)


def in_force(path: Path) -> Generation:
    """Return the generation of the store at `path`; `DamagedError` if its file is damaged."""
    try:
        text = read_small(path / _NAME)
    except (FileNotFoundError, NotADirectoryError):
        return Generation()
    except OSError as error:
        raise unreadable(path / _NAME, error) from error
    words = text.split()
    number, word = words[1:4:2] if len(words) == 4 else ("", "")
    found = Generation(int(number) if is_number(number) else 0, word)
    if not found.number or found.text != text:
        raise DamagedError(f"the file {path / _NAME} is damaged")
    return found


def of(path: Path) -> dict[int, Path]:
    """Return the directories of all generations at `path` by number, those half made included."""
    if not path.is_dir():
        return {}
    return {
        int(entry.name): entry
        for entry in sorted(path.iterdir())
        if is_number(entry.name) and entry.name[0] != "0" and entry.is_dir()
    }


def files_of(path: Path) -> Path:
    """Return the directory of the generation in force."""
    return path / str(in_force(path).number)


def hold(path: Path) -> Hold:
    """Lock the generation in force, so that it stays when another follows it."""
    for _ in range(_TRIES):
        found = in_force(path)
        fd = -1
        try:
            fd = os.open(path / str(found.number), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            flock(fd, LOCK_SH | LOCK_NB)
            if in_force(path) == found:
                held, fd = Hold(fd, found), -1
                return held
        except (FileNotFoundError, BlockingIOError):  # it was removed, or is being removed
            if in_force(path) == found:
                if fd < 0:
                    raise DamagedError(f"{path / str(found.number)} is missing: the files of the store") from None
                raise BusyError(f"another program has locked {path / str(found.number)}") from None
        except OSError as error:
            raise unreadable(path / str(found.number), error) from error
        finally:
            if fd >= 0:
                os.close(fd)
    raise BusyError(f"{path} is rewritten again and again")


def begin(path: Path, word: str) -> Path:
    """Return the directory of the first generation, in a directory that is no store yet."""
    if word:
        write_small(path / _NAME, Generation(1, word).text)
    else:
        (path / _NAME).unlink(missing_ok=True)
    return path / "1"


@contextmanager
def rewriting(path: Path, *, shared: bool = False) -> Generator[None]:
    """Hold the right to rewrite a store, or with `shared` keep others from it.

    `BusyError` if another program has it for a minute.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    until = time.monotonic() + _PATIENCE
    try:
        while True:
            try:
                flock(fd, (LOCK_SH if shared else LOCK_EX) | LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise BusyError(f"{path} is being rewritten or copied by another program") from None
            time.sleep(_POLL)
        yield
    finally:
        _unlock(fd)


def following(path: Path) -> Path:
    """Return the empty directory of the next generation; what earlier tries left is removed."""
    discard(path)
    made = path / str(in_force(path).number + 1)
    made.mkdir(mode=0o700)
    return made


def discard(path: Path) -> None:
    """Overwrite and remove what unfinished rewritings left."""
    (path / f"{_NAME}.new").unlink(missing_ok=True)
    number = in_force(path).number
    for other, directory in of(path).items():
        if other > number:
            _shred(directory)
            remove_all(directory)


def commit(path: Path, word: str) -> None:
    """Make the next generation the store."""
    number = in_force(path).number + 1
    sync_directory(path / str(number))
    sync_directory(path)
    write_small(path / _NAME, Generation(number, word).text)


def sweep(path: Path, io: JournalIO) -> tuple[int, ...]:
    """Overwrite and remove the earlier generations that no process reads.

    Return the processes that read others, by the system's list of locks; 0 is an unknown one.
    """
    number = in_force(path).number
    pending: set[int] = set()
    old = [directory for other, directory in of(path).items() if other < number]
    for directory in old:
        with suppress(FileNotFoundError):  # another process removes it
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                flock(fd, LOCK_EX | LOCK_NB)
                io.reach("generations: old")
                _shred(directory)
                io.reach("generations: overwritten")
                remove_all(directory, ignore_errors=True)
            except BlockingIOError:
                pending.update(_holders(fd) or {0})
            finally:
                _unlock(fd)
    if old:
        sync_directory(path)
    return tuple(sorted(pending))


def _holders(fd: int) -> set[int]:
    """Return the processes that have a lock on a directory, where the system lists them."""
    status = os.fstat(fd)
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with suppress(OSError):
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
        return {int(words[4]) for words in map(str.split, lines) if len(words) > 5 and words[5] == wanted}
    return set()


def _shred(directory: Path) -> None:
    """Overwrite files with zeros in place, as far as the file system writes in place.

    One that writes elsewhere may have no room for that: then the files are removed as they are.
    """
    for file in directory.rglob("*"):
        try:
            if file.is_symlink() or not file.is_file():
                continue
            with file.open("r+b") as stream:
                remaining = file.stat().st_size
                while remaining > 0:
                    remaining -= stream.write(bytes(min(_PIECE, remaining)))
                stream.flush()
                os.fsync(stream.fileno())
        except (FileNotFoundError, IsADirectoryError):
            pass
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
