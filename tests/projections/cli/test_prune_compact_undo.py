"""`prune`, `compact` and `undo`: an undo returns the view, a failure leaves it unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eventlog
from projections.cli.exits import Exit
from tests.support.cli_runner import ROOT, Cli, valid
from tests.support.cli_sessions import RECORDED, digest_of_view, recorded

pytestmark = pytest.mark.promise(9)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVENTLOG_PRUNE", "EVENTLOG_AUTO_COMPACT", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def kinds_since(path: Path, version: int) -> list[str]:
    """The kinds of the events of `talk` after a version."""
    with eventlog.open(path, read_only=True) as store:
        return [type(found.event).__name__ for found in store.session("talk").events(after=version)]


def version_of(path: Path) -> int:
    """The version of `talk`."""
    with eventlog.open(path, read_only=True) as store:
        return store.session("talk").version


def test_prune_and_undo(cli: Cli, talked: Path) -> None:
    """A dry run lists what a prune then clears; the undo returns the view byte for byte."""
    before = digest_of_view(talked, "talk")
    plan = cli("prune", "talk", "--dry-run", "--json").json
    valid("prune", plan)
    assert (plan["dry_run"], plan["tokens_after"], digest_of_view(talked, "talk")) == (True, None, before)
    done = cli("prune", "talk", "--json").json
    valid("prune", done)
    assert (done["parts"], done["freed"], done["policy"]) == (plan["parts"], plan["freed"], "recency")
    assert [part["id"] for part in done["parts"]] == ["p00", "p01", "p10", "p11"]
    assert done["freed"] == pytest.approx(done["tokens_before"] - done["tokens_after"], abs=2 * len(done["parts"]))
    assert digest_of_view(talked, "talk") != before
    undone = cli("undo", "talk", "--json").json
    valid("undo", undone)
    assert (undone["undone"], undone["tokens"]) == ("prune", done["tokens_before"])
    assert digest_of_view(talked, "talk") == before


def test_prune_by_another_planner_and_limits(cli: Cli, talked: Path) -> None:
    """Planner and limits hold for this call only; nothing of them is recorded."""
    version = version_of(talked)
    assert cli("prune", "talk", "--context", 0, "--dry-run", "--json").json["parts"] == []
    small = cli("prune", "talk", "--context", 12_000, "--dry-run", "--json").json
    assert (small["usable"], len(small["parts"])) == (8_000, 6)
    done = cli("prune", "talk", "--policy", "opencode", "--preset", "opencode-1.18", "--context", 12_000, "--json").json
    assert (done["policy"], done["parts"]) == ("opencode", []), "OpenCode's numbers do not shrink with the window"
    other = cli("prune", "talk", "--policy", "superseded", "--json").json
    valid("prune", other)
    assert other["parts"]
    assert (other["policy"], other["version"]) == ("superseded", version + 1)
    assert cli("window", "talk", "--json").json["limits"]["context"] == 20_000


def test_a_prune_that_is_not_worth_it_writes_nothing(cli: Cli, talked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prune with nothing to clear, or switched off, says so and writes nothing."""
    cli("prune", "talk")
    version = version_of(talked)
    again = cli("prune", "talk")
    assert (again.code, again.out) == (Exit.OK, "nothing is worth pruning by the policy recency\n")
    monkeypatch.setenv("EVENTLOG_PRUNE", "0")
    off = cli("prune", "talk", "--policy", "superseded")
    assert off.code == Exit.OK
    assert "EVENTLOG_PRUNE" in off.out
    found = cli("prune", "talk", "--json").json
    valid("prune", found)
    assert (found["enabled"], found["parts"]) == (False, [])
    assert version_of(talked) == version
    monkeypatch.delenv("EVENTLOG_PRUNE")
    with eventlog.open(talked) as store:
        store.create_session(id="bare").user("hello")
    assert "give --context" in cli("prune", "bare").out


def test_undo_goes_back_step_by_step(cli: Cli, talked: Path) -> None:
    """Each undo takes back the newest change in force, until none is left."""
    digests = [digest_of_view(talked, "talk")]
    version = version_of(talked)
    commands: list[list[object]] = [
        ["prune", "talk"],
        ["compact", "talk"],
        ["rollback", "talk", "--to", version - 3],
        ["rollback", "talk", "--to", version - 1],  # the one before hides it
    ]
    for command in commands:
        assert cli(*command).code == Exit.OK
        digests.append(digest_of_view(talked, "talk"))
    undone: list[str] = []
    for digest in reversed(digests[:-1]):
        undone.append(cli("undo", "talk", "--json").json["undone"])
        assert digest_of_view(talked, "talk") == digest
    assert undone == ["rollback", "rollback", "compaction", "prune"]
    version = version_of(talked)
    nothing = cli("undo", "talk")
    assert (nothing.code, nothing.err) == (
        Exit.USAGE,
        "eventlog: there is nothing to undo; expected a prune, a compaction or a rollback\n",
    )
    assert version_of(talked) == version


def test_compact_offline_and_undo(cli: Cli, talked: Path) -> None:
    """The digest writes the summary; the undo returns the view."""
    before = digest_of_view(talked, "talk")
    foretold = cli("window", "talk", "--json").json["compaction"]
    done = cli("compact", "talk", "--json").json
    valid("compact", done)
    assert (done["completed"], done["reason"]) == (True, "")
    assert done["covered"] == foretold["messages"]
    assert done["tokens_after"] < done["tokens_before"]
    found = cli("window", "talk", "--json").json
    valid("window", found)
    assert found["kinds"]["summary"] > 0
    assert found["kinds"]["carried"] > 0
    assert [change["parts"] for change in found["changes"]] == [[done["compaction"]]]
    assert digest_of_view(talked, "talk") != before
    assert cli("undo", "talk").code == Exit.OK
    assert digest_of_view(talked, "talk") == before
    assert "covered by the summary" in cli("compact", "talk").out


def test_nothing_to_compact_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    """`compact` without a coverable message is a wrong call and writes nothing."""
    with eventlog.open(tmp_path / "store") as store:
        store.create_session(id="talk").user("hello")
    version = version_of(tmp_path / "store")
    answer = cli("compact", "talk")
    assert answer.code == Exit.USAGE
    assert answer.err.startswith("eventlog: there is nothing to compact")
    assert version_of(tmp_path / "store") == version


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--context", "-1"], "--context"),
        (["--preset", "nope"], "--preset"),
    ],
)
def test_a_wrong_call_writes_nothing(cli: Cli, talked: Path, options: list[str], words: str) -> None:
    """Wrong options are refused in one line before anything is written."""
    version = version_of(talked)
    answer = cli("compact", "talk", *options)
    assert answer.code == Exit.USAGE
    assert len(answer.err.splitlines()) == 1
    assert words in answer.err
    assert version_of(talked) == version


COMMANDS = [["prune", "talk"], ["compact", "talk"], ["undo", "talk"]]


def test_a_read_only_store_is_refused(cli: Cli, talked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each writing command refuses a read-only store in one line; a dry run works."""
    version = version_of(talked)
    opened: Callable[..., eventlog.Store] = eventlog.open

    def read_only(path: Path, **given: Any) -> eventlog.Store:
        return opened(path, **{**given, "read_only": True})

    with monkeypatch.context() as patched:
        patched.setattr(eventlog, "open", read_only)
        for command in COMMANDS:
            answer = cli(*command)
            assert answer.code == Exit.USAGE
            assert "reading only" in answer.err
            assert len(answer.err.splitlines()) == 1
    assert cli("prune", "talk", "--dry-run").code == Exit.OK
    assert version_of(talked) == version


def test_a_held_lease_is_busy(cli: Cli, talked: Path) -> None:
    """While another program runs the session, writing commands end with 5 and change nothing."""
    version = version_of(talked)
    script = (
        "import eventlog, sys\n"
        f"store = eventlog.open({str(talked)!r})\n"
        "store.session('talk').executor.acquire()\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        for command in [*COMMANDS, ["rollback", "talk", "--to", "1"]]:
            answer = cli(*command)
            assert answer.code == Exit.BUSY
            assert f"run by process {other.pid} (" in answer.err
            assert f" on host {os.uname().nodename}; its lease ends at " in answer.err
            assert "run the command again" in answer.err
        assert cli("window", "talk").code == Exit.OK
        assert version_of(talked) == version


DYING = """
import eventlog, os, sys
store = eventlog.open(sys.argv[1])
session = store.session("talk")
session.context.request_compaction(auto=True)
session.user("more")
session.executor.acquire()
reply = session.assistant(model="acme/one").__enter__()
reply.tool("read", call_id="last", input={})
store.flush()
os._exit(1)
"""
"""Leaves a compaction that was requested, and a message with a call that is running."""


def test_what_a_dead_owner_left_is_settled_first(cli: Cli, talked: Path) -> None:
    """Reading leaves an interrupted session as it is; compacting settles it first."""
    subprocess.run([sys.executable, "-c", DYING, str(talked)], cwd=ROOT, check=False, timeout=60)
    version = version_of(talked)
    found = cli("window", "talk", "--json").json
    valid("window", found)
    assert found["next_step"] == {"step": "compact", "reason": ""}
    assert found["compaction"]["pending"] is not None
    assert version_of(talked) == version
    done = cli("compact", "talk", "--json").json
    assert (done["completed"], done["covered"] > found["compaction"]["messages"]) == (True, True)
    assert kinds_since(talked, version)[0] == "ToolFailed"


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_sessions(cli: Cli, tmp_path: Path, name: str) -> None:
    """A recorded session is pruned and compacted by hand; each undo returns the view."""
    path = tmp_path / "store"
    session = recorded(path, name)
    assert cli("prune", session, "--context", 36_000).code == Exit.OK, "what the recording left open is settled"
    assert cli("undo", session).code == Exit.OK
    before = digest_of_view(path, session)
    pruned = cli("prune", session, "--context", 36_000, "--json").json
    valid("prune", pruned)
    assert pruned["parts"]
    middle = digest_of_view(path, session)
    assert middle != before
    done = cli("compact", session, "--context", 40_000, "--json").json
    valid("compact", done)
    assert done["completed"]
    assert done["covered"] > 10
    assert digest_of_view(path, session) != middle
    for digest in (middle, before):
        valid("undo", cli("undo", session, "--json").json)
        assert digest_of_view(path, session) == digest
