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
            session.user("Which test failed?", id=f"msg_one_{end}")
            with session.assistant(model="acme/one", id=f"msg_two_{end}") as reply:
                reply.tool("bash", call_id="c", input={"command": "ls"}, id=f"prt_call_{end}").succeed("a\nb\n")
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
        "explain NAME msg_one",
        "recall NAME prt_call",
        "export NAME --format jsonl",
        "fork NAME",
        "prune NAME --context 9000",
        "rollback NAME --to 1",
        "undo NAME",
        "redact NAME prt_call --yes",
        "erase NAME --yes",
        "sessions --parent NAME",
        "search failed --session NAME",
    ],
)
def test_every_command_takes_an_end(cli: Cli, named: Path, command: str) -> None:
    """The end of an id does as well as its beginning; an ambiguous one lists the candidates."""
    assert named
    if command.startswith("undo"):
        cli("rollback", "_beta", "--to", 1)
    assert cli(*command.replace("NAME", "_beta").split()).code == Exit.OK
    refused = cli(*command.replace("NAME", "ses_0123").split())
    assert (refused.code, "ses_0123456789_alpha" in refused.err) == (
        (Exit.OK, False) if command == "erase NAME --yes" else (Exit.USAGE, True)
    )


def test_parts_and_messages_by_an_end(cli: Cli, named: Path) -> None:
    """`recall` and `explain` take the end of an id; an ambiguous one is refused."""
    assert named
    assert cli("recall", "_beta", "call_beta").out == "a\nb\n"
    assert cli("explain", "_beta", "two_beta", "--json").json["id"] == "msg_two_beta"
    refused = cli("explain", "_beta", "msg_")
    assert (refused.code, "msg_one_beta, msg_two_beta" in refused.err) == (Exit.USAGE, True)
    assert cli("explain", "_beta", "nothing-like-it").code == Exit.MISSING


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
    before = cli("view", "_beta", "--json").json
    done = cli("rollback", "_beta", "--before", "two_beta", "--json").json
    assert [message["role"] for message in cli("view", "_beta", "--json").json["messages"]] == ["user"]
    assert done["version"] == before["version"] + 1
    assert cli("undo", "_beta").code == Exit.OK
    assert cli("view", "_beta", "--json").json["messages"] == before["messages"]
    for wrong in ([], ["--to", "1", "--before", "msg_one"]):
        refused = cli("rollback", "_beta", *wrong)
        assert (refused.code, "--to V or --before MESSAGE" in refused.err) == (Exit.USAGE, True)


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
