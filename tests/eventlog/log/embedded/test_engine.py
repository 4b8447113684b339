"""The embedded engine: sharing, `os.fork()`, refusals, folding, and LMDB's pitfalls."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import lmdb
import pytest

from eventlog.codec.large_texts import body_text
from eventlog.errors import (
    BusyError,
    CallError,
    ClosedError,
    DamagedError,
    NotFoundError,
    PoisonedError,
    ReadOnlyError,
    TooNewError,
    UnsupportedStorageError,
)
from eventlog.log.commit import Append, Commit, Committed, Head, LeaseState
from eventlog.log.embedded.engine import EmbeddedLog, open_log
from eventlog.log.embedded.filesystem import filesystem_type, refuse_network_filesystem
from eventlog.log.embedded.segments.environment import LIB_VERSION, MAX_READERS
from eventlog.log.embedded.segments.layout import protect
from eventlog.log.merkle import leaf_data, leaf_hash, node_hash, root_of
from eventlog.values import Body
from tests.support.decisions import MARKED, at_decision
from tests.support.embedded_log import abandon, put
from tests.support.faulty_io import FaultyIO
from tests.support.log_golden import CARD, GOLDEN, SLOW, STREAMED, TEXT, write
from tests.support.python_process import ROOT
from tests.support.sample_sessions import begin

HASH = bytes(range(32))
EIO = OSError(errno.EIO, os.strerror(errno.EIO))


def run(code: str, *arguments: object) -> str:
    """Run a program in a process of its own, with warnings as errors; returns what it printed."""
    warnings = ("-W", "error", "-W", "ignore:This process:DeprecationWarning")
    command = [sys.executable, *warnings, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_same_path_twice_is_one_log(tmp_path: Path) -> None:
    """Two handles on one directory, under any path, share one log; closing one leaves it open."""
    path = tmp_path / "s"
    first = open_log(path)
    (tmp_path / "link").symlink_to(path)
    second = open_log(tmp_path / "link")
    put(first)
    assert second.last_position() == 1
    assert first._partition is second._partition
    first.close()
    first.close()
    with pytest.raises(ClosedError):
        first.head("s")
    put(second)
    second.close()
    third = open_log(path)
    assert third._partition is not second._partition
    assert third.last_position() == 2
    third.close()


def test_other_options_for_an_open_path(tmp_path: Path) -> None:
    """Opening an open path with other options, or with an unknown option, is `CallError`."""
    log = open_log(tmp_path / "s")
    with pytest.raises(CallError):
        open_log(tmp_path / "s", fold_bytes=1)
    with pytest.raises(CallError):
        open_log(tmp_path / "s", no_such_option=1)
    put(log)
    log.close()
    open_log(tmp_path / "s", fold_bytes=1 << 20).close()


def require_read_only(log: EmbeddedLog) -> None:
    """Have a log refuse every write, and nothing else."""
    for write_something in (
        lambda: log.submit(Append(session="s", payload=b"", count=1, time=1)),
        lambda: log.set_lease("s", LeaseState(1), replaces=LeaseState()),
        lambda: log.put_derived([(b"k", b"v")]),
    ):
        with pytest.raises(ReadOnlyError):
            write_something()
    log.sync()


def test_a_reader_beside_a_writer(tmp_path: Path) -> None:
    """A read handle beside a write handle sees everything and refuses writes."""
    path = tmp_path / "s"
    log = open_log(path, fold_bytes=1 << 20)
    reader = open_log(path, read_only=True)
    assert (log.read_only, reader.read_only) == (False, True)
    put(log)
    assert [c.payload for c in reader.read("s")] == [b"p"]
    require_read_only(reader)
    log.close()
    assert reader.last_position() == 1
    again = open_log(path, fold_bytes=1 << 20)
    reader.close()
    assert put(again).first == 2
    again.close()


def test_a_writer_beside_a_reader(tmp_path: Path) -> None:
    """Opening for writing where the process has only readers is a `CallError` with advice."""
    path = tmp_path / "s"
    open_log(path).close()
    reader = open_log(path, read_only=True)
    other = open_log(path, read_only=True)
    with pytest.raises(CallError, match="close that handle first"):
        open_log(path)
    reader.close()
    other.close()
    open_log(path).close()


def test_new_directories_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 1: every directory made for a store is synced, with its existing parent."""
    synced: list[Path] = []

    def sync(path: Path) -> None:
        synced.append(path)

    monkeypatch.setattr("eventlog.log.embedded.directory.sync_directory", sync)
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "a" / "b" / "c", Path("d") / "e", Path("f")):
        synced.clear()
        open_log(path).close()
        whole = path.absolute()
        assert synced[-1] == tmp_path
        assert {entry for entry in (whole, *whole.parents) if entry.is_relative_to(tmp_path)} <= set(synced)
    (tmp_path / "empty").mkdir()
    synced.clear()
    open_log(tmp_path / "empty").close()
    assert {tmp_path / "empty", tmp_path} <= set(synced)


def test_a_forgotten_handle_is_closed(tmp_path: Path) -> None:
    """A garbage-collected handle closes itself and commits everything that was submitted."""
    log = open_log(tmp_path / "s")
    partition = log._partition
    ticket = log.submit(Append(session="s", payload=b"", count=1, time=1, creates_at=0))
    del log
    gc.collect()
    assert ticket.wait(30).first == 1
    deadline = time.monotonic() + 30
    while not partition.closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert partition.closed


def test_files_are_private(tmp_path: Path) -> None:
    """Directories are 0700 and files 0600 under every umask."""
    before = os.umask(0)
    try:
        log = open_log(tmp_path / "s", journal_bytes=8 << 10)
        for _ in range(10):
            put(log, bytes(3000))
        log.close()
    finally:
        os.umask(before)
    for path in [tmp_path / "s", *(tmp_path / "s").rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


FORK = """
import os, sys
from eventlog.errors import ForkedProcessError
from eventlog.log.commit import Append, LeaseState
from eventlog.log.embedded.engine import open_log
log = open_log(sys.argv[1])
log.submit(Append(session="s", payload=b"parent", count=1, time=1, creates_at=0)).wait(30)
uses = [
    lambda: log.submit(Append(session="s", payload=b"", count=1, time=1)), lambda: log.read("s"),
    lambda: log.head("s"), lambda: log.heads(), lambda: log.commits_after(0), lambda: log.last_position(),
    lambda: log.wait_after(0, 1), lambda: log.request("s", "r"), lambda: log.body(b""), lambda: log.bodies(),
    lambda: log.set_lease("s", LeaseState(), replaces=LeaseState()), lambda: log.get_derived(b"k"),
    lambda: log.put_derived([(b"k", b"v")]), lambda: log.scan_derived(b""), lambda: log.sync(), lambda: log.check(),
]
child = os.fork()
if child == 0:
    refused = 0
    for use in uses:
        try:
            use()
        except ForkedProcessError:
            refused += 1
    log.close()
    again = open_log(sys.argv[1])
    again.submit(Append(session="s", payload=b"child", count=1, time=1)).wait(30)
    again.close()
    os._exit(0 if refused == len(uses) else 1)
_, status = os.waitpid(child, 0)
assert status == 0, status
log.submit(Append(session="s", payload=b"parent again", count=1, time=1)).wait(30)
print([c.payload.decode() for c in log.read("s")], log.check())
log.close()
"""


def test_a_fork(tmp_path: Path) -> None:
    """Every use in a forked child is `ForkedProcessError`; child may reopen, parent goes on."""
    assert run(FORK, tmp_path / "s") == "['parent', 'child', 'parent again'] []"


ORPHAN = """
import os, signal, sys, time
from eventlog.log.commit import Append
from eventlog.log.embedded.engine import open_log
log = open_log(sys.argv[1])
log._partition.lock.acquire()
child = os.fork()
if child == 0:
    sys.stdout.close()
    os.close(1)
    os.close(2)
    time.sleep(30)
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_does_not_keep_the_writers_lock(tmp_path: Path) -> None:
    """The writers' lock of a dead process is free, also if its forked child lives on."""
    command = [sys.executable, "-W", "ignore", "-c", ORPHAN, str(tmp_path / "s")]
    child = int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout)
    try:
        log = open_log(tmp_path / "s", busy_timeout=5.0)
        put(log)
        log.close()
    finally:
        os.kill(child, signal.SIGKILL)


BUSY_FORK = (
    FORK.split("child = os.fork()", maxsplit=1)[0].replace("import os, sys", "import os, signal, sys, threading")
    + """
stop = threading.Event()
def write():
    while not stop.is_set():
        log.submit(Append(session="s", payload=b"x" * 500, count=1, time=1))
        log.put_derived([(b"k", b"v" * 1000)])
def look():
    while not stop.is_set():
        log.commits_after(0, 10), log.head("s"), list(log.read("s", 0, 5)), log.get_derived(b"k"), log.check
threads = [threading.Thread(target=work) for work in (write, write, look, look)]
for thread in threads:
    thread.start()
for _ in range(12):
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # a child that hangs is killed, and seen by its status
        refused = 0
        for use in uses:
            try:
                use()
            except ForkedProcessError:
                refused += 1
        log.close()
        os._exit(0 if refused == len(uses) else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
stop.set()
for thread in threads:
    thread.join()
log.sync()
print(log.check())
log.close()
"""
)


def test_a_fork_while_threads_are_at_work(tmp_path: Path) -> None:
    """No use hangs in a child forked beside busy threads: each is `ForkedProcessError`."""
    assert run(BUSY_FORK, tmp_path / "s") == "[]"


def test_network_file_systems_are_refused(tmp_path: Path) -> None:
    """A path on NFS, SMB or the like is refused; the longest mount point decides."""
    mounts = [
        "22 1 8:1 / / rw - ext4 /dev/sda rw",
        "23 22 0:5 / /net rw,relatime shared:1 - nfs4 server:/x rw",
        f"24 22 0:6 / {tmp_path}/with\\040blank rw - cifs //server/x rw",
        "25 23 8:2 / /net/local rw - xfs /dev/sdb rw",
        "broken line",
    ]
    assert filesystem_type(Path("/home"), mounts) == "ext4"
    assert filesystem_type(Path("/net/x/y"), mounts) == "nfs4"
    assert filesystem_type(Path("/network"), mounts) == "ext4"
    assert filesystem_type(Path("/net/local/x"), mounts) == "xfs"
    info = tmp_path / "mountinfo"
    info.write_text("\n".join(mounts))
    with pytest.raises(UnsupportedStorageError):
        refuse_network_filesystem(tmp_path / "with blank" / "store", info)
    refuse_network_filesystem(tmp_path / "other", info)
    refuse_network_filesystem(tmp_path, tmp_path / "no such file")


def test_something_else_at_the_path(tmp_path: Path) -> None:
    """A path that is a file or a directory with other content is refused and left alone."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "x").write_text("x")
    for name in ("file", "directory"):
        for read_only in (False, True):
            with pytest.raises(CallError):
                open_log(tmp_path / name, read_only=read_only)
    assert [entry.name for entry in (tmp_path / "directory").iterdir()] == ["x"]


def test_nothing_at_the_path(tmp_path: Path) -> None:
    """Opening a missing store for reading is `NotFoundError` and creates nothing."""
    with pytest.raises(NotFoundError):
        open_log(tmp_path / "s", read_only=True)
    assert not (tmp_path / "s").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError):
        open_log(tmp_path / "empty", read_only=True)
    open_log(tmp_path / "empty").close()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("eventlog store\nformat 4\nlmdb 0\npage 4096\n", TooNewError),
        ("eventlog store\nformat 3\nlmdb 1\npage 4096\n", TooNewError),
        ("eventlog store\nformat 0\nlmdb 0\npage 4096\n", DamagedError),
        ("", DamagedError),
        ("eventlog store\nformat x\nlmdb 0\n", DamagedError),
        ("eventlog store\nformat 1\n", DamagedError),
        ("something else\nformat 1\nlmdb 0\n", DamagedError),
    ],
)
def test_the_format_file(tmp_path: Path, text: str, error: type[Exception]) -> None:
    """A format file of a later program is `TooNewError`, any other one `DamagedError`."""
    open_log(tmp_path / "s").close()
    (tmp_path / "s" / "format").write_text(text)
    with pytest.raises(error):
        open_log(tmp_path / "s")


def test_a_lost_format_file_is_no_empty_store(tmp_path: Path) -> None:
    """A store without its format file is damaged and is not made anew over its content."""
    for folded in (False, True):
        path = tmp_path / f"s{folded}"
        log = open_log(path)
        put(log)
        if folded:
            log.close()
        else:
            abandon(log)
        (path / "format").unlink()
        with pytest.raises(DamagedError):
            open_log(path)


def test_a_store_half_made(tmp_path: Path) -> None:
    """A store whose creation was interrupted is completed by the next opening."""
    path = tmp_path / "s"
    open_log(path).close()
    (path / "format").unlink()
    (path / "mark").unlink()
    log = open_log(path)
    put(log)
    log.close()


def test_read_only(tmp_path: Path) -> None:
    """A log opened for reading refuses writes, changes no byte, and sees unfolded commits."""
    path = tmp_path / "s"
    log = open_log(path)
    put(log, bodies=[(HASH, b"body")])
    abandon(log)
    kept = {file: file.read_bytes() for file in path.rglob("*") if file.is_file() and file.name != "lock.mdb"}
    log = open_log(path, read_only=True)
    assert log.read_only
    assert [c.payload for c in log.read("s")] == [b"p"]
    assert log.body(HASH) == b"body"
    require_read_only(log)
    log.close()
    assert {file: file.read_bytes() for file in kept} == kept


def test_a_full_queue_blocks_and_never_drops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full queue blocks the producer, then raises `BusyError`, and drops nothing accepted."""
    log = open_log(tmp_path / "s", queue_bytes=2000, busy_timeout=0.2)
    put(log)
    started, release = threading.Event(), threading.Event()

    def hold() -> None:
        started.set()
        release.wait(30)

    at_decision(monkeypatch, hold)
    tickets = [log.submit(Append(session="s", payload=b"", count=1, time=MARKED))]
    leader = threading.Thread(target=tickets[0].wait)
    leader.start()
    started.wait(30)
    append = Append(session="s", payload=bytes(700), count=1, time=1)
    tickets += [log.submit(append), log.submit(append)]
    before = time.monotonic()
    with pytest.raises(BusyError):
        log.submit(append)
    assert time.monotonic() - before >= 0.2
    waiting: list[Any] = []

    def produce() -> None:
        while not waiting:
            with suppress(BusyError):  # the leader may be slower than the timeout
                waiting.append(log.submit(append))

    producer = threading.Thread(target=produce)
    producer.start()
    time.sleep(0.02)
    assert not waiting
    release.set()
    producer.join(30)
    leader.join(30)
    assert [ticket.wait(30).first for ticket in [*tickets, *waiting]] == [2, 3, 4, 5]
    log.submit(Append(session="s", payload=bytes(5000), count=1, time=1)).wait(30)
    log.close()


def test_the_writers_lock_is_waited_for_in_bounds(tmp_path: Path) -> None:
    """An append waits for another process's writers' lock, then raises `BusyError`."""
    log = open_log(tmp_path / "s", busy_timeout=0.1)
    put(log)
    with (tmp_path / "s" / "lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BusyError):
            put(log)
        assert [c.first for c in log.read("s")] == [1]
    assert put(log).first == 2
    log.close()


def test_folding_that_fails_holds_writers_back_and_loses_nothing(tmp_path: Path) -> None:
    """While folding fails, appends go on up to a limit, then `BusyError`; nothing is lost."""
    io = FaultyIO()
    io.refused["fold: begun"] = BusyError("stuck")
    path = tmp_path / "s"
    log = open_log(path, io=io, fold_bytes=4096, journal_bytes=16 << 10, busy_timeout=0.1)
    written = [put(log, bytes(2000)).last for _ in range(30)]
    with pytest.raises(BusyError):
        written += [put(log, bytes(2000)).last for _ in range(70)]
    io.refused.clear()
    more = 0
    for _ in range(300):  # folding takes time, too, and a wait for it is bounded by the timeout
        with suppress(BusyError):
            more = put(log, bytes(2000)).last
            break
    assert more == len(list(log.read("s"))) > 30
    assert log.check() == []
    log.close()


@pytest.mark.parametrize("refused", ["unlink", "fold: begun", "fold: committed"])
def test_folding_outlives_what_the_system_refuses(
    tmp_path: Path, refused: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A system error while folding is logged and retried; appends go on afterwards."""
    io = FaultyIO()
    log = open_log(tmp_path / "s", io=io, fold_bytes=4096, journal_bytes=8 << 10, busy_timeout=60.0)
    put(log)
    io.refused[refused] = EIO

    def allow() -> None:
        deadline = time.monotonic() + 30
        while not io.met and time.monotonic() < deadline:
            time.sleep(1e-3)
        io.refused.clear()

    threading.Thread(target=allow).start()  # an append may wait for a fold that makes room
    while io.refused:
        log.submit(Append(session="s", payload=bytes(1000), count=1, time=1)).wait(30)
    for _ in range(150):  # more than the limit of unfolded commits
        log.submit(Append(session="s", payload=bytes(1000), count=1, time=1)).wait(30)
    assert "folding failed" in caplog.text
    log._partition.fold()
    assert log.check() == []
    assert len(list((tmp_path / "s" / "1" / "journal").glob("*.log"))) < 10
    log.close()


@pytest.mark.parametrize("refused", ["fold: begun", "fold: committed"])
def test_a_last_fold_that_fails_is_told_once(tmp_path: Path, refused: str) -> None:
    """`close` raises the last fold's error once and releases everything for a clean reopen."""
    path = tmp_path / "s"
    io = FaultyIO()
    log = open_log(path, io=io)
    put(log)
    io.refused[refused] = EIO
    with pytest.raises(PoisonedError, match="last fold") as caught:
        log.close()
    assert isinstance(caught.value.__cause__, OSError)
    log.close()
    log = open_log(path)
    assert put(log).first == 2
    assert log.check() == []
    log.close()


def test_a_forgotten_handle_whose_fold_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A last fold that fails is logged where no caller calls `close`."""
    io = FaultyIO()
    log = open_log(tmp_path / "s", io=io)
    put(log)
    io.refused["fold: begun"] = EIO
    del log
    gc.collect()
    deadline = time.monotonic() + 30
    while "not folded" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "not folded: PoisonedError caused by OSError EIO" in caplog.text


def test_folding_in_the_background(tmp_path: Path) -> None:
    """Folding beside appends keeps memory and journal small, and every read is complete."""
    path = tmp_path / "s"
    log = open_log(path, fold_bytes=16 << 10, journal_bytes=32 << 10)
    put(log, b"0")
    stop = threading.Event()
    wrong: list[str] = []

    def reader() -> None:
        while not stop.is_set():
            head = log.head("s")
            assert head is not None
            for reverse in (False, True):
                found = [c.first for c in log.read("s", 0, head.version, reverse=reverse)]
                if (found[::-1] if reverse else found) != list(range(1, head.version + 1)):
                    wrong.append(f"read {found} up to {head.version}")
            order = [c.position for c in log.commits_after(max(head.version - 50, 0), 1000)]
            if order != list(range(order[0], order[-1] + 1)):
                wrong.append(f"followed {order}")

    readers = [begin(reader) for _ in range(2)]
    for number in range(1, 300):
        log.submit(Append(session="s", payload=b"%d" % number * 100, count=1, time=1)).wait(30)
    stop.set()
    for each in readers:
        each.result(30)
    assert not wrong, wrong[:3]
    assert log._partition.tail.segments.folded().position > 150
    assert sum(entry.stat().st_size for entry in (path / "1" / "journal").iterdir()) < 400 << 10
    log.close()


def test_lmdb_is_pinned_and_syncs(tmp_path: Path) -> None:
    """LMDB is 0.9 in its default sync mode without writemap, and the format file says so."""
    log = open_log(tmp_path / "s")
    flags = log._partition.tail.segments.environment._env.flags()
    assert (flags["sync"], flags["metasync"], flags["writemap"], flags["map_async"]) == (True, True, False, False)
    assert log._partition.tail.segments.environment._env.lib_version()[0] == LIB_VERSION
    log.close()
    assert f"lmdb {LIB_VERSION}\n" in (tmp_path / "s" / "format").read_text()


def test_a_file_of_another_lmdb_version(tmp_path: Path) -> None:
    """A data file of LMDB 1.0 is a typed error, no crash and no empty store."""
    open_log(tmp_path / "s").close()
    for file in (tmp_path / "s" / "1" / "lmdb").iterdir():
        file.unlink()
    lmdb.open(str(tmp_path / "s" / "1" / "lmdb"), lib_version=1).close()
    with pytest.raises(DamagedError):
        open_log(tmp_path / "s")


@pytest.mark.promise(3)
def test_a_full_map_grows(tmp_path: Path) -> None:
    """A full map grows and the fold is repeated; other processes adopt the larger map."""
    path = tmp_path / "s"
    options = {"map_bytes": 256 << 10, "fold_bytes": 64 << 10}
    log = open_log(path, **options)
    put(log)
    sizes = run(
        "import sys\n"
        "from eventlog.log.embedded.engine import open_log\n"
        "from eventlog.log.contract import Append\n"
        "import os\n"
        "log = open_log(sys.argv[1], map_bytes=256 << 10, fold_bytes=64 << 10)\n"
        "for number in range(40):\n"
        "    log.submit(Append(session='s', payload=os.urandom(20000), count=1, time=1)).wait(30)\n"
        "log.close()\n",
        path,
    )
    assert sizes == ""
    assert len(list(log.read("s"))) == 41
    put(log, os.urandom(400_000))
    log._partition.fold()
    assert log._partition.tail.segments.environment.map_bytes() > 1 << 20
    assert log.check() == []
    assert len(list(log.read("s"))) == 42
    log.close()
    log = open_log(path, **options)
    assert len(list(log.read("s"))) == 42
    log.close()


def test_a_tiny_map_with_readers_at_work(tmp_path: Path) -> None:
    """The map grows under readers of the same process without disturbing them."""
    log = open_log(tmp_path / "s", map_bytes=128 << 10, fold_bytes=32 << 10)
    put(log, b"0")
    stop = threading.Event()

    def reader() -> None:
        while not stop.wait(1e-3):  # three readers that never pause would starve the fold on a busy machine
            assert log._partition.tail.segments.head("nobody") is None
            list(log.read("s"))

    readers = [begin(reader) for _ in range(3)]
    for _ in range(60):
        put(log, os.urandom(20_000))
    stop.set()
    for each in readers:
        each.result(30)
    assert log.check() == []
    log.close()


HELD = """
import lmdb, sys, time
env = lmdb.open(sys.argv[1], lib_version=0, max_dbs=8, map_size=64 << 30, max_readers=254)
txn = env.begin()
print("reading", flush=True)
time.sleep(60)
"""


def test_dead_readers_are_cleared(tmp_path: Path) -> None:
    """A reader that was killed inside a transaction is cleared when the store is opened."""
    path = tmp_path / "s"
    log = open_log(path)
    put(log)
    log.close()
    process = subprocess.Popen([sys.executable, "-c", HELD, str(path / "1" / "lmdb")], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    log = open_log(path)
    assert log._partition.tail.segments.environment._env.reader_check() == 0
    assert str(process.pid) not in log._partition.tail.segments.environment._env.readers()
    log.close()


def test_a_reader_waits_for_room_among_readers(tmp_path: Path) -> None:
    """With all reader slots taken the next reader waits until one of them is free."""
    log = open_log(tmp_path / "s")
    put(log)
    environment = log._partition.tail.segments.environment
    held = [environment._env.begin() for _ in range(MAX_READERS)]
    with pytest.raises(lmdb.ReadersFullError):
        environment._env.begin()
    threading.Timer(0.2, held.clear).start()
    assert not log._partition.tail.segments.has_body(HASH)
    log.close()


def test_another_processes_fold_is_seen(tmp_path: Path) -> None:
    """After another process's fold this one drops its memory and misses no commit."""
    path = tmp_path / "s"
    log = open_log(path)
    put(log, b"mine")
    run(
        "import sys\n"
        "from eventlog.log.embedded.engine import open_log\n"
        "from eventlog.log.contract import Append\n"
        "log = open_log(sys.argv[1])\n"
        "log.submit(Append(session='s', payload=b'theirs', count=1, time=1)).wait(30)\n"
        "log.close()\n",
        path,
    )
    put(log, b"mine again")
    assert [c.payload for c in log.read("s")] == [b"mine", b"theirs", b"mine again"]
    partition = log._partition
    assert partition.tail.segments.folded().position == 2
    assert [c.payload for c in partition.tail.memtable.order(0, 10)] == [b"mine again"]
    log.close()


def test_values_fill_their_pages(tmp_path: Path) -> None:
    """Incompressible values cost little more than their bytes at every size."""
    path = tmp_path / "s"
    log = open_log(path)
    put(log)
    size = 0
    for number in range(400):
        payload, body = os.urandom(2100), os.urandom(4100)
        log.submit(Append(session="s", payload=payload, count=1, time=1, bodies=[(number.to_bytes(32, "big"), body)]))
        size += len(payload) + len(body)
    log.close()
    assert (path / "1" / "lmdb" / "data.mdb").stat().st_size < 1.08 * size


def test_text_is_compressed(tmp_path: Path) -> None:
    """Commits of one session are merged and compressed together by a fold."""
    log = open_log(tmp_path / "s")
    put(log)
    for number in range(500):
        log.submit(Append(session="s", payload=b"the same words again, number %d; " % number * 20, count=1, time=1))
    log.close()
    assert (tmp_path / "s" / "1" / "lmdb" / "data.mdb").stat().st_size < 500 * 680 // 3


def damage(path: Path, what: bytes) -> None:
    """Flip one bit in every copy of some bytes in the data file."""
    file = path / "1" / "lmdb" / "data.mdb"
    data = bytearray(file.read_bytes())
    at = data.find(what)
    assert at >= 0
    while at >= 0:
        data[at + len(what) // 2] ^= 1
        at = data.find(what, at + 1)
    file.write_bytes(data)


def test_damaged_payloads_name_their_place(tmp_path: Path) -> None:
    """A flipped bit in a folded commit is `DamagedError`; other blocks stay readable."""
    path = tmp_path / "s"
    log = open_log(path)
    secret = os.urandom(64)
    put(log, session="fine")
    log.close()
    log = open_log(path)
    put(log, secret, session="hurt")
    log.close()
    damage(path, secret)
    log = open_log(path)
    with pytest.raises(DamagedError) as caught:
        list(log.read("hurt"))
    assert (caught.value.session, caught.value.version) == ("hurt", 1)
    with pytest.raises(DamagedError) as caught:
        log.commits_after(0)
    assert caught.value.position == 2
    assert [c.payload for c in log.read("fine")] == [b"p"]
    assert any("hurt" in line for line in log.check())
    log.close()


@pytest.mark.promise(12)
def test_damaged_heads_and_bodies_are_not_missing(tmp_path: Path) -> None:
    """A damaged head, body or request raises an error and never looks missing."""
    path = tmp_path / "s"
    log = open_log(path)
    entry, body = os.urandom(40), os.urandom(40)
    put(log, entry=entry, bodies=[(HASH, body)], request="r", digest=b"digest of the request")
    log.close()
    damage(path, entry)
    damage(path, body)
    damage(path, b"digest of the request")
    log = open_log(path)
    for use in (
        lambda: log.head("s"),
        lambda: list(log.heads()),
        lambda: list(log.read("s")),
        lambda: log.body(HASH),
        lambda: log.request("s", "r"),
        lambda: log.submit(Append(session="s", payload=b"", count=1, time=1)).wait(30),
        lambda: log.submit(Append(session="s", payload=b"", count=1, time=1, creates_at=0)).wait(30),
    ):
        with pytest.raises(DamagedError):
            use()
    assert len(log.check()) >= 2
    log.close()


ROWS: list[tuple[str, bytes, str | None, list[Callable[[EmbeddedLog], object]]]] = [
    ("sessions", b"s", "s", [lambda log: log.head("s"), lambda log: [*log.heads()], lambda log: [*log.read("s")]]),
    ("positions", (1).to_bytes(8, "big"), None, [lambda log: log.commits_after(0)]),
]


@pytest.mark.parametrize(("tree", "key", "session", "uses"), ROWS)
def test_rows_of_another_make_are_damage(
    tmp_path: Path, tree: str, key: bytes, session: str | None, uses: list[Callable[[EmbeddedLog], object]]
) -> None:
    """A row with a right checksum and foreign content is `DamagedError` with its session."""
    log = open_log(tmp_path / "s")
    put(log)
    log._partition.fold()
    environment = log._partition.tail.segments.environment
    environment.writing(lambda txn: txn.put(key, protect(key, b"\xc3"), db=environment.trees[tree]))
    for use in uses:
        with pytest.raises(DamagedError) as caught:
            use(log)
        assert caught.value.session == session
    abandon(log)


def test_damaged_derived_values_are_absent(tmp_path: Path) -> None:
    """A damaged derived value counts as absent: derived values are disposable."""
    path = tmp_path / "s"
    log = open_log(path)
    value = os.urandom(40)
    log.put_derived([(b"k1", value), (b"k2", b"fine")])
    log.close()
    damage(path, value)
    log = open_log(path)
    assert log.get_derived(b"k1") is None
    assert log.scan_derived(b"k") == [(b"k2", b"fine")]
    log.close()


def test_derived_values_are_written_when_there_are_many(tmp_path: Path) -> None:
    """Derived values do not pile up in memory, and can be read while they are written."""
    log = open_log(tmp_path / "s")
    for number in range(40):
        log.put_derived([(b"%03d" % number, bytes(100_000))])
        assert log.get_derived(b"%03d" % number) == bytes(100_000)
    deadline = time.monotonic() + 30
    while log._partition.derived.full and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not log._partition.derived.full
    assert len(log.scan_derived(b"0")) == 40
    log.close()


def open_golden(tmp_path: Path, name: str) -> EmbeddedLog:
    """A copy of a golden store."""
    with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
        archive.extractall(tmp_path / name)
    return open_log(tmp_path / name, map_bytes=1 << 20)


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("log-v1-*.zip")))
def test_golden_stores_are_read(tmp_path: Path, name: str) -> None:
    """Golden stores of earlier program versions, folded or not, read as they were written."""
    log = open_golden(tmp_path, name)
    fork = "fork of \u00e4"
    salts = [b"%016d" % number for number in range(64, 58, -1)]
    commits = [
        Commit("a", 1, 2, 1, 0, 1000, b"first", None, salts[0], bytes.fromhex("04ea93bf273e79cd")),
        Commit(fork, 42, 1, 3, 0, 2000, b"second" * 100, "r1", salts[1], bytes.fromhex("778e8bc228f30080")),
        Commit("a", 3, 3, 4, 0, 3000, b"", None, salts[2], bytes.fromhex("4fe509f2dc5be102")),
        Commit("a", 6, 1, 7, 7, 5000, b"last", "r2", salts[3], bytes.fromhex("d70490a3e0188736")),
        Commit("streamed", 1, 8, 8, 0, 6000, STREAMED, None, salts[4], bytes.fromhex("d9a472c0d058fc00")),
        Commit("streamed", 9, 3, 16, 0, 7000, SLOW, None, salts[5], bytes.fromhex("faab48233bf2d85a")),
    ]
    leaves = [leaf_hash(leaf_data(commit)) for commit in commits]
    peaks = node_hash(leaves[0], leaves[2]) + leaves[3]
    assert list(log.heads()) == [
        Head("a", 6, 7, 0, 1000, 5000, 1, b"", LeaseState(7, b"owner", 4000), 3, peaks),
        Head(fork, 42, 3, 41, 2000, 2000, 0, b"", LeaseState(), 1, leaves[1]),
        Head("streamed", 11, 18, 0, 6000, 7000, 0, CARD, LeaseState(), 2, node_hash(leaves[4], leaves[5])),
    ]
    assert root_of(peaks).hex() == "6ac327367621354cf5540b86eb7f1dffd58d6ca9a8726d592ba59528d65d9de8"
    assert log.commits_after(0) == commits
    text = sha256(TEXT).digest()
    assert sorted(log.bodies()) == sorted((HASH, text))
    assert log.body(HASH) == b"packed body"
    assert body_text(Body(text, len(TEXT), len(TEXT)), log.body(text) or b"") == TEXT.decode()
    derived = {b"derived": b"a value that is kept compressed" * 20, b"small": b"value"}
    assert dict(log.scan_derived(b"")) == (derived if name.endswith("-folded") else {})
    assert log.request(fork, "r1") == Committed(fork, 42, 42, 3, repeated=True)
    assert log.check() == []
    assert put(log, session="a", epoch=7).first == 7
    log.close()


def test_the_journal_is_written_as_ever(tmp_path: Path) -> None:
    """The journal's bytes are frozen: the same commits give the golden file's bytes."""
    write("1", tmp_path)
    with (
        zipfile.ZipFile(GOLDEN / "log-v1-unfolded.zip") as golden,
        zipfile.ZipFile(tmp_path / "log-v1-unfolded.zip") as fresh,
    ):
        for name in ("format", "mark", "1/journal/0000000001.log"):
            assert golden.read(name) == fresh.read(name), name
