"""Two program versions on one store: the older one refuses the unknown, harming nothing."""

from __future__ import annotations

import base64
from contextlib import suppress
from pathlib import Path

import pytest

import eventlog
from eventlog.errors import DamagedError, DataError, TooNewError, UnknownEventError
from eventlog.history import checkpoint_store
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.journal.frames import FORMAT_VERSION, decode_records
from eventlog.maintenance.repair import repair
from eventlog.state.loader import STATE
from eventlog.state.stored import canonical
from eventlog.store import Store
from projections import ModelView
from projections.cli.app import run
from projections.cli.exits import Exit
from projections.verify.verify import verify
from tests.support.python_process import printed

pytestmark = pytest.mark.promise(12)

SMALL = {"map_bytes": 1 << 24, "journal_bytes": 64 << 10}
NEWER = """
import os, sys
import msgspec
from eventlog.append import pending
from eventlog.codec import batch as codec, upcast
from eventlog import events
from eventlog.log.embedded.journal import frames, journal
from eventlog.log.commit import Append
from eventlog.log.embedded.engine import open_log
from eventlog.store import Store

def newer_schema():
    pending.SCHEMA = codec.SCHEMA = events.SCHEMA + 1
    upcast.UPCASTERS[events.SCHEMA] = lambda event: event

def newer_kind():
    newer_kind.raw = msgspec.msgpack.encode([events.SCHEMA, 5, False, [[0, 0, ["zz", "of the future"]]], None])

def newer_frame():
    frames.KINDS |= {3}
    seal = frames.finish_frame
    def later(*given):
        frames.RECORDS = 3
        seal(*given)
        frames.RECORDS = 1
    frames.finish_frame = later

def newer_record():
    class LaterRecord(msgspec.Struct, frozen=True, array_like=True, tag=3):
        session: str
        what: str
    encode = frames.encode_records
    frames.encode_records = lambda records, into: encode([*records, LaterRecord("a", "of the future")], into)
    decode = frames.decode_records
    plain = msgspec.msgpack.Decoder(list[frames.CommitRecord | frames.LeaseRecord | LaterRecord])
    frames.decode_records = lambda data, at: [one for one in plain.decode(data) if not isinstance(one, LaterRecord)]

def newer_file():
    frames.FORMAT_VERSION += 1
    journal.FORMAT_VERSION = frames.FORMAT_VERSION
    newer_file.long = True

path, what, does = sys.argv[1:]
chosen = globals()[what]
chosen()
log = open_log(path, map_bytes=1 << 24, journal_bytes=64 << 10)
if does == "write":
    if hasattr(chosen, "raw"):
        log.submit(Append(session="a", payload=chosen.raw, count=1, time=5)).wait(30)
    else:
        store = Store(log)
        for number in range(20 if hasattr(chosen, "long") else 1):
            store.session("a").user("of the future " + os.urandom(9_000).hex())
    os._exit(0)
print(log.head("a").version, sum(commit.count for commit in log.read("a")), log.check())
log.close()
"""
IN_AN_EVENT = {"newer_schema": TooNewError, "newer_kind": UnknownEventError}
IN_THE_JOURNAL = ["newer_frame", "newer_record", "newer_file"]


def newer(path: Path, what: str, does: str) -> str:
    """Let the newer program write something, or read everything."""
    return printed(NEWER, path, what, does).strip()


def contents(path: Path) -> dict[Path, bytes]:
    """Every file below a directory."""
    return {entry: entry.read_bytes() for entry in path.rglob("*") if entry.is_file()}


def begun(path: Path) -> None:
    """A store of this program with two sessions."""
    with Store(open_log(path, **SMALL)) as store:
        store.create_session(id="a").user("question")
        store.create_session(id="b").user("another")


@pytest.mark.parametrize("what", IN_AN_EVENT)
def test_events_of_a_newer_program(tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An event of a newer schema or kind is named; other sessions go on, copies retain it."""
    path = tmp_path / "s"
    begun(path)
    wanted = IN_AN_EVENT[what]
    with Store(open_log(path, **SMALL)) as store:
        early = store.session("a")
        version = early.version
        assert newer(path, what, "write") == ""
        for use in (
            lambda: list(early.events()),
            lambda: ModelView.of(early),
            lambda: early.user("after it"),
            lambda: early.rename("after it"),
            early.fork,
        ):
            with pytest.raises(wanted, match="use the program that wrote it") as caught:
                use()
            assert (caught.value.session, caught.value.version) == ("a", version + 1)
        store.session("b").user("goes on")
        found = verify(store)
        assert [(one.session, one.first_bad) for one in found.sessions if not one.sound] == [("a", version + 1)]
        with pytest.raises(wanted):
            store.backup(tmp_path / "backup")
    with eventlog.open(path) as store:
        store.session("b").user("goes on, opened again")
        with pytest.raises(wanted):
            store.session("a").user("after it")
        store.vacuum()
    told = newer(path, what, "read")
    assert told.split(" ", 2)[0] == told.split(" ", 2)[1] != str(version)
    (loss,) = repair(path, tmp_path / "repaired").losses
    assert (loss.session, loss.first) == ("a", version + 1), "listed, and the old store still has it"
    assert newer(path, what, "read") == told
    capsys.readouterr()
    assert run(["--store", str(path), "show", "a"]) == Exit.DAMAGED
    (line,) = capsys.readouterr().err.splitlines()
    assert "use the program that wrote it, or a later one" in line


@pytest.mark.parametrize("what", IN_THE_JOURNAL)
def test_a_journal_that_a_newer_program_goes_on_with(tmp_path: Path, what: str) -> None:
    """A journal continued by a newer program is not damaged, ended or overwritten."""
    path = tmp_path / "s"
    begun(path)
    log = open_log(path, **SMALL)
    store = Store(log)
    store.session("b").user("before it")
    newer(path, what, "write")
    for use in (lambda: log.head("a"), lambda: store.session("b").user("after it"), lambda: list(log.read("b"))):
        with pytest.raises(TooNewError, match="use the program that wrote it"):
            use()
    with suppress(DataError):
        store.close()
    for read_only in (True, False):
        with pytest.raises(TooNewError, match="use the program that wrote it"):
            open_log(path, read_only=read_only, **SMALL)
    mark = bytearray((path / "mark").read_bytes())
    mark[:] = bytes(len(mark))  # as after a power failure: the end of the journal is unknown
    (path / "mark").write_bytes(mark)
    for read_only in (True, False):
        with pytest.raises(TooNewError):
            open_log(path, read_only=read_only, **SMALL)
    last, read, wrong = newer(path, what, "read").split(" ", 2)
    assert last == read
    assert int(last) > 3
    assert wrong == "[]"


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"\x91\x92\x03\xa1s", TooNewError),
        (b"\x91\x92\x02\xa1s", DamagedError),
        (b"\x91\xa1s", DamagedError),
        (b"\x91\x91\xa1\xff", DamagedError),
        (base64.b64decode("nJQDz5MAAJiic3OhdJGTAACYonNzA88AlAPPkwAAmKF0oqDAoKCgwMCgoMDAwA=="), DamagedError),
    ],
)
def test_a_record_of_a_newer_program_is_told_from_damage(payload: bytes, error: type[DataError]) -> None:
    """Records with an unknown tag are a newer program's; other undecodable records are damage."""
    with pytest.raises(error):
        decode_records(payload, 1)


def test_a_store_of_a_later_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store of a later format is refused by every command, and no byte of it changes."""
    path = tmp_path / "s"
    begun(path)
    file = path / "format"
    file.write_text(file.read_text().replace(f"format {FORMAT_VERSION}", f"format {FORMAT_VERSION + 1}"))
    before = contents(path)
    for read_only in (True, False):
        with pytest.raises(TooNewError, match="the program that wrote it"):
            open_log(path, read_only=read_only)
    for command in ("upgrade", "sessions", "verify", "vacuum"):
        capsys.readouterr()
        code = run(["--store", str(path), command])
        told = capsys.readouterr()
        assert code == Exit.DAMAGED, (command, told)
        assert "the program that wrote it" in told.err
        assert told.err.count("\n") == 1
    assert contents(path) == before


def test_a_rewriting_leaves_others_what_they_have(tmp_path: Path) -> None:
    """A program that has the store open goes on while another one rewrites it."""
    path = tmp_path / "s"
    begun(path)
    script = "import sys, eventlog\nwith eventlog.open(sys.argv[1]) as store:\n    print(store.vacuum().erased)\n"
    with eventlog.open(path, read_only=True) as store:
        assert printed(script, path) == "0\n"
        assert store.session("a").version == 2 + 1
    with eventlog.open(path) as one, eventlog.open(path) as other:
        one.vacuum()
        assert other.session("a").version == one.session("a").version


def test_a_checkpoint_of_a_newer_program_is_passed_over(tmp_path: Path) -> None:
    """A checkpoint that this program cannot read is ignored and the events are replayed."""
    with Store(open_log(tmp_path / "s", **SMALL)) as store:
        session = store.create_session(id="a")
        for number in range(5):
            session.user(f"question {number}")
        wanted, before = canonical(session.reader.state()), session.version
        view = ModelView.of(session).digest
        for kind in (
            STATE,
            *sorted({key.split(b"\0")[1].decode() for key, _ in store.log.scan_derived(checkpoint_store.PREFIX)}),
        ):
            for state in (b"of the future", b"\x95\x01\x02\x03", b""):
                checkpoint_store.save(store.log, kind, "a", session.version, state, surplus=lambda _known: ())
    with Store(open_log(tmp_path / "s", **SMALL)) as store:
        session = store.session("a")
        assert canonical(session.reader.state()) == wanted
        assert ModelView.of(session).digest == view
        session.user("and on")
        assert session.version == before + 2


def test_upgrade_of_a_store_of_this_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`upgrade` of a current store says that nothing changes; a missing store is an error."""
    path = tmp_path / "s"
    begun(path)
    before = contents(path)
    assert run(["--store", str(path), "upgrade"]) == Exit.OK
    assert f"format {FORMAT_VERSION}" in capsys.readouterr().out
    assert contents(path) == before
    assert run(["--store", str(tmp_path / "none"), "upgrade"]) == Exit.MISSING
    assert run(["--store", str(tmp_path), "upgrade"]) == Exit.USAGE
