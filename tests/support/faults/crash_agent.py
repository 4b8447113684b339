"""A program that kills an agent at every kind of work, checks the store, and resumes it.

Usage: `python -m tests.support.faults.crash_agent DIRECTORY SEED KILLS KIND WORK…`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eventlog import events as ev
from eventlog.encryption.key_file import KeyFile
from eventlog.history import checkpoint_store
from eventlog.integrity.heads import StoreHead
from eventlog.log.contract import Log
from eventlog.log.embedded.filesystem import JournalIO
from eventlog.log.embedded.segments.environment import Environment
from eventlog.open_log import open_log
from projections import ModelView
from projections.loop import CallModel, Compact, RequestCompaction, RunTools, Step
from projections.tokens.counter import TokenCounter
from tests.support.crash_writer import KillingIO, Shared, child, must_succeed
from tests.support.faults.agent import finished, open_agent, sound, turn
from tests.support.faults.encrypted_stores import has_keys, is_large, keep_keys, keys_of
from tests.support.faults.large_stores import WEIGHT, fill

OPTIONS: dict[str, Any] = {"journal_bytes": 32 << 10, "fold_bytes": 24 << 10, "map_bytes": 96 << 10}
"""Folds every few turns, and a map that begins too small for them."""
AHEAD = 6
"""Turns that an agent works without a kill before it stops."""
LIFE = 12
"""Kills of the agents of one store."""
TRIES = 60
"""Agents that may pass some kind of work without a kill."""
WORK: dict[str, tuple[type[Any], ...]] = {
    "stream": (CallModel,),
    "tools": (RunTools,),
    "compaction": (RequestCompaction, Compact),
    "settling": (),
    "checkpoint": (),
    "folding": (),
    "growth": (),
    "moment": (),
}
"""Kinds of work at which an agent is killed, and the loop steps that begin them."""


class Doom:
    """When one agent dies: at the `calls`-th disk operation after it has begun `work`."""

    def __init__(self, work: str, calls: int, mode: str) -> None:
        self.work = work
        self.io = KillingIO(Shared(), calls, mode)
        self.io.armed = work == "settling"

    def begins(self, work: str) -> None:
        """Note that the agent begins this work."""
        self.io.armed = self.io.armed or work == self.work
        self.passes()

    def passes(self) -> None:
        """Note that a counted point is reached, and die there if it is the one."""
        self.io.reach("passed")

    def watch(self, step: Step) -> None:
        """Observe the agent's next step."""
        if isinstance(step, WORK[self.work]):
            self.begins(self.work)

    def spread(self) -> None:
        """Count every disk operation outside the journal, too."""
        patch = pytest.MonkeyPatch()
        writing, resize, save = Environment.writing, Environment._resize, checkpoint_store.save
        make_key = KeyFile.make

        def write(environment: Environment, job: Callable[[Any], Any]) -> Any:
            def done(txn: Any) -> Any:
                result = job(txn)
                self.passes()
                return result

            self.begins("folding")
            result = writing(environment, done)
            self.passes()
            return result

        def grow(environment: Environment, size: int) -> None:
            self.begins("growth")
            resize(environment, size)
            self.passes()

        def keep(*given: Any, **more: Any) -> None:
            self.begins("checkpoint")
            save(*given, **more)
            self.passes()

        def make(keys: KeyFile, name: str) -> bytes:
            self.passes()
            key = make_key(keys, name)
            self.passes()
            return key

        patch.setattr(KeyFile, "make", make)
        patch.setattr(Environment, "writing", write)
        patch.setattr(Environment, "_resize", grow)
        patch.setattr(checkpoint_store, "save", keep)


def opened(directory: Path, **options: Any) -> Log:
    """Open the log of a place, with its keys if it has any."""
    return open_log(directory / "store", keys=keys_of(directory), **OPTIONS, **options)


def keep(directory: Path, head: StoreHead) -> None:
    """Store the head known to be durable in a file that is whole at every kill."""
    (directory / "head.new").write_text(head.text())
    (directory / "head.new").rename(directory / "head")


def answered(directory: Path) -> int:
    """How many turns are done."""
    file = directory / "turns"
    return int(file.read_text()) if file.exists() else 0


def live(directory: Path, doom: Doom | None, upto: int) -> None:
    """Run an agent up to a turn, with or without a kill planned."""
    io: JournalIO = JournalIO() if doom is None else doom.io
    if doom is not None:
        doom.spread()
    store, session = open_agent(opened(directory, io=io))
    with store:
        for number in range(answered(directory), upto):
            turn(session, number, partial(keep, directory), None if doom is None else doom.watch)
            (directory / "turns.new").write_text(str(number + 1))
            (directory / "turns.new").rename(directory / "turns")


def look(directory: Path) -> None:
    """Compare what is left with what was promised, read-only first, then under the lease."""
    head = directory / "head"
    kept = StoreHead.parse(head.read_text()) if head.exists() else None
    store, session = open_agent(opened(directory))
    with store:
        sound(store, kept)
        before, version = ModelView.of(session).digest, session.version
        with session.lease():
            pass
        assert ModelView.of(session).digest == before, "settling changed the view"
        state = session.reader.state()
        assert not state.open_messages(), "a message is open after it was settled"
        assert state.running_compaction() is None, "a compaction is open after it was settled"
        settled = [recorded.event for recorded in session.events(version)]
        assert sum(isinstance(event, ev.Settled) for event in settled) == bool(settled)
        version = session.version
        with session.lease():
            assert session.version == version, "settled twice"
        assert store.log.check() == []


def end(directory: Path, upto: int) -> None:
    """Check the end of an unkilled agent: everything asked once and answered."""
    store, session = open_agent(opened(directory))
    with store:
        sound(store, None)
        found = finished(session, upto)
    (directory / "compactions").write_text(json.dumps(found))


def kill(directory: Path, chance: random.Random, work: str, number: int) -> str:
    """Run one agent to its kill; return how it ended."""
    doom = Doom(
        work,
        1 + (number * 7) % 19 if work == "compaction" else chance.randrange(1, 24),
        chance.choice(["before", "half"]),
    )
    upto = answered(directory) + AHEAD
    process = child(partial(live, directory, doom, upto))
    if work == "moment":
        time.sleep(chance.uniform(0.02, 0.5))
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return "killed"
    if status:
        sys.exit(f"an agent ended with status {status}")
    return "survived"


def main(directory: Path, seed: int, kills: int, kind: str, *works: str) -> None:
    """Kill as often as asked for, at every kind of work in turn."""
    TokenCounter().count("loaded once, for all children")
    chance = random.Random(seed)
    found: Counter[str] = Counter()
    number = lives = 0
    while sum(found[work] for work in works) < kills or (not all(found[work] for work in works) and number < TRIES):
        place = directory / f"{lives}"
        place.mkdir()
        if has_keys(kind):
            keep_keys(place)
        if is_large(kind):
            must_succeed(partial(fill, place / "store", WEIGHT, keys=keys_of(place)))
        lives += 1
        for _ in range(LIFE):
            work = works[number % len(works)]
            number += 1
            ended = kill(place, chance, work, number)
            found[work if ended == "killed" else "survived"] += 1
            must_succeed(partial(look, place))
        upto = answered(place) + 1
        must_succeed(partial(live, place, None, upto))
        must_succeed(partial(end, place, upto))
        for how, times in json.loads((place / "compactions").read_text()).items():
            found[f"compactions {how}"] += times
        shutil.rmtree(place)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
