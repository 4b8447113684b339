"""The SQLite file has what the transcript and the log have, with texts of any kind."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import Allow, Tokens, Usage
from eventlog.errors import AlreadyExistsError, StorageError
from eventlog.store import Store
from projections.exports import sqlite
from projections.exports.sqlite import write_sqlite
from projections.transcript.transcript import Transcript
from tests.support.engines import ENCRYPTED, ENGINES, Engine

BIG = "漢字 and more\n" * 200_000


@pytest.fixture(params=[*ENGINES, ENCRYPTED])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store of each engine, with two sessions."""
    engine = Engine(request.param)
    store = engine.open()
    session = store.create_session(id="talk", title="Tides \ud83d", scope="a", model="p/m")
    session.user("Why \x00 two?", id="q")
    with session.assistant("p/m", id="a") as reply:
        text = reply.stream_text(id="t")
        text.append("Because ")
        text.append("of the moon.")
        text.end()
        reply.tool("cat", call_id="c", input={"path": "x"}, id="big").succeed(BIG)
        reply.tool("rm", call_id="d", input={}, id="bad").fail("refused")
        reply.finish("stop", usage=Usage(Tokens(10, 20, cache_read=5), Decimal("0.10")))
    session.user("hidden words", id="gone")
    session.rollback(before="gone")
    session.user("secret", id="s")
    session.redact(next(Transcript(session).newest_first()).parts[0].id)
    session.fork(id="fork").user("only in the fork", id="f")
    yield store
    engine.close()


def asked(path: Path, question: str) -> list[Any]:
    """Ask the file something."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


def test_all_sessions(store: Store, tmp_path: Path) -> None:
    """Every message, part, call, event and usage is in the file once, under its own session."""
    path = tmp_path / "all.db"
    write_sqlite((store.session(info.id) for info in store.sessions()), path, inherited=False)
    assert asked(path, "PRAGMA integrity_check") == [("ok",)]
    assert asked(path, "PRAGMA foreign_key_check") == []
    assert asked(path, "SELECT id, fork_of, title FROM sessions ORDER BY id") == [
        ("fork", "talk", "Tides \ufffd"),
        ("talk", None, "Tides \ufffd"),
    ]
    assert asked(path, "SELECT session, id FROM messages ORDER BY version") == [
        ("talk", "q"), ("talk", "a"), ("talk", "s"), ("fork", "f"),
    ]  # fmt: skip
    assert asked(path, "SELECT id, messages FROM sessions ORDER BY id") == [("fork", 1), ("talk", 3)]
    assert asked(path, "SELECT text FROM parts WHERE id = 't'") == [("Because of the moon.",)]
    assert asked(path, "SELECT tool, status, error FROM calls ORDER BY part") == [
        ("rm", "failed", "refused"), ("cat", "completed", ""),
    ]  # fmt: skip
    assert asked(path, "SELECT output FROM calls WHERE part = 'big'") == [(BIG,)]
    assert asked(path, "SELECT input, output, cache_read, cost, model FROM usage") == [(10, 20, 5, "0.10", "p/m")]
    events = sum(info.events for info in store.sessions())
    assert asked(path, "SELECT count(*), count(DISTINCT session || version) FROM events") == [(events, events)]
    for (data,) in asked(path, "SELECT data FROM events"):
        json.loads(data)


def test_calls_have_when_they_ran_and_who_allowed_them(tmp_path: Path) -> None:
    """A call has its beginning, its end, who answered for it, and whether it was stopped."""
    ticks = count(1_768_471_200_000, 1_000)
    with eventlog.open("memory:", clock=lambda: next(ticks)) as store:
        session = store.create_session(id="s")
        session.user("drop it")
        with session.assistant("a/b", id="a") as reply:
            call = reply.tool("drop", call_id="c", id="call")
            call.ask("no undo", input={})
            session.answer_call("a", "c", Allow(), by="ann")
            call.start({})
            call.succeed("dropped")
            reply.tool("wait", call_id="d", id="open", input={})
            reply.tool("stop", call_id="e", id="stopped", input={}).fail("stopped", interrupted=True)
            write_sqlite([session], tmp_path / "calls.db", inherited=True)
    found = asked(tmp_path / "calls.db", "SELECT part, started < ended, answered_by FROM calls ORDER BY part")
    assert found == [("call", 1, "ann"), ("open", None, None), ("stopped", 1, None)]
    found = asked(tmp_path / "calls.db", "SELECT status FROM calls ORDER BY part")
    assert found == [("completed",), ("running",), ("interrupted",)]


def test_one_session_has_what_it_inherited(store: Store, tmp_path: Path) -> None:
    """The file of a fork has the whole history under the fork's name."""
    path = tmp_path / "one.db"
    session = store.session("fork")
    write_sqlite([session], path, inherited=True)
    assert [row[0] for row in asked(path, "SELECT id FROM messages ORDER BY version")] == ["q", "a", "s", "f"]
    assert asked(path, "SELECT messages FROM sessions") == [(session.info.messages,)] == [(4,)]
    assert asked(path, "SELECT DISTINCT session FROM events") == [("fork",)]
    assert asked(path, "SELECT count(*) FROM events") == [(session.version,)]


def test_hidden_and_redacted_texts(store: Store, tmp_path: Path) -> None:
    """A rollback is seen in the events; a redacted text is nowhere in the file."""
    path = tmp_path / "hidden.db"
    write_sqlite((store.session(info.id) for info in store.sessions()), path, inherited=False)
    assert asked(path, "SELECT count(*) FROM events WHERE data LIKE '%hidden words%' AND NOT effective") == [(1,)]
    assert asked(path, "SELECT redacted FROM parts WHERE message = 's'") == [(1,)]
    assert b"secret" not in path.read_bytes()


@pytest.mark.parametrize("inherited", [False, True])
def test_redacted_titles(tmp_path: Path, *, inherited: bool) -> None:
    """A title that went with a redacted text is in no event of the file; the kept one is."""
    path = tmp_path / "titles.db"
    with eventlog.open("memory:") as store:
        session = store.create_session(title="secret")
        session.user("secret words", id="s")
        session.rename("secret words")
        session.rename("Better")
        fork = session.fork(title="secret")
        session.redact(next(Transcript(session).newest_first()).parts[0].id)
        write_sqlite([session, fork], path, inherited=inherited)
    assert asked(path, "SELECT title FROM sessions") == [("Better",), ("",)]
    assert asked(path, "SELECT session FROM events WHERE data LIKE '%Better%'")[0] == (session.id,)
    assert b"secret" not in path.read_bytes()


def test_an_existing_file_is_not_written_into(tmp_path: Path) -> None:
    """A file that is there is refused by its name, and stays: the command writes a new one."""
    path = tmp_path / "all.db"
    write_sqlite([], path, inherited=False)
    with pytest.raises(AlreadyExistsError, match=r"all\.db"):
        write_sqlite([], path, inherited=False)


def test_the_queries_of_the_page_work(store: Store, tmp_path: Path) -> None:
    """Each question in SQL on the page has an answer in SQLite."""
    path = tmp_path / "all.db"
    write_sqlite((store.session(info.id) for info in store.sessions()), path, inherited=False)
    page = (Path(eventlog.__file__).parents[1] / "projections/exports/SQLITE.md").read_text(encoding="utf-8")
    questions = [part for part in page.split("```sql\n")[1].split("```")[0].split(";") if part.strip()]
    assert len(questions) == 5
    assert all(asked(path, question) for question in questions)
    (line,) = [line for line in page.splitlines() if line.startswith('sqlite3 chats.db "')]
    rows = [json.loads(row) for (row,) in asked(path, line.split('"')[1])]
    assert {row["tool"]: row["size"] for row in rows} == {"cat": len(BIG), "rm": 0}


def test_a_disk_that_is_full_is_an_error_of_the_storage(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is a `StorageError` with the file; a missing directory the system's error."""
    session = store.session("talk")
    with pytest.raises(FileNotFoundError):
        write_sqlite([session], tmp_path / "absent" / "a.db", inherited=True)
    monkeypatch.setattr(sqlite, "_TABLES", f"{sqlite._TABLES} PRAGMA max_page_count = 24;")
    with pytest.raises(StorageError, match=r"a\.db cannot be written: database or disk is full"):
        write_sqlite([session], tmp_path / "a.db", inherited=True)
