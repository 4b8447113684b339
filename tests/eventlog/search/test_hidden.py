"""Nothing redacted, erased or forgotten is found, and no file has it after maintenance."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventlog
from eventlog.records.feed import Feed
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places

SECRET = "zanzibarpasswort"


engine = places(*ENGINES, ENCRYPTED)


def found(store: Store, words: str = SECRET) -> list[tuple[str, str]]:
    """Return session and kind of each hit, newest first and ranked alike."""
    newest: list[tuple[str, str]] = [(hit.session, hit.kind) for hit in store.search(words, limit=100).hits]
    ranked = [(hit.session, hit.kind) for hit in store.search(words, ranked=True, limit=100).hits]
    assert sorted(newest) == sorted(ranked)
    return newest


def part_of(store: Store) -> str:
    """Return the part that has the secret."""
    return store.search(SECRET).hits[0].part


def test_a_redacted_text_that_streams_is_not_found(engine: Engine) -> None:
    """A part that is redacted while it streams is not found, nor is what it streams later."""
    store = engine.open()
    session = store.create_session()
    session.user("go")
    with session.assistant("p/m") as reply:
        text = reply.stream_text(id="leak")
        text.append(f"{SECRET} ")
        session.flush()
        assert found(store)
        session.redact("leak")
        assert not found(store)
        text.append(SECRET)
        session.flush()
        assert not found(store)
        reply.finish("stop")
    assert not found(store)


def test_a_forgotten_record_is_not_found(engine: Engine) -> None:
    """The texts of a forgotten record are not found; those of its neighbours are."""
    store = engine.open()
    feed = Feed(store.create_session(), eventlog.AnthropicMapping())
    said = [{"role": "user", "content": f"{SECRET} {number}"} for number in range(3)]
    numbers = feed.add(said)
    assert len(found(store)) == 3
    feed.forget([numbers[1]])
    assert sorted(hit.snippet[-1] for hit in store.search(SECRET).hits) == ["0", "2"]


@pytest.mark.parametrize("redacted", [True, False])
def test_no_file_has_the_words_after_maintenance(tmp_path: Path, *, redacted: bool) -> None:
    """After scrub or vacuum no file of the store has the words, and search finds the rest."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session()
        session.user(f"apricot {SECRET}")
        other = store.create_session()
        other.user("apricot")
        part = part_of(store)
        assert any("search-" in name for name in files_with(tmp_path, SECRET))
        if redacted:
            session.redact(part)
            assert not found(store)
            store.scrub()
        else:
            store.erase(session.id)
            assert not found(store)
            store.vacuum()
        assert not files_with(tmp_path, SECRET)
        assert not list((tmp_path / "store").glob("*/derived/*"))
        assert not store.search("apricot", wait=None).behind
        assert [name for name, _ in found(store, "apricot")] == [other.id]
        assert not found(store)
    assert not files_with(tmp_path, SECRET)


def test_an_encrypted_store_has_no_index_file(tmp_path: Path) -> None:
    """A search of an encrypted store writes no word into any file."""
    with eventlog.open(tmp_path / "store", keys=True) as store:
        store.create_session(scope="scope of zanzibar").user(SECRET)
        assert found(store)
        assert not files_with(tmp_path, SECRET)
    assert not list((tmp_path / "store").glob("*/derived"))
    assert not files_with(tmp_path, SECRET)
