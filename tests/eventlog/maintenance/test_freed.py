"""After a scrub superseded and dropped values are in no file, unless a session has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import eventlog
from eventlog import events as ev
from eventlog.codec.redaction import is_freed
from eventlog.errors import DamagedError
from eventlog.history.ancestry import stream_spans
from eventlog.history.cursor import cursor_at
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from projections.verify.scrubbed import unexplained
from projections.verify.verify import verify
from tests.support.engines import Engine
from tests.support.export_sessions import canonical, jsonl, read

OLD, OLDER, NEW = "the old plan of attack", "the oldest plan of all", "the new plan of peace"
LARGE = 200


@pytest.fixture(params=["plain", "encrypted"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """How the store is opened."""
    return {"keys": True} if request.param == "encrypted" else {}


@pytest.fixture(params=["short", "large", "bytes", "large bytes"])
def form(request: pytest.FixtureRequest) -> str:
    """The form of the values: inside their events, or bodies."""
    return str(request.param)


def made(form: str, text: str) -> str | bytes:
    """A value with a text inside."""
    value = f"{text} " * LARGE if "large" in form else text
    return value.encode() if "bytes" in form else value


def freed(store: Store, session: str) -> list[int]:
    """The versions of a stream whose values are freed."""
    return [
        span.first
        for span in stream_spans(store.log, session)
        if isinstance(span.item, ev.ValuePut) and is_freed(span.item)
    ]


@pytest.mark.promise(10)
def test_superseded_and_dropped_bytes_are_in_no_file(tmp_path: Path, options: dict[str, Any], form: str) -> None:
    """After a scrub no file has a superseded or dropped value; the newest stays, all is sound."""
    with eventlog.open(tmp_path / "s", **options) as store:
        session = store.create_session(id="a")
        gone = [session.values.put("plan", made(form, OLDER)), session.values.put("plan", made(form, OLD))]
        last = session.values.put("plan", made(form, NEW))
        gone.append(session.values.put("other", made(form, OLD)))
        session.values.drop("other")
        session.user("question")
        head = store.head()
    if not options:
        assert files_with(tmp_path / "s", OLD)
    with eventlog.open(tmp_path / "s", **options) as store:
        assert store.scrub().emptied == 3
        session = store.session("a")
        assert freed(store, "a") == gone
        found = session.values.get("plan")
        assert found == eventlog.StoredValue("plan", made(form, NEW), last)
        assert [each.key for each in session.values.items()] == ["plan"]
        report = verify(store, against=head, deep=True)
        assert report.sound, report
        assert len(list(store.log.bodies())) == ("large" in form)
        assert store.scrub().emptied == 0
    assert not files_with(tmp_path / "s", OLD)
    assert not files_with(tmp_path / "s", OLDER)
    if not options:
        assert files_with(tmp_path / "s", NEW)


@pytest.mark.promise(13)
def test_a_value_stays_as_long_as_a_fork_has_it(tmp_path: Path, options: dict[str, Any]) -> None:
    """A value is freed once no living session, however it is related, has it as its newest."""
    with eventlog.open(tmp_path / "s", **options) as store:
        parent = store.create_session(id="p")
        first = parent.values.put("plan", OLD)
        child = parent.fork(id="c")
        grandchild = child.fork(id="g")
        parent.values.put("plan", NEW)
        child.values.drop("plan")

        def kept() -> list[int]:
            store.scrub()
            assert verify(store, deep=True).sound
            return freed(store, "p")

        assert kept() == []
        found = store.session("g").values.get("plan")
        assert found == eventlog.StoredValue("plan", OLD, first)
        store.erase("c", forks="keep")
        assert kept() == []
        grandchild = store.session("g")
        grandchild.values.put("plan", NEW)
        assert kept() == [first]
        store.erase("p", forks="keep")
        assert kept() == [first]
        found = store.session("g").values.get("plan")
        assert found is not None
        assert found.value == NEW
    assert not files_with(tmp_path / "s", OLD)


@pytest.mark.promise(11)
def test_a_value_that_is_still_the_newest_is_not_passed_off_as_freed(tmp_path: Path) -> None:
    """`verify` finds an emptied append whose value nothing has replaced."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="a")
        session.values.put("plan", OLD)
        session.values.put("plan", NEW)
        store.scrub()
        assert verify(store).sound
        log = store.log
        commit = list(log.read("a"))[1]
        assert unexplained(store, "a", [commit]) is None
        renamed = commit.payload.replace(b"plan", b"plot")
        assert unexplained(store, "a", [replace(commit, payload=renamed)]) is not None


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_restored_state_has_no_empty_values(tmp_path: Path, encrypted: bool) -> None:
    """Promise 12: a value freed after the restored position is dropped or an error, not empty."""
    options: dict[str, Any] = {"keys": tmp_path / "keys"} if encrypted else {}
    with eventlog.open(tmp_path / "s", **options) as store:
        session = store.create_session(id="a")
        session.values.put("plan", OLD)
        session.values.put("stays", NEW)
        session.fork(id="f")
        positions = store.log.last_positions()
        for name in ("a", "f"):
            store.session(name).values.put("plan", NEW)
        store.scrub()
        store.backup(tmp_path / "b")
        cursor = cursor_at(store.log, positions)
    eventlog.restore(tmp_path / "b", tmp_path / "r", cursor=cursor)
    with eventlog.open(tmp_path / "r", **options) as store:
        for name in ("f", "a"):
            values = store.session(name).values
            stays = values.get("stays")
            assert stays is not None
            assert stays.value == NEW
            if encrypted:
                with pytest.raises(DamagedError, match="freed"):
                    values.get("plan")
                with pytest.raises(DamagedError, match="freed"):
                    list(values.items())
                values.put("plan", "again")
            assert [found.key for found in values.items()] == (["plan", "stays"] if encrypted else ["stays"])
        assert verify(store).sound


def test_freed_values_are_exported_and_imported(tmp_path: Path) -> None:
    """Event JSONL of a scrubbed session imports as it is."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="a")
        session.values.put("plan", OLD)
        session.values.put("plan", NEW)
        store.scrub()
        session = store.session("a")
        lines, events = jsonl(session), canonical(session)
    place = Engine("memory")
    copy = place.open()
    assert read(copy, lines).skipped == []
    assert canonical(copy.session("a")) == events
    place.close()
