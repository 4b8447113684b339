"""Reading a store without write permission: it works, or the error says why it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import eventlog
from eventlog.errors import BusyError, StorageError
from eventlog.log.embedded.filesystem import mounted
from projections.cli.app import run
from projections.cli.exits import Exit
from tests.support.cli_runner import ROOT

NOBODY = 65534


@pytest.fixture
def store() -> Generator[Path]:
    """A small store that every user may read, outside pytest's private directory."""
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        path = Path(place) / "store"
        with eventlog.open(path) as opened:
            opened.create_session(id="a").user("hello")
        modes(path, 0o755, 0o644)
        yield path
        modes(path, 0o755, 0o644)


def modes(path: Path, directories: int, files: int) -> None:
    """Set the permissions of a whole store."""
    for entry in [path, *path.rglob("*")]:
        entry.chmod(directories if entry.is_dir() else files)


def as_another_user(job: Callable[[], str]) -> str:
    """Return the result of a job that runs without root's or the file owner's permissions."""
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
    """The number of events, or the error's text."""
    try:
        with eventlog.open(path, read_only=True) as store:
            return str(len([*store.session("a").events()]))
    except (StorageError, BusyError) as error:
        return f"{type(error).__name__}: {error}"


def test_a_store_that_nobody_may_write_is_read(store: Path) -> None:
    """An archive (chmod -R a-w) is read and backed up by any user, and stays unchanged."""
    modes(store, 0o555, 0o444)
    backup = store.with_name("backup")
    backup.mkdir()
    backup.chmod(0o777)
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    assert as_another_user(lambda: read(store)) == "3"
    assert as_another_user(lambda: str(run(["--store", str(store), "backup", str(backup)]))) == str(int(Exit.OK))
    (store / "1" / "lmdb").chmod(0o755)
    (store / "1" / "lmdb" / "lock.mdb").unlink()
    (store / "1" / "lmdb").chmod(0o555)
    assert as_another_user(lambda: read(store)) == "3"
    assert all(path.stat().st_mtime_ns == time for path, time in before.items() if path.is_file())


def test_a_directory_that_may_not_be_written_is_read(store: Path) -> None:
    """A reader needs write permission on the lock file only, not on the directories."""
    modes(store, 0o555, 0o666)
    assert as_another_user(lambda: read(store)) == "3"


def test_files_of_another_user_say_what_is_missing(store: Path) -> None:
    """Where only others may write, the error says why reading is unsafe and what helps."""
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


READ = """\
import sys
import eventlog
from eventlog.errors import StorageError

try:
    with eventlog.open(sys.argv[1], read_only=True) as store:
        print(len([*store.session("a").events()]))
except StorageError as error:
    print(error)
"""


def read_at_mount(mount: str, store: Path) -> str | None:
    """Output of a program that reads a store at a mount; None if mounting is impossible."""
    place = store.parent / "mounted"
    place.mkdir(exist_ok=True)
    script = f'{{ {mount}; }} >/dev/null 2>&1 || exit 99; exec "$3" -c "$4" "$2"'
    command = ["unshare", "-m", "sh", "-ec", script, "sh", str(store), str(place), sys.executable, READ]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        return None
    if done.returncode == 99 or done.stderr.startswith("unshare"):
        return None
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


BIND = 'mount --bind "$1" "$2" && mount -o remount,ro,bind "$2"'
MEDIUM = 'mount -t tmpfs none "$2" && cp -R "$1/." "$2" && mount -o remount,ro "$2"'


def test_a_mount_to_read_of_what_others_may_write_is_refused(store: Path) -> None:
    """A read-only mount of a store that others write is refused with advice; they go on."""
    said = read_at_mount(BIND, store)
    assert said is None or ("Read-only" in said and "lock.mdb" in said and "chmod -R a-w" in said)
    with eventlog.open(store) as opened:
        opened.session("a").user("goes on")


def test_a_medium_that_no_program_may_write_is_read(store: Path) -> None:
    """A store on a read-only file system is read, as no writer can exist."""
    assert read_at_mount(MEDIUM, store) in {"3", None}


def test_the_mount_of_a_path_is_the_longest_of_its_device() -> None:
    """A path's mount is the longest mount point of its device; options are the file system's."""
    lines = [
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard",
        "42 27 254:0 /a /srv/st\\040ore ro,relatime - ext4 /dev/vda rw,discard",
        "43 27 7:1 / /srv/disc rw,relatime - iso9660 /dev/loop1 ro,nojoliet",
        "44 27 0:9 / /srv/disc/inner rw - tmpfs none rw",
    ]
    assert mounted(Path("/srv/st ore/lmdb"), lines, "254:0") == ["ext4", "/dev/vda", "rw,discard"]
    assert mounted(Path("/srv/disc/lmdb"), lines, "7:1") == ["iso9660", "/dev/loop1", "ro,nojoliet"]
    assert mounted(Path("/srv/disc/inner/lmdb"), lines, "7:1")[2] == "ro,nojoliet"
    assert mounted(Path("/srv/disc/inner/lmdb"), lines, "0:77")[2] == "rw"
    assert mounted(Path("/srv"), [], "7:1") == []
