"""Receipts of imported files: an unchanged file is not read again; nothing else changes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import eventlog
from eventlog import Store
from eventlog.errors import ErasedError, ImportFormatError
from eventlog.importers import Report, import_file, receipts
from eventlog.importers.receipts import KIND, FileStamp, stamp_of
from eventlog.log.contract import Log
from tests.eventlog.importers.test_reconcile import record, talk, write
from tests.support.export_sessions import jsonl
from tests.support.export_sessions import talk as said
from tests.support.import_counts import recorded
from tests.support.shared import shared_path


@pytest.fixture(autouse=True)
def rested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as rested right after they are written."""
    monkeypatch.setattr(receipts, "TICK", -(10**18))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Give a store to import into."""
    with eventlog.open(tmp_path / "into") as opened:
        yield opened


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read from here on."""
    find, seen = receipts.find, list[str]()

    def spying(log: Log, path: str, stamp: FileStamp, format: str | None = None) -> Report | None:
        report = find(log, path, stamp, format)
        if report is None:
            seen.append(path)
        return report

    monkeypatch.setattr(receipts, "find", spying)
    return seen


def kept(store: Store) -> dict[bytes, bytes]:
    """Return the rows of all receipts."""
    return dict(store.log.scan_derived(KIND))


def test_an_unchanged_file_is_not_read(
    store: Store, tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is imported again is not read; its report is that of reading it."""
    path = write(tmp_path / "a.jsonl", *talk("a", "b", "c"), {"type": "unheard of"})
    side = record(8, "aside") | {"isSidechain": True, "agentId": "x"}
    path.write_text(path.read_text() + json.dumps(side) + "\n{torn\n")
    first = import_file(store, path)
    assert (len(first.sessions), bool(first.skipped)) == (2, True)
    assert reads == [str(path)]
    reads.clear()
    again = import_file(store, path)
    assert reads == []
    assert (again.events, again.format) == (0, "claude_code")
    assert (again.sessions, again.messages, again.parts) == (first.sessions, first.messages, first.parts)
    assert again.skipped == first.skipped
    monkeypatch.chdir(tmp_path)
    assert import_file(store, "a.jsonl", format="claude_code").events == 0
    assert reads == []
    with pytest.raises(ImportFormatError):
        import_file(store, path, format="codex")


def _edited(path: Path) -> None:
    """Change a letter, and set the time of the change back."""
    before = path.stat()
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(data.replace(b'"b"', b'"B"'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def _replaced(path: Path) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(path.read_bytes().replace(b'"b"', b'"B"'))
    os.utime(beside, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    beside.replace(path)


def _grown(path: Path) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record(4, "d")) + "\n")


@pytest.mark.parametrize("change", [_edited, _replaced, _grown])
def test_each_change_of_a_file_is_noticed(
    store: Store, tmp_path: Path, reads: list[str], change: Callable[[Path], None]
) -> None:
    """An edited, replaced or grown file is read, also with its size and time kept."""
    path = write(tmp_path / "a.jsonl", *talk("a", "b", "c"))
    import_file(store, path)
    change(path)
    reads.clear()
    report = import_file(store, path)
    assert reads == [str(path)]
    with eventlog.open(tmp_path / "fresh") as fresh:
        import_file(fresh, write(tmp_path / "b.jsonl", *talk("a", "b", "c")))
        expected = import_file(fresh, path)
    assert (report.events, report.sessions) == (expected.events, expected.sessions)
    assert report.events > 0


def test_the_log_of_a_database_belongs_to_its_stamp(tmp_path: Path) -> None:
    """A database whose write-ahead log changed is another one."""
    path = tmp_path / "opencode.db"
    path.write_bytes(b"x")
    before = stamp_of(str(path))
    (tmp_path / "opencode.db-wal").write_bytes(b"y")
    assert stamp_of(str(path)) != before


def test_a_file_that_changes_while_it_is_read_has_no_receipt(store: Store, tmp_path: Path) -> None:
    """Lines that came to a file while it was imported are imported the next time."""
    path = write(tmp_path / "a.jsonl", *talk("a", "b", "c"))

    def growing(_done: int, _whole: int | None) -> None:
        if '"d"' not in path.read_text():
            _grown(path)

    import_file(store, path, on_progress=growing)
    assert kept(store) == {}
    assert import_file(store, path).messages == 4


def test_a_file_that_did_not_rest_has_no_receipt(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changed within a tick of the clock is read again: its stamp may be old."""
    monkeypatch.undo()
    path = write(tmp_path / "a.jsonl", *talk("a", "b"))
    stamp = stamp_of(str(path))
    fine = stamp._replace(modified=0, changed=stamp.changed | 1)
    assert not fine.rests(fine.changed + receipts.TICK)
    assert fine.rests(fine.changed + receipts.TICK + 1)
    coarse = stamp._replace(modified=0, changed=2_000_000_000)
    assert not coarse.rests(coarse.changed + receipts.COARSE)
    receipts.save(store.log, import_file(store, path), stamp, stamp.changed)
    assert kept(store) == {}


def test_an_import_that_broke_off_leaves_no_receipt(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import that ended between its last commit and its receipt is completed later."""
    path = write(tmp_path / "a.jsonl", *talk("a", "b", "c"))
    with monkeypatch.context() as patch:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(receipts, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            import_file(store, path)
    assert kept(store) == {}
    assert import_file(store, path).events == 0
    assert [info.id for info in store.sessions()] == ["s"]
    assert kept(store) != {}


def test_a_receipt_is_of_one_store(store: Store, tmp_path: Path) -> None:
    """Another store, and an older copy of one, get the file when it is imported there."""
    path = write(tmp_path / "a.jsonl", *talk("a", "b"))
    store.backup(tmp_path / "copy")
    import_file(store, path)
    with eventlog.open(tmp_path / "other") as other:
        assert import_file(other, path).events > 0
    store.log.put_derived([(key, None) for key in kept(store)])
    eventlog.restore(tmp_path / "copy", tmp_path / "older")
    with eventlog.open(tmp_path / "older") as older:
        assert import_file(older, path).events > 0


@pytest.mark.parametrize("act", ["said", "rolled back", "redacted", "erased"])
def test_what_happens_to_a_session_is_regarded(store: Store, tmp_path: Path, reads: list[str], act: str) -> None:
    """A receipt counts after a session went on, not after it was redacted or erased."""
    path = write(tmp_path / "a.jsonl", *talk("a", "b", "c"))
    import_file(store, path)
    session = store.session("s")
    match act:
        case "said":
            session.user("here")
        case "rolled back":
            session.rollback(session.version - 3)
        case "redacted":
            session.redact(next(iter(session.reader.state().parts)), search=False)
        case _:
            store.erase("s")
    reads.clear()
    if act == "erased":
        with pytest.raises(ErasedError):
            import_file(store, path)
    else:
        assert import_file(store, path).events == 0
    assert bool(reads) == (act in {"redacted", "erased"})


def test_receipts_go_with_their_sessions(store: Store, tmp_path: Path) -> None:
    """Once an erased session is gone from the files, so are the receipts that name it."""
    import_file(store, write(tmp_path / "a.jsonl", *talk("a", "b")))
    other = [found | {"sessionId": "t"} for found in talk("c", "d")]
    import_file(store, write(tmp_path / "b.jsonl", *other))
    before = kept(store)
    assert len(before) == 2
    store.erase("s")
    store.scrub()
    left = kept(store)
    assert set(left) < set(before)
    assert len(left) == 1
    assert import_file(store, tmp_path / "b.jsonl").sessions == ["t"]


def test_an_encrypted_store_has_receipts_too(tmp_path: Path, reads: list[str]) -> None:
    """A receipt is encrypted with the session's key, and found by a keyed hash of the path."""
    path = write(tmp_path / "a.jsonl", *talk("a", "b"))
    for name in ("one", "two"):
        with eventlog.open(tmp_path / name, keys=True) as store:
            import_file(store, path)
    reads.clear()
    rows = list[dict[bytes, bytes]]()
    for name in ("one", "two"):
        with eventlog.open(tmp_path / name, keys=True) as store:
            assert import_file(store, path).sessions == ["s"]
            rows.append(dict(store.log.engine.scan_derived(KIND)))
    assert reads == []
    assert not rows[0].keys() & rows[1].keys()
    assert all(b"claude_code" not in value for found in rows for value in found.values())


@pytest.mark.parametrize("damage", [None, b"", b"\xff" * 40, b"\x91\x01"])
def test_a_lost_or_damaged_receipt_costs_time_only(
    store: Store, tmp_path: Path, reads: list[str], damage: bytes | None
) -> None:
    """A file whose receipt is lost, in part or whole, or cannot be read, is read."""
    side = record(8, "aside") | {"isSidechain": True, "agentId": "x"}
    path = write(tmp_path / "a.jsonl", *talk("a", "b"), side)
    first = import_file(store, path)
    for key in kept(store):
        import_file(store, path)
        store.log.put_derived([(key, damage)])
        reads.clear()
        again = import_file(store, path)
        assert reads == [str(path)]
        assert (again.events, again.sessions, again.messages) == (0, first.sessions, first.messages)


def test_what_depends_on_the_store_is_read_again(store: Store, tmp_path: Path) -> None:
    """A fork whose parent was not there is imported once the parent is there."""
    with eventlog.open("memory:") as source:
        parent = said(source, "ses_a")
        fork = parent.fork(parent.version, id="ses_f")
        fork.user("in the fork")
        (tmp_path / "a.jsonl").write_bytes(jsonl(parent))
        lines = jsonl(fork).splitlines(keepends=True)
        begin = next(place for place, line in enumerate(lines) if line.startswith(b'{"session":"ses_f"'))
        (tmp_path / "f.jsonl").write_bytes(b"".join([lines[0], *lines[begin:]]))
    assert import_file(store, tmp_path / "f.jsonl").skipped != []
    import_file(store, tmp_path / "a.jsonl")
    assert import_file(store, tmp_path / "f.jsonl").sessions == ["ses_f"]


def test_recorded_files_are_reported_alike(store: Store, reads: list[str]) -> None:
    """Recorded files of all formats give the same report without being read."""
    data, unread = shared_path("data"), 0
    for path in [path for path in recorded(data, "") if path.is_file()][::9]:
        try:
            first = import_file(store, path)
        except eventlog.errors.EventlogError:
            continue
        reads.clear()
        again = import_file(store, path)
        unread += not reads
        assert (again.sessions, again.messages, again.parts) == (first.sessions, first.messages, first.parts), path
        assert again.skipped == first.skipped, path
        assert again.events == 0, path
    assert unread > 5
