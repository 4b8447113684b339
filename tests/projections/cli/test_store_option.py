"""Choice of session and store; reading leaves every file as it was."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import eventlog
from projections.cli.exits import Exit
from tests.support.cli_runner import Cli


def test_where_the_store_is(cli: Cli, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option precedes the environment, and that the default in the data directory."""
    other = tmp_path / "other"
    with eventlog.open(other) as opened:
        opened.create_session(id="elsewhere")
    for arguments in (
        ["--store", other, "sessions"],
        ["sessions", "--store", other],
        ["sessions", f"--store={other}", "--json"],
    ):
        assert "elsewhere" in cli(*arguments).out
    assert "ses_a1" in cli("sessions").out
    monkeypatch.delenv("EVENTLOG_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    store.rename(tmp_path / "moved")
    (tmp_path / "data").mkdir()
    (tmp_path / "moved").rename(tmp_path / "data" / "eventlog")
    assert "ses_a1" in cli("sessions").out
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert str(tmp_path / "home" / ".local" / "share" / "eventlog") in cli("sessions").err


READING = [
    ["sessions"],
    ["show", "ses_a1"],
    ["view", "ses_a1"],
    ["events", "ses_a1"],
    ["stats"],
    ["stats", "ses_a1"],
    ["verify"],
    ["verify", "ses_a1"],
    ["window", "ses_a1", "--context", "9000"],
    ["prune", "ses_a1", "--dry-run"],
    ["recall", "ses_a1", "m2"],
    ["export", "ses_a1", "--format", "jsonl"],
    ["export", "ses_a1", "--format", "markdown"],
    ["export", "ses_a1", "--format", "opencode"],
]
WRITING = [
    ["rollback", "s", "--to", "1"],
    ["fork", "s"],
    ["prune", "s"],
    ["compact", "s"],
    ["undo", "s"],
    ["serve", "--no-open"],
]


@pytest.mark.parametrize("arguments", READING + WRITING, ids=" ".join)
def test_no_command_makes_a_store(cli: Cli, tmp_path: Path, arguments: list[str]) -> None:
    """A command that needs a store ends without one with 3 and makes nothing."""
    answer = cli(*arguments)
    assert answer.code == Exit.MISSING
    assert "no store" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_reading_changes_nothing(cli: Cli, store: Path) -> None:
    """A reading command changes no file of the store but LMDB's table of readers."""

    def contents() -> dict[str, str]:
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in store.rglob("*")
            if path.is_file() and path.name != "lock.mdb"
        }

    before = contents()
    for arguments in READING:
        assert cli(*arguments).code == Exit.OK
    assert contents() == before
