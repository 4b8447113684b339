"""The journal's bytes, and its behaviour when the operating system refuses a call."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from msgspec import structs

from eventlog.errors import BusyError, DamagedError, PoisonedError, StorageError, TooNewError, UnknownOutcomeError
from eventlog.log.commit import Committed, Head, LeaseState
from eventlog.log.embedded import locks
from eventlog.log.embedded.engine import EmbeddedLog, open_log
from eventlog.log.embedded.filesystem import JournalIO
from eventlog.log.embedded.journal import frames
from eventlog.log.embedded.journal.frames import FILE_HEADER_BYTES
from eventlog.log.embedded.journal.journal import Journal
from eventlog.store import Store
from tests.support.embedded_log import abandon, put
from tests.support.faults.abandoned_store import copied_as_left
from tests.support.faulty_io import FaultyIO
from tests.support.python_process import ROOT
from tests.support.sample_sessions import said

FIRST = "1/journal/0000000001.log"


def payloads(path: Path, **options: Any) -> list[bytes]:
    """The payloads of every commit in a store."""
    log = open_log(path, **options)
    found = [commit.payload for commit in log.commits_after(0)]
    assert log.check() == []
    abandon(log)
    return found


def unfolded(path: Path, count: int = 3) -> bytes:
    """Make a store of `count` unfolded commits; return the used bytes of its journal file."""
    log = open_log(path)
    for number in range(count):
        put(log, b"payload %d" % number)
    end = log._partition.tail.journal.address & frames.OFFSET_MASK
    abandon(log)
    return (path / FIRST).read_bytes()[:end]


def rewrite(path: Path, data: bytes, offset: int = 0) -> None:
    """Overwrite part of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_the_journal_is_complete_by_itself(tmp_path: Path) -> None:
    """An unfolded store keeps entries, totals, leases, request ids and bodies in its journal."""
    log = open_log(tmp_path / "s")
    put(log, b"one", messages=2, entry=b"card", request="r", digest=b"d", bodies=[(bytes(32), b"body")])
    log.set_lease("s", LeaseState(4, b"me", 9), replaces=LeaseState())
    put(log, b"two")
    abandon(log)
    log = open_log(tmp_path / "s")
    head = log.head("s")
    assert head is not None
    assert head == Head("s", 2, 2, 0, 1, 1, 2, b"card", LeaseState(4, b"me", 9), 2, head.peaks)
    assert log.request("s", "r") == Committed("s", 1, 1, 1, repeated=True)
    assert log.body(bytes(32)) == b"body"
    assert [c.payload for c in log.read("s")] == [b"one", b"two"]
    log.close()


def test_one_write_and_one_flush_for_a_commit(tmp_path: Path) -> None:
    """A commit is exactly one `pwrite` and one `fdatasync`, little larger than its payload."""
    io = FaultyIO()
    log = open_log(tmp_path / "s", io=io)
    put(log)
    for size in (1, 200, 4600):
        io.calls.clear()
        put(log, bytes(size))
        assert [name for name, _ in io.calls] == ["pwrite", "fdatasync"]
        assert io.calls[0][1] <= size + 100
    log.close()


@pytest.mark.promise(12)
def test_a_damaged_byte_is_never_silence(tmp_path: Path) -> None:
    """A flipped byte in an acknowledged frame is `DamagedError` at opening, except in padding."""
    path = tmp_path / "s"
    data = unfolded(path)
    wanted = [b"payload 0", b"payload 1", b"payload 2"]
    damaged = 0
    for offset in range(FILE_HEADER_BYTES, len(data)):
        rewrite(path / FIRST, bytes([data[offset] ^ 0x10]), offset)
        try:
            assert payloads(path) == wanted, offset
        except DamagedError:
            damaged += 1
        rewrite(path / FIRST, data[offset : offset + 1], offset)
    assert damaged >= len(data) - FILE_HEADER_BYTES - 7 * len(wanted)
    assert payloads(path) == wanted


def test_check_reads_the_journal_too(tmp_path: Path) -> None:
    """`check` finds a frame damaged on disk while the log is open, though memory still has it."""
    path = tmp_path / "s"
    log = open_log(path)
    put(log, b"one")
    put(log, b"two")
    assert log.check() == []
    offset = (path / FIRST).read_bytes().index(b"two")
    rewrite(path / FIRST, b"TWO", offset)
    assert len(log.check()) == 1
    assert [c.payload for c in log.read("s")] == [b"one", b"two"]
    log.close()


def test_damage_without_a_mark(tmp_path: Path) -> None:
    """Without a watermark a bad frame before a good one is damage; only the last may be torn."""
    path = tmp_path / "s"
    data = unfolded(path)
    last = data.rindex(data[16 + 8 : 16 + 16])  # the salt of the file, at the beginning of each frame
    for offset in range(FILE_HEADER_BYTES, len(data), 5):
        (path / "mark").write_bytes(b"")
        rewrite(path / FIRST, bytes([data[offset] ^ 0x10]), offset)
        found: list[bytes] | int | None
        try:
            found = payloads(path)
        except DamagedError as error:
            found = error.position
        whole = [b"payload 0", b"payload 1", b"payload 2"]
        assert found in ([1, 2, whole] if offset < last else [whole[:2], whole]), offset
        rewrite(path / FIRST, data[FILE_HEADER_BYTES:], FILE_HEADER_BYTES)


@pytest.mark.parametrize("position", [1, 2, (1 << 63) - 1])
def test_positions_that_do_not_increase_are_damage(position: int, tmp_path: Path) -> None:
    """A frame with a right checksum and the position of another append is refused."""
    path = tmp_path / "s"
    data = unfolded(path)
    salt, before = frames.parse_file_header(data, 1)
    made, offset = bytearray(data[:FILE_HEADER_BYTES]), FILE_HEADER_BYTES
    while (header := frames.parse_frame_header(data.ljust(len(data) + 32), offset, salt)) is not None:
        begin = offset + frames.FRAME_HEADER_BYTES
        (record,) = frames.decode_records(data[begin : begin + header.length], before)
        assert isinstance(record, frames.CommitRecord)
        if record.first == 2:
            record = structs.replace(record, position=position)
        frame = bytearray()
        frames.encode_records([record], frame)
        frames.finish_frame(frame, salt, before, 1, len(made))
        made += frame
        before, offset = record.position, offset + header.total
    rewrite(path / FIRST, bytes(made))
    (path / "mark").unlink()
    if position == 2:
        assert len(payloads(path)) == 3
    else:
        with pytest.raises(DamagedError, match="do not increase"):
            payloads(path)


def test_frames_made_to_keep_a_reader_busy_are_damage(tmp_path: Path) -> None:
    """A file full of headers of large frames that are not valid costs no product of the two."""
    path = tmp_path / "s"
    data = unfolded(path)
    salt, _ = frames.parse_file_header(data, 1)
    header = struct.pack("<8sQIHHII", salt, 0, 200_000, frames.RECORDS, 0, 0, 1)
    room = (path / FIRST).stat().st_size - len(data) - 8
    rewrite(path / FIRST, bytes(8) + header * (room // len(header)), len(data))
    (path / "mark").unlink()
    with pytest.raises(DamagedError, match="others that are follow it"):
        payloads(path)


def test_a_torn_last_frame_ends_the_log(tmp_path: Path) -> None:
    """An unacknowledged last frame, cut at any byte, is dropped and then overwritten."""
    path = tmp_path / "s"
    data = unfolded(path)
    last = data.rindex(data[24:32])
    for cut in range(last, len(data), 3):
        (path / "mark").write_bytes(b"")
        rewrite(path / FIRST, data[:cut] + bytes(len(data) - cut))
        found = payloads(path)
        assert found[:2] == [b"payload 0", b"payload 1"]
        assert len(found) == 2 or cut > len(data) - 8
    rewrite(path / FIRST, data[: last + 9] + bytes(len(data) - last - 9))
    (path / "mark").write_bytes(b"")
    log = open_log(path)
    put(log, b"instead")
    log.close()
    assert payloads(path) == [b"payload 0", b"payload 1", b"instead"]


def test_a_lost_frame_that_was_acknowledged_is_damage(tmp_path: Path) -> None:
    """A journal that ends before the watermark raises `DamagedError` and is no shorter log."""
    path = tmp_path / "s"
    data = unfolded(path)
    rewrite(path / FIRST, bytes(40), data.rindex(data[24:32]))
    for read_only in (False, True):
        with pytest.raises(DamagedError):
            open_log(path, read_only=read_only)


def test_a_copied_frame_does_not_pass(tmp_path: Path) -> None:
    """A frame is valid at its own offset only: a copy of it elsewhere is ignored."""
    path = tmp_path / "s"
    data = unfolded(path)
    begin = FILE_HEADER_BYTES
    end = data.index(data[24:32], begin + 1)
    rewrite(path / FIRST, data[begin:end], len(data))
    rewrite(path / FIRST, data[begin:end], len(data) + 2 * (end - begin))
    assert payloads(path) == [b"payload 0", b"payload 1", b"payload 2"]


def test_old_frames_of_a_recycled_file_do_not_pass(tmp_path: Path) -> None:
    """A recycled journal file never yields its old frames."""
    path = tmp_path / "s"
    log = open_log(path, journal_bytes=16 << 10, fold_bytes=8 << 10)
    numbers: set[str] = set()
    for number in range(400):
        put(log, b"%d " % number * 100)
        numbers.update(entry.name for entry in (path / "1" / "journal").iterdir())
        if number % 50 == 49:
            log._partition.fold()
            assert len(list((path / "1" / "journal").iterdir())) <= 5
    assert len(numbers) > 10
    abandon(log)
    assert payloads(path) == [b"%d " % number * 100 for number in range(400)]


def test_a_frame_may_be_longer_than_a_file(tmp_path: Path) -> None:
    """A commit larger than a journal file makes its file longer; the log goes on normally."""
    path = tmp_path / "s"
    options: dict[str, Any] = {"journal_bytes": 8 << 10, "fold_bytes": 1 << 20}
    log = open_log(path, **options)
    wanted = [b"small", bytes(100_000), b"small again", bytes(9_000), b"last"]
    for payload in wanted:
        put(log, payload)
    assert [c.payload for c in log.read("s")] == wanted
    abandon(log)
    assert payloads(path, **options) == wanted


@pytest.mark.promise(3)
def test_no_room_fails_the_batch_only(tmp_path: Path) -> None:
    """`ENOSPC` before the flush raises `BusyError`, writes nothing, and the log goes on."""
    io = FaultyIO()
    path = tmp_path / "s"
    log = open_log(path, io=io)
    put(log, b"one")
    for fault in (errno.ENOSPC, errno.EDQUOT):
        io.faults = [("pwrite", fault)]
        with pytest.raises(BusyError):
            put(log, b"no room " * 100, request="r", bodies=[(bytes(32), b"body")])
        assert log.last_position() == 1
        assert log.body(bytes(32)) is None
    io.faults = [("pwrite", "short"), ("pwrite", "nothing")]
    with pytest.raises(BusyError):
        put(log, b"no room " * 100)
    assert put(log, b"two", request="r").position == 2
    abandon(log)
    assert payloads(path) == [b"one", b"two"]


@pytest.mark.parametrize("fault", [errno.ENOSPC, "late"])
def test_no_room_and_then_a_crash(tmp_path: Path, fault: object) -> None:
    """A commit that failed for lack of space does not reappear after a crash."""
    io = FaultyIO()
    path = tmp_path / "s"
    log = open_log(path, io=io)
    put(log, b"one")
    io.faults = [("pwrite", fault)]
    with pytest.raises(BusyError):
        put(log, b"no room " * 100)
    abandon(log)
    (path / "mark").write_bytes(b"")
    assert payloads(path) == [b"one"]


SWITCH = [
    [("open", errno.EMFILE)],
    [("open", errno.ENFILE)],
    [("open", errno.ENOSPC)],
    [("open", errno.EACCES)],
    [("pwrite", errno.EIO)],
    [("fdatasync", errno.EIO)],
    [("pwrite", None), ("pwrite", errno.EIO)],
    [("fdatasync", None), ("fdatasync", errno.EIO)],
    [("rename", errno.EACCES)],
    [("rename", errno.ENOSPC)],
    [("sync_directory", errno.EMFILE)],
    [("sync_directory", errno.EIO)],
]
"""Calls that make the next file ready, the last of each refused."""


@pytest.mark.promise(3)
@pytest.mark.parametrize("spare", [False, True], ids=["no spare", "a spare"])
@pytest.mark.parametrize("faults", SWITCH, ids=lambda faults: " ".join(f"{name}-{code}" for name, code in faults))
def test_a_refused_switch_fails_the_batch_only(
    tmp_path: Path, faults: list[tuple[str, int | None]], *, spare: bool
) -> None:
    """Promise 3: a refused call while the next file is prepared fails that batch alone."""
    if spare and len(faults) > 1:
        faults = faults[1:]  # a spare is filled already
    io = FaultyIO()
    path = tmp_path / "s"
    log = open_log(path, io=io, journal_bytes=4 << 10)
    put(log, bytes(1000))
    log._partition.tail._spare_at = log._partition.tail.journal.middle  # the fold worker keeps out
    if spare:
        log._partition.tail.journal.make_spare()
    for tried in range(2):
        io.faults = list(faults)
        with pytest.raises(BusyError):
            put(log, bytes(3000), request="r", bodies=[(bytes(32), b"body")])
        assert not io.faults
        assert log.last_position() == 1 + tried
        put(log, b"it fits into the old file")
    copied_as_left(path, tmp_path / "killed")
    assert payloads(tmp_path / "killed") == [bytes(1000), *2 * [b"it fits into the old file"]]
    assert put(log, bytes(3000), request="r", bodies=[(bytes(32), b"body")]).position == 4
    put(log, bytes(3000))
    abandon(log)
    assert [len(payload) for payload in payloads(path)] == [1000, 25, 25, 3000, 3000]


@pytest.mark.promise(3)
@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES])
def test_a_journal_file_that_cannot_be_opened_fails_the_batch_only(tmp_path: Path, code: int) -> None:
    """Promise 3: a journal file that cannot be opened fails that batch and writes nothing."""
    io = FaultyIO()
    log = open_log(tmp_path / "s", io=io)
    put(log, b"one")
    log._partition.tail.journal.close()
    io.faults = [("open", code)]
    with pytest.raises((BusyError, StorageError)):
        put(log, b"two")
    assert put(log, b"two").position == 2
    log.close()


@pytest.mark.promise(3)
def test_a_lock_that_the_system_refuses_fails_the_batch_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 3: a writers' lock that cannot be requested fails that batch, writes nothing."""
    log = open_log(tmp_path / "s")
    put(log, b"one")

    def refuse(_fd: int, operation: int) -> None:
        if operation != fcntl.LOCK_UN:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patched:
        patched.setattr(locks, "flock", refuse)
        with pytest.raises(BusyError):
            put(log, b"two")
    assert put(log, b"two").position == 2
    log.close()


@pytest.mark.promise(1)
def test_what_was_accepted_outlives_a_refused_switch(tmp_path: Path) -> None:
    """Promise 1: without a descriptor at a file switch one command fails, the stream goes on."""
    io = FaultyIO()
    with Store(open_log(tmp_path / "s", io=io, journal_bytes=4 << 10), flush_interval=3600) as store:
        session = store.create_session(id="s")
        with session.assistant("p/m") as reply:
            text = reply.stream_text()
            text.append("accepted " * 500)
            io.faults = [("open", errno.EMFILE)]
            with pytest.raises(BusyError):
                session.flush()
            text.append("gone on")
            reply.finish()
        assert "".join(said(session).values()) == "accepted " * 500 + "gone on"


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    """A write that takes only part of the bytes is continued."""
    io = FaultyIO()
    path = tmp_path / "s"
    log = open_log(path, io=io)
    put(log, b"one")
    io.faults = [("pwrite", "short"), ("pwrite", "short")]
    put(log, b"two" * 1000)
    abandon(log)
    assert payloads(path) == [b"one", b"two" * 1000]


@pytest.mark.parametrize("fault", [("fdatasync", errno.EIO), ("pwrite", errno.EIO), ("fdatasync", errno.ENOSPC)])
def test_a_failed_write_poisons_the_log(tmp_path: Path, fault: tuple[str, int]) -> None:
    """After a failed flush or write the outcome is unknown and writing stops until reopened."""
    io = FaultyIO()
    path = tmp_path / "s"
    log = open_log(path, io=io)
    put(log, b"one")
    io.faults = [fault]
    with pytest.raises(UnknownOutcomeError):
        put(log, b"two", request="r", digest=b"d")
    with pytest.raises(PoisonedError):
        put(log, b"three")
    with pytest.raises(PoisonedError):
        log.sync()
    assert [c.payload for c in log.read("s")] == [b"one"]
    log.close()
    log = open_log(path)
    known = log.request("s", "r")
    again = put(log, b"two", request="r", digest=b"d")
    assert again.repeated == (known is not None)
    assert [c.payload for c in log.read("s")] == [b"one", b"two"]
    assert log.check() == []
    log.close()


def write_elsewhere(path: Path, payload: bytes) -> None:
    """Begin session "s" in another process, which dies without folding."""
    code = (
        "import os, sys; from eventlog.log.contract import Append; from eventlog.log.embedded.engine import open_log\n"
        "log = open_log(sys.argv[1])\n"
        "append = Append(session='s', payload=sys.argv[2].encode(), count=1, time=1, creates_at=0)\n"
        "log.submit(append).wait(30)\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path), payload.decode()], cwd=ROOT, check=True, timeout=60)


@pytest.mark.parametrize("method", ["pread", "open"])
@pytest.mark.parametrize(("code", "error"), [(errno.EIO, DamagedError), (errno.EMFILE, BusyError)])
def test_what_cannot_be_read_is_not_missing(tmp_path: Path, method: str, code: int, error: type[Exception]) -> None:
    """Promise 12: a refused read raises a typed error with path and cause."""
    path = tmp_path / "s"
    open_log(path).close()
    io = FaultyIO()
    reader = open_log(path, read_only=True, io=io)
    payload = b"from elsewhere"
    write_elsewhere(path, payload)
    for use in (lambda: reader.head("s"), lambda: list(reader.read("s")), lambda: reader.request("s", "r")):
        if method == "open":
            reader._partition.tail.journal.close()
        io.faults = [(method, code)]
        with pytest.raises(error) as caught:
            use()
        assert str(path) in str(caught.value)
        assert isinstance(caught.value.__cause__, OSError)
    io.faults = []
    assert [c.payload for c in reader.read("s")] == [payload]
    reader.close()
    io.faults = [(method, code)]
    with pytest.raises(error):
        open_log(path, read_only=True, io=io)


def test_a_damaged_file_header(tmp_path: Path) -> None:
    """A journal file whose header is damaged, newer or of another number is a typed error."""
    path = tmp_path / "s"
    data = unfolded(path)
    rewrite(path / FIRST, b"\xff", 20)
    with pytest.raises(DamagedError):
        open_log(path)
    rewrite(path / FIRST, frames.pack_file_header(2, b"saltsalt", 0))
    with pytest.raises(DamagedError):
        open_log(path)
    header = bytearray(data[:44])
    header[8] = 99
    header[40:44] = crc32(header[:40]).to_bytes(4, "little")
    rewrite(path / FIRST, bytes(header))
    with pytest.raises(TooNewError):
        open_log(path)
    rewrite(path / FIRST, data[:FILE_HEADER_BYTES])
    assert len(payloads(path)) == 3


def test_a_missing_journal_file(tmp_path: Path) -> None:
    """A missing journal file, the first or a later one, is damage and no empty log."""
    path = tmp_path / "s"
    log = open_log(path, journal_bytes=8 << 10, fold_bytes=1 << 20)
    for number in range(40):
        put(log, b"%d" % number * 500)
    abandon(log)
    names = sorted(entry for entry in (path / "1" / "journal").glob("*.log"))
    assert len(names) > 2
    for keep_mark in (True, False):
        for name in names if keep_mark else names[:-1]:
            data, mark = name.read_bytes(), (path / "mark").read_bytes()
            name.unlink()
            if not keep_mark:
                (path / "mark").write_bytes(b"")
            with pytest.raises(DamagedError):
                open_log(path)
            name.write_bytes(data)
            (path / "mark").write_bytes(mark)
    assert len(payloads(path)) == 40


def test_half_made_files_are_removed(tmp_path: Path) -> None:
    """A half-filled file left by a dead process is removed at the next opening."""
    path = tmp_path / "s"
    open_log(path).close()
    (path / "1" / "journal" / "spare-x.tmp").write_bytes(b"")
    open_log(path).close()
    assert [entry.name for entry in (path / "1" / "journal").iterdir()] == ["0000000001.log"]


def append(journal: Journal, record: frames.CommitRecord, position: int) -> None:
    """Write a frame of one record."""
    address, _ = journal.prepare([record])
    journal.put()
    journal.address, journal.position = address, position


def filled(path: Path, io: JournalIO) -> EmbeddedLog:
    """A store with a journal of several files."""
    log = open_log(path, io=io, journal_bytes=1 << 20)
    for number in range(40):
        put(log, bytes(32_000) + b"%d" % number)
    log._partition.make_spare_if_due()
    return log


def test_a_store_that_is_closed_needs_no_room_for_its_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store closed fully folded leaves a journal of one header, which grows again on use."""
    path = tmp_path / "s"
    filled(path, JournalIO()).close()
    (left,) = (path / "1" / "journal").iterdir()
    assert left.stat().st_size == FILE_HEADER_BYTES
    for number in range(3):
        with monkeypatch.context() as patch:
            patch.delattr("eventlog.log.embedded.partition.page_faults")
            log = open_log(path)
        assert put(log, b"more").position == 41 + number
        abandon(log)
        log = open_log(path)
        assert len(log.commits_after(0)) == 41 + number
        assert log.check() == []
        log.close()
    assert payloads(path)[40:] == [b"more"] * 3


def test_a_journal_that_others_use_stays(tmp_path: Path) -> None:
    """Files that another process may be reading are not removed when this one closes."""
    path = tmp_path / "s"
    log = filled(path, JournalIO())
    before = sorted(entry.name for entry in (path / "1" / "journal").iterdir())
    other = os.open(path / "open", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_SH)
    log.close()
    after = sorted(entry.name for entry in (path / "1" / "journal").iterdir())
    os.close(other)
    assert after[0] == before[0] or after[0].startswith("000000000")
    assert sum(entry.stat().st_size for entry in (path / "1" / "journal").iterdir()) >= 256 << 10
    assert len(payloads(path)) == 40


@pytest.mark.parametrize("fault", [("pwrite", errno.ENOSPC), ("pwrite", "late"), ("open", errno.ENOSPC)])
@pytest.mark.parametrize("after", [0, 1])
def test_a_journal_that_cannot_be_renewed_stays(tmp_path: Path, fault: tuple[str, object], after: int) -> None:
    """Closing on a full disk still folds, leaves the journal files as they are, loses nothing."""
    path = tmp_path / "s"
    io = FaultyIO()
    log = filled(path, io)
    io.faults = [(fault[0], None)] * after + [fault]
    log.close()
    assert len(payloads(path)) == 40
    log = open_log(path)
    assert put(log, b"more").position == 41
    log.close()
    assert len(payloads(path)) == 41


def test_a_journal_that_was_not_renewed_to_the_end_goes_on(tmp_path: Path) -> None:
    """After a kill between any two steps of journal renewal the next opening finds everything."""
    for step in ("renewed", "folded"):
        path = tmp_path / step
        log = filled(path, JournalIO())
        partition = log._partition
        assert partition._renew_journal()
        if step == "folded":
            partition.fold()
        abandon(log)
        log = open_log(path)
        assert put(log, b"more").position == 41
        assert log.check() == []
        log.close()
        assert len(payloads(path)) == 41


def test_files_that_are_given_up_are_overwritten(tmp_path: Path) -> None:
    """Removed journal files are overwritten first, as a scrub could not reach them."""
    io = FaultyIO()
    log = filled(tmp_path / "s", io)
    io.removed.clear()
    log.close()
    assert len(io.removed) >= 2
    assert not any(data.strip(b"\0") for data in io.removed)


def test_what_cannot_be_overwritten_is_not_given_up(tmp_path: Path) -> None:
    """A journal file that cannot be overwritten is retained until the store is closed again."""
    path = tmp_path / "s"
    io = FaultyIO()
    log = filled(path, io)
    io.removed.clear()
    io.refused["blank"] = OSError(errno.EIO, os.strerror(errno.EIO))
    log.close()
    assert not io.removed
    assert len(list((path / "1" / "journal").iterdir())) > 1
    assert len(payloads(path)) == 40
    open_log(path).close()
    assert [entry.stat().st_size for entry in (path / "1" / "journal").iterdir()] == [FILE_HEADER_BYTES]
