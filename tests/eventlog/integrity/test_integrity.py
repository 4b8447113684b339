"""Promise 11: any change of committed events is found, and the first bad version named."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from eventlog import Store, StoreHead
from eventlog import events as ev
from eventlog.errors import CallError, DamagedError, NotFoundError, RefusedError
from eventlog.log.commit import Append, Commit
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.generations import files_of
from eventlog.log.embedded.segments import layout
from eventlog.log.embedded.segments.segments import Segments
from eventlog.log.memory import MemoryLog
from eventlog.log.merkle import leaf_data, leaf_of
from eventlog.state.loader import load_state, save_state
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import replay
from projections.transcript.transcript import TranscriptProjection
from projections.verify.check_proof import check
from projections.verify.prove import prove
from projections.verify.verify import verify
from tests.faults.tally import tally
from tests.support.engines import ENGINES, LastingLog
from tests.support.forger import Forgery, begun, careful, forgeries, rewrite, rewrite_memory
from tests.support.verifying import report_of

pytestmark = pytest.mark.promise(11)

CHECKER = Path(__file__).resolve().parents[3] / "projections" / "verify" / "check_proof.py"
SMALL = {"map_bytes": 1 << 20, "journal_bytes": 32 << 10}


def fill(store: Store) -> None:
    """A session with every way of appending, a body, a fork and another session."""
    session = begun(store)
    session.fork(id="fork", at=3).user("elsewhere")
    session.user("and more", request_id="r")
    store.create_session(id="b").user("another")


class Place:
    """A store on one engine whose sessions a forger can change while it is closed."""

    def __init__(self, engine: str, path: Path) -> None:
        self.engine, self.path = engine, path
        self.log = LastingLog(partitions=4 if engine == "partitioned" else 1)
        with self.open() as store:
            fill(store)
        if engine == "embedded":
            shutil.copytree(path, path.with_name("pristine"))
        self._kept = dict(self.log._sessions), dict(self.log._heads)

    @contextmanager
    def open(self) -> Generator[Store]:
        """Open the store."""
        with Store(self.log if self.engine != "embedded" else open_log(self.path, **SMALL)) as store:
            yield store

    def commits(self, session: str) -> list[Commit]:
        """All commits of session `s`."""
        with self.open() as store:
            return list(store.log.read(session))

    def forge(self, session: str, commits: list[Commit], *, tree: bool) -> None:
        """Replace a session's history in the pristine store."""
        if self.engine != "embedded":
            self.log._sessions, self.log._heads = dict(self._kept[0]), dict(self._kept[1])
        else:
            shutil.rmtree(self.path)
            shutil.copytree(self.path.with_name("pristine"), self.path)
        self.put(session, commits, tree=tree)

    def put(self, session: str, commits: list[Commit], *, tree: bool) -> None:
        """Replace a session's history in the store as it is."""
        if self.engine != "embedded":
            rewrite_memory(self.log, session, commits, tree=tree)
        else:
            rewrite(self.path, session, commits, tree=tree)


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A store on every engine."""
    return Place(request.param, tmp_path / "store")


def all_forgeries(place: Place, session: str) -> list[Forgery]:
    """Every forgery of a session."""
    found = list(forgeries(place.commits(session)))
    assert len({forgery.name.split(" ")[0] for forgery in found}) == 5
    return found


def test_a_store_that_nobody_touched_is_sound(place: Place) -> None:
    """An unforged store is sound, also against every head it had, and in a deep check."""
    with place.open() as store:
        head = store.head()
        store.session("a").user("later")
        report = verify(store, against=head, deep=True)
        assert report.sound, report
        assert [one.session for one in report.sessions] == ["a", "b", "fork"]
        assert verify(store, session="fork", against=store.head()).sound
        assert StoreHead.parse(head.text()) == head
        assert store.head().digest != head.digest


@pytest.mark.parametrize("session", ["a", "fork"])
def test_every_careless_forgery_is_named(place: Place, session: str) -> None:
    """An event dropped, edited, swapped or inserted is found; the first bad version is named."""
    tried = 0
    for tried, forgery in enumerate(all_forgeries(place, session), 1):  # noqa: B007 - counted
        place.forge(session, forgery.commits, tree=False)
        with place.open() as store:
            report = report_of(store, session)
            assert report.first_bad == forgery.version, (forgery.name, report)
            if forgery.version == 1:
                assert not verify(store).sound
                assert any(f"session {session}" in line for line in store.log.check())
            assert report_of(store, "b").sound
    tally("an event forged in the store", tried)


def test_every_careful_forgery_is_found_against_a_kept_head(place: Place) -> None:
    """A history forged with all its hashes is found against a kept head, and a range is named."""
    with place.open() as store:
        kept = StoreHead.parse(store.head().text())
    with place.open() as store:
        last = store.session("a").version
    tried = 0
    for tried, forgery in enumerate(all_forgeries(place, "a"), 1):  # noqa: B007 - counted
        place.forge("a", careful(forgery.commits), tree=True)
        with place.open() as store:
            report = report_of(store, "a", against=kept.by_session["a"])
            if forgery.name == "appended":
                assert report.first_bad is None, "whoever can append can append"
                continue
            assert report.first_bad is not None, forgery.name
            since = re.search(r"from version (\d+) on cannot be compared", report.problems[0].problem)
            named = report.first_bad if since is None else int(since[1])
            assert named <= forgery.version <= last, (forgery.name, report)
            assert since is None or len(forgery.commits) < kept.by_session["a"].appends
            assert store.head().digest != kept.digest
            with pytest.raises(DamagedError):
                prove(store, store.session("a"), 1, kept)
    tally("an event forged with all its hashes", tried)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_gap_is_an_error_for_every_reader(tmp_path: Path, *, reverse: bool) -> None:
    """An append missing between others raises a typed error and is no shorter history."""
    place = Place("embedded", tmp_path / "store")
    commits = place.commits("a")
    for number in range(len(commits)):
        place.forge("a", commits[:number] + commits[number + 1 :], tree=False)
        with place.open() as store:
            if number == len(commits) - 1:
                assert report_of(store, "a").first_bad == commits[number].first
                continue
            with pytest.raises(DamagedError) as caught:
                list(store.log.read("a", reverse=reverse))
            assert caught.value.session == "a"
            assert caught.value.version in range(commits[number].first, commits[number].last + 1)
            assert report_of(store, "a").first_bad == commits[number].first


def test_a_rollback_to_an_older_state_is_found(place: Place) -> None:
    """A session put back to an earlier state lacks versions that the kept head has."""
    commits = place.commits("a")
    with place.open() as store:
        kept = store.head().by_session["a"]
    for length in range(1, len(commits)):
        place.forge("a", commits[:length], tree=True)
        with place.open() as store:
            assert report_of(store, "a").first_bad is None, "nothing inside the store tells"
            report = report_of(store, "a", against=kept)
            assert report.first_bad == commits[length].first


def test_a_removed_session_is_found(place: Place) -> None:
    """A removed session is found against a kept store head, in the store and by its name."""
    with place.open() as store:
        kept = store.head()
    if place.engine != "embedded":
        for kind in (place.log._sessions, place.log._heads):
            del kind["b"]
    else:
        segments = Segments(files_of(place.path) / "lmdb", read_only=False, map_bytes=1 << 20)
        segments.environment.writing(lambda txn: txn.delete(b"b", db=segments.environment.trees["sessions"]))
        segments.close()
    with place.open() as store:
        for session in (None, "b"):
            report = verify(store, session=session, against=kept)
            (gone,) = (one for one in report.sessions if not one.sound)
            assert (gone.session, gone.first_bad) == ("b", 1)
        with pytest.raises(NotFoundError):
            verify(store, session="b")
        with pytest.raises(NotFoundError):
            verify(store, session="nobody", against=kept)


def test_an_erased_session_does_not_come_back(place: Place) -> None:
    """A session that the kept head has as erased, and that is there again, is reported."""
    with place.open() as store:
        kept = replace(store.head().by_session["b"], erased=True)
        assert [one.problem for one in report_of(store, "b", against=kept).problems] == [
            "the session was erased, and is there again"
        ]
        store.session("b").append([(1, ev.SessionErased())])
        assert store.head().by_session["b"].erased
        assert report_of(store, "b", against=kept).sound


def test_an_append_that_lost_its_hash_is_a_fault_whatever_is_redacted(place: Place) -> None:
    """Promise 11: an append that claims to be emptied is a fault without a ledger record."""
    with place.open() as store:
        kept = store.head().by_session["a"]
        session = store.session("a")
        (first, *_, last) = [span for span in session.reader.spans() if isinstance(span.item, ev.PartStarted)]
        assert isinstance(last.item, ev.PartStarted)
        session.append([(1, ev.PartRedacted(last.item.part))], expected_version=session.version)
    commits = place.commits("a")
    for span in (first, last):
        (target,) = [commit for commit in commits if commit.first <= span.first <= commit.last]
        emptied = replace(target, salt=b"", leaf=leaf_of(target))
        place.put("a", [emptied if commit is target else commit for commit in commits], tree=False)
        with place.open() as store:
            assert report_of(store, "a", against=kept).first_bad == target.first
            with pytest.raises(RefusedError):
                prove(store, store.session("a"), span.first)


def test_a_fork_is_looked_at_with_its_ancestors(place: Place) -> None:
    """Verifying a fork verifies what it inherited, too."""
    forgery = next(one for one in forgeries(place.commits("a")) if one.name.startswith("edited"))
    place.forge("a", forgery.commits, tree=False)
    with place.open() as store:
        found = {one.session: one.first_bad for one in verify(store, session="fork").sessions}
        assert found["a"] == 1
        assert set(found) == {"a", "fork"}


def test_folding_changes_no_digest(tmp_path: Path) -> None:
    """Digests cover logical bytes: folding the journal does not change the head."""
    with Store(open_log(tmp_path / "s", **SMALL)) as store:
        fill(store)
        before = store.head()
    with Store(open_log(tmp_path / "s", read_only=True)) as store:
        assert store.head() == before
        assert store.head().by_session["a"] == store.session("a").head()


def test_what_lists_show_is_compared(place: Place) -> None:
    """A title changed in the catalog and in no event is found."""
    if place.engine != "embedded":
        head = place.log._heads["a"]
        place.log._heads["a"] = replace(head, entry=head.entry.replace(b"t", b"u", 1))
    else:
        segments = Segments(files_of(place.path) / "lmdb", read_only=False, map_bytes=1 << 20)
        key = layout.session_key("a")

        def job(txn: Any) -> None:
            row = segments.row_in(txn, "a")
            assert row is not None
            changed = replace(row, entry=row.entry.replace(b"t", b"u", 1))
            txn.put(
                key, layout.protect(key, msgspec.msgpack.encode(changed)), db=segments.environment.trees["sessions"]
            )

        segments.environment.writing(job)
        segments.close()
    with place.open() as store:
        assert store.info("a").title == "u"
        assert not report_of(store, "a").sound


def test_deep_compares_every_checkpoint(place: Place) -> None:
    """A valid checkpoint that differs from the replay is found by a deep check only."""
    with place.open() as store:
        session = store.session("a")
        transcript = TranscriptProjection()
        checkpoints, reader = Checkpoints(store.log), session.reader
        checkpoints.save(transcript, reader, reader.version, replay(transcript, reader, 3).state, ())
        assert verify(store).sound
        assert [(one.session, one.first_bad) for one in verify(store, deep=True).sessions if not one.sound] == [
            ("a", session.version)
        ]
        checkpoints.save(transcript, reader, reader.version, replay(transcript, reader).state, ())
        wrong = load_state(store.log, session.reader.ancestry(), 3)[0]
        wrong.version = session.version
        save_state(store.log, session.reader.ancestry(), wrong)
        (found,) = verify(store, session="a", deep=True).sessions
        assert found.first_bad == session.version


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        (r"}$", ""),
        (r'"format":1', '"format":2'),
        (r'"version":\d+', '"version":99'),
        (r'"id":"b"', '"id":"c"'),
        (r'"id":"b"', '"id":"0"'),
        (r'"erased":false', '"erased":true'),
        (r'"peaks":\["..', '"peaks":["'),
        (r'"peaks":\["..', '"peaks":["zz'),
        (r'"appends":\d+', '"appends":0'),
        (r'"digest":"..', '"digest":"zz'),
    ],
)
def test_a_kept_head_that_was_changed_is_refused(pattern: str, instead: str) -> None:
    """A kept head whose text was changed is refused with its own error, no fault of the store."""
    with Store(MemoryLog()) as store:
        fill(store)
        text = store.head().text()
    changed = re.sub(pattern, instead, text, count=1)
    assert changed != text
    with pytest.raises(CallError):
        StoreHead.parse(changed)


def test_a_proof_is_checked_without_the_store(place: Place, tmp_path: Path) -> None:
    """Every version's proof is checked with Python and the head alone, without the store."""
    with place.open() as store:
        kept = store.head()
        for number in range(3):
            store.session("a").user(f"later {number}")
        proofs = [
            prove(store, store.session(name), version, kept)
            for name in ("a", "fork", "b")
            for version in range(1, store.session(name).version + 1)
        ]
        digest = store.head().digest
        with pytest.raises(NotFoundError):
            prove(store, store.session("b"), 99)
        with pytest.raises(NotFoundError):
            prove(store, store.create_session(id="new"), 1, kept)
    document = json.loads(kept.text())
    for made in proofs:
        proof = json.loads(json.dumps(made))
        assert check(proof)
        assert check(proof, document)
        assert proof["store"]["root"] == digest
        assert bytes.fromhex(proof["leaf"]).startswith(bytes.fromhex(proof["salt"]))
        for wrong in forged_proofs(proof):
            assert not check(wrong, document), wrong
    (tmp_path / "proof.json").write_text(json.dumps(proofs[0]))
    (tmp_path / "head.json").write_text(kept.text())
    for files, found in ((["proof.json"], digest), (["proof.json", "head.json"], f"{digest}\nwhich continues")):
        done = subprocess.run(
            [sys.executable, "-I", "-S", CHECKER, *files], cwd=tmp_path, text=True, capture_output=True, check=True
        )
        assert found in done.stdout
    (tmp_path / "proof.json").write_text(json.dumps({**proofs[0], "version": 99}))
    wrongly = subprocess.run([sys.executable, CHECKER, "proof.json"], cwd=tmp_path, capture_output=True, check=False)
    assert wrongly.returncode == 1


def forged_proofs(proof: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The proof with one of its values changed."""
    flipped = f"{int(proof['leaf'][-1], 16) ^ 1:x}"
    yield {**proof, "leaf": proof["leaf"][:-1] + flipped}
    yield {**proof, "session": proof["session"] + "x"}
    yield {**proof, "version": proof["version"] + 100}
    yield {**proof, "root": "00" * 32}
    yield {**proof, "size": proof["size"] + 1}
    yield {**proof, "store": {**proof["store"], "root": "00" * 32}}
    yield {**proof, "consistency": {**proof["consistency"], "root": "00" * 32}}
    yield {**proof, "consistency": None}


def test_what_is_damaged_is_not_proven(place: Place) -> None:
    """Events that are not the committed ones yield no proof."""
    forgery = next(one for one in forgeries(place.commits("a")) if one.name.startswith("edited"))
    place.forge("a", forgery.commits, tree=False)
    with place.open() as store, pytest.raises(DamagedError):
        prove(store, store.session("a"), 1)


def test_a_secret_cannot_be_guessed_from_what_stays(place: Place) -> None:
    """Leaves of equal appends are salted: without the salts they cannot be compared."""
    with place.open() as store:
        for name in ("x", "y"):
            store.log.submit(Append(session=name, payload=b"pin 1234", count=1, time=1, creates_at=0)).wait(30)
        (one,), (other,) = store.log.read("x"), store.log.read("y")
    assert len(one.salt) == len(other.salt) == 16
    assert one.salt != other.salt
    assert leaf_data(replace(one, session="y")) != leaf_data(other)
