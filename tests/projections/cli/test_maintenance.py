"""`eventlog backup`, `restore`, `vacuum`, `erase`, `expire`, `redact` and `scrub`."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventlog
from eventlog.log.embedded.directory import set_unfinished
from eventlog.testing.file_search import files_with
from projections.cli.exits import Exit
from tests.support.cli_runner import Cli, valid


def test_backup_and_restore(cli: Cli, store: Path, tmp_path: Path) -> None:
    """A backup adds what is new; a restore gives the store of a cursor."""
    kept = tmp_path / "head.json"
    kept.write_text(cli("head", "--json").out)
    first = cli("backup", tmp_path / "b", "--json").json
    valid("backup", first)
    assert (first["whole"], first["sessions"]) == (True, 2)
    with eventlog.open(store) as opened:
        opened.session("ses_b2").user("more")
    second = cli("backup", tmp_path / "b", "--json").json
    assert (second["whole"], second["events"]) == (False, 2)
    assert "0 events copied" in cli("backup", tmp_path / "b").out
    made = cli("restore", tmp_path / "b", "--into", tmp_path / "r", "--cursor", first["cursor"], "--json").json
    valid("restore", made)
    assert cli("--store", tmp_path / "r", "head", "--json").out == kept.read_text()
    assert cli("--store", tmp_path / "b", "verify", "--against", kept).code == Exit.OK
    assert cli("restore", tmp_path / "b", "--into", tmp_path / "r").code == Exit.USAGE
    assert cli("restore", tmp_path / "nothing", "--into", tmp_path / "n").code == Exit.MISSING
    assert cli("backup", tmp_path).code == Exit.USAGE


def test_an_unfinished_copy_is_named(cli: Cli, store: Path, tmp_path: Path) -> None:
    """An unfinished copy does not open, and the line says what it is."""
    assert store
    cli("backup", tmp_path / "b")
    set_unfinished(tmp_path / "b", "a backup was being written")
    answer = cli("--store", tmp_path / "b", "sessions")
    assert answer.code == Exit.DAMAGED
    assert "a backup was being written" in answer.err
    assert cli("backup", tmp_path / "b").code == Exit.OK
    assert cli("--store", tmp_path / "b", "sessions").code == Exit.OK


def test_erase_expire_and_vacuum(cli: Cli, store: Path, tmp_path: Path) -> None:
    """An erased session is named as erased; a vacuum removes its text from the files."""
    kept = tmp_path / "head.json"
    kept.write_text(cli("head", "--json").out)
    fork = cli("fork", "ses_a1").out.strip()
    refused = cli("erase", "ses_a1")
    assert (refused.code, fork in refused.err) == (Exit.USAGE, True)
    cascaded = cli("erase", "ses_a1", "--yes", "--forks", "cascade", "--reason", "asked for", "--json").json
    valid("erase", cascaded)
    assert set(cascaded["erased"]) == {fork, "ses_a1"}
    gone = cli("show", "ses_a1")
    assert (gone.code, "was erased" in gone.err) == (Exit.MISSING, True)
    assert cli("verify", "ses_a1").code == Exit.OK, "the tombstone can be looked at by itself"
    done = cli("vacuum", "--json").json
    valid("vacuum", done)
    assert done["erased"] == 2
    assert cli("verify", "ses_a1", "--against", kept).code == Exit.OK
    assert not files_with(store, "The tests fail")
    assert cli("verify", "--deep", "--against", kept).code == Exit.OK
    kept_one = cli("expire", "--count", 1, "--json").json
    valid("expire", kept_one)
    assert kept_one == {"erased": [], "running": [], "dry_run": False}
    assert cli("expire", "--size", "1G", "--age", "30d").out == "0 sessions erased\n"
    (last,) = cli("sessions", "--json").json["sessions"]
    planned = cli("expire", "--count", 0, "--dry-run", "--json").json
    valid("expire", planned)
    assert planned == {"erased": [last["id"]], "running": [], "dry_run": True}
    said = f"{last['id']} would be erased\n1 session would be erased\n"
    assert cli("expire", "--count", 0, "--dry-run").out == said
    assert cli("sessions", "--json").json["sessions"] == [last]
    assert cli("expire", "--yes", "--count", 0).out == f"{last['id']} is erased\n1 session erased\n"
    assert cli("sessions", "--json").json["sessions"] == []
    assert "erased" in cli("vacuum").out


@pytest.mark.parametrize("arguments", [[], ["--age", "soon"], ["--size", "much"]])
def test_a_retention_without_sense_is_refused(cli: Cli, store: Path, arguments: list[str]) -> None:
    """A retention without a limit is refused with the syntax of one."""
    assert store
    assert cli("expire", *arguments).code == Exit.USAGE


def test_redact_and_scrub(cli: Cli, store: Path, tmp_path: Path) -> None:
    """A redacted part is hidden at every version, and a scrub removes its bytes."""
    kept = tmp_path / "head.json"
    kept.write_text(cli("head", "--json").out)
    with eventlog.open(store) as opened:
        opened.session("ses_b2").user("Again: The tests fail", id="again")
    message = cli("show", "ses_a1", "--json").json["messages"][0]
    part = next(one["id"] for one in message["parts"] if "The tests fail" in one.get("text", ""))
    done = cli("redact", "ses_a1", part, "--yes", "--reason", "secret", "--json").json
    valid("redact", done)
    (other,) = done["occurrences"]
    assert (other["session"], other["kind"]) == ("ses_b2", "part-started")
    assert "ses_b2" in cli("redact", "ses_a1", part, "--yes").out
    cli("redact", "ses_b2", other["part"], "--no-search", "--yes")
    for version in (3, 8):
        assert "The tests fail" not in cli("view", "ses_a1", "--at", version).out
    assert files_with(store, "The tests fail")
    valid("scrub", cli("scrub", "--json").json)
    assert not files_with(store, "The tests fail")
    assert "0 appends emptied" in cli("scrub").out
    assert cli("verify", "--deep", "--against", kept).code == Exit.OK
    assert cli("redact", "ses_a1", "nothing", "--yes").code == Exit.MISSING


def test_repair(cli: Cli, store: Path, tmp_path: Path) -> None:
    """A repair saves what is sound, lists what is lost, and exits with 1 after a loss."""
    kept = tmp_path / "head.json"
    kept.write_text(cli("head", "--json").out)
    done = cli("repair", "--into", tmp_path / "r", "--json")
    valid("repair", done.json)
    assert (done.code, done.json["losses"], done.json["sessions"]) == (Exit.OK, [], 2)
    assert cli("--store", tmp_path / "r", "verify", "--deep", "--against", kept).code == Exit.OK
    data = store / "1" / "lmdb" / "data.mdb"
    data.write_bytes(bytes(8192) + data.read_bytes()[8192:])
    assert "eventlog repair" in cli("sessions").err
    damaged = cli("repair", "--into", tmp_path / "r2", "--json")
    valid("repair", damaged.json)
    assert damaged.code == Exit.FAULTS
    assert damaged.json["losses"]
    again = cli("repair", "--into", tmp_path / "r3")
    assert "2 sessions (erased ones included), " in again.out
    assert "lost: store: " in again.out
    assert cli("repair", "--into", tmp_path / "r").code == Exit.USAGE
    with (tmp_path / "r" / "1" / "lmdb" / "data.mdb").open("r+b") as cut:  # a store that no journal is of
        cut.truncate(8192)
    lost = cli("--store", tmp_path / "r", "repair", "--into", tmp_path / "r5")
    assert lost.out.endswith("no session could be reached: restore a backup (`eventlog restore`)\n")
    assert cli("--store", tmp_path / "none", "repair", "--into", tmp_path / "r4").code == Exit.MISSING
