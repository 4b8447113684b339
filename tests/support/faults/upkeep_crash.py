"""A program that breaks off work on whole stores in every way and has it done again.

Usage: `python -m tests.support.faults.upkeep_crash DIRECTORY SEED TRIES KIND WAY WORK…`.
"""

from __future__ import annotations

import errno
import json
import logging
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

from eventlog.errors import CallError, EventlogError
from projections.tokens.counter import TokenCounter
from tests.support.crash_writer import child, must_succeed
from tests.support.faults.disk import HOW, Recorder
from tests.support.faults.tracing import CHANGES, SHORT, Call, traced
from tests.support.faults.upkeep import WORKS, Work
from tests.support.faults.whole_stores import TOLD, make_templates, patched

ERRORS = {
    "EIO": (errno.EIO, CHANGES | {"open"}),
    "ENOSPC": (errno.ENOSPC, frozenset({"create", "write", "mkdir", "allocate", "flush"})),
    "EMFILE": (errno.EMFILE, frozenset({"create", "open"})),
    "short": (SHORT, frozenset({"write"})),
}
"""A call's possible errors, with the calls that may return them."""
AGAIN = 2
"""At most this many of the repeated tries break off, too."""


class Breaker:
    """Decides, for `tracing.traced`, about the `at`-th call that counts."""

    def __init__(self, place: Path, at: int, way: str, *, half: bool = False, lasting: bool = False) -> None:
        self._place = f"{place}/"
        self._left = at
        self._code: int | None
        self._code, self._counts = ERRORS.get(way, (None, CHANGES))
        self.half = half
        self._lasting = lasting
        self.met = ""

    def decide(self, call: Call) -> int | None:
        """Let a call be made, or not."""
        if call.name not in self._counts or not call.path.startswith(self._place):
            return 0
        if Path(call.path).name.removesuffix(".new") in TOLD:  # the call is not on the store
            return 0
        self._left -= 1
        if self._left > 0 or (self._left < 0 and not self._lasting):
            return 0
        self.met = self.met or f"{call.name} {call.path}"
        if self._code is None and self.half and call.name == "write":
            with Path(call.path).open("r+b") as stream:
                stream.seek(call.offset)
                stream.write(call.data[: len(call.data) // 2])
        return self._code


class Harness:
    """One kind of work, in places below a directory."""

    def __init__(self, directory: Path, name: str, chance: random.Random) -> None:
        self._templates = directory / "templates"
        self._place = directory / "place"
        self._image = directory / "image"
        self._error = directory / "error"
        self._name = name
        self._work: Work = WORKS[name]
        self._chance = chance
        self.errors: Counter[str] = Counter()

    def begin(self) -> Path:
        """Make a new place."""
        self._error.unlink(missing_ok=True)
        shutil.copytree(self._templates / self._work.template, self._place)
        return self._place

    def record(self) -> Recorder:
        """Run the work without a fault; return its disk calls."""
        place = self.begin()
        recorder = Recorder(place)
        ended = traced(partial(self._run, place), recorder.note)
        if ended.status or self._error.exists():
            sys.exit(f"{self._name} failed without a fault: {ended}")
        self._tell("no fault", lambda: must_succeed(partial(self._work.done, place)))
        shutil.rmtree(place)
        return recorder

    def time(self) -> float:
        """Run the work without a fault; return its seconds."""
        place = self.begin()
        begun = time.monotonic()
        must_succeed(partial(self._run, place))
        took = time.monotonic() - begun
        shutil.rmtree(place)
        return took

    def _run(self, place: Path) -> None:
        """Run the work, and write the engine error that ended it to a file."""
        try:
            self._work.run(place)
        except EventlogError as error:
            wrong = isinstance(error, CallError) and not isinstance(error, self._work.finished)
            self._error.write_text(f"{'wrong ' if wrong else ''}{type(error).__name__}: {error}")

    def _recover(self, place: Path, *, again: bool = True) -> None:
        """Check; perhaps break the second try off, too; repeat and check that all is done."""
        must_succeed(partial(self._work.look, place))
        for _ in range(self._chance.randrange(AGAIN + 1) if again else 0):
            breaker = Breaker(place, self._chance.randrange(1, 60), "kill")
            if traced(partial(self._work.again, place), breaker.decide).status == 1:
                sys.exit("the second try failed")
            must_succeed(partial(self._work.look, place))
        must_succeed(partial(self._work.again, place))
        must_succeed(partial(self._work.done, place))
        shutil.rmtree(place)

    def kill(self, at: int) -> bool:
        """Kill at the `at`-th call; return whether the work made that many."""
        place = self.begin()
        breaker = Breaker(place, at, "kill", half=self._chance.random() < 0.4)
        ended = traced(partial(self._run, place), breaker.decide)
        if ended.status not in {0, -signal.SIGKILL}:
            sys.exit(f"{self._name} ended with status {ended.status}, {breaker.met}")
        self._tell(breaker.met, lambda: self._recover(place))
        return bool(breaker.met)

    def kill_after(self, seconds: float) -> bool:
        """Kill at a moment; return whether the work still ran."""
        place = self.begin()
        process = child(partial(self._run, place))
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        self._tell(f"after {seconds} s", lambda: self._recover(place))
        return os.WIFSIGNALED(status)

    def refuse(self, at: int, way: str) -> bool:
        """Refuse a call; return whether the work made that many."""
        place = self.begin()
        breaker = Breaker(place, at, way, lasting=self._chance.random() < 0.5)
        ended = traced(partial(self._run, place), breaker.decide)
        told = self._error.read_text() if self._error.exists() else ""
        lost = " lost: " in told and f"{place}/s/" not in breaker.met  # a loss in a store that could be read
        if ended.status or told.startswith("wrong") or lost:
            sys.exit(f"{self._name} ended with status {ended.status} {told!r}, {way} at {breaker.met}")
        if told:
            self.errors[told.split(":")[0]] += 1
        self._tell(f"{way} at {breaker.met}, {told}", lambda: self._recover(place, again=False))
        return bool(breaker.met)

    def fail_power(self, recorder: Recorder, count: int, how: str) -> None:
        """Fail the power and check what is left; completed work must stay."""
        recorder.image(self._image, count, how, self._chance, told=TOLD)
        what = f"power, {how}, after call {count}"
        if count == len(recorder.calls):
            self._tell(what, lambda: must_succeed(partial(self._work.done, self._image)))
            shutil.rmtree(self._image)
        else:
            self._tell(what, lambda: self._recover(self._image, again=False))

    def _tell(self, what: str, look: Callable[[], None]) -> None:
        try:
            look()
        except SystemExit:
            sys.exit(f"{self._name}, {what}: what is left is wrong")


def spread(calls: int, tries: int, chance: random.Random) -> list[int]:
    """That many of the numbers 1 … calls, evenly spread."""
    return [1 + int((number + chance.random()) * calls / tries) for number in range(tries)]


def main(directory: Path, seed: int, tries: int, kind: str, way: str, *works: str) -> None:
    """Break each kind of work off that often."""
    logging.disable()
    patched()
    TokenCounter().count("loaded once, for all children")
    directory = directory.resolve()
    if not (directory / "templates").exists():  # templates of large stores are made once for all ways
        (directory / "templates").mkdir()
        make_templates(directory / "templates", kind)
    found: dict[str, int] = {}
    errors: Counter[str] = Counter()
    for work in works:
        chance = random.Random(f"{seed} {way} {work}")
        harness = Harness(directory, work, chance)
        if way == "moment":
            took = harness.time()
            found[work] = 0
            for _ in range(3 * tries):  # some kills come after the work's end
                found[work] += harness.kill_after(chance.uniform(0, took))
                if found[work] == tries:
                    break
            continue
        recorder = harness.record()
        calls = len(recorder.calls)
        if way == "kill":
            found[work] = sum(harness.kill(at) for at in spread(calls, tries, chance))
        elif way == "power":
            telling = recorder.telling()
            moments = [telling[at - 1] for at in spread(len(telling), tries, chance)]
            for number, at in enumerate(moments, chance.randrange(len(HOW))):
                harness.fail_power(recorder, at, HOW[number % len(HOW)])
            harness.fail_power(recorder, calls, "lost")
            found[work] = tries + 1
        elif way == "unflushed":
            recorder.forget_flushes()
            harness.fail_power(recorder, len(recorder.calls), "lost")
        else:
            named = [way] if way in ERRORS else list(ERRORS)
            first = chance.randrange(len(named))
            faults = [named[(first + number) % len(named)] for number in range(tries)]
            names = [call.name for call, _ in recorder.calls]
            for number, fault in enumerate(faults):
                able = sum(name in ERRORS[fault][1] for name in names)  # few of all calls can fail in some ways
                at = spread(able, tries, chance)[number]
                found[work] = found.get(work, 0) + harness.refuse(at, fault)
        errors += harness.errors
    print(json.dumps({"tried": found, "errors": errors}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
