"""Values of a session: texts and bytes under keys, of which the newest counts."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import eventlog
from eventlog import StoredValue
from eventlog import events as ev
from eventlog.codec.batch import entry_decoder
from eventlog.codec.large_texts import INLINE
from eventlog.errors import (
    CallError,
    ConflictError,
    DamagedError,
    KeyMissingError,
    LimitError,
    ReadOnlyError,
    RefusedError,
)
from eventlog.history.value_tree import CHUNK, LEAF_KEYS
from eventlog.log.contract import GROWING
from eventlog.session.session import Session
from eventlog.store import Store
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places
from tests.support.export_sessions import canonical, jsonl, read
from tests.support.python_process import Program

LONG = "many words, " * 200


engine = places(*ENGINES, ENCRYPTED)


def content(session: Session) -> dict[str, str | bytes]:
    """All values of a session by key."""
    return {found.key: found.value for found in session.values.items()}


@pytest.mark.parametrize("value", ["", "text", LONG, "\ud800", b"", b"\xff\x00", LONG.encode(), bytes(100_000)])
def test_a_value_comes_back_as_it_was_put(engine: Engine, value: str | bytes) -> None:
    """A text or bytes of any size come back as they were put, with their revision."""
    with engine.open() as store:
        session = store.create_session(id="s")
        assert session.values.get("key") is None
        revision = session.values.put("key", value)
        assert revision == session.version
        assert session.values.get("key") == StoredValue("key", value, revision)
    with engine.open() as store:
        assert store.session("s").values.get("key") == StoredValue("key", value, revision)


@pytest.mark.promise(14)
def test_equal_contents_are_stored_once(store: Store) -> None:
    """A large content lies in the store once, whether as text or bytes, and under many keys."""
    session = store.create_session()
    for key in ("a", "b"):
        session.values.put(key, LONG)
        session.values.put(f"{key} bytes", LONG.encode())
    session.user(LONG)
    assert len(list(store.log.bodies())) == 1
    assert content(session) == {"a": LONG, "a bytes": LONG.encode(), "b": LONG, "b bytes": LONG.encode()}


def test_data_is_no_text(store: Store) -> None:
    """A body of bytes is read as data; read as text it is an error that says so."""
    session = store.create_session()
    session.values.put("key", bytes(INLINE + 1))
    body = next(found.event.data for found in session.events() if isinstance(found.event, ev.ValuePut))
    assert isinstance(body, eventlog.Body)
    assert session.reader.data(body) == bytes(INLINE + 1)
    for read_text in (session.text, store.text):
        with pytest.raises(CallError, match="data"):
            read_text(body)
    with pytest.raises(CallError, match="data"):
        list(session.reader.texts([body]))


def test_items_are_in_the_order_of_keys(engine: Engine) -> None:
    """Values with a prefix are listed in the order of code points, the dropped ones left out."""
    store = engine.open()
    session = store.create_session()
    keys = [f"{user}/{number}" for user in ("a", "ab", "é", "\U0001f600", "\uffff") for number in range(3 * LEAF_KEYS)]
    for key in reversed(keys):
        session.values.put(key, key)
    session.values.drop("a/0")
    assert [found.key for found in session.values.items()] == sorted(set(keys) - {"a/0"})
    for prefix in ("a", "a/", "a/1", "é/4", "nothing", "\U0001f600", keys[-1], keys[-1] + "x"):
        wanted = sorted(key for key in keys if key.startswith(prefix) and key != "a/0")
        assert [found.key for found in session.values.items(prefix)] == wanted


def test_pages_of_keys_are_the_whole(engine: Engine) -> None:
    """Pages of any size give each key once, in order, also in a fork."""
    session = engine.open().create_session()
    names = [f"{user}/{number}" for user in ("a", "é", "\U0001f600") for number in range(2 * LEAF_KEYS)]
    for key in names:
        session.values.put(key, "v")
    for key in names[:7]:
        session.values.drop(key)
    fork = session.fork()
    fork.values.drop(names[8])
    fork.values.put("b", "v")
    for values, prefix in product((session.values, fork.values), ("", "é/1", "none")):
        for limit in (1, 5, 1000):
            pages, after = list[str](), ""
            while page := values.keys(prefix, after=after, limit=limit):
                assert len(page) <= limit
                pages, after = pages + page, page[-1]
            assert pages == values.keys(prefix)
    assert session.values.keys(after="a/999", limit=1) == session.values.keys("é")[:1]  # a key need not exist


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": -1}, {"limit": "1"}, {"after": 1}, {"after": None}], ids=str)
def test_a_wrong_page_of_keys_is_refused(store: Store, wrong: Any) -> None:
    """A limit that is none, and a key that is no text, are errors, not an empty list."""
    with pytest.raises(CallError):
        store.create_session().values.keys(**wrong)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("", "v", LimitError),
        ("é" * 129, "v", LimitError),
        (1, "v", CallError),
        (None, "v", CallError),
        ("k", None, CallError),
        ("k", 1, CallError),
        ("k", bytearray(b"v"), CallError),
    ],
)
def test_wrong_arguments_are_refused(store: Store, key: Any, value: Any, error: type[Exception]) -> None:
    """A key of a wrong type or size, or a value of a wrong type, is refused."""
    session = store.create_session()
    with pytest.raises(error):
        session.values.put(key, value)
    if value == "v":
        with pytest.raises(error):
            session.values.drop(key)
    for expected in ("1", 1.0):
        with pytest.raises(CallError):
            session.values.put("k", "v", expected=expected)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    for look in (session.values.get, session.values.items, session.values.revision):
        with pytest.raises(CallError):
            look(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert session.version == 1


def test_a_raw_event_is_checked(store: Store) -> None:
    """An appended value event with a key of no allowed size, or with two contents, is refused."""
    session = store.create_session()
    for event in (ev.ValuePut("", "t"), ev.ValueDropped("x" * 257)):
        with pytest.raises(LimitError):
            session.append([(1, event)])
    with pytest.raises(RefusedError):
        session.append([(1, ev.ValuePut("k", "t", b"d"))])
    assert session.version == 1


@pytest.mark.promise(4)
def test_an_expected_revision_is_compared_in_the_commit(store: Store) -> None:
    """With another revision than the expected one nothing is written, and the error has both."""
    session = store.create_session()
    first = session.values.put("key", "1", expected=0)
    session.user("something else")
    for wrong in (0, first + 1, -1):
        version = session.version
        with pytest.raises(ConflictError, match="'key'") as refused:
            session.values.put("key", "2", expected=wrong)
        assert (refused.value.expected, refused.value.actual, refused.value.key) == (wrong, first, "key")
        with pytest.raises(ConflictError, match="'key'"):
            session.values.drop("key", expected=wrong)
        assert session.version == version
    session.values.drop("key", expected=first)
    assert session.values.put("key", "3", expected=0) == session.values.revision("key")


def test_a_pipeline_commits_values_with_the_rest(store: Store) -> None:
    """Values in a pipeline are one append with its other commands, and none without them."""
    session = store.create_session()
    with session.pipeline():
        session.user("question")
        assert session.values.put("a", "1") == 0
        session.values.drop("b")
    assert len(list(store.log.read(session.id))) == 2
    with session.pipeline():
        session.values.put("a", "2")
        with pytest.raises(ConflictError):
            session.values.put("c", "3", expected=7)
    assert content(session) == {"a": "2"}
    with session.pipeline():
        session.values.put("d", LONG)
        assert content(session) == {"a": "2", "d": LONG}


def test_a_read_only_store_has_an_index_of_its_own(tmp_path: Path) -> None:
    """A reader that may not write finds all values though nothing derived is stored."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s")
        for number in range(100):
            session.values.put(f"{number}", f"{number}")
        for key in store.log.derived_keys(b""):
            store.log.put_derived([(key, None)])
    with eventlog.open(tmp_path / "store", read_only=True) as store:
        session = store.session("s")
        assert content(session) == {f"{number}": f"{number}" for number in range(100)}
        assert session.values.get("x") is None
        with pytest.raises(ReadOnlyError):
            session.values.put("a", "b")


def test_without_the_key_values_are_no_empty_list(tmp_path: Path) -> None:
    """Promise 12: values whose key is missing are a `KeyMissingError`, never missing values."""
    keys = tmp_path / "keys"
    with eventlog.open(tmp_path / "store", keys=keys) as store:
        store.create_session(id="s").values.put("key", "value")
    keys.unlink()
    with eventlog.open(tmp_path / "store", read_only=True, keys=None) as store:
        values = store.session("s").values
        for look in (values.get, values.revision, values.items):
            with pytest.raises(KeyMissingError):
                look("key")


@pytest.mark.parametrize("kind", ["mark", "root", "any"])
def test_a_damaged_row_of_the_index_hides_no_value(engine: Engine, kind: str) -> None:
    """Promise 12: if any row of the index is lost or wrong, all values are found."""
    store = engine.open()
    session = store.create_session()
    for number in range(200):
        session.values.put(f"{number:03}", f"{number}")
    for _ in range(2 * CHUNK):
        session.values.put("often", "v")
    wanted = content(session)
    log = store.log
    keys = log.derived_keys(GROWING)
    chosen = {"mark": keys[-1:], "root": keys[:1], "any": keys[:: len(keys) // 12]}[kind]
    for key in chosen:
        for wrong in (None, b"\xff" * 20):
            log.engine.put_derived([(key, wrong)])
            assert content(session) == wanted, key
            assert session.values.revision("often") == session.version
            assert session.values.get("100") is not None
    assert len(keys) > 20


def test_a_put_reads_little_of_the_index(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes stay in memory while their mark stands: a put reads the mark and at most a leaf."""
    session = store.create_session()
    with session.pipeline():
        for number in range(3000):
            session.values.put(f"{number * 7919 % 3000:04}", "a value")
    assert session.values.revision("0000")
    reads = Mock(wraps=store.log.get_derived)
    monkeypatch.setattr(store.log, "get_derived", reads)
    for number in range(100):
        session.values.put(f"{number * 31:04}", "another")
        assert session.values.get(f"{number * 31:04}") is not None
    assert reads.call_count <= 400


def test_one_value_of_a_large_append_is_read_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value costs its own event, not its append; a list reads an append a few times."""
    store = engine.open()
    session = store.create_session()
    with session.pipeline():
        for number in range(2000):
            session.values.put(f"{number:04}", f"{number}" * 100)
    decodes = Mock(wraps=entry_decoder())
    monkeypatch.setattr("eventlog.codec.decoded.entry_decoder", Mock(return_value=decodes))
    monkeypatch.setattr("eventlog.codec.decoded.decode_sized", None)
    assert session.values.get("1000") == StoredValue("1000", "1000" * 100, session.values.revision("1000"))
    assert decodes.call_count == 1
    reads = Mock(wraps=store.log.read)
    monkeypatch.setattr(store.log, "read", reads)
    assert content(session) == {f"{number:04}": f"{number}" * 100 for number in range(2000)}
    assert reads.call_count < 20
    assert decodes.call_count == 2001


def test_a_value_beside_deltas_and_odd_text_is_found(store: Store) -> None:
    """An append with a run of deltas, or with lone surrogates, gives its values, too."""
    session = store.create_session()
    with session.assistant() as reply, session.pipeline():
        text = reply.stream_text()
        for piece in "abc":
            text.append(piece)
        session.values.put("beside", "deltas")
        session.values.put("odd", "\ud800")
    assert content(session) == {"beside": "deltas", "odd": "\ud800"}


def test_an_index_that_others_change_at_every_read_is_read(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up finds values beside a writer that puts some, or loses rows, between its reads."""
    store, beside = engine.open(), engine.open()
    session = store.create_session(id="s")
    for number in range(40):
        session.values.put(f"{number:02}", "a value")
    other, read, puts = beside.session("s"), store.log.get_derived, 0

    def get_derived(key: bytes) -> bytes | None:
        nonlocal puts
        puts += 1
        other.values.put(f"{puts % 40:02}", f"{puts}")
        if puts % 3 == 0:
            beside.log.engine.put_derived([(key, None)])
        return read(key)

    with monkeypatch.context() as patch:
        patch.setattr(store.log, "get_derived", get_derived)
        for number in range(40):
            assert session.values.get(f"{number:02}") is not None
            assert len(list(session.values.items())) == 40
    assert puts > 80
    assert content(session) == content(other)


STALE = """
import sys, eventlog
with eventlog.open(sys.argv[1]) as store:
    values = store.session("s").values
    for number in range(20):
        values.put(f"{number}", "of the other process")
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_an_index_that_another_process_stores_late_hides_no_value(tmp_path: Path) -> None:
    """A process that stores its older rows over newer ones does not take values back."""
    path = tmp_path / "store"
    with eventlog.open(path) as store:
        store.create_session(id="s")
    other = Program("-c", STALE, path)
    assert other.hear() == "ready"
    with eventlog.open(path) as store:
        for number in range(40):
            store.session("s").values.put(f"{number}", "newest")
    with eventlog.open(path) as store:  # has stored its rows, and adds to them
        values = store.session("s").values
        values.put("more", "newest")
        other.end()  # stores its rows now
        assert {found.value for found in values.items()} == {"newest"}
        assert len(list(values.items())) == 41
        found = values.get("3")
        assert found is not None
        assert found.value == "newest"


def test_event_jsonl_has_all_of_values(store: Store) -> None:
    """Event JSONL is lossless for texts, bytes, large bytes and drops, and imports as it was."""
    session = store.create_session()
    given: dict[str, str | bytes] = {
        "text": LONG,
        "bytes": b"\xff\x00",
        "large": bytes(range(256)) * 8_000,
        "empty": b"",
    }
    for key, value in given.items():
        session.values.put(key, value)
    session.values.put("gone", "x")
    session.values.drop("gone")
    lines = jsonl(session)
    place = Engine("memory")
    copy = place.open()
    assert read(copy, lines).sessions == [session.id]
    imported = copy.session(session.id)
    assert canonical(imported) == canonical(session)
    assert content(imported) == content(session) == given
    assert jsonl(imported) == lines
    place.close()


def test_redaction_names_values_with_the_text(store: Store) -> None:
    """Redacting a part names the values, texts or bytes, that have its text, in shelves too."""
    session = store.create_session()
    secret = "the pass phrase is hunter2"
    message = session.user(secret)
    places = [
        (session.id, session.values.put("a", f"noted: {secret}")),
        (session.id, session.values.put("b", f"noted: {secret}".encode())),
        (session.id, session.values.put("c", f"{LONG} {secret}".encode())),
    ]
    shelf = store.shelf("notes")
    places.append((shelf.id, shelf.values.put("d", secret)))
    session.values.put("other", b"\xff" * 5_000)
    with session.reader.deciding() as state:
        part = next(iter(state.messages[message].parts))
    found = session.redact(part).occurrences
    assert [(place.session, place.version) for place in found if place.kind == "ValuePut"] == places


def test_a_value_whose_body_is_lost_is_an_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 12: a value whose content cannot be read is a `DamagedError`."""
    session = store.create_session()
    session.values.put("key", LONG)

    def lost(_: bytes) -> None:
        """Find no body."""

    monkeypatch.setattr(store.log.engine, "body", lost)
    with pytest.raises(DamagedError):
        session.values.get("key")
    with pytest.raises(DamagedError):
        list(session.values.items())


@pytest.mark.parametrize("keys", [None, True], ids=["plain", "encrypted"])
def test_a_value_freed_before_a_fork_stays_away_once_its_parent_is_erased(tmp_path: Path, *, keys: bool | None) -> None:
    """A fork of an early version has no freed value, also when nothing says what replaced it."""
    with eventlog.open(tmp_path / "s", keys=keys) as store:
        parent = store.create_session()
        parent.values.put("kept", "1")
        early = parent.values.put("a", "1")
        parent.values.put("a", "2")
        store.scrub()
        fork = parent.fork(early)
        for step in (lambda: None, lambda: store.erase(parent.id, forks="keep"), store.scrub):
            step()
            again = store.session(fork.id).values
            assert ([found.key for found in again.items()], again.keys(), again.get("a")) == (["kept"], ["kept"], None)
            assert again.revision("a") == 0
