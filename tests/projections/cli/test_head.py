"""`eventlog head`, `prove` and `verify --against`: changes of the past are found."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import eventlog
from projections.cli.exits import Exit
from projections.verify.check_proof import check
from tests.support.cli_runner import Cli, program, valid
from tests.support.forger import careful, forgeries, rewrite

pytestmark = pytest.mark.promise(11)


def keep(cli: Cli, path: Path) -> Path:
    """Write the store's head to a file."""
    path.write_text(cli("head", "--json").out)
    return path


def test_the_head_is_printed(cli: Cli, store: Path, tmp_path: Path) -> None:
    """`head` prints the digest, `head --json` the heads; both change with every event."""
    document = cli("head", "--json").json
    valid("head", document)
    assert cli("head").out == document["digest"] + "\n"
    kept = keep(cli, tmp_path / "head.json")
    with eventlog.open(store) as opened:
        opened.session("ses_b2").user("more")
    assert cli("head").out != document["digest"] + "\n"
    for arguments in ([], ["ses_b2"], ["--deep"]):
        answer = cli("verify", *arguments, "--against", kept, "--json")
        assert answer.code == Exit.OK, answer
        valid("verify", answer.json)


@pytest.mark.parametrize("tree", [False, True])
def test_verify_names_the_first_bad_version(cli: Cli, store: Path, tmp_path: Path, *, tree: bool) -> None:
    """A changed event is named by its version, or by a range if all hashes were forged."""
    kept = keep(cli, tmp_path / "head.json")
    with eventlog.open(store) as opened:
        commits = list(opened.log.read("ses_a1"))
        opened.session("ses_b2").user("more")
    forgery = next(one for one in forgeries(commits) if one.name.startswith("edited") and one.version > 3)
    rewrite(store, "ses_a1", careful(forgery.commits) if tree else forgery.commits, tree=tree)
    answer = cli("verify", "ses_a1", "--json", "--against", kept)
    assert answer.code == Exit.FAULTS
    valid("verify", answer.json)
    (report,) = answer.json["sessions"]
    assert report["first_bad"] <= forgery.version
    assert tree or report["first_bad"] == forgery.version
    assert re.search(r"ses_a1 at version \d+: ", cli("verify", "--against", kept).out)


def test_verify_finds_a_session_that_is_gone(cli: Cli, store: Path, tmp_path: Path) -> None:
    """A session of the saved head that is not in the store is named."""
    with eventlog.open(store) as opened:
        opened.create_session(id="ses_c3")
    kept = keep(cli, tmp_path / "head.json")
    other = tmp_path / "other"
    with eventlog.open(other) as opened:
        opened.create_session(id="ses_c3")
    for arguments in ([], ["ses_b2"]):
        answer = cli("--store", other, "verify", *arguments, "--against", kept, "--json")
        assert answer.code == Exit.FAULTS
        assert "ses_b2" in {entry["id"] for entry in answer.json["sessions"] if entry["first_bad"] == 1}


def test_a_proof_is_printed_and_holds(cli: Cli, store: Path, tmp_path: Path) -> None:
    """`prove --json` prints what the checker takes; without --json, readable roots."""
    kept = keep(cli, tmp_path / "head.json")
    with eventlog.open(store) as opened:
        fork = opened.session("ses_a1").fork(id="ses_f")
        fork.user("more")
    for arguments, head in (([], None), (["--against", kept], json.loads(kept.read_text()))):
        answer = cli("prove", "ses_f", "--version", 3, *arguments, "--json")
        valid("prove", answer.json)
        assert answer.json["session"] == "ses_a1", "that is where it lies"
        assert check(answer.json, head)
    assert cli("head").out.strip() in cli("prove", "ses_f", "--version", 3, "--against", kept).out
    assert cli("prove", "ses_a1", "--version", 9999).code == Exit.MISSING
    assert cli("prove", "ses_a1", "--version", 0).code == Exit.USAGE


def test_a_file_that_is_no_head(cli: Cli, store: Path, tmp_path: Path) -> None:
    """A file that is no head, or a changed one, is a wrong call that names the file."""
    kept = keep(cli, tmp_path / "head.json")
    changed = tmp_path / "changed.json"
    changed.write_text(kept.read_text().replace("ses_b2", "ses_b3"))
    for name, code, words in (
        (changed, Exit.USAGE, "changed.json"),
        (store / "format", Exit.USAGE, "not the head of a store"),
        (tmp_path / "nothing", Exit.MISSING, "no such file"),
        (cli("head").out.strip(), Exit.USAGE, "head --json"),
    ):
        for command in (["verify"], ["prove", "ses_b2", "--version", "1"]):
            answer = cli(*command, "--against", name)
            assert answer.code == code
            assert words in answer.err
            assert len(answer.err.splitlines()) == 1


def test_damaged_pages_do_not_kill_a_command(store: Path) -> None:
    """Promise 12: pages that would kill the reader are an error, and `verify` reports them."""
    data = store / "1" / "lmdb" / "data.mdb"
    os.truncate(data, data.stat().st_size // 2 & ~4095)
    for command in (["sessions"], ["rollback", "ses_a1", "--to", "1"]):
        done = program("--store", store, *command)
        assert done.returncode == Exit.DAMAGED, done
        assert "structure" in done.stderr
    done = program("--store", store, "verify", "--json")
    assert done.returncode == Exit.FAULTS
    document = json.loads(done.stdout)
    valid("verify", document)
    assert document["store"]
