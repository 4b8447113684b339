"""OpenCode's database and its older folder: each session is the one of its export."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eventlog import Store
from eventlog.errors import BusyError, ErasedError, EventlogError, ImportFormatError
from eventlog.importers import import_file
from eventlog.importers.opencode import database as importer
from eventlog.importers.opencode.emit import export_of
from tests.support.parity import scenarios

EXPORTS: list[dict[str, Any]] = [list(scenario.exports())[-1][1] for scenario in scenarios()]
TABLES = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT, directory TEXT, title TEXT, version TEXT,
    share_url TEXT, summary_additions INTEGER, summary_deletions INTEGER, summary_files INTEGER, revert TEXT, permission TEXT,
    time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, time_archived INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER NOT NULL, time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
"""
COLUMNS = {"projectID": "project_id", "parentID": "parent_id"}


def put(database: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    """Insert a row."""
    values = [json.dumps(value) if isinstance(value, dict | list) else value for value in row.values()]
    database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", values)  # noqa: S608


def fill(database: sqlite3.Connection, whole: dict[str, Any], messages: int | None = None) -> None:
    """Store an export's session as OpenCode does, with its first messages."""
    info = whole["info"]
    row: dict[str, Any] = {
        COLUMNS.get(str(key), str(key)): value for key, value in info.items() if key not in {"time", "summary"}
    }
    row |= {f"time_{key}": value for key, value in info["time"].items()}
    row |= {f"summary_{key}": value for key, value in info.get("summary", {}).items() if key != "diffs"}
    known = {column[1] for column in database.execute("PRAGMA table_info(session)")}
    put(database, "session", {key: value for key, value in row.items() if key in known})
    for message in whole["messages"][:messages]:
        about, name = dict(message["info"]), message["info"]["id"]
        session = about.pop("sessionID")
        about.pop("id")
        created = about["time"]["created"]
        put(database, "message", {"id": name, "session_id": session, "time_created": created, "data": about})
        for part in message["parts"]:
            own = {key: value for key, value in part.items() if key not in {"id", "sessionID", "messageID"}}
            put(database, "part", {"id": part["id"], "message_id": name, "session_id": session, "data": own})
    database.commit()


def made(path: Path, mode: str = "wal") -> sqlite3.Connection:
    """Make an empty database."""
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA journal_mode={mode}")
    database.executescript(TABLES)
    return database


@pytest.fixture
def wholes() -> list[dict[str, Any]]:
    """Exports with different ids."""
    found = {whole["info"]["id"]: whole for whole in EXPORTS}
    return list(found.values())


def back(store: Store, name: str) -> Any:
    """Return the export of an imported session."""
    items = [(found.time, found.event) for found in store.session(name).events()]
    return export_of(items, store.text)


def in_order(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its parts in the order of their ids."""
    parts: list[dict[str, Any]] = message["parts"]
    return {**message, "parts": sorted(parts, key=lambda part: str(part["id"]))}


def place_of(message: dict[str, Any]) -> tuple[int, str]:
    """Return what messages are put in order by."""
    return message["info"]["time"]["created"], message["info"]["id"]


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_database_has_the_sessions_of_its_exports(store: Store, tmp_path: Path, mode: str) -> None:
    """Each session's messages come back; what was only logged is read; a repeat adds nothing."""
    place = tmp_path / os.fsdecode(b"p\xe9")  # no UTF-8
    place.mkdir()
    path = place / "opencode.db"
    database = made(path, mode)
    for whole in {whole["info"]["id"]: whole for whole in EXPORTS}.values():
        fill(database, whole)
    before = sorted(file.name for file in place.iterdir())
    report = import_file(store, path)
    assert report.format == "opencode_db"
    expected = {whole["info"]["id"]: whole for whole in EXPORTS}
    assert set(report.sessions) == set(expected)
    for name, whole in expected.items():
        found = back(store, name)
        assert found["messages"] == sorted(map(in_order, whole["messages"]), key=place_of)
        assert found["info"]["title"] == whole["info"]["title"]
    assert import_file(store, path).events == 0
    assert sorted(file.name for file in place.iterdir()) == before
    database.close()
    assert import_file(store, path).events == 0


def test_pages_of_rows_are_one_moment(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wholes: list[dict[str, Any]]
) -> None:
    """A writer goes on while an import reads, and what it writes comes with the next import."""
    monkeypatch.setattr(importer, "PAGE", 2)
    path = tmp_path / "opencode.db"
    database = made(path)
    whole = max(wholes, key=lambda found: len(found["messages"]))
    fill(database, whole, 1)
    database.execute("DELETE FROM session")
    database.execute("DELETE FROM message")
    database.execute("DELETE FROM part")
    fill(database, whole)
    kept = importer._messages

    def written(*given: Any) -> Any:
        database.execute("UPDATE session SET title = 'while it was read'")
        database.execute("DELETE FROM message")
        database.commit()
        return kept(*given)

    monkeypatch.setattr(importer, "_messages", written)
    with closing(database):
        report = import_file(store, path)
    assert report.messages == len(whole["messages"])


def test_a_database_that_is_held_or_damaged_is_a_typed_error(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wholes: list[dict[str, Any]]
) -> None:
    """A lock is `BusyError`; bytes that were cut or flipped are typed errors, or are not met."""
    monkeypatch.setattr(importer, "WAIT", 0.05)
    path = tmp_path / "opencode.db"
    database = made(path, "delete")
    for whole in wholes[:3]:
        fill(database, whole)
    database.execute("BEGIN EXCLUSIVE")
    with pytest.raises(BusyError):
        import_file(store, path)
    database.close()
    data = path.read_bytes()
    for place in range(1, 12):
        at = len(data) * place // 12
        for form in (data[:at], data[:at] + bytes(64) + data[at + 64 :], data[:at] + b"\xff" * 999 + data[at + 999 :]):
            path.write_bytes(form)
            try:
                import_file(store, path)
            except EventlogError:
                continue
    path.write_bytes(data)
    nameless = io.BytesIO(data)
    with pytest.raises(ImportFormatError, match="by its path"):
        import_file(store, nameless, format="opencode_db")


def test_a_session_in_the_older_folder(store: Store, tmp_path: Path, wholes: list[dict[str, Any]]) -> None:
    """The files of messages and parts are found beside the session's; damage is reported."""
    for whole in wholes:
        session = whole["info"]["id"]
        place = tmp_path / "session" / "project" / f"{session}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(whole["info"]))
        for message in whole["messages"]:
            name = message["info"]["id"]
            (tmp_path / "message" / session).mkdir(parents=True, exist_ok=True)
            (tmp_path / "message" / session / f"{name}.json").write_text(json.dumps(message["info"]))
            (tmp_path / "part" / name).mkdir(parents=True, exist_ok=True)
            for part in message["parts"]:
                (tmp_path / "part" / name / f"{part['id']}.json").write_text(json.dumps(part))
        report = import_file(store, place)
        assert (report.format, report.sessions) == ("opencode_storage", [session])
        assert len(back(store, session)["messages"]) == len(whole["messages"])
        assert import_file(store, place).events == 0
        next((tmp_path / "message" / session).glob("*.json")).write_text('{"id": "msg')
        assert import_file(store, place).skipped


def test_an_erased_session_of_a_database_is_left_out(
    store: Store, tmp_path: Path, wholes: list[dict[str, Any]]
) -> None:
    """The other sessions are imported with what came to them; without any it is an error."""
    path = tmp_path / "opencode.db"
    database = made(path)
    for whole in wholes:
        fill(database, whole, 1)
    names = import_file(store, path).sessions
    erased = names[::2]
    for name in erased:
        store.erase(name, forks="keep", subsessions="keep")
    database.execute("DELETE FROM session")
    database.execute("DELETE FROM message")
    database.execute("DELETE FROM part")
    for whole in wholes:
        fill(database, whole)
    report = import_file(store, path)
    assert (sorted(report.sessions), bool(report.events)) == (sorted(names[1::2]), True)
    assert [reason for _, reason in report.skipped if "was erased" in reason] == [
        f"session {name} was erased; it is left out" for name in erased
    ]
    for name in names[1::2]:
        store.erase(name, forks="keep", subsessions="keep")
    with pytest.raises(ErasedError):
        import_file(store, path)
    database.close()
