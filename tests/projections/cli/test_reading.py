"""The reading commands, rollback and fork: they print what is stored."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import eventlog
from eventlog.events import Event, PartDelta
from projections.cli.exits import Exit
from projections.cli.registry import COMMANDS
from projections.reports.event_json import kind_named
from tests.support.cli_runner import SCHEMAS, Cli, check_schema, valid


def test_every_command_has_a_help(cli: Cli) -> None:
    """Each command has a help text of its own."""
    for command in COMMANDS:
        answer = cli(command, "--help")
        assert answer.code == Exit.OK
        assert f"eventlog {command}" in answer.out


def test_schemas_are_schemas() -> None:
    """Every shipped schema is a valid JSON Schema, and each command that prints JSON has one."""
    assert sorted(set(SCHEMAS) - {"live"}) == sorted(set(COMMANDS) - {"demo", "export", "completion", "tail", "serve"})
    for schema in SCHEMAS.values():
        check_schema(schema)
    kinds = sorted(kind_named(kind.__name__) for kind in get_args(Event))
    assert SCHEMAS["events"]["properties"]["kind"]["enum"] == kinds


def test_sessions(cli: Cli, store: Path) -> None:
    """`sessions --json` lists every session with the documented keys."""
    answer = cli("sessions", "--json")
    valid("sessions", answer.json)
    listed = {entry["id"]: entry for entry in answer.json["sessions"]}
    assert set(listed) == {"ses_a1", "ses_b2"}
    with eventlog.open(store, read_only=True) as opened:
        info = opened.info("ses_a1")
    first = listed["ses_a1"]
    said = {key: getattr(info, key) for key in first if key not in {"cost", "state"}}
    assert first == said | {"cost": None, "state": "unfinished"}
    assert info.spent is None
    assert answer.json["next"] is None
    assert (first["title"], first["scope"], first["messages"], first["archived"]) == ("Fix it", "alice", 2, False)


def test_names_and_notes_are_listed(cli: Cli, store: Path) -> None:
    """The table of sessions has the name and the note of each."""
    with eventlog.open(store) as opened:
        opened.open_session(("telegram", "chat 17"), id="ses_n").set_note("waits for the invoice")
    header, *rows = (line.split("\t") for line in cli("sessions").out.splitlines())
    named = next(row for row in rows if row[0] == "ses_n")
    found = dict(zip(header, named, strict=True))
    assert (found["name"], found["note"]) == ("telegram:chat 17", "waits for the invoice")


def test_verify_counts_sessions_apart_from_other_streams(cli: Cli, store: Path) -> None:
    """Names, shelves and erased sessions are verified, and are not counted as sessions."""
    with eventlog.open(store) as opened:
        opened.open_session(("telegram", "chat 17"))
        opened.shelf("prices").values.put("hotel", "80 EUR")
        gone = opened.create_session().id
    assert cli("verify").out.startswith("4 sessions, 2 other streams, ")
    with eventlog.open(store) as opened:
        opened.erase(gone)
        opened.drop_shelf("prices")
    assert cli("verify").out.startswith("3 sessions, 1 erased, 2 other streams, ")
    erased = [each["id"] for each in cli("--json", "verify").json["sessions"] if each["erased"]]
    assert gone in erased


def test_sessions_filtered(cli: Cli, store: Path) -> None:
    """Sessions are filtered by scope, parent, state, title and activity."""
    with eventlog.open(store) as opened:
        opened.session("ses_a1").subsession(id="ses_c3", title="Count the LINES")
        opened.session("ses_b2").archive()
        updated = opened.info("ses_c3").updated

    def listed(*options: str) -> list[str]:
        answer = cli("sessions", "--json", *options)
        valid("sessions", answer.json)
        return sorted(entry["id"] for entry in answer.json["sessions"])

    assert listed("--scope", "alice") == ["ses_a1", "ses_c3"]
    assert listed("--parent", "ses_a1") == ["ses_c3"]
    assert listed("--archived") == ["ses_b2"]
    assert listed("--active") == ["ses_a1", "ses_c3"]
    assert listed("--text", "lines") == ["ses_c3"]
    moment = datetime.fromtimestamp(updated // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    assert "ses_c3" in listed("--since", moment)
    assert listed("--since", "2999-01-01") == []


def test_sessions_by_page(cli: Cli, store: Path) -> None:
    """`--limit` gives the newest; pages join up, and a note says how to go on."""
    with eventlog.open(store) as opened:
        for number in range(3):
            opened.create_session(id=f"ses_n{number}", scope="alice", time=5_000_000_000_000 - number)
    found: list[str] = []
    more: list[str] = []
    while True:
        page = cli("sessions", "--json", "--scope", "alice", "--limit", "2", *more).json
        valid("sessions", page)
        found += [entry["id"] for entry in page["sessions"]]
        if page["next"] is None:
            break
        more = ["--cursor", page["next"]]
    assert found == ["ses_n0", "ses_n1", "ses_n2", "ses_a1"]
    listed = cli("sessions", "--active", "--limit", "1")
    assert ("ses_n0" in listed.out, len(listed.out.splitlines())) == (True, 2)
    command = listed.err.removeprefix("more: ").partition(",")[0].split()
    assert "ses_n1" in cli("sessions", "--active", "--limit", "1", *command).out
    assert len(cli("sessions", "--limit", "0", "--json").json["sessions"]) == 5
    refused = cli("sessions", "--cursor", "x")
    assert (refused.code, "no cursor" in refused.err) == (2, True)


def test_show(cli: Cli, store: Path) -> None:
    """`show` prints all messages with full outputs and errors, in either order."""
    del store
    document = cli("show", "ses_a1", "--json").json
    valid("show", document)
    assert [message["id"] for message in document["messages"]] == ["m1", "m2"]
    parts = {part["kind"]: part for part in document["messages"][1]["parts"]}
    assert parts["reasoning"]["text"] == "Let me see"
    assert parts["text"]["text"] == "It is fixed"
    tools = [part for part in document["messages"][1]["parts"] if part["kind"] == "tool"]
    assert [(tool["call"], tool["text"], tool["error"]) for tool in tools] == [("c1", "x" * 3000, ""), ("c2", "", "no")]
    backwards = cli("show", "ses_a1", "--json", "--newest-first").json
    assert backwards["messages"] == document["messages"][::-1]
    for text in ("The tests fail", "It is fixed", "x" * 3000, "no"):
        assert text in cli("show", "ses_a1").out


def test_show_by_page(cli: Cli, tmp_path: Path) -> None:
    """Pages read from the end by cursor give the whole transcript once."""
    with eventlog.open(tmp_path / "store") as opened:
        session = opened.create_session(id="s")
        for number in range(7):
            session.user(f"message {number}", id=f"m{number}")
    seen: list[str] = []
    before: list[object] = []
    while True:
        page = cli("show", "s", "--limit", 3, "--newest-first", "--json", *before).json
        valid("show", page)
        assert len(page["messages"]) <= 3
        seen += [message["id"] for message in page["messages"]]
        if page["next"] is None:
            break
        before = ["--before", page["next"]]
    assert seen == [f"m{number}" for number in range(6, -1, -1)]
    assert "older messages: --before" in cli("show", "s", "--limit", 3).err


def test_view_neutral(cli: Cli, store: Path) -> None:
    """`view --json` gives neutral messages, version and tokens; each call has its result."""
    document = cli("view", "ses_a1", "--json").json
    valid("view", document)
    with eventlog.open(store, read_only=True) as opened:
        assert document["version"] == opened.session("ses_a1").version
    assert document["session"] == "ses_a1"
    assert 100 < document["tokens"] < 5000
    user, assistant, tool = document["messages"]
    assert [part["type"] for part in user["parts"]] == ["text", "file"]
    assert [part["type"] for part in assistant["parts"]] == ["reasoning", "call", "call", "text"]
    assert [(part["call"], part["error"]) for part in tool["parts"]] == [("c1", False), ("c2", True)]


def test_view_at_a_version(cli: Cli, store: Path) -> None:
    """`view --at` shows what the model would have been sent at that version."""
    with eventlog.open(store, read_only=True) as opened:
        session = opened.session("ses_a1")
        before = session.reader.find("m2") - 1
        deltas = [found.version for found in session.events() if isinstance(found.event, PartDelta)]
    document = cli("view", "ses_a1", "--at", before, "--json").json
    assert (document["version"], len(document["messages"])) == (before, 1)
    partial = cli("view", "ses_a1", "--at", deltas[-2], "--json").json
    assert partial["messages"][1]["parts"][-1]["text"] == "It"


def test_view_options(cli: Cli, store: Path) -> None:
    """Capabilities, model and preset change the view; an unknown name is a wrong call."""
    del store
    kinds_of = [
        part["type"]
        for part in cli("view", "ses_a1", "--json", "--capabilities", "text,pdf").json["messages"][0]["parts"]
    ]
    assert "file" not in kinds_of
    other = cli("view", "ses_a1", "--json", "--model", "acme/two").json
    assert "reasoning" not in [part["type"] for part in other["messages"][1]["parts"]]
    assert (
        cli("view", "ses_a1", "--json", "--model", "one").json
        == cli("view", "ses_a1", "--json", "--model", "acme/one").json
    )
    same = cli("view", "ses_a1", "--json", "--model", "acme/one").json
    assert "reasoning" in [part["type"] for part in same["messages"][1]["parts"]]
    assert cli("view", "ses_a1", "--json", "--preset", "opencode-1.18").code == Exit.OK
    for wrong in (["--capabilities", "smell"], ["--preset", "nope"], ["--format", "nope"]):
        assert cli("view", "ses_a1", *wrong).code == Exit.USAGE


def test_events(cli: Cli, store: Path) -> None:
    """`events --json` prints one event per line, in version order without gaps."""
    lines = [json.loads(line) for line in cli("events", "ses_a1", "--json").out.splitlines()]
    for line in lines:
        valid("events", line)
    with eventlog.open(store, read_only=True) as opened:
        recorded = list(opened.session("ses_a1").events())
    assert [line["version"] for line in lines] == list(range(1, len(recorded) + 1))
    with eventlog.open(store, read_only=True) as opened:
        told = opened.subscribe(session="ses_a1", timeout=0)
        assert [line["cursor"] for line in lines] == [found.cursor for found in told]
    deltas = [line["event"]["text"] for line in lines if line["kind"] == "part-delta"]
    assert deltas == ["Let", " me", " see", "It", " is fixed"]
    output = next(line["event"]["output"] for line in lines if line["kind"] == "tool-completed")
    assert output == {"body": hashlib.sha256(b"x" * 3000).hexdigest(), "bytes": 3000, "characters": 3000}
    some = [
        json.loads(line)["version"]
        for line in cli("events", "ses_a1", "--from", 3, "--to", 5, "--json").out.splitlines()
    ]
    assert some == [3, 4, 5]
    assert len(cli("events", "ses_a1").out.splitlines()) == len(recorded)


def test_stats(cli: Cli, store: Path) -> None:
    """`stats` counts messages, parts, tools, deltas and usage, and the store's totals."""
    document = cli("stats", "ses_a1", "--json").json
    valid("stats", document)
    found = document["session"]
    assert found["messages"] == {"user": 1, "assistant": 1}
    assert found["deltas"] == {"count": 5, "characters": len("Let me seeIt is fixed")}
    assert found["parts"] == {"text": 2, "tool": 2, "file": 1, "reasoning": 1, "step-start": 1, "step-finish": 1}
    assert found["tools"] == [
        {"tool": "bash", "calls": 2, "completed": 1, "failed": 1, "interrupted": 0, "unfinished": 0}
    ]
    spent = found["usage"]["own"]
    assert [(sum_["model"], sum_["input"], sum_["output"], sum_["reasoning"], sum_["unpriced"]) for sum_ in spent] == [
        ("acme/one", 100, 20, 3, 1)
    ]
    assert found["view"]["messages"] == 3
    assert sum(found["events"]["kinds"].values()) == found["version"]
    totals = cli("stats", "--json").json
    valid("stats", totals)
    assert totals["store"]["sessions"] == 2
    assert totals["store"]["messages"] == 2
    assert totals["store"]["bytes"] == sum(path.stat().st_blocks * 512 for path in store.rglob("*") if path.is_file())
    assert "acme/one" in cli("stats", "ses_a1").out


def test_rollback_and_redo(cli: Cli, store: Path) -> None:
    """A rollback returns the view of a version; another one takes the rollback back."""
    with eventlog.open(store, read_only=True) as opened:
        version = opened.session("ses_a1").version
        before = opened.session("ses_a1").reader.find("m2") - 1
    was = cli("view", "ses_a1", "--at", before, "--json").json["messages"]
    full = cli("view", "ses_a1", "--json").json["messages"]
    done = cli("rollback", "ses_a1", "--to", before, "--json")
    valid("rollback", done.json)
    assert (done.json["to"], done.json["version"]) == (before, version + 1)
    assert cli("view", "ses_a1", "--json").json["messages"] == was
    stats = cli("stats", "ses_a1", "--json").json["session"]
    assert stats["messages"] == {"user": 1, "assistant": 0}
    assert stats["usage"]["own"][0]["input"] == 100, "what was spent stays spent"
    assert cli("rollback", "ses_a1", "--to", version).code == Exit.OK
    assert cli("view", "ses_a1", "--json").json["messages"] == full


def test_fork(cli: Cli, store: Path) -> None:
    """A fork has its parent's view at that version, and no later event of the parent."""
    with eventlog.open(store, read_only=True) as opened:
        before = opened.session("ses_a1").reader.find("m2") - 1
    made = cli("fork", "ses_a1", "--at", before, "--json").json
    valid("fork", made)
    assert (made["parent"], made["at"]) == ("ses_a1", before)
    was = cli("view", "ses_a1", "--at", before, "--json").json["messages"]
    assert cli("view", made["session"], "--json").json["messages"] == was
    with eventlog.open(store) as opened:
        opened.session("ses_a1").user("later")
    assert cli("view", made["session"], "--json").json["messages"] == was
    assert cli("fork", "ses_a1").out.strip() in {entry["id"] for entry in cli("sessions", "--json").json["sessions"]}
    inherited = [json.loads(line)["version"] for line in cli("events", made["session"], "--json").out.splitlines()]
    assert inherited == list(range(1, before + 2))
    for word in ("m2", before + 1):
        assert cli("fork", "ses_a1", "--before", word, "--json").json["at"] == before
    assert cli("fork", "ses_a1", "--at", before, "--before", "m2").code == Exit.USAGE
