"""The command line on encrypted stores, with and without the key file."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventlog
from eventlog.errors import KeyMissingError
from eventlog.testing.file_search import files_with
from projections.cli.exits import Exit
from tests.support.cli_runner import Cli, program, valid
from tests.support.encrypted_store import leaks


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The key file's path."""
    return tmp_path / "my.keys"


def test_import_makes_an_encrypted_store(cli: Cli, tmp_path: Path, stream: Path, keys: Path) -> None:
    """With --key-file a new store is encrypted, and every command reads it."""
    assert cli("--key-file", keys, "import", stream).code == 0
    assert not files_with(tmp_path / "store", "Hello there")
    name = cli("sessions", "--json", f"--key-file={keys}").json["sessions"][0]["id"]
    for command in (["show", name], ["view", name], ["export", name, "--format", "markdown"], ["events", name]):
        assert "Hello" in cli(*command, "--key-file", keys).out
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENTLOG_KEY_FILE", str(keys))
        assert "Hello" in cli("show", name).out
        assert cli("verify", "--deep").code == 0
        assert cli("stats", name).code == 0
        assert cli("audit", name).code == 0
        assert cli("import", stream, "--json").json["files"]


def test_a_backup_with_keys_makes_an_encrypted_store(cli: Cli, tmp_path: Path, stream: Path, keys: Path) -> None:
    """`backup --keys` makes an encrypted store of a plain one, with the same sessions."""
    assert cli("import", stream).code == 0
    shown = cli("sessions", "--json").json
    made = cli("backup", tmp_path / "e", "--keys", keys, "--json")
    assert (made.code, made.json["whole"]) == (0, True)
    assert not files_with(tmp_path / "e", "Hello there")
    where = ("--store", tmp_path / "e", "--key-file", keys)
    assert cli(*where, "sessions", "--json").json == shown
    assert cli(*where, "verify", "--deep").code == 0
    again = cli("backup", tmp_path / "e", "--keys", keys)
    assert again.code != 0
    assert "Traceback" not in again.err
    assert cli(*where, "backup", tmp_path / "b", "--keys", keys).code == Exit.USAGE


def test_without_the_key_file_it_says_what_to_name(cli: Cli, stream: Path, keys: Path, tmp_path: Path) -> None:
    """Without keys lists, hashes and backups work; content exits with 3 and the option's name."""
    assert cli("--key-file", keys, "import", stream).code == 0
    (listed,) = cli("sessions", "--json").json["sessions"]
    assert (listed["title"], listed["locked"]) == ("", True)
    assert "no key" in cli("sessions").out
    head = tmp_path / "head.json"
    head.write_text(cli("head", "--json").out)
    report = cli("verify", "--against", head, "--json")
    valid("verify", report.json)
    assert (report.code, report.json["locked"], report.json["sessions"][0]["locked"]) == (0, 1, True)
    said = cli("verify").out
    assert "no content was read" in said
    assert said.endswith("read: no fault; content of 1 session not checked: no key\n")
    assert cli("--key-file", keys, "verify").out.endswith("read: all sound\n")
    assert cli("--key-file", keys, "verify", "--json").json["locked"] == 0
    assert cli("prove", listed["id"], "--version", "2", "--json").json["version"] == 2
    assert cli("backup", tmp_path / "b").code == 0
    for command in (
        ["show", listed["id"]],
        ["view", listed["id"]],
        ["export", listed["id"], "--format", "jsonl"],
        ["import", stream],
    ):
        answer = cli(*command)
        assert answer.code == Exit.MISSING, (command, answer)
        assert "--key-file" in answer.err
        assert "Traceback" not in answer.err


def test_keys_that_do_not_fit_are_a_wrong_call(cli: Cli, store: Path, stream: Path, keys: Path, tmp_path: Path) -> None:
    """A wrong key file ends with exit code 2 and a line, one that is not there with 3."""
    with eventlog.open(tmp_path / "other", keys=keys):
        pass
    for arguments, code, said in (
        (["--key-file", keys, "sessions"], Exit.USAGE, "not encrypted"),
        (["--key-file", keys, "import", stream], Exit.USAGE, "not encrypted"),
        (["--store", tmp_path / "other", "--key-file", tmp_path / "none", "sessions"], Exit.MISSING, "no key file"),
    ):
        answer = cli(*arguments)
        assert (answer.code, said in answer.err) == (code, True), answer
    assert store.exists()
    assert not (tmp_path / "none").exists()


def test_erasing_ends_the_key_in_every_backup(cli: Cli, store: Path, tmp_path: Path, keys: Path) -> None:
    """`erase` destroys the key: an earlier backup lists the session and cannot show it."""
    del store
    path, backup = tmp_path / "e", tmp_path / "b"
    with eventlog.open(path, keys=keys) as opened:
        opened.create_session(id="p").user("the secret")
    where = ["--store", path, "--key-file", keys]
    assert cli(*where, "backup", backup).code == 0
    assert cli(*where, "erase", "p", "--yes").code == 0
    assert cli("--store", backup, "--key-file", keys, "show", "p").code == Exit.MISSING
    assert "no key" in cli("--store", backup, "--key-file", keys, "sessions").out


def test_the_demo_makes_an_encrypted_store_that_is_named(tmp_path: Path, keys: Path) -> None:
    """`demo` encrypts a named store, and writes no key for a temporary one."""
    done = program("--store", tmp_path / "d", "--key-file", keys, "demo")
    assert (done.returncode, f"--key-file {keys}" in done.stdout) == (0, True), done.stderr
    assert not leaks(tmp_path)
    with eventlog.open(tmp_path / "d", read_only=True) as opened:
        assert all(info.locked for info in opened.sessions())
    before = keys.read_bytes()
    assert program("demo", env={"EVENTLOG_KEY_FILE": str(keys), "PATH": ""}).returncode == 0
    assert keys.read_bytes() == before


def test_every_session_without_its_key_is_marked(cli: Cli, tmp_path: Path, keys: Path) -> None:
    """Lists mark each session whose key is gone, in the table, in JSON and in the API."""
    with eventlog.open(tmp_path / "store", keys=keys) as store:
        kept = store.create_session(id="a", title="kept")
        kept.user("hello")
        kept.fork(id="a-fork")
        lost = store.create_session(id="b", title="lost")
        lost.user("hello")
        lost.fork(id="b-fork")
        lost.subsession(id="b-sub").archive()
    header, *lines = keys.read_text().splitlines()
    for gone in range(1, len(lines)):  # the first is the store's own
        keys.write_text("\n".join([header, *lines[:gone], *lines[gone + 1 :]]) + "\n")
        with eventlog.open(tmp_path / "store", keys=keys, read_only=True) as store:
            locked = {info.id for info in store.sessions() if info.locked}
        listed = cli("sessions", "--json", "--key-file", keys).json["sessions"]
        assert locked == {info["id"] for info in listed if info["locked"]} != set()
        assert locked in ({"a", "a-fork"}, {"b", "b-fork"}, {"b-sub"})
        assert all(
            info["title"] in {"kept", "lost", ""} and bool(info["locked"]) == (info["id"] in locked) for info in listed
        )
        assert cli("sessions", "--key-file", keys).out.count("no key") == len(locked)
    listed = cli("sessions", "--json").json["sessions"]
    assert len(listed) == 5
    assert all(info["locked"] for info in listed)


def test_what_cannot_be_read_without_keys_is_not_told_as_nothing(cli: Cli, tmp_path: Path, keys: Path) -> None:
    """Without keys a scope is an error, not an empty one, and tokens are left out, not 0."""
    with eventlog.open(tmp_path / "store", keys=keys) as store:
        session = store.create_session(id="mine", scope="alice")
        session.user("my address")
        session.record_usage(eventlog.Usage(eventlog.Tokens(900)), model="acme/one")
    for words in (["erase", "--scope", "alice", "--yes"], ["sessions", "--scope", "alice"]):
        refused = cli(*words)
        assert (refused.code, "--key-file" in refused.err) == (Exit.MISSING, True)
    with eventlog.open(tmp_path / "store") as store, pytest.raises(KeyMissingError):
        store.erase_scope("alice")
    header, row = (line.split("\t") for line in cli("sessions").out.splitlines())
    assert dict(zip(header, row, strict=True))["tokens"] == ""
    counted = cli("stats", "--json")
    valid("stats", counted.json)
    assert counted.json["store"]["locked"] == 1
    assert "1 session without a key are in no sum; messages that a fork" in cli("stats").err
    assert cli("erase", "--scope", "alice", "--yes", "--key-file", keys).out.startswith("mine is erased")
