"""Two counts of messages, each the same everywhere: of the transcript, and of the view."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import eventlog
from eventlog import events as ev
from eventlog.values import MessageError, Model
from projections.inspector import answers
from projections.inspector.room import Room
from tests.support.cli_runner import Cli
from tests.support.inspected_store import long_talk


def test_each_count_is_one_number(cli: Cli, tmp_path: Path) -> None:
    """After removals, rollbacks, queued messages and compactions, on every surface."""
    with eventlog.open(tmp_path / "store") as store:
        long_talk(store, rounds=6)
        small = store.create_session(id="small")
        gone = small.user("never mind")
        small.user("one")
        small.user("two")
        small.user("later", delivery="queue")
        small.remove_message(gone)
        seen = {name: answers.view(Room(store, name), {})["messages"] for name in ("talk", "small")}
        headed = {info.id: info.messages for info in store.sessions()}
    assert seen["talk"] < headed["talk"]
    for name, of_the_view in seen.items():
        stats = cli("stats", name, "--json").json["session"]
        assert sum(stats["messages"].values()) == headed[name]
        shown = cli("show", name, "--json").json["messages"]
        assert sum(not message.get("removed") for message in shown) == headed[name]
        listed = cli("sessions", "--json").json["sessions"]
        assert [each["messages"] for each in listed if each["id"] == name] == [headed[name]]
        assert stats["view"]["messages"] == len(cli("view", name, "--json").json["messages"]) == of_the_view
        assert re.search(rf"^{of_the_view} messages? of the view", cli("view", name).out, re.MULTILINE)


def test_a_total_counts_each_message_once(cli: Cli, tmp_path: Path) -> None:
    """Inherited messages count in the numbers of a fork, and in no total again."""
    with eventlog.open(tmp_path / "store", keys=True) as store:
        session = store.create_session(id="talk")
        first, second = session.user("one"), session.user("two")
        fork = session.fork(id="fork")
        fork.remove_message(first)
        fork.rollback(before=fork.user("hidden"))
        fork.user("three")
        fork.remove_message(fork.user("gone"))
        fork.fork(id="again").user("four")
        session.rollback(before=second)
        assert {info.id: info.messages for info in store.sessions()} == {"talk": 1, "fork": 2, "again": 3}
    keys = ("--key-file", tmp_path / "store.keys")
    assert cli(*keys, "stats", "--json").json["store"]["messages"] == 3
    assert "3 user, 0 assistant, inherited ones included" in cli(*keys, "stats", "again").out
    assert cli(*keys, "export", "--format", "sqlite", "--output", tmp_path / "all.db").code == 0
    with closing(sqlite3.connect(tmp_path / "all.db")) as connection:
        assert connection.execute("SELECT sum(messages) FROM sessions").fetchone() == (3,)
    assert cli("stats", "--json").json["store"]["messages"] == 6, "without keys nobody knows what was inherited"


def test_a_total_counts_once_what_a_fork_tells_again(cli: Cli, tmp_path: Path) -> None:
    """An import into a fork tells messages again; replies and errors count once, too."""
    told: list[tuple[int, ev.Event]] = [
        (1, ev.UserMessageAdded("u")),
        (2, ev.AssistantMessageStarted("a", reply_to="u", model=Model("acme", "one"))),
        (3, ev.MessageFinished("a", error=MessageError("api", "broken"))),
    ]
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="talk")
        session.user("one")
        forks = [session.fork(id="fork"), session.fork(id="other")]
        for each in (session, *forks, store.create_session(id="unrelated")):
            with each.lease():
                each.append(told)
        forks[0].fork(id="again").user("new")
    sums = cli("stats", "--by", "model", "--json").json["models"]
    assert [(each["replies"], each["errors"]) for each in sums] == [(2, 2)]
    assert cli("stats", "--json").json["store"]["messages"] == 1 + 2 + 1 + 2


@pytest.mark.parametrize(("remove", "parts", "calls"), [("nothing", 4, 2), ("a message", 2, 1), ("a part", 3, 1)])
def test_parts_and_calls_are_those_of_counted_messages(
    cli: Cli, tmp_path: Path, remove: str, parts: int, calls: int
) -> None:
    """Where a message or a part was removed, its parts and calls are in no number either."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="talk")
        session.user("list both")
        for number in range(2):
            with session.assistant(model="acme/one", id=f"msg_{number}") as reply:
                reply.tool("bash", call_id=f"c{number}", input={}, id=f"prt_{number}").succeed("done")
                if number == 0:
                    reply.add_text("the first")
                reply.finish("stop")
        if remove == "a message":
            session.remove_message("msg_0")
        elif remove == "a part":
            session.remove_part("prt_1")
    found = cli("stats", "talk", "--json").json["session"]
    assert (sum(found["parts"].values()), sum(tool["calls"] for tool in found["tools"])) == (parts, calls)
