"""Maintenance of an encrypted store: backup, repair, redaction, scrub, vacuum, crashes."""

from __future__ import annotations

import errno
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from eventsourcing.persistence import PersistenceError, StoredEvent

import eventlog
from eventlog import open_log
from eventlog.codec.payload import FOREIGN, decode_encrypted_value
from eventlog.encryption.log import EncryptedLog
from eventlog.errors import ErasedError, KeyMissingError, KeyProviderError, KeysError, StorageError
from eventlog.importers import import_file
from eventlog.log.commit import Append, Ticket
from eventlog.log.embedded import directory
from eventlog.log.embedded.directory import encryption_of
from eventlog.recorder import LogFactory
from eventlog.store import Store
from projections.exports.jsonl import jsonl_lines
from projections.verify.verify import verify
from projections.view.model_view import ModelView
from tests.eventlog.maintenance.test_repair import change
from tests.support.encrypted_store import SECRET, Service, confess, leaks, rendered, texts
from tests.support.sample_sessions import exchange, started


def infos(store: Store) -> list[Any]:
    """The public listing of every session."""
    return list(store.sessions())


def test_a_backup_goes_on_without_keys(tmp_path: Path) -> None:
    """A backup is made and continued without keys, and opens with the store's keys."""
    path, to = tmp_path / "s", tmp_path / "b"
    with eventlog.open(path, keys=True) as store:
        confess(store)
    with eventlog.open(path, read_only=True) as store:
        assert store.backup(to).whole
    with eventlog.open(path, keys=True) as store:
        store.session("p").fork(id="f").user("more")
        store.create_session(id="q")
        store.erase("q", reason="why")
        shown, said, head = infos(store), rendered(store.session("f")), store.head()
    with eventlog.open(path, read_only=True) as store:
        assert not store.backup(to).whole
    assert leaks(tmp_path) == []
    with pytest.raises(KeysError):
        eventlog.open(to, read_only=True, keys=tmp_path / "b.keys")
    with eventlog.open(to, read_only=True, keys=tmp_path / "s.keys") as store:
        assert (infos(store), rendered(store.session("f")), store.head()) == (shown, said, head)
        assert verify(store, deep=True, against=head).sound


def test_a_restore_to_any_position_lists_what_was_then(tmp_path: Path) -> None:
    """A keyless restore to any position gives that position's titles, totals and texts."""
    path = tmp_path / "s"
    seen: dict[str, tuple[list[Any], list[str]]] = {}
    service = Service()
    with eventlog.open(path, keys=service) as store:
        session = store.create_session(id="p", title="first")
        for number in range(4):
            exchange(session, f"{SECRET} {number}")
            session.rename(f"title {number}")
            session.record_usage(eventlog.Usage(eventlog.Tokens(number, 1)), model="acme/one")
            seen[store.cursor()] = infos(store), [rendered(session)]
    for number, (cursor, expected) in enumerate(seen.items()):
        into = tmp_path / f"r{number}"
        eventlog.restore(path, into, cursor=cursor)
        with eventlog.open(into, read_only=True) as store:
            assert [(info.locked, info.title) for info in infos(store)] == [(True, "")]
        with eventlog.open(into, read_only=True, keys=service) as store:
            assert (infos(store), [rendered(store.session("p"))]) == expected
            assert verify(store).sound


@pytest.mark.parametrize("folded", [True, False])
def test_a_repair_needs_no_key(folded: bool, tmp_path: Path) -> None:
    """Repair needs no key and saves a sound store whole, from LMDB or the journal alone."""
    path, crashed = tmp_path / "s", tmp_path / "crashed"
    with eventlog.open(path, keys=True) as store:
        session = confess(store)
        session.fork(id="f").user("more")
        exchange(store.create_session(id="q"))
        store.erase("q", reason="why")
        shown, said, head = infos(store), rendered(store.session("f")), store.head()
        if not folded:
            shutil.copytree(path, crashed)
    if folded:
        shutil.copytree(path, crashed)
    (crashed / "format").unlink()
    done = eventlog.repair(crashed, tmp_path / "new")
    assert [loss.problem for loss in done.losses if "format" not in loss.problem] == []
    assert encryption_of(tmp_path / "new") == open_log.LOST_NOTE
    assert leaks(tmp_path) == []
    with eventlog.open(tmp_path / "new", keys=tmp_path / "s.keys") as store:
        assert (infos(store), rendered(store.session("f")), store.head()) == (shown, said, head)
        assert verify(store, deep=True, against=head).sound
        store.session("f").user("and on")
        assert infos(store)[0].title == shown[0].title


def test_a_repair_from_the_journal_alone_keeps_what_is_no_conversation(tmp_path: Path) -> None:
    """A repair restores a foreign stream's head from its first append."""
    service = Service()
    log = open_log.open_log(tmp_path / "s", keys=service)
    payloads = [FOREIGN + SECRET.encode(), FOREIGN + b"two"]
    entry = FOREIGN + b"card"
    log.submit(Append(session="x", payload=payloads[0], count=1, time=1, creates_at=0, entry=entry)).wait()
    log.submit(Append(session="x", payload=payloads[1], count=1, time=1)).wait()
    shutil.copytree(tmp_path / "s", tmp_path / "crashed")
    log.close()
    shutil.rmtree(tmp_path / "crashed" / "1" / "lmdb")
    eventlog.repair(tmp_path / "crashed", tmp_path / "new")
    with eventlog.open(tmp_path / "new", keys=service) as store:
        head = store.log.head("x")
        assert head is not None
        assert head.entry == entry
        assert [commit.payload for commit in store.log.read("x")] == payloads
        assert verify(store).sound


def test_a_large_text_that_is_lost_is_named_without_its_key(tmp_path: Path) -> None:
    """Repair without keys lists the append that refers to a missing body, and no other."""
    path = tmp_path / "s"
    with eventlog.open(path, keys=True) as store:
        session = store.create_session(id="p")
        session.user("small")
        session.user("large " * 1000)
        version = session.version
        store.vacuum()  # the journal has nothing of it any more

    def drop(txn: Any, trees: dict[str, Any]) -> None:
        with txn.cursor(trees["bodies"]) as cursor:
            assert cursor.first()
            cursor.delete()

    change(path, drop)
    done = eventlog.repair(path, tmp_path / "new")
    (loss,) = done.losses
    assert (loss.session, loss.last) == ("p", version)
    assert loss.first is not None
    assert loss.first > 2
    assert "large text" in loss.problem


def test_scrub_takes_a_redacted_part_out_of_what_the_key_opens(tmp_path: Path) -> None:
    """After a scrub even the key opens no redacted part; verify passes on the old head."""
    path = tmp_path / "s"
    with eventlog.open(path, keys=True) as store:
        session = store.create_session(id="p")
        session.user("before")
        session.user(SECRET, id="m")
        session.user(f"{SECRET} " * 200, id="large")
        exchange(session)
        fork = session.fork(id="f")
        fork.user("in the fork")
        head = store.head()
        before, after = ModelView.of(session).messages[0], ModelView.of(session).messages[3:]
        for part in started(session, {"m", "large"}):
            session.redact(part, search=False)
        names = set(store.log.bodies())
        assert store.scrub().emptied == 2
        assert names - set(store.log.bodies()), "the large text is gone"
        assert verify(store, against=head, deep=True).sound
        for one in store.session("p"), store.session("f"):
            assert SECRET not in rendered(one)
            assert ModelView.of(one).messages[0] == before
        assert ModelView.of(session).messages[3:] == after
        log = store.log
        assert isinstance(log, EncryptedLog)
        assert SECRET.encode() not in b"".join(commit.payload for commit in log.commits_after(0))
        store.backup(tmp_path / "b")
        session.user("and on")
    with eventlog.open(tmp_path / "b", read_only=True, keys=tmp_path / "s.keys") as store:
        assert verify(store, against=head).sound
        assert SECRET not in rendered(store.session("p"))


def test_a_second_scrub_changes_nothing(tmp_path: Path) -> None:
    """A second scrub does not encrypt blanked content anew."""
    with eventlog.open(tmp_path / "s", keys=True) as store:
        session = store.create_session(id="p")
        session.user(SECRET, id="m")
        session.redact(started(session, {"m"})[0], search=False)
        assert store.scrub().emptied == 1
        head, stored = store.head(), [commit.payload for commit in store.log.engine.commits_after(0)]
        assert store.scrub().emptied == 0
        assert (store.head(), [commit.payload for commit in store.log.engine.commits_after(0)]) == (head, stored)


@pytest.mark.parametrize("encrypted", [True, False])
def test_a_store_whose_format_cannot_be_read_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, encrypted: bool
) -> None:
    """An unreadable encryption marker is a typed error: no store stays open, no key is lost."""
    service = Service()
    keys = service if encrypted else None
    tries: list[Path] = []

    def refuse(path: Path) -> str:
        tries.append(path)
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(directory, "encryption_of", refuse)
        for _ in range(2):  # while it is made, and when it is there
            with pytest.raises(StorageError, match="too many open files"):
                eventlog.open(tmp_path / "s", keys=keys)
    assert len(tries) == 2
    assert service.asked == ["make"] * encrypted
    with eventlog.open(tmp_path / "s", keys=keys) as store:
        assert store.vacuum().erased == 0  # refused while another handle has the store open


def test_a_key_file_that_came_back_loses_its_dead_keys_again(tmp_path: Path) -> None:
    """Vacuum destroys the keys of erased sessions again when an older key file came back."""
    file = tmp_path / "keys"
    with eventlog.open(tmp_path / "s", keys=file) as store:
        exchange(store.create_session(id="p"))
        older = file.read_bytes()
        store.erase("p")
        assert len(file.read_bytes()) < len(older)
        file.write_bytes(older)
        store.vacuum()
        assert len(file.read_bytes()) < len(older)


@pytest.mark.parametrize("place", ["memory:", "directory"])
def test_a_key_is_destroyed_until_that_is_confirmed_and_then_no_more(place: str, tmp_path: Path) -> None:
    """Vacuum asks the provider to destroy a key until it confirms, and then never again."""
    service = Service()
    refused: set[str] = set()
    destroyed: list[str] = []

    def keys(verb: str, name: str) -> bytes | None:
        if verb == "destroy":
            destroyed.append(name)
            if name in refused:
                raise TimeoutError
        return service(verb, name)

    path = place if place == "memory:" else tmp_path / "s"
    with eventlog.open(path, keys=keys) as store:
        own = set(service.keys)
        for name in "abc":
            exchange(store.create_session(id=name))
        (refusing,) = (
            set(service.keys) - own - {decode_encrypted_value(_stored_entry(store, name)).key.hex() for name in "bc"}
        )
        refused.add(refusing)
        with pytest.raises(KeyProviderError):
            store.erase("a")
        with pytest.raises(KeyProviderError):
            store.erase("b")
        assert destroyed.count(refusing) == 2
        assert len(destroyed) == 3, "that of b once, that of a again"
        refused.clear()
        store.erase("c")
        assert len(destroyed) == 5
        assert set(service.keys) == own
        if place == "memory:":
            return
    for _ in range(2):
        with eventlog.open(path, keys=keys) as store:
            store.vacuum()
            exchange(store.create_session())
            store.vacuum()
    assert len(destroyed) == 5
    with eventlog.open(path) as store:  # without keys nothing can be destroyed, and nothing is taken for it
        store.vacuum()
    with eventlog.open(path, keys=keys) as store, pytest.MonkeyPatch.context() as dying:
        exchange(store.create_session(id="d"))

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        dying.setattr(type(store.log.engine), "put_derived", die)
        with pytest.raises(KeyboardInterrupt):
            store.erase("d")
    with eventlog.open(path, keys=keys) as store:
        assert len(destroyed) == 6
        store.vacuum()
        assert len(destroyed) == 7, "nobody knows whether it was confirmed"
        assert destroyed[5] == destroyed[6]


def _stored_entry(store: Store, session: str) -> bytes:
    head = store.log.engine.head(session)
    assert head is not None
    return head.entry


def test_an_import_gives_each_family_its_own_texts(tmp_path: Path) -> None:
    """After an import each fork family's shared texts are stored under its own key."""
    large = "shared " * 1000
    with eventlog.open(tmp_path / "plain") as store:
        session = store.create_session(id="p")
        session.user(large)
        session.fork(id="f").user(large)
        session.subsession(id="s").user(large)
        lines = b"".join(jsonl_lines(session, tree=True))
    (tmp_path / "tree.jsonl").write_bytes(lines)
    with eventlog.open(tmp_path / "s", keys=True) as store:
        import_file(store, tmp_path / "tree.jsonl")
        log = store.log
        assert isinstance(log, EncryptedLog)
        for name in "p", "f", "s":
            family = log.family(name)
            assert family is not None
            assert log.body_of(family, sha256(large.encode()).digest()) is not None
        store.erase("p", forks="cascade", subsessions="keep")
        store.vacuum()
        assert texts(store.session("s")) == [large]


def test_the_streams_of_a_recorder_are_encrypted_too(tmp_path: Path) -> None:
    """Recorder streams in an encrypted store round-trip, and no file has them in clear."""
    variables = {"EVENTLOG_PATH": str(tmp_path / "s"), "EVENTLOG_KEY_FILE": str(tmp_path / "keys")}
    name = uuid4()
    events = [StoredEvent(name, version, SECRET, f"{SECRET} {version}".encode()) for version in range(3)]
    factory = LogFactory(variables)
    factory.application_recorder().insert_events(events)
    factory.close()
    assert leaks(tmp_path) == []
    factory = LogFactory(variables)
    assert list(factory.application_recorder().select_events(name)) == events
    assert [found.state for found in factory.application_recorder().select_notifications(1, 9)] == [
        event.state for event in events
    ]
    factory.close()
    factory = LogFactory({"EVENTLOG_PATH": str(tmp_path / "s"), "EVENTLOG_READ_ONLY": "y"})
    with pytest.raises(PersistenceError, match="key is not there"):
        factory.application_recorder().select_events(name)
    factory.close()
    with eventlog.open(tmp_path / "s", read_only=True) as store:
        report = verify(store)
        assert (report.sound, report.locked, sum(one.events for one in report.sessions)) == (True, 1, 0)
    with eventlog.open(tmp_path / "s", keys=tmp_path / "keys") as store:
        assert verify(store).sound
        assert list(store.sessions()) == []
        store.vacuum()
    factory = LogFactory(variables)
    assert list(factory.application_recorder().select_events(name)) == events
    factory.close()


def test_a_scrub_without_keys_is_refused(tmp_path: Path) -> None:
    """A scrub without keys is refused: it could not find what was redacted."""
    path = tmp_path / "s"
    with eventlog.open(path, keys=True) as store:
        session = store.create_session(id="p")
        session.user(SECRET, id="m")
        for part in started(session, {"m"}):
            session.redact(part, search=False)
    with eventlog.open(path) as store, pytest.raises(KeyMissingError):
        store.scrub()
    with eventlog.open(path, keys=True) as store:
        assert store.scrub().emptied == 1


def test_a_fork_whose_parent_is_erased_meanwhile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork of a parent that is erased meanwhile is never acknowledged."""
    path, keys = tmp_path / "s", tmp_path / "keys"
    with eventlog.open(path, keys=keys) as store, eventlog.open(path, keys=keys) as other:
        parent = store.create_session(id="p")
        exchange(parent)
        inner = EncryptedLog.submit

        def submit(log: EncryptedLog, append: Append) -> Ticket:
            if append.session == "f" and append.creates_at is not None:
                monkeypatch.undo()
                other.erase("p")
            return inner(log, append)

        monkeypatch.setattr(EncryptedLog, "submit", submit)
        with pytest.raises(ErasedError):
            parent.fork(id="f")
        assert [info.id for info in store.sessions()] == []
