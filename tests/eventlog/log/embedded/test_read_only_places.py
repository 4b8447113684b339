"""Reading a store that this user may not write: it works where nobody writes it, and says precisely why it does not elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import eventlog
from eventlog.errors import BusyError, StorageError

NOBODY = 65534


@pytest.fixture
def store(tmp_path: Path) -> Generator[Path]:
    """A small store that everybody may read."""
    path = tmp_path / "store"
    with eventlog.open(path) as opened:
        opened.create_session(id="a").user("hello")
    for above in (tmp_path, *tmp_path.parents[:2]):
        above.chmod(0o755)
    modes(path, 0o755, 0o644)
    yield path
    modes(path, 0o755, 0o644)


def modes(path: Path, directories: int, files: int) -> None:
    """Give all of a store these rights."""
    for entry in [path, *path.rglob("*")]:
        entry.chmod(directories if entry.is_dir() else files)


def as_another_user(job: Callable[[], str]) -> str:
    """What a job returns that runs without the rights of root, and without those of the files' owner if that is root."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os.write(writer, job().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def read(path: Path) -> str:
    """The number of events, or the error."""
    try:
        with eventlog.open(path, read_only=True) as store:
            return str(len([*store.session("a").events()]))
    except (StorageError, BusyError) as error:
        return f"{type(error).__name__}: {error}"


def test_a_store_that_nobody_may_write_is_read(store: Path) -> None:
    """An archive (chmod -R a-w) can be read by its owner, and by another user, and is as it was."""
    modes(store, 0o555, 0o444)
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    assert as_another_user(lambda: read(store)) == "3"
    (store / "lmdb").chmod(0o755)
    (store / "lmdb" / "lock.mdb").unlink()
    (store / "lmdb").chmod(0o555)
    assert as_another_user(lambda: read(store)) == "3"
    assert all(path.stat().st_mtime_ns == time for path, time in before.items() if path.is_file())


def test_a_directory_that_may_not_be_written_is_read(store: Path) -> None:
    """The rights of the directories do not matter to one who may write the lock file that a reader writes into."""
    modes(store, 0o555, 0o666)
    assert as_another_user(lambda: read(store)) == "3"


def test_files_of_another_user_say_what_is_missing(store: Path) -> None:
    """Where others may write while this user may not, the error says why reading would not be sound, and what helps."""
    if os.getuid() != 0:
        modes(store, 0o755, 0o644)
        return
    said = as_another_user(lambda: read(store))
    assert said.startswith("StorageError")
    assert "lock.mdb" in said
    assert "chmod -R a-w" in said
    store.chmod(0o700)
    assert "Permission denied" in as_another_user(lambda: read(store))
    store.chmod(0o755)
    assert as_another_user(lambda: read(store)) == said
