"""Imported sessions have the scope that the import gives them, and never a second one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import eventlog
from eventlog import ArgumentValueError, Store
from eventlog.importers import follow, import_file, receipts
from eventlog.importers import watched_files as watched
from projections.exports.jsonl import jsonl_lines
from tests.eventlog.importers.test_claude_code import branched, record, write
from tests.support.parity import scenarios

MORE = record("user", "u4", "a3", "more")


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as rested at once, so that imports leave receipts; following does not wait."""
    monkeypatch.setattr(receipts, "TICK", -(10**18))
    monkeypatch.setattr(watched, "SECOND", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a file whose import makes a session and a fork."""
    return write(tmp_path / "s.jsonl", branched())


def scopes(store: Store) -> set[str]:
    """Return the scopes of all sessions."""
    return {info.scope for info in store.sessions()}


def test_all_sessions_of_a_file_have_its_scope(store: Store, path: Path) -> None:
    """Sessions, forks and sub-sessions, and what comes with a grown file."""
    assert len(import_file(store, path, scope="acme").sessions) == 2
    write(path, [*branched(), MORE, record("user", "u5", "a1", "another branch")])
    assert import_file(store, path, scope="acme").events
    assert scopes(store) == {"acme"}


@pytest.mark.parametrize("grown", [False, True], ids=["unchanged, with a receipt", "grown"])
@pytest.mark.parametrize("first", ["acme", None])
def test_a_second_scope_is_an_error(store: Store, path: Path, first: str | None, *, grown: bool) -> None:
    """A session keeps its first scope: another one is refused, none goes on with it."""
    import_file(store, path, scope=first)
    write(path, [*branched(), MORE] if grown else branched())
    before = [(info.id, info.version) for info in store.sessions()]
    with pytest.raises(ArgumentValueError, match="never changes"):
        import_file(store, path, scope="other")
    refused = next(follow(store, [path], scope="other"))
    assert refused is not None
    assert isinstance(refused.error, ArgumentValueError)
    assert [(info.id, info.version) for info in store.sessions()] == before
    assert bool(import_file(store, path).events) == grown
    assert scopes(store) == {first or ""}


def test_followed_files_have_the_scope(store: Store, path: Path) -> None:
    """Files that are read on as they grow, and those that are imported as a whole."""
    _, export = next(iter(scenarios()[0].exports()))
    whole = path.with_name("export.json")
    whole.write_text(json.dumps(export))
    for one in follow(store, [path, whole], scope="acme"):
        if one is None:
            break
        assert one.error is None
    assert len(list(store.sessions())) == 3
    assert scopes(store) == {"acme"}


def test_event_jsonl_gets_the_scope_in_place_of_its_own(store: Store, path: Path, tmp_path: Path) -> None:
    """The lossless form brings a scope; the import's replaces it; imports again add nothing."""
    import_file(store, path, scope="acme")
    lines = tmp_path / "events.jsonl"
    lines.write_bytes(b"".join(jsonl_lines(store.session("s"), tree=True)))
    with eventlog.open("memory:") as other:
        assert import_file(other, lines, scope="other").skipped == []
        assert scopes(other) == {"other"}
        assert import_file(other, lines, scope="other").events == import_file(other, lines).events == 0
        with pytest.raises(ArgumentValueError, match="never changes"):
            import_file(other, lines, scope="acme")
    with eventlog.open("memory:") as third:
        import_file(third, lines)
        assert scopes(third) == {"acme"}
