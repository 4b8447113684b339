"""Followed files: what is imported as they change is what one import of them gives."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import BinaryIO

import pytest

import eventlog
from eventlog import Store
from eventlog import events as ev
from eventlog.importers import (
    Folder,
    FollowedFile,
    Report,
    agent_folders,
    follow,
    followed_files,
    import_file,
    receipts,
)
from eventlog.importers import watched_files as watched
from eventlog.importers.claude_code import importer as claude_code
from eventlog.importers.claude_code import records
from eventlog.importers.claude_code.records import ClaudeRecord
from eventlog.importers.growing_file import GrowingFile
from tests.eventlog.importers.test_reconcile import record, talk, write


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as rested at once, and nothing waits."""
    monkeypatch.setattr(receipts, "TICK", -(10**18))
    monkeypatch.setattr(watched, "SECOND", 0)
    monkeypatch.setattr(followed_files, "SHARE", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Give a store to import into."""
    with eventlog.open(tmp_path / "into") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder to follow."""
    path = tmp_path / "sessions"
    path.mkdir()
    return path


class Following:
    """A program that follows files, look by look."""

    def __init__(self, store: Store, *paths: Path | Folder) -> None:
        self.found = follow(store, paths)

    def look(self) -> list[FollowedFile]:
        """Return what one look at all that is due finds."""
        return list(iter(lambda: next(self.found), None))

    def reports(self) -> list[Report]:
        """Return the reports of one look."""
        return [found.report for found in self.look() if found.report is not None]


def line(number: int, text: str = "x", session: str = "s") -> str:
    """Make the line of a record."""
    return json.dumps(record(number, text) | {"sessionId": session, "uuid": f"{session}{number}"}) + "\n"


def add(path: Path, *texts: str) -> None:
    """Append to a file."""
    with path.open("a") as file:
        file.write("".join(texts))


def stored(store: Store) -> dict[str, list[tuple[int, ev.Event]]]:
    """Return the events of all sessions behind their beginnings."""
    return {
        info.id: [
            (found.time, found.event)
            for found in store.session(info.id).events()
            if not isinstance(found.event, ev.SessionStarted)
        ]
        for info in store.sessions()
    }


def imported(tmp_path: Path, paths: Sequence[Path]) -> dict[str, list[tuple[int, ev.Event]]]:
    """Return what one import of the files gives in a store of its own."""
    with eventlog.open(tmp_path / "fresh") as fresh:
        for path in paths:
            import_file(fresh, path)
        return stored(fresh)


def test_only_what_came_is_read(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grows is read on from its last line; a report counts what is new."""
    begun, entries = list[int](), records.entries

    def noting(file: BinaryIO, report: Report, after: int = 0) -> Iterator[ClaudeRecord]:
        begun.append(after)
        return entries(file, report, after)

    monkeypatch.setattr(claude_code, "entries", noting)
    path = write(folder / "a.jsonl", *talk("a", "b", "c"))
    following = Following(store, path)
    (first,) = following.reports()
    assert (first.messages, first.events) == (3, store.session("s").version)
    assert following.reports() == []
    for number in range(4, 9):
        before = store.session("s").version
        add(path, json.dumps(record(number, "more")) + "\n", '{"type": "unheard of"}\n')
        (report,) = following.reports()
        assert report.messages == number
        assert report.events == store.session("s").version - before
        assert [skipped.line for skipped in report.skipped] == [2 * number - 4 + 1]
    assert begun == [0, 3, 5, 7, 9, 11]


@pytest.mark.parametrize("cut", [1, 40, -2])
def test_a_line_counts_once_it_is_whole(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    """Of a half-written line nothing is imported; the lines before it are."""
    monkeypatch.undo()
    monkeypatch.setattr(watched, "SECOND", 0)
    path, whole = folder / "a.jsonl", line(3, "last")
    following = Following(store, folder)
    assert following.look() == []
    add(path, line(1, "first"), line(2, "second"), whole[:cut])
    os.utime(folder, ns=(1, 1))
    (report,) = following.reports()
    assert (report.messages, report.skipped) == (2, [])
    assert following.look() == []
    add(path, whole[cut:])
    (report,) = following.reports()
    assert (report.messages, report.skipped) == (3, [])


def test_a_last_line_without_an_end_counts_when_the_file_rests(store: Store, folder: Path) -> None:
    """A record without a line feed is imported once nothing comes any more."""
    path = folder / "a.jsonl"
    add(path, line(1), line(2)[:-1])
    following = Following(store, folder)
    counts = [report.messages for _ in range(3) for report in following.reports()]
    assert counts[-1] == 2
    add(path, "\n", line(3))
    assert [report.messages for report in following.reports()] == [3]


@pytest.mark.parametrize("seed", range(6))
def test_any_changes_beside_two_programs_give_one_import(store: Store, folder: Path, tmp_path: Path, seed: int) -> None:
    """Appends, half-lines, rotations, truncations, replacements and kills lose nothing.

    Two programs follow. At the end each record is there once, as one import gives it.
    """
    chance = Random(seed)
    programs = [Following(store, folder), Following(store, folder)]
    texts: dict[str, list[str]] = {name: [] for name in ("one", "two", "three")}
    halves = dict.fromkeys(texts, "")
    for _ in range(120):
        name = chance.choice(list(texts))
        path, lines = folder / f"{name}.jsonl", texts[name]
        act = chance.choice(["append", "append", "half", "burst", "replace", "truncate", "rotate", "end", "look"])
        if act in {"append", "burst", "half"}:
            add(path, halves[name])
            halves[name] = ""
            for _ in range(chance.randrange(30) if act == "burst" else 1):
                lines.append(line(len(lines) + 1, "w" * chance.randrange(60), name))
                cut = chance.randrange(1, len(lines[-1])) if act == "half" else len(lines[-1])
                add(path, lines[-1][:cut])
                halves[name] = lines[-1][cut:]
        elif act == "replace" and lines:
            path.with_suffix(".new").write_text("".join(lines))
            path.with_suffix(".new").replace(path)
            halves[name] = ""
        elif act == "truncate" and lines:
            path.write_text("")
            programs[0].look()
            path.write_text("".join(lines))
            halves[name] = ""
        elif act == "rotate" and lines:
            path.rename(folder / f"{name}.1.jsonl")
            programs[1].look()
            path.write_text("".join(lines))
            halves[name] = ""
        elif act == "end":
            programs[chance.randrange(2)] = Following(store, folder)
        chance.choice(programs).look()
    for name, half in halves.items():
        add(folder / f"{name}.jsonl", half)
    for program in programs * 3:
        os.utime(folder)
        program.look()
    assert stored(store) == imported(tmp_path, [folder / f"{name}.jsonl" for name in texts if texts[name]])


def test_two_programs_read_on_beside_each_other(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program behind another one compares what that one stored, and reads no file anew."""
    path = write(folder / "a.jsonl", *talk("a", "b"))
    one, two = Following(store, folder), Following(store, folder)
    one.look()
    two.look()
    add(path, line(3))
    one.look()
    two.look()
    begun, entries = list[int](), records.entries

    def noting(file: BinaryIO, report: Report, after: int = 0) -> Iterator[ClaudeRecord]:
        begun.append(after)
        return entries(file, report, after)

    monkeypatch.setattr(claude_code, "entries", noting)
    for number in range(4, 8):
        add(path, json.dumps(record(number, "more")) + "\n")
        first, second = (one, two) if number % 2 else (two, one)
        assert [report.events > 0 for report in first.reports()] == [True]
        assert [report.events for report in second.reports()] == [0]
    assert begun == [3, 3, 4, 4, 5, 5, 6, 6]
    assert [info.id for info in store.sessions()] == ["s"]


def test_a_session_that_went_on_here_becomes_a_fork(store: Store, folder: Path) -> None:
    """Lines that follow after the session was continued in the store go into a fork."""
    path = write(folder / "a.jsonl", *talk("a", "b"))
    following = Following(store, folder)
    following.look()
    store.session("s").user("here")
    add(path, json.dumps(record(3, "c")) + "\n")
    (report,) = following.reports()
    assert report.sessions == ["s~2"]
    add(path, json.dumps(record(4, "d")) + "\n")
    (report,) = following.reports()
    assert report.sessions == ["s~2"]
    assert import_file(store, path).events == 0


def test_files_that_rest_are_left_with_receipts(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next program that follows the files reads none of those that did not change."""
    for number in range(20):
        (folder / f"{number}.jsonl").write_text(line(1, "a", f"s{number}"))
    Following(store, folder).look()
    monkeypatch.setattr(claude_code, "entries", None)
    reports = Following(store, folder).reports()
    assert [report.events for report in reports] == [0] * 20


def test_few_readers_stay_in_memory(store: Store, folder: Path) -> None:
    """However many files change, the states of few readers are kept; all files are imported."""
    following = Following(store, folder)
    for number in range(3 * followed_files.MOST):
        (folder / f"{number}.jsonl").write_text(line(1, "a", f"s{number}"))
    following.look()
    following.look()
    for number in range(3 * followed_files.MOST):
        add(folder / f"{number}.jsonl", line(2, "b", f"s{number}"))
    for _ in range(3):
        following.look()
    gc.collect()
    assert sum(isinstance(found, GrowingFile) for found in gc.get_objects()) == followed_files.MOST
    assert all(len(events) > 8 for events in stored(store).values())
    assert len(stored(store)) == 3 * followed_files.MOST


def test_new_files_and_folders_are_found(store: Store, folder: Path) -> None:
    """A file in a folder that came later is imported, hidden and other ones are not."""
    following = Following(store, Folder(folder, ("*.jsonl",)))
    assert following.look() == []
    (folder / "2026" / "11").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for path in (folder / "2026/11/a.jsonl", folder / ".hidden/b.jsonl", folder / "c.txt"):
        path.write_text(line(1))
    assert [Path(report.path).name for report in following.reports()] == ["a.jsonl"]


def test_a_named_file_may_come_later(store: Store, tmp_path: Path) -> None:
    """A file that is not there is waited for, and once more after it was removed."""
    path = tmp_path / "a.jsonl"
    following = Following(store, path)
    assert following.look() == []
    path.write_text(line(1))
    assert [report.messages for report in following.reports()] == [1]
    path.unlink()
    assert following.look() == []
    path.write_text(line(1) + line(2))
    assert [report.messages for report in following.reports()] == [2]


def test_an_error_stops_no_other_file(store: Store, folder: Path) -> None:
    """A file that cannot be imported is reported at each change; the others are imported."""
    (folder / "a.jsonl").write_text("strange\n")
    (folder / "b.jsonl").write_text(line(1))
    following = Following(store, folder)
    found = following.look()
    assert ["format" in str(one.error) for one in found if one.error] == [True]
    assert [one.report.messages for one in found if one.report] == [1]
    assert following.look() == []
    (folder / "a.jsonl").write_text(line(1, "a", "t"))
    assert [report.sessions for report in following.reports()] == [["t"]]
    with pytest.raises(eventlog.errors.ImportFormatError):
        next(follow(store, [folder], format="unheard of"))


def test_a_document_is_imported_when_it_rests(store: Store, folder: Path) -> None:
    """A session that its program writes anew each time is imported as a whole."""
    path = folder / "session-1.json"
    messages = [
        {"id": str(number), "timestamp": "2026-01-01T00:00:00Z", "type": "user", "content": "x"} for number in (1, 2)
    ]

    def put(count: int) -> None:
        around = {
            "sessionId": "g",
            "projectHash": "h",
            "startTime": "2026-01-01T00:00:00Z",
            "lastUpdated": f"2026-01-01T00:00:0{count}Z",
        }
        path.write_text(json.dumps(around | {"messages": messages[:count]}, indent=1))

    following = Following(store, folder)
    following.look()
    put(1)
    assert [report.messages for report in following.reports()] == [1]
    put(2)
    (report,) = following.reports()
    assert (report.format, report.messages, len(report.sessions)) == ("gemini_cli", 2, 1)


def test_idle_files_take_turns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is at a bounded number of files, of which those that changed last are each time."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)  # without notices of the system
    for number in range(500):
        (folder / f"{number}.jsonl").touch()
    files = watched.WatchedFiles([folder])
    assert len(set(files.due())) == 500
    for number in range(100):
        files.changed(str(folder / f"{number}.jsonl"))
    seen = [list(files.due()) for _ in range(20)]
    assert {len(looks) for looks in seen} <= {watched.FILES, watched.MOST + watched.FILES}
    assert all(str(folder / "99.jsonl") in looks for looks in seen)
    assert len({path for looks in seen for path in looks}) == 500


def test_the_system_says_what_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `watchfiles` a file is looked at when the system names it, old or new."""
    said: list[set[tuple[int, str]]] = []
    given = list[str]()

    def watch(*paths: str, **_: object) -> Iterator[set[tuple[int, str]]]:
        given.extend(paths)
        while True:
            yield said.pop(0) if said else set()

    monkeypatch.setitem(sys.modules, "watchfiles", SimpleNamespace(watch=watch))
    for number in range(300):
        (folder / f"{number}.jsonl").touch()
    with closing(watched.WatchedFiles([folder])) as files:
        files.wait()
        assert given == [str(folder)]
        assert len(set(files.due())) == 300
        path, new = folder / "299.jsonl", folder / "new.jsonl"
        new.touch()
        said.append({(2, str(path)), (1, str(new))})
        files.wait()
        looks = list(files.due())
        assert {str(path), str(new)} <= set(looks)
        assert len(looks) <= 2 + watched.FILES // watched.TOLD


def test_agents_are_found_where_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents' folders are those of their environment variables, else those below the home."""
    variables = {
        "CLAUDE_CONFIG_DIR": "projects/p/a.jsonl",
        "CODEX_HOME": "sessions/2026/11/01/rollout-a.jsonl",
        "GEMINI_CLI_HOME": ".gemini/tmp/h/chats/session-a.json",
        "QWEN_HOME": "projects/p/chats/a.jsonl",
        "XDG_DATA_HOME": "opencode/opencode.db",
    }
    for variable in (*variables, "QWEN_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert agent_folders() == []
    usual = {
        "CLAUDE_CONFIG_DIR": ".claude",
        "CODEX_HOME": ".codex",
        "GEMINI_CLI_HOME": "",
        "QWEN_HOME": ".qwen",
        "XDG_DATA_HOME": ".local/share",
    }
    wanted = set[Path]()
    for variable, name in variables.items():
        path = tmp_path / "home" / usual[variable] / name
        path.parent.mkdir(parents=True)
        path.touch()
        (path.parent / "other.txt").touch()
        wanted.add(path)
    assert {path for folder in agent_folders() for path in folder.files()} == wanted
    for variable, name in variables.items():
        path = tmp_path / variable / name
        path.parent.mkdir(parents=True)
        path.touch()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    assert {path for folder in agent_folders() for path in folder.files()} == {
        tmp_path / variable / name for variable, name in variables.items()
    }
    assert [folder.agent for folder in agent_folders()] == [
        "Claude Code",
        "Codex",
        "Gemini CLI",
        "Qwen Code",
        "OpenCode",
    ]
