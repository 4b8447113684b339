"""Words that name sessions, messages and parts by a beginning or an end of the id."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import eventlog
from projections.cli.exits import Exit
from projections.cli.short_ids import ShortIds
from tests.support.cli_runner import Cli, on_terminal
from tests.support.cli_sessions import talk


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A store with two sessions, whose ids end alike but for the last characters."""
    path = tmp_path / "store"
    with eventlog.open(path) as opened:
        for end in ("alpha", "beta"):
            session = opened.create_session(id=f"ses_0123456789_{end}")
            session.user("Which test failed?", id=f"message_one_{end}")
            with session.assistant(model="acme/one", id=f"message_two_{end}") as reply:
                reply.tool("bash", call_id="c", input={"command": "ls"}, id=f"part_call_{end}").succeed("a\nb\n")
                reply.finish("stop")
    return path


@pytest.mark.parametrize(
    "command",
    [
        "show NAME",
        "view NAME",
        "events NAME",
        "timeline NAME",
        "stats NAME",
        "diff NAME 1 2",
        "audit NAME",
        "window NAME",
        "tail NAME",
        "verify NAME",
        "prove NAME --version 1",
        "explain NAME message_one",
        "recall NAME part_call",
        "export NAME --format jsonl",
        "fork NAME",
        "prune NAME --context 9000",
        "rollback NAME --to 1",
        "undo NAME",
        "redact NAME part_call --yes",
        "erase NAME --yes",
        "sessions --parent NAME",
        "search failed --session NAME",
    ],
)
def test_every_command_takes_an_end(cli: Cli, named: Path, command: str) -> None:
    """The end of an id does as well as its beginning; an ambiguous one lists the candidates."""
    assert named
    if command.startswith("undo"):
        cli("rollback", "9_beta", "--to", 1)
    assert cli(*command.replace("NAME", "9_beta").split()).code == Exit.OK
    refused = cli(*command.replace("NAME", "ses_0123").split())
    assert refused.code == (Exit.OK if command == "erase NAME --yes" else Exit.USAGE)
    assert "ses_0123456789_alpha" in refused.err


def test_sessions_by_a_name(cli: Cli, named: Path) -> None:
    """A session is named as the table of sessions shows its name, also by a short one."""
    with eventlog.open(named) as store:
        store.names.give("ses_0123456789_alpha", ("a", "b"))
    shown = cli("sessions").out
    assert "a:b" in shown
    assert cli("show", "a:b").out == cli("show", "9_alpha").out
    assert cli("show", "a:c").code == Exit.MISSING


def test_parts_and_messages_by_an_end(cli: Cli, named: Path) -> None:
    """`recall` and `explain` take the end of an id; an ambiguous one is refused."""
    assert named
    assert cli("recall", "9_beta", "call_beta").out == "a\nb\n"
    assert cli("explain", "9_beta", "two_beta", "--json").json["id"] == "message_two_beta"
    refused = cli("explain", "9_beta", "message_")
    assert (refused.code, "message_one_beta, message_two_beta" in refused.err) == (Exit.USAGE, True)
    assert cli("explain", "9_beta", "nothing-like-it").code == Exit.MISSING


def test_compactions_by_an_end(cli: Cli, tmp_path: Path) -> None:
    """`recall --covered` and `explain` take the short name that `window` shows."""
    talk(tmp_path / "store")
    done = cli("compact", "talk", "--json").json
    drawn = on_terminal("--store", tmp_path / "store", "window", "talk")[1]
    shown = re.search(r"compacted at version \d+: compaction (\S+), ", drawn)
    assert shown is not None
    assert (len(shown[1]), done["compaction"].endswith(shown[1])) == (8, True)
    assert cli("recall", "talk", "--covered", shown[1], "--json").json["compaction"] == done["compaction"]
    assert cli("explain", "talk", shown[1], "--json").json["id"] == done["compaction"]


def test_rollback_to_before_a_message(cli: Cli, named: Path) -> None:
    """`rollback --before` returns to the version right before a message was added."""
    assert named
    before = cli("view", "9_beta", "--json").json
    done = cli("rollback", "9_beta", "--before", "two_beta", "--json").json
    assert [message["role"] for message in cli("view", "9_beta", "--json").json["messages"]] == ["user"]
    assert done["version"] == before["version"] + 1
    assert cli("undo", "9_beta").code == Exit.OK
    assert cli("view", "9_beta", "--json").json["messages"] == before["messages"]
    for wrong in ([], ["--to", "1", "--before", "message_one"]):
        refused = cli("rollback", "9_beta", *wrong)
        assert (refused.code, "--to V or --before MESSAGE|V" in refused.err) == (Exit.USAGE, True)


def test_a_short_id_is_never_ambiguous() -> None:
    """Of ids alike at an end, or that are the end of others, none is shortened to that end."""
    ids = ["x" * 20 + "1", "y" * 20 + "1", "z" * 30 + "same-end", "w" * 30 + "same-end", "short", "k" * 40, "k" * 41]
    short = ShortIds([*ids, *ids])  # an id that is listed twice is still one
    assert short.of(ids[0]) == "x" * 7 + "1"
    shown = [short.of(name) for name in ids]
    assert len(set(shown)) == len(ids)
    for name, word in zip(ids, shown, strict=True):
        begins = [each for each in ids if each.startswith(word)]
        meant = [word] if word in ids else begins or [each for each in ids if each.endswith(word)]
        assert meant == [name]


def test_a_number_is_a_version(cli: Cli, tmp_path: Path) -> None:
    """A number never stands for an id that begins or ends with it; the very id comes first."""
    with eventlog.open(tmp_path / "store") as opened:
        session = opened.create_session(id="session")
        for number in range(4):
            session.user("question", id=f"message_{number}0000003")
        session.user("by its number", id="4")
        version = session.version
    done = cli("rollback", "session", "--before", 3)
    assert done.code == Exit.OK
    assert "session is as it was at version 2 " in done.out
    assert cli("undo", "session").code == Exit.OK
    assert "right before 4 " in cli("rollback", "session", "--before", "4").out
    assert cli("undo", "session").code == Exit.OK
    for wrong, code in (("0000003", Exit.USAGE), ("1", Exit.USAGE), ("10000003", Exit.MISSING)):
        assert cli("rollback", "session", "--before", wrong).code == code
    for command in ("explain session 0000003", "recall session 10000003", "redact session 10000003 --yes"):
        refused = cli(*command.split())
        assert (refused.code, "a number is a version, not a piece" in refused.err) == (Exit.MISSING, True)
    assert cli("sessions", "--json").json["sessions"][0]["version"] == version + 4


@pytest.mark.parametrize("word", ["b", "eta", "_beta", "ses_0"])
@pytest.mark.parametrize(
    "command", ["show WORD", "rollback 9_beta --before WORD", "redact 9_beta WORD --yes", "erase WORD --yes", "explain 9_beta WORD"]
)  # fmt: skip
def test_a_piece_of_an_id_has_a_least_length(cli: Cli, named: Path, command: str, word: str) -> None:
    """Fewer than six characters name nothing but an id that they are the whole of."""
    assert named
    refused = cli(*command.replace("WORD", word).split())
    assert (refused.code, "from 6 characters on" in refused.err) == (Exit.MISSING, True)


@pytest.mark.parametrize(
    ("command", "taken"),
    [
        ("rollback 9_beta --to 1", "ses_0123456789_beta"),
        ("rollback ses_0123456789_beta --before two_beta", "message_two_beta"),
        ("recall ses_0123456789_beta call_beta", "part_call_beta"),
        ("redact ses_0123456789_beta call_beta --yes", "part_call_beta"),
        ("fork 9_beta", "ses_0123456789_beta"),
        ("erase 9_beta --yes", "ses_0123456789_beta"),
    ],
)
def test_a_command_says_what_it_took(cli: Cli, named: Path, command: str, taken: str) -> None:
    """A command that changes a session, or reads a part, names the id that it took."""
    assert named
    done = cli(*command.split())
    assert done.code == Exit.OK
    assert f"is taken for {taken}" in done.err.replace("for session ", "for ")


def test_no_short_id_is_a_number() -> None:
    """Of an id that begins and ends in digits a piece is shown that has a letter, or all."""
    ids = ["12345678-abcd-87654321", "00000000000000000000012345678"]
    assert [ShortIds(ids).of(name).isdecimal() for name in ids[:1]] == [False]
    assert ShortIds(ids).of(ids[1]) == ids[1]
