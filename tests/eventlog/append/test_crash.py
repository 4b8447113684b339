"""`kill -9` of streaming writers, 100 times, and several processes on one session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import eventlog
from eventlog import events as ev
from tests.faults.tally import SLOW, tally
from tests.support.python_process import ROOT


def start(module: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a program of the tests."""
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.support.{module}", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(program: subprocess.Popen[str]) -> str:
    """Return the output of a program; fail with its error output."""
    output, errors = program.communicate(timeout=240)
    assert program.returncode == 0, errors
    return output.strip()


@pytest.mark.promise(1, 2, 3)
@pytest.mark.parametrize(
    ("mode", "seed", "kills"),
    [("moment", 1, 25), ("moment", 2, 25), ("before", 3, 25), ("half", 4, 25)],
    ids=["a random moment", "another random moment", "before a call inside a commit", "half way through a write"],
)
def test_nothing_durable_is_lost_when_a_writer_is_killed(tmp_path: Path, mode: str, seed: int, kills: int) -> None:
    """Promises 1-3: after `kill -9` all that was durable is there, and is settled once."""
    assert outcome(start("crash_writer", tmp_path / "store", mode, seed, kills)) == str(kills)


def race(directory: Path, way: str, count: int, processes: int = 2) -> list[str]:
    """Let several processes write to one session at once; returns what each printed."""
    with eventlog.open(directory) as store:
        store.create_session(id="session")
    programs = [start("race_writer", directory, "session", f"w{number}", way, count) for number in range(processes)]
    return [outcome(program) for program in programs]


@pytest.mark.promise(4)
def test_two_processes_have_exactly_one_winner_per_version(tmp_path: Path) -> None:
    """Promise 4: each version has one winner, and both processes finish, without a livelock."""
    count = 60
    attempts = [int(printed) for printed in race(tmp_path / "store", "version", count)]
    with eventlog.open(tmp_path / "store") as store:
        session = store.session("session")
        won = [recorded.event for recorded in session.events(1)]
        assert session.version == 1 + 2 * count
    for name in ("w0", "w1"):
        own = [event.data for event in won if isinstance(event, ev.Custom) and event.namespace == name]
        assert own == [str(number) for number in range(count)]
    assert all(count <= tries <= 50 * count for tries in attempts)


@pytest.mark.promise(5)
def test_two_processes_that_send_one_request_id_have_one_result(tmp_path: Path) -> None:
    """Promise 5: two processes that use the same request ids get the first result of each."""
    count = 5_000 if SLOW else 250
    one, two = (printed.splitlines() for printed in race(tmp_path / "store", "request", count))
    assert one == two
    with eventlog.open(tmp_path / "store") as store:
        events = [recorded.event for recorded in store.session("session").events()]
    messages = [event.message for event in events if isinstance(event, ev.UserMessageAdded)]
    assert len(one) == len(messages) == len(set(messages)) == count
    tally("request ids sent by two processes at once", count)


@pytest.mark.promise(4)
def test_eight_processes_and_a_lease_holder_all_get_through(tmp_path: Path) -> None:
    """Promise 4: of many writers to one session none fails because others come before it."""
    count, answers = (500 if SLOW else 100), 6
    with eventlog.open(tmp_path / "store") as store:
        store.create_session(id="session")
    programs = [
        start("race_writer", tmp_path / "store", "session", f"w{number}", "message", count) for number in range(8)
    ]
    programs.append(start("race_writer", tmp_path / "store", "session", "holder", "lease", answers))
    assert [outcome(program) for program in programs] == [str(count)] * 8 + [str(answers)]
    with eventlog.open(tmp_path / "store") as store:
        events = [recorded.event for recorded in store.session("session").events(1)]
    added = [event.message for event in events if isinstance(event, ev.UserMessageAdded)]
    for name in (f"w{number}" for number in range(8)):
        assert [message for message in added if message.startswith(f"{name} ")] == [
            f"{name} {number}" for number in range(count)
        ]
    finished = [event.message for event in events if isinstance(event, ev.MessageFinished)]
    assert finished == [f"holder {number}" for number in range(answers)]
    words = "".join(event.text for event in events if isinstance(event, ev.PartDelta))
    assert words == "".join(f"{word} " for word in range(20)) * answers
    tally("user messages of eight processes to one session", 8 * count)


def test_two_processes_take_turns_under_the_lease(tmp_path: Path) -> None:
    """Waiting for the lease, two processes stream whole messages that never mix."""
    race(tmp_path / "store", "lease", 4)
    with eventlog.open(tmp_path / "store") as store:
        events = [recorded.event for recorded in store.session("session").events(1)]
        epochs = [recorded.epoch for recorded in store.session("session").events(1)]
    messages: list[str] = []
    words: dict[str, str] = {}
    for event in events:
        if isinstance(event, ev.AssistantMessageStarted):
            assert len(messages) == len(words), "a message began inside another"
            messages.append(event.message)
        elif isinstance(event, ev.PartDelta):
            assert event.part == f"text {messages[-1]}"
            words[event.part] = words.get(event.part, "") + event.text
    assert sorted(messages) == [f"{name} {number}" for name in ("w0", "w1") for number in range(4)]
    assert set(words.values()) == {"".join(f"{word} " for word in range(20))}
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 8
    assert not any(isinstance(event, ev.Settled) for event in events)


def test_an_id_used_by_two_processes_is_taken_once(tmp_path: Path) -> None:
    """Ids are unique in a session, also when two processes bring the same at once."""
    won = [printed.split("\n") if printed else [] for printed in race(tmp_path / "store", "id", 40)]
    everything = sorted(won[0] + won[1])
    assert everything == sorted(f"message {number}" for number in range(40))
    with eventlog.open(tmp_path / "store") as store:
        added = [
            recorded.event.message
            for recorded in store.session("session").events()
            if isinstance(recorded.event, ev.UserMessageAdded)
        ]
    assert sorted(added) == everything


def test_what_was_accepted_is_committed_when_the_interpreter_exits(tmp_path: Path) -> None:
    """A program that simply ends loses nothing it accepted, and gives its lease back."""
    program = (
        "import eventlog, sys\n"
        "session = eventlog.open(sys.argv[1], flush_interval=60.0).create_session(id='s')\n"
        "session.executor.acquire()\n"
        "reply = session.assistant(id='m')\n"
        "reply.begin()\n"
        "text = reply.stream_text(id='p')\n"
        "text.append('kept')\n"
    )
    subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(tmp_path / "store")],
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with eventlog.open(tmp_path / "store") as store:
        session = store.session("s")
        events = [recorded.event for recorded in session.events()]
        assert events[-1] == ev.PartDelta("p", "text", "kept")
        head = store.log.head("s")
        assert head is not None
        assert head.lease.until == 0
