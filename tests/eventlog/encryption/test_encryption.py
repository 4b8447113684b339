"""Encryption at rest: no plaintext on disk, one key per fork family, erasure by key."""

from __future__ import annotations

import gc
import logging
import pickle
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.append.command import content_digest
from eventlog.codec.large_texts import INLINE
from eventlog.encryption.family import Family
from eventlog.encryption.key_ring import KeyRing
from eventlog.encryption.log import EncryptedLog
from eventlog.errors import ErasedError, EventlogError, KeyMissingError, KeyProviderError, KeysError, NotFoundError
from eventlog.log.commit import Append
from eventlog.log.embedded.engine import EmbeddedLog
from eventlog.log.memory import MemoryLog
from eventlog.store import Store
from projections.verify.prove import prove
from projections.verify.verify import verify
from projections.view.model_view import LiveView, ModelView
from tests.support.encrypted_store import SECRET, Service, confess, leaks, rendered, texts
from tests.support.python_process import printed
from tests.support.sample_sessions import exchange, started

LARGE = "a text that both have " * INLINE


def short(_verb: str, _name: str) -> bytes | None:
    """A key provider whose keys are too short."""
    return b"short"


def nothing(_verb: str, _name: str) -> bytes | None:
    """A key provider that has no key and makes none."""
    return None


def body_names(store: Store) -> int:
    """The number of stored bodies."""
    return len(list(store.log.bodies()))


def test_nothing_said_is_in_any_file(tmp_path: Path) -> None:
    """No file of an encrypted store or backup contains any conversation text."""
    with eventlog.open(tmp_path / "s", keys=True) as store:
        session = confess(store)
        said = rendered(session)
        assert leaks(tmp_path) == []
        store.backup(tmp_path / "backup")
    assert leaks(tmp_path) == []
    with eventlog.open(tmp_path / "s", keys=True) as store:
        again = store.session("p")
        assert rendered(again) == said
        assert ModelView.of(again).messages == ModelView.of(again, at=again.version).messages
        assert store.info("p").title == SECRET
        assert verify(store, deep=True).sound
    with eventlog.open(tmp_path / "plain") as store:
        confess(store)
    assert leaks(tmp_path / "plain"), "the search finds it where it is"


def test_a_fork_has_its_parents_key_and_a_subsession_its_own(tmp_path: Path) -> None:
    """A fork family stores a text once under one key; other sessions share no key."""
    service = Service()
    with eventlog.open(tmp_path / "s", keys=service) as store:
        session = store.create_session(id="p")
        session.user(LARGE)
        fork = session.fork(id="f")
        fork.user(LARGE)
        fork.fork(id="g").user(LARGE)
        assert (len(service.keys), body_names(store)) == (2, 1)  # the store's own key, and one for the family
        session.subsession(id="s").user(LARGE)
        store.create_session(id="other").user(LARGE)
        assert (len(service.keys), body_names(store)) == (4, 3)
        for name in "p", "f", "g", "s", "other":
            assert LARGE in texts(store.session(name))


def test_names_and_digests_do_not_tell_a_known_text(tmp_path: Path) -> None:
    """Neither a large text's hash nor a request's content hash is stored in clear."""
    with eventlog.open(tmp_path / "s", keys=True) as store:
        session = store.create_session(id="p")
        session.user(LARGE, request_id="r")
        events = [recorded.event for recorded in session.events(1)]
        live = LiveView(session)
        assert live.advance().tokens
        live.save()
        with pytest.raises(EventlogError, match="used before"):
            session.user("something else", request_id="r")
        session.user(LARGE, request_id="r")
        assert session.version == 3
    hashes = {sha256(LARGE.encode()).digest(), content_digest([(0, event) for event in events])}
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert not [found for found in hashes for data in files if found in data]


@pytest.mark.parametrize("place", ["memory:", "directory"])
def test_erasing_the_last_of_a_family_destroys_its_key(place: str, tmp_path: Path) -> None:
    """Erasing the last session of a fork family destroys its key and no other."""
    service = Service()
    with eventlog.open(place if place == "memory:" else tmp_path / "s", keys=service) as store:
        session = store.create_session(id="p", title=SECRET)
        session.user(LARGE)
        fork = session.fork(id="f")
        exchange(store.create_session(id="other"))
        before = set(service.keys)
        store.erase("p", forks="keep", reason="asked for")
        assert set(service.keys) == before
        assert texts(fork) == [LARGE]
        store.erase("f")
        assert len(service.keys) == len(before) - 1
        assert [info.id for info in store.sessions()] == ["other"]
        told = [type(recorded.event) for recorded in store.subscribe(timeout=0) if recorded.session in {"p", "f"}]
        assert told == [ev.SessionErased, ev.SessionErased]
        with pytest.raises(ErasedError):
            store.session("f").user("late")
        exchange(store.session("other"))


def test_destroying_a_key_erases_every_copy(tmp_path: Path) -> None:
    """A destroyed key makes the store, backups and file copies unreadable; heads still verify."""
    with eventlog.open(tmp_path / "s", keys=True) as store:
        confess(store)
        exchange(store.create_session(id="q"))
        old = store.head()
        store.backup(tmp_path / "backup")
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    with eventlog.open(tmp_path / "s", keys=True) as store:
        store.erase("p", reason="asked for")
        assert verify(store, against=old).sound
    for name in "backup", "copy":
        with eventlog.open(tmp_path / name, read_only=True, keys=tmp_path / "s.keys") as store:
            for use in (
                lambda: rendered(store.session("p")),
                lambda: ModelView.of(store.session("p")),
                lambda: list(store.subscribe(session="p", timeout=0)),
            ):
                with pytest.raises(KeyMissingError, match="session p") as caught:
                    use()
                assert caught.value.session == "p"
            report = verify(store, against=old, deep=True)
            assert (report.sound, report.locked) == (True, 1)
            assert [(one.session, one.locked) for one in report.sessions] == [("p", True), ("q", False)]
            assert [(info.id, info.title, info.locked) for info in store.sessions()] == [
                ("p", "", True),
                ("q", "", False),
            ]
            assert {recorded.session for recorded in store.subscribe(timeout=0)} == {"q"}
            assert prove(store, store.session("p"), 2, old)["version"] == 2
            assert rendered(store.session("q"))


def test_a_key_service_that_is_away_is_no_fault_of_the_store(tmp_path: Path) -> None:
    """Verification ends with the provider's error, and reports no fault."""
    service, away = Service(), False

    def keys(verb: str, name: str) -> bytes | None:
        if away:
            raise OSError
        return service(verb, name)

    with eventlog.open(tmp_path / "s", keys=service) as store:
        confess(store)
    with eventlog.open(tmp_path / "s", keys=keys, read_only=True) as store:
        away = True
        for session in ("p", None):
            with pytest.raises(KeyProviderError):
                verify(store, session=session)
        away = False
        assert (verify(store).sound, verify(store).locked) == (True, 0)


def test_a_session_whose_key_is_gone_stops_nobody(tmp_path: Path) -> None:
    """A session without its key blocks no maintenance, cannot be written, and can be erased."""
    service = Service()
    with eventlog.open(tmp_path / "s", keys=service) as store:
        known = set(service.keys)
        session = store.create_session(id="p", title=SECRET)
        session.user(LARGE)
        session.fork(id="f")
        lost = set(service.keys) - known
        exchange(store.create_session(id="q"), SECRET)
    for name in lost:
        del service.keys[name]
    with eventlog.open(tmp_path / "s", keys=service) as store:
        for use in (
            lambda: store.session("p").user("more"),
            lambda: store.session("p").rename("other"),
            lambda: store.session("p").fork(),
        ):
            with pytest.raises(KeyMissingError):
                use()
        with pytest.raises(NotFoundError):
            store.session("nobody")
        other = store.session("q")
        other.redact(started(other)[0])
        assert store.scrub().emptied == 1
        assert store.expire(size=1 << 30).erased == ()
        assert store.erase("p", forks="keep") == ("p",)
        assert store.erase("f") == ("f",)
        store.vacuum()
        assert [info.id for info in store.sessions()] == ["q"]
        assert verify(store).sound


def test_without_keys_a_store_is_seen_from_outside(tmp_path: Path) -> None:
    """Listing, hashes, proofs and backups need no key; reading content and writing do."""
    with eventlog.open(tmp_path / "s", keys=True) as store:
        session = confess(store)
        fork = session.fork(id="f")
        head, version = store.head(), session.version
    with eventlog.open(tmp_path / "s") as store:
        infos = {info.id: info for info in store.sessions()}
        assert (infos["p"].version, infos["p"].title, infos["f"].fork_of) == (version, "", "p")
        assert store.head() == head
        report = verify(store, against=head)
        assert report.sound
        assert all(one.locked for one in report.sessions)
        assert prove(store, store.session("f"), version, head)["session"] == "p"
        store.backup(tmp_path / "backup")
        for use in (
            lambda: rendered(store.session("p")),
            lambda: store.session("p").user("more"),
            store.create_session,
            lambda: store.erase("p", forks="keep"),
        ):
            with pytest.raises(KeyMissingError, match="key"):
                use()
        assert store.head() == head
    with eventlog.open(tmp_path / "backup", read_only=True, keys=tmp_path / "s.keys") as store:
        assert SECRET in rendered(store.session(fork.id))


SECRET_FILTERS: dict[str, Callable[[Store], object]] = {
    "sessions of a scope": lambda store: [*store.sessions(scope="u")],
    "sessions by title": lambda store: [*store.sessions(text="e")],
    "sessions by name": lambda store: [*store.sessions(format="app")],
    "newest sessions of a scope": lambda store: store.newest_sessions("u"),
    "names of shelves": lambda store: [*store.shelves()],
    "unfinished sessions": lambda store: store.unfinished(),
    "a search": lambda store: store.search("hello"),
    "usage": lambda store: store.usage_by_day(),
    "erasure of a scope": lambda store: store.erase_scope("u"),
}
"""Questions whose answer is encrypted."""


@pytest.mark.parametrize("ask", SECRET_FILTERS)
def test_without_keys_what_cannot_be_known_is_an_error_not_nothing(tmp_path: Path, ask: str) -> None:
    """A list that keys would fill is no empty list without them."""
    with eventlog.open(tmp_path / "s", keys=True) as store:
        store.open_session(("app", "1"), scope="u", title="secret").user("hello")
        store.shelf("notes")
    with eventlog.open(tmp_path / "s") as store, pytest.raises(KeyMissingError, match="without its keys"):
        SECRET_FILTERS[ask](store)


def test_keys_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Wrong, missing or superfluous keys are each refused in their own words; nothing changes."""
    with eventlog.open(tmp_path / "s", keys=True) as store:
        exchange(store.create_session())
    with eventlog.open(tmp_path / "plain") as store:
        exchange(store.create_session())
    with eventlog.open(tmp_path / "t", keys=True):
        pass
    cases: list[tuple[str, Any, str]] = [
        ("s", tmp_path / "t.keys", "not the keys"),
        ("s", Service(), "not the keys"),
        ("s", tmp_path / "none", "no key file"),
        ("plain", tmp_path / "t.keys", "not encrypted"),
        ("plain", True, "not encrypted"),
        ("s", False, "None"),
        ("s", 7, "int"),
        ("s", tmp_path / "s" / "keys", "lies in the store"),
        ("fresh", short, "32 bytes"),
        ("fresh", nothing, "made none"),
    ]
    for path, keys, sentence in cases:
        with pytest.raises(KeysError, match=sentence):
            eventlog.open(tmp_path / path, keys=keys)
    with pytest.raises(KeysError, match="beside"):
        eventlog.open("memory:", keys=True)
    with pytest.raises(NotFoundError):
        eventlog.open(tmp_path / "nowhere", read_only=True, keys=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", "s", "s.keys", "t", "t.keys"]
    assert (tmp_path / "s.keys").read_bytes().count(b"\n") == 3


def test_a_provider_that_fails_is_no_lost_key(tmp_path: Path) -> None:
    """A failing key provider raises `KeyProviderError`; no key is taken for destroyed."""
    service = Service()
    broken = False

    def ask(verb: str, name: str) -> bytes | None:
        if broken:
            raise TimeoutError("no answer")
        return service(verb, name)

    with eventlog.open(tmp_path / "s", keys=ask) as store:
        exchange(store.create_session(id="p"))
    with eventlog.open(tmp_path / "s", keys=ask) as store:
        broken = True
        with pytest.raises(KeyProviderError) as caught:
            store.info("p")
        assert isinstance(caught.value.__cause__, TimeoutError)
        broken = False
        assert store.info("p").version
        asked = len(service.asked)
        for _ in range(3):
            rendered(store.session("p"))
            store.info("p")
        assert len(service.asked) == asked, "a key is asked for once"


def hold(thing: object, secrets: list[bytes]) -> bool:
    """Whether the printed form of an object shows a key."""
    shown = repr(thing) + str(thing)
    return any(key.hex() in shown or repr(key)[2:-1] in shown for key in secrets)


def test_keys_are_never_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No repr, error or log line of an object with keys contains a key or a text."""
    caplog.set_level(logging.DEBUG)
    service = Service()
    errors: list[str] = []
    with eventlog.open(tmp_path / "s", keys=service) as store:
        confess(store)
        keys = list(service.keys.values())
        log = store.log
        assert isinstance(log, EncryptedLog)
        family = log.family("p")
        assert isinstance(family, Family)
        for thing in (store, log, family, log.of("p"), store.session("p")):
            assert not hold(thing, keys)
        things = [thing for thing in gc.get_objects() if isinstance(thing, (Family, KeyRing))]
        assert things
        assert not any(hold(thing, keys) for thing in things)
        with pytest.raises(TypeError):
            pickle.dumps(family)
        service.keys.clear()
    uses: list[Callable[[], object]] = [
        lambda: eventlog.open(tmp_path / "s", keys=service),
        lambda: rendered(eventlog.open(tmp_path / "s").session("p")),
        lambda: eventlog.open(tmp_path / "s", keys=short),
    ]
    for use in uses:
        with pytest.raises(EventlogError) as caught:
            use()
        errors.append(str(caught.value))
    said = "\n".join([*errors, caplog.text])
    assert "Rumpelstil" not in said
    assert not hold(said, keys)


def test_nothing_is_loaded_for_a_store_that_is_not_encrypted(tmp_path: Path) -> None:
    """A store without encryption imports no encryption code and stores no byte of it."""
    program = (
        "import sys, eventlog\n"
        "with eventlog.open(sys.argv[1]) as store:\n"
        "    store.create_session(id='p').user('hello')\n"
        "    print(type(store.log).__name__, [name for name in sys.modules if 'cryptography' in name or 'encryption' in name])\n"
    )
    assert printed(program, tmp_path / "s") == f"{EmbeddedLog.__name__} []\n"
    assert "encryption" not in (tmp_path / "s" / "format").read_text()


def test_the_library_that_is_missing_is_named(tmp_path: Path) -> None:
    """Without the library `cryptography`, keys are refused by its extra, and no file is made."""
    program = (
        "import sys, eventlog\n"
        "sys.modules['cryptography'] = None\n"
        "try:\n"
        "    eventlog.open(sys.argv[1], keys=True)\n"
        "except eventlog.errors.KeysError as error:\n"
        "    print(error)\n"
    )
    assert "pip install '.[encryption]'" in printed(program, tmp_path / "s")
    assert [*tmp_path.iterdir()] == []


def test_a_log_in_memory_forgets_its_keys_with_itself() -> None:
    """An in-memory store given keys passes only ciphertext to the log below it."""
    with eventlog.open("memory:", keys=Service()) as store:
        session = confess(store)
        engine = store.log.engine
        assert isinstance(engine, MemoryLog)
        stored = b"".join(commit.payload for commit in engine.commits_after(0)) + b"".join(
            head.entry for head in engine.heads()
        )
        assert SECRET.encode() not in stored
        assert SECRET in rendered(session)


@pytest.mark.promise(5)
def test_a_request_without_keys_is_told_that_they_are_missing(tmp_path: Path) -> None:
    """Promise 5: without keys a repeated request raises `KeyMissingError`, no mismatch."""
    with eventlog.open(tmp_path / "s", keys=True) as store:
        store.create_session(id="s").user("x", request_id="r")
    with eventlog.open(tmp_path / "s") as store:
        ticket = store.log.submit(Append(session="s", payload=b"p", count=1, time=1, request="r", digest=bytes(32)))
        with pytest.raises(KeyMissingError):
            ticket.wait()
