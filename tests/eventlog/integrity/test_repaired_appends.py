"""Promise 11: a repaired store is sound and says what it lacks; other changes are found."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import pytest
from msgspec.structs import replace

import eventlog
from eventlog import Session, Store
from eventlog import events as ev
from eventlog.codec.decoded import spans_of
from eventlog.codec.redaction import LOST
from eventlog.integrity.heads import StoreHead
from eventlog.log.commit import Commit
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.generations import files_of
from eventlog.log.embedded.segments.environment import LIB_VERSION
from eventlog.maintenance.backup import restore
from eventlog.maintenance.emptied import before_repair, emptied
from eventlog.maintenance.repair import repair
from eventlog.values import Text
from projections.verify.verify import verify
from projections.view.model_view import ModelView
from tests.support.forger import rewrite

pytestmark = pytest.mark.promise(11)

LARGE = "said at great length, again and again, so that it lies beside its event; " * 60
FIRST, SECOND = "first " + LARGE, "second " + LARGE
SMALL = "said in a few words"


def lose(path: Path, text: str) -> None:
    """Drop one of the large texts of a closed store."""
    with lmdb.open(str(files_of(path) / "lmdb"), max_dbs=16, lib_version=LIB_VERSION) as environment:
        bodies = environment.open_db(b"bodies")
        with environment.begin(write=True, db=bodies) as txn:
            assert txn.delete(sha256(text.encode()).digest())


def repaired(path: Path) -> StoreHead:
    """Make a store that lost a text, repair it into `path`, and return the head of before."""
    source = path.with_name(path.name + "-source")
    with eventlog.open(source) as store:
        session = store.create_session(id="a")
        session.user([Text(SMALL), Text(FIRST), Text(SECOND)])
        session.user("third")
        head = store.head()
        store.vacuum()
    lose(source, FIRST)
    assert len(repair(source, path).losses) == 1
    return head


def left_out(store: Store, against: StoreHead | None = None) -> int:
    """Verify, and return how many texts a repair left out."""
    report = verify(store, against=against, deep=True)
    assert report.sound, report
    return sum(one.left_out for one in report.sessions)


def parts_of(session: Session) -> dict[str, str]:
    """Return the ids of the texts that users wrote."""
    events = (recorded.event for recorded in session.events())
    return {
        str(event.kind.text): event.part
        for event in events
        if isinstance(event, ev.PartStarted) and isinstance(event.kind, Text)
    }


def _vacuumed(path: Path) -> Path:
    with eventlog.open(path) as store:
        store.vacuum()
    return path


def _scrubbed(path: Path) -> Path:
    with eventlog.open(path) as store:
        session = store.create_session(id="b")
        session.user(SMALL)
        session.redact(parts_of(session)[SMALL])
        assert store.scrub().emptied
    return path


def _restored(path: Path) -> Path:
    with eventlog.open(path) as store:
        store.backup(path.with_name("backup"))
    restore(path.with_name("backup"), path.with_name("restored"))
    return path.with_name("restored")


def _repaired_again(path: Path) -> Path:
    assert repair(path, path.with_name("again")).losses == ()
    return path.with_name("again")


LATER: dict[str, Callable[[Path], Path]] = {
    "nothing": lambda path: path,
    "a vacuum": _vacuumed,
    "a scrub": _scrubbed,
    "a backup": _restored,
    "a repair": _repaired_again,
}


@pytest.mark.parametrize("what", LATER)
def test_a_repaired_store_is_sound_and_says_what_it_lacks(tmp_path: Path, what: str) -> None:
    """Promise 11: the head of before fits, too, also after later upkeep."""
    head = repaired(tmp_path / "r")
    with eventlog.open(LATER[what](tmp_path / "r")) as store:
        assert left_out(store, head) == 1
        store.session("a").user("it goes on")
        assert left_out(store, head) == 1
        assert str(list(ModelView.of(store.session("a")).messages)).count(LOST) == 1


def test_an_encrypted_copy_of_a_repaired_store_is_sound(tmp_path: Path) -> None:
    """Its appends are hashed anew, so nothing of them was ever left out."""
    repaired(tmp_path / "r")
    with eventlog.open(tmp_path / "r") as store:
        store.backup(tmp_path / "e", keys=tmp_path / "keys")
    with eventlog.open(tmp_path / "e", keys=tmp_path / "keys") as store:
        assert left_out(store) == 0


def test_a_second_loss_is_found_and_repaired(tmp_path: Path) -> None:
    """Promise 9: a repaired store that loses another text is unsound until the next repair."""
    head = repaired(tmp_path / "r")
    with eventlog.open(tmp_path / "r") as store:
        store.vacuum()
    lose(tmp_path / "r", SECOND)
    with eventlog.open(tmp_path / "r") as store:
        assert not verify(store).sound
    assert len(repair(tmp_path / "r", tmp_path / "again").losses) == 1
    with eventlog.open(tmp_path / "again") as store:
        assert left_out(store, head) == 2


def _without_before(commit: Commit) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.decode(commit.payload)[:5])


def _other_before(commit: Commit) -> bytes:
    before = before_repair(commit)
    assert before is not None
    forged = before.salt, before.payload.replace(SMALL.encode(), SMALL.upper().encode())
    return msgspec.msgpack.encode([*msgspec.msgpack.decode(commit.payload)[:5], forged])


FORGED: dict[str, Callable[[Commit], bytes]] = {
    "another text": lambda commit: commit.payload.replace(SMALL.encode(), SMALL.upper().encode(), 1),
    "both texts": lambda commit: commit.payload.replace(SMALL.encode(), SMALL.upper().encode()),
    "the note": lambda commit: commit.payload.replace(LOST.encode(), LOST.upper().encode()),
    "what was committed": _other_before,
    "nothing was committed": _without_before,
}


@pytest.mark.parametrize("what", FORGED)
def test_a_repair_covers_no_other_change(tmp_path: Path, what: str) -> None:
    """Promise 11: all but the lost texts is as committed, also if a record says otherwise."""
    path = tmp_path / "r"
    head = repaired(path)
    with Store(open_log(path, read_only=True)) as store:
        commits = list(store.log.read("a"))
    place = next(place for place, commit in enumerate(commits) if commit.emptied)
    forged = emptied(commits[place], FORGED[what](commits[place]))
    assert forged.payload != commits[place].payload
    rewrite(path, "a", [*commits[:place], replace(forged, salt=b""), *commits[place + 1 :]], tree=False)
    with Store(open_log(path)) as store:
        store.vacuum()  # writes the record of what was left
        report = verify(store, against=head)
        assert [one.first_bad for one in report.sessions if not one.sound] == [commits[place].first]


def test_a_redaction_takes_what_a_repair_kept(tmp_path: Path) -> None:
    """Promise 10: what was committed goes with a redacted text of the same append."""
    path = tmp_path / "r"
    head = repaired(path)
    with eventlog.open(path) as store:
        session = store.session("a")
        session.redact(parts_of(session)[SMALL], search=False)
        store.scrub()
        assert left_out(store, head) == 0
        payloads: list[Any] = [commit.payload for commit in store.log.read("a")]
        assert not any(SMALL.encode() in payload for payload in payloads)
        assert any(LOST in str(spans_of(commit)) for commit in store.log.read("a"))
