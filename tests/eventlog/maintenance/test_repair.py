"""Repair saves all sound data to a new store, lists every loss, and changes no old file."""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import lmdb
import pytest
from msgspec import structs

import eventlog
from eventlog import Store
from eventlog import events as ev
from eventlog.codec.payload import FOREIGN
from eventlog.codec.payload import LEDGER as REMAINED
from eventlog.codec.redaction import LOST, bodies_of, is_freed, without_bodies
from eventlog.errors import BusyError, CallError, DamagedError, NotFoundError, UnfinishedError
from eventlog.log import validation
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.generations import files_of
from eventlog.log.embedded.segments.environment import LIB_VERSION
from eventlog.log.embedded.segments.layout import PAIR, TREES
from eventlog.log.embedded.segments.segments import Segments
from eventlog.maintenance.repair import RepairReport, repair
from eventlog.values import Attachment, Body, File, Opaque
from projections.exports.sqlite import write_sqlite
from projections.verify.verify import verify
from projections.view.model_view import ModelView
from tests.support.embedded_log import abandon, put
from tests.support.sample_sessions import exchange

BODY = Body(b"d" * 32, 9000, 9000)
LARGE = "a large text that is stored beside its event, as one of those is " * 60


def fill(path: Path, *, closed: bool = True, many: int = 3) -> dict[str, list[bytes]]:
    """Make sessions with large texts, a fork and an erased session; return their payloads."""
    child = os.fork()
    if not child:
        try:
            _fill(path, closed=closed, many=many)
        except BaseException as error:  # noqa: BLE001 - the child's only way out is `_exit`
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    shutil.copytree(path, path.with_name("copy"))
    with eventlog.open(path.with_name("copy"), read_only=True) as store:
        return {head.session: [commit.payload for commit in store.log.read(head.session)] for head in store.log.heads()}


def _fill(path: Path, *, closed: bool, many: int) -> None:
    """Fill a store in its own process: exiting without a close leaves the journal unfolded."""
    store = eventlog.open(path)
    for number in range(many):
        session = store.create_session(id=f"s{number}")
        for turn in range(4):
            session.user(f"{number} {turn} {LARGE}", request_id=f"r{turn}")
            exchange(session, f"answer {number} {turn} " * 5)
    exchange(store.fork(store.session("s0"), 9, id="f"))
    exchange(store.create_session(id="gone"))
    store.erase("gone")
    if closed:
        store.vacuum()
        exchange(store.session("s0"))
        store.close()
    else:
        store.log.sync()


def state(path: Path) -> dict[str, bytes]:
    """Return the digest of each file below a directory."""
    return {str(file): sha256(file.read_bytes()).digest() for file in sorted(path.rglob("*")) if file.is_file()}


def repaired(path: Path, payloads: dict[str, list[bytes]]) -> RepairReport:
    """Repair, then check: prefixes of the original, listed losses, the old store unchanged."""
    before = state(path)
    new = path.with_name("new")
    done = repair(path, new)
    assert state(path) == before
    lost = {loss.session for loss in done.losses}
    texts = {loss.session for loss in done.losses if "large text" in loss.problem}
    with eventlog.open(new) as store:
        heads = {head.session: head for head in store.log.heads()}
        assert len(heads.keys() - ({REMAINED} if texts and REMAINED not in payloads else set())) == done.sessions
        for name, expected in payloads.items():
            read = list(store.log.read(name)) if name in heads else []
            assert all(not commit.emptied or name in texts for commit in read)
            found = [old if new.emptied else new.payload for new, old in zip(read, expected, strict=False)]
            assert (len(read), found) == (len(found), expected[: len(found)])
            if found != expected or (name not in heads):
                mine = [one for one in done.losses if one.session == name and "large text" not in one.problem]
                assert len(mine) <= 1
                assert mine or any(one.session is None for one in done.losses), (
                    "of what nothing is left no name is known"
                )
                assert not mine or mine[0].first in {None, heads[name].version + 1 if name in heads else mine[0].first}
            else:
                assert name in heads
        assert not store.log.check()
        report = verify(store, deep=True)
        assert report.sound, (report, done)
        assert {one.session for one in report.sessions if one.left_out} == texts & heads.keys()
        list(store.search("answer").hits)
        for info in store.sessions():
            if not texts:
                assert ModelView.of(store.session(info.id)).version
                exchange(store.session(info.id))
    assert lost or not done.losses or all(loss.session is None for loss in done.losses)
    return done


def change(path: Path, job: Callable[[Any, dict[str, Any]], None]) -> None:
    """Change a store's LMDB with matching checksums and stale hashes."""
    with lmdb.open(str(files_of(path) / "lmdb"), max_dbs=16, lib_version=LIB_VERSION) as environment:
        trees = {name: environment.open_db(name.encode()) for name in TREES}
        with environment.begin(write=True) as txn:
            job(txn, trees)


@pytest.mark.parametrize("closed", [True, False])
def test_a_sound_store_is_saved_whole(tmp_path: Path, *, closed: bool) -> None:
    """A sound store loses nothing, closed in order or not."""
    payloads = fill(tmp_path / "s", closed=closed)
    done = repaired(tmp_path / "s", payloads)
    assert not done.losses
    assert done.sessions == 5
    with eventlog.open(tmp_path / "new") as store:
        version = store.session("s2").version
        store.session("s2").user(f"2 1 {LARGE}", request_id="r1")
        assert store.session("s2").version == version, "the request id is known"


def test_only_the_journal_can_be_read(tmp_path: Path) -> None:
    """Without LMDB's first pages, or its file, unfolded commits are saved from the journal."""
    payloads = fill(tmp_path / "s", closed=False)
    data = files_of(tmp_path / "s") / "lmdb" / "data.mdb"
    data.write_bytes(bytes(8192) + data.read_bytes()[8192:])
    done = repaired(tmp_path / "s", payloads)
    assert {loss.session for loss in done.losses} == {None}
    shutil.rmtree(tmp_path / "new")
    shutil.rmtree(files_of(tmp_path / "s") / "lmdb")
    (tmp_path / "s" / "format").unlink()
    done = repaired(tmp_path / "s", payloads)
    assert [loss.problem for loss in done.losses] == ["the folded part is missing"]


def garbled(page: bytes) -> bytes:
    """A page of other bytes."""
    return random.Random(len(page)).randbytes(len(page))


META_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda page: bytes(len(page)),
    "noise": garbled,
    "no meta page": lambda page: page[:10] + bytes(2) + page[12:],
    "magic": lambda page: page[:16] + bytes([page[16] ^ 1]) + page[17:],
    "format": lambda page: page[:20] + bytes([page[20] ^ 4]) + page[21:],
    "page size": lambda page: page[:41] + bytes([page[41] ^ 1]) + page[42:],
    "transaction": lambda page: page[:145] + bytes([page[145] ^ 1]) + page[146:],
    "earlier transaction": lambda page: page[:144] + bytes([page[144] & 1]) + page[145:],
    "root beyond the end": lambda page: page[:128] + b"\xff\xff\xff" + page[131:],
}


def damage_meta(path: Path, number: int, how: str) -> None:
    """Damage one of the two meta pages."""
    data = files_of(path) / "lmdb" / "data.mdb"
    content = data.read_bytes()
    at = number * 4096
    changed = META_DAMAGE[how](content[at : at + 4096])
    assert changed != content[at : at + 4096]
    data.write_bytes(content[:at] + changed + content[at + 4096 :])


def newest_meta(path: Path) -> int:
    """The number of the meta page of the last transaction."""
    content = (files_of(path) / "lmdb" / "data.mdb").read_bytes()
    return max(range(2), key=lambda number: int.from_bytes(content[number * 4096 :][144:152], "little"))


@pytest.mark.parametrize("how", META_DAMAGE)
@pytest.mark.parametrize("newest", [True, False])
def test_one_meta_page_is_enough(tmp_path: Path, how: str, *, newest: bool) -> None:
    """With one of LMDB's two meta pages damaged, nothing in the journal is lost."""
    payloads = fill(tmp_path / "s")
    older, newer = sorted(
        range(2),
        key=lambda at: int.from_bytes(
            (files_of(tmp_path / "s") / "lmdb/data.mdb").read_bytes()[at * 4096 :][144:152], "little"
        ),
    )
    damage_meta(tmp_path / "s", newer if newest else older, how)
    done = repaired(tmp_path / "s", payloads)
    assert done.sessions == 5
    with eventlog.open(tmp_path / "new", read_only=True) as store:
        assert {name: len(list(store.log.read(name))) >= len(payloads[name]) for name in payloads} == dict.fromkeys(
            payloads, True
        )
    assert {loss.session for loss in done.losses} <= {None}
    assert len(done.losses) <= 1, done


@pytest.mark.parametrize("how", ["zeros", "magic"])
def test_what_only_the_newest_meta_page_led_to_is_listed(tmp_path: Path, how: str) -> None:
    """With newest meta page and journal lost, earlier folds are saved, other loss is listed."""
    payloads = fill(tmp_path / "s")
    for _ in range(2):
        with eventlog.open(tmp_path / "s") as store:
            store.session("s1").user("the last words")
            payloads["s1"] = [commit.payload for commit in store.log.read("s1")]
    damage_meta(tmp_path / "s", newest_meta(tmp_path / "s"), how)
    shutil.rmtree(files_of(tmp_path / "s") / "journal")
    done = repaired(tmp_path / "s", payloads)
    assert done.sessions == 5
    assert any("what was folded last may be lost" in loss.problem for loss in done.losses)


def test_sectors_that_cannot_be_read_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unreadable sectors of a bad disk cost what they hold: the others are read."""
    payloads = fill(tmp_path / "s")
    data = files_of(tmp_path / "s") / "lmdb" / "data.mdb"
    bad = {number * 4096 + 3584 for number in range(2, data.stat().st_size // 4096, 7)}

    def pread(file: int, size: int, at: int, read: Callable[[int, int, int], bytes] = os.pread) -> bytes:
        if os.fstat(file).st_ino == data.stat().st_ino and any(
            at <= sector + 511 and sector < at + size for sector in bad
        ):
            raise OSError(errno.EIO, "bad disk")
        return read(file, size, at)

    monkeypatch.setattr(os, "pread", pread)
    assert any(loss.session is None for loss in repaired(tmp_path / "s", payloads).losses)


def test_both_meta_pages_lost_leave_the_journal(tmp_path: Path) -> None:
    """With both meta pages damaged the loss is listed and the journal's content is saved."""
    payloads = fill(tmp_path / "s", closed=False)
    for number, how in enumerate(("magic", "root beyond the end")):
        damage_meta(tmp_path / "s", number, how)
    with pytest.raises(DamagedError):
        eventlog.open(tmp_path / "s")
    done = repaired(tmp_path / "s", payloads)
    assert done.losses[0].problem == "both meta pages of the folded part are damaged"
    assert done.sessions == 5


def test_what_the_journal_lost_is_listed(tmp_path: Path) -> None:
    """A damaged frame of unknown sessions is listed as lost by its positions."""
    payloads = fill(tmp_path / "s", closed=False)
    (file,) = (files_of(tmp_path / "s") / "journal").glob("*.log")
    data = file.read_bytes()
    salt = data[64:72]
    ends: list[int] = []
    at = data.find(salt, 64)
    while at >= 0:
        ends.append(at)
        at = data.find(salt, at + 8)
    for place in (ends[len(ends) // 2], ends[-1]):
        file.write_bytes(data[:place] + bytes(40) + data[place + 40 :])
        done = repaired(tmp_path / "s", payloads)
        assert any("journal" in loss.problem for loss in done.losses)
        shutil.rmtree(tmp_path / "new")


def test_only_lmdb_can_be_read(tmp_path: Path) -> None:
    """With the journal gone everything folded is saved."""
    payloads = fill(tmp_path / "s")
    shutil.rmtree(files_of(tmp_path / "s") / "journal")
    assert not repaired(tmp_path / "s", payloads).losses


@pytest.mark.parametrize("chunk", [0, 1])
def test_a_hole_ends_a_session_and_is_named(tmp_path: Path, chunk: int) -> None:
    """A session is saved up to its first gap; the gap and forks that need it are listed."""
    fill(tmp_path / "s")
    with eventlog.open(tmp_path / "s") as store:
        last = store.session("s0").version
        exchange(store.session("s0"))
        end = store.session("s0").version
    with eventlog.open(tmp_path / "s", read_only=True) as store:
        payloads = {head.session: [one.payload for one in store.log.read(head.session)] for head in store.log.heads()}
    segments = Segments(files_of(tmp_path / "s") / "lmdb", read_only=True, map_bytes=1 << 30)
    with segments.environment.reading() as txn:
        row = segments.row_in(txn, "s0")
    assert row is not None
    keys = [key for key in segments.keys("commits") if PAIR.unpack(key)[0] == row.number]
    segments.close()
    assert len(keys) == 3
    shutil.rmtree(files_of(tmp_path / "s") / "journal")  # the journal may hold frames that were folded a while ago
    change(tmp_path / "s", lambda txn, trees: txn.delete(keys[chunk], db=trees["commits"]))
    done = repaired(tmp_path / "s", payloads)
    lost = {loss.session: (loss.first, loss.last) for loss in done.losses}
    if chunk:
        assert lost == {"s0": (PAIR.unpack(keys[1])[1], end)}
        assert PAIR.unpack(keys[1])[1] <= last
    else:
        assert set(lost) == {"s0", "f"}
        assert lost["s0"] == (1, end)


@pytest.mark.parametrize("keys", [False, True])
def test_any_damaged_head_costs_no_event(tmp_path: Path, *, keys: bool) -> None:
    """A damaged head of any session costs no event: lists and views stay equal."""
    with eventlog.open(tmp_path / "s", keys=tmp_path / "keys" if keys else None) as store:
        parent = store.create_session(id="a", title="A")
        for turn in range(4):
            parent.user(f"question {turn}")
        parent.fork(at=parent.version - 2, id="f").user("in the fork")
        store.create_session(id="b").user("hello")
        store.erase("a", forks="keep", reason="asked for")
        store.vacuum()
        head, shown = store.head(), [structs.asdict(info) for info in store.sessions()]
    names = [one.session for one in head.sessions]
    assert names == ["a", "b", REMAINED, "f"]
    for number, name in enumerate(names):
        path, new = tmp_path / f"s{number}", tmp_path / f"new{number}"
        shutil.copytree(tmp_path / "s", path)

        def flip(txn: Any, trees: dict[str, Any], name: bytes = name.encode()) -> None:
            row = bytearray(txn.get(name, db=trees["sessions"]))
            row[-1] ^= 1
            txn.put(name, bytes(row), db=trees["sessions"])

        change(path, flip)
        losses = [(loss.session, loss.first, loss.last) for loss in repair(path, new).losses]
        assert losses == ([("a", None, None)] if name == "a" else [])
        with eventlog.open(new, keys=tmp_path / "keys" if keys else None) as store:
            assert [structs.asdict(info) for info in store.sessions()] == shown
            assert store.head() == head
            assert verify(store, deep=True, against=head).sound


def test_a_large_text_that_is_lost_is_named(tmp_path: Path) -> None:
    """A lost large text leaves a note in its session; its version is listed, redactable."""
    payloads = fill(tmp_path / "s", many=1)

    def drop(txn: Any, trees: dict[str, Any]) -> None:
        with txn.cursor(trees["bodies"]) as cursor:
            assert cursor.first()
            cursor.delete()

    change(tmp_path / "s", drop)
    done = repaired(tmp_path / "s", payloads)
    (loss,) = done.losses
    assert (loss.session, loss.first == loss.last) == ("s0", True)
    with eventlog.open(tmp_path / "new") as store:
        session = store.session("s0")
        event: Any = next(iter(session.events((loss.first or 0) - 1, loss.first))).event
        assert str(list(ModelView.of(session).messages)).count(LOST) == 1
        assert [hit.version for hit in store.search("repair").hits] == [loss.first]
        assert [one.left_out for one in verify(store, deep=True).sessions if one.left_out] == [1]
        session.redact(event.part)
        assert LOST not in str(list(ModelView.of(session).messages))
        store.scrub()
        report = verify(store, deep=True)
        assert (report.sound, sum(one.left_out for one in report.sessions)) == (True, 0), "a redaction says so"


@pytest.mark.parametrize(
    "event",
    [
        ev.PartStarted("m", "p", File("image/png", BODY)),
        ev.PartStarted("m", "p", Opaque("openai.compaction", BODY, "openai/x")),
        ev.ToolRunning("p", BODY),
        ev.ToolCompleted("p", BODY, attachments=(Attachment("image/png", BODY), Attachment("image/gif", "data:,"))),
        ev.CallAnswered("p", 1, "allow", edit=BODY),
        ev.ToolsSet(BODY),
        ev.ValuePut("k", BODY),
        ev.RecordKept("f", BODY, 1, BODY),
    ],
)
def test_what_is_no_prose_stays_what_its_readers_take(event: ev.Event) -> None:
    """JSON stays JSON, and a URL one; a value is freed; an opaque part covers nothing."""
    assert without_bodies(event, {b"other"}) == event
    found = without_bodies(event, {BODY.digest})
    assert not list(bodies_of(found))
    match found:
        case ev.PartStarted(kind=File() as file):
            assert file == File("text/plain", "data:text/plain,lost")
        case ev.PartStarted(kind=Opaque() as opaque):
            assert (opaque.data, opaque.target) == ("", "")
        case ev.ToolRunning():
            assert found.input == "{}"
        case ev.ToolCompleted():
            assert (found.output, found.attachments[0].mime) == (LOST, "text/plain")
        case ev.CallAnswered():
            assert found.edit == "{}"
        case ev.ToolsSet():
            assert found.schemas == "[]"
        case ev.ValuePut():
            assert is_freed(found)
        case _:
            assert found == ev.RecordKept("f", "", 1)


def test_a_damaged_text_leaves_the_rest_in_use(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Search, sums by day and an export of all sessions go on, and say what they leave out."""
    fill(tmp_path / "s", many=2)

    def drop(txn: Any, trees: dict[str, Any]) -> None:
        with txn.cursor(trees["bodies"]) as cursor:
            assert cursor.first()
            cursor.delete()

    change(tmp_path / "s", drop)
    with eventlog.open(tmp_path / "s") as store:
        page = store.search("answer", limit=100)
        assert page.hits
        assert page.damaged == tuple(one.session for one in verify(store).sessions if not one.sound)
        assert store.usage_by_day().days
        write_sqlite((store.session(info.id) for info in store.sessions()), tmp_path / "all.db", inherited=False)
        assert "a damaged session is left out" in caplog.text
        with closing(sqlite3.connect(tmp_path / "all.db")) as database:
            kept = {str(name) for (name,) in database.execute("SELECT id FROM sessions")}
            assert 0 < len(kept) < len(list(store.sessions()))
            assert {str(name) for (name,) in database.execute("SELECT session FROM events")} == kept


@pytest.mark.parametrize("seed", range(6))
def test_random_damage(tmp_path: Path, seed: int) -> None:
    """After random damage every saved byte is true, and every loss is listed."""
    payloads = fill(tmp_path / "s", closed=seed % 2 == 0)
    chance = random.Random(seed)
    files = [files_of(tmp_path / "s") / "lmdb" / "data.mdb"]
    if seed % 3 == 0:
        files += sorted((files_of(tmp_path / "s") / "journal").glob("*.log"))
    for file in files:
        data = bytearray(file.read_bytes())
        for _ in range(chance.choice([1, 3, 10])):
            at = chance.randrange(len(data) // 4096) * 4096
            if seed % 2:
                data[at : at + 4096] = chance.choice([bytes(4096), chance.randbytes(4096)])
            else:
                data[at + chance.randrange(64)] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
    repaired(tmp_path / "s", payloads)


TOP = 2**63 - 1


def test_times_that_are_no_longer_admitted_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older appends with times too far apart for a chunk are folded, copied and saved."""
    path = tmp_path / "old"
    times = [TOP, -TOP, -1, TOP, TOP - 1]
    with monkeypatch.context() as earlier:
        earlier.setattr(validation, "MAX_TIME", TOP)
        log = open_log(path)
        for time in times:
            put(log, FOREIGN + b"%d" % time, time=time, entry=FOREIGN)
        abandon(log)
    assert repair(path, tmp_path / "saved").losses == ()
    folding = open_log(path)
    assert [commit.time for commit in folding.read("s")] == times
    folding.close()
    with Store(open_log(path, read_only=True)) as folded:
        folded.backup(tmp_path / "copy")
    assert repair(path, tmp_path / "again").losses == ()
    for place in ("old", "saved", "copy", "again"):
        with Store(open_log(tmp_path / place, read_only=True)) as kept:
            assert [(commit.time, commit.payload[2:]) for commit in kept.log.read("s")] == [
                (t, b"%d" % t) for t in times
            ]
            assert verify(kept).sound


def test_what_a_repair_refuses(tmp_path: Path) -> None:
    """Repair refuses a missing or open store and a taken or inner place; retries start over."""
    fill(tmp_path / "s", many=1)
    with pytest.raises(NotFoundError):
        repair(tmp_path / "nothing", tmp_path / "new")
    with pytest.raises(CallError):
        repair(tmp_path / "s", tmp_path / "copy")
    with pytest.raises(CallError):
        repair(tmp_path / "s", tmp_path / "s" / "new")
    with eventlog.open(tmp_path / "s"), pytest.raises(BusyError):
        repair(tmp_path / "s", tmp_path / "new")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "unfinished").write_text("a repair was being written\n")
    with pytest.raises(UnfinishedError):
        eventlog.open(tmp_path / "new")
    assert not repair(tmp_path / "s", tmp_path / "new").losses


@pytest.mark.promise(12)
def test_a_repair_needs_no_more_address_space_than_the_store(tmp_path: Path) -> None:
    """Promise 12: repair needs no more address space than the store's file."""
    payloads = fill(tmp_path / "s", many=1)
    limited = (
        "import resource, sys; from pathlib import Path; from eventlog.maintenance.repair import repair\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "assert not repair(Path(sys.argv[1]), Path(sys.argv[2])).losses\n"
    )
    subprocess.run(
        [sys.executable, "-c", limited, str(tmp_path / "s"), str(tmp_path / "saved")], check=True, timeout=60
    )
    with eventlog.open(tmp_path / "saved", read_only=True) as store:
        assert {head.session for head in store.log.heads()} == set(payloads)
