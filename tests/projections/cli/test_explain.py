"""`eventlog explain`: the reason, the event behind it, and what to do."""

from __future__ import annotations

from pathlib import Path

import eventlog
from projections.cli.exits import Exit
from projections.loop import ContextWindow
from tests.support.cli_runner import Cli, valid


def explained(cli: Cli, *arguments: object) -> dict[str, object]:
    """The document of a call, checked against its schema."""
    document = cli("explain", "talk", *arguments, "--json").json
    valid("explain", document)
    return dict(document)


def test_a_pruned_result(cli: Cli, talked: Path) -> None:
    """A cleared result names the prune with its number and policy, and how to read it."""
    assert talked
    pruned = cli("prune", "talk", "--json").json
    part = pruned["parts"][0]["id"]
    found = explained(cli, part)
    assert (found["reason"], found["shown"], found["tool"]) == ("cleared", True, "read")
    assert found["cause"] == {
        "kind": "prune",
        "version": pruned["version"],
        "time": found["cause"]["time"],  # type: ignore[index]  # it is a document
        "number": 1,
        "what": "recency",
    }
    answer = cli("explain", "talk", part)
    assert "prune 1 at version " in answer.out
    assert f"`eventlog recall talk {part}` prints it" in answer.err
    assert explained(cli, part, "--at", pruned["version"] - 1)["reason"] == "shown"
    timeline = cli("timeline", "talk", "--json").json["entries"]
    (entry,) = [entry for entry in timeline if entry["kind"] == "pruned"]
    assert (entry["number"], entry["version"], entry["tokens"]) == (1, pruned["version"], pruned["freed"])


def test_a_compacted_message(cli: Cli, talked: Path) -> None:
    """A covered message names the compaction and its summary; undone, it is shown again."""
    with eventlog.open(talked, read_only=True) as store:
        first = ContextWindow(store.session("talk")).view().messages[1].source
    done = cli("compact", "talk", "--json").json
    found = explained(cli, first)
    assert (found["reason"], found["shown"]) == ("covered", False)
    cause = found["cause"]
    assert isinstance(cause, dict)
    assert (cause["kind"], cause["what"]) == ("compaction", done["summary"])
    assert cli("undo", "talk").code == Exit.OK
    assert explained(cli, first)["shown"] is True


def test_a_rolled_back_message(cli: Cli, talked: Path) -> None:
    """A rolled back message names the rollback, and the note takes it back."""
    with eventlog.open(talked) as store:
        name = store.session("talk").user("not meant")
    assert cli("rollback", "talk", "--before", name).code == Exit.OK
    answer = cli("explain", "talk", name)
    assert answer.out.splitlines()[0].endswith(": rolled-back")
    assert "not meant" in answer.out
    command = answer.err.split("`")[1].split()[1:]
    assert cli(*command).code == Exit.OK
    assert explained(cli, name)["reason"] == "shown"


def test_one_that_comes_later(cli: Cli, talked: Path) -> None:
    """At an earlier version a later message is said to begin later."""
    assert talked
    newest = cli("show", "talk", "--limit", 1, "--json").json["messages"][0]["id"]
    assert explained(cli, newest, "--at", 2)["reason"] == "later"
