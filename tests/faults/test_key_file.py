"""The key file under kills, refusals and power loss: issued keys stay, destroyed go."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from eventlog.encryption.key_file import KeyFile
from eventlog.errors import StorageError
from tests.faults.tally import SLOW, tally
from tests.support.faults.disk import HOW, Recorder
from tests.support.faults.planned_appends import scratch
from tests.support.faults.tracing import CHANGES, SHORT, Call, traced
from tests.support.faults.upkeep_crash import ERRORS, Breaker

pytestmark = pytest.mark.usefixtures("tracing")

TOLD = "told"
"""The record outside the store: a line for each key issued and each key destroyed."""
WORK = ("make",) * 5 + ("destroy 1", "make", "destroy 4", "make", "destroy 0", "make", "make")
"""Work on lines across sectors, and on keys at the beginning, middle and end."""
STEP = 1 if SLOW else 7
IMAGES = 40 if SLOW else 6


def told(place: Path) -> list[list[str]]:
    """The lines of the record."""
    return [line.split() for line in (place / TOLD).read_text().splitlines()]


def work(place: Path) -> None:
    """Make and destroy keys in sequence, continuing behind the recorded steps."""
    file = KeyFile(place / "d" / "keys")
    known = told(place)
    with (place / TOLD).open("a", encoding="ascii", buffering=1) as stream:
        for number, what in list(enumerate(WORK))[len(known) :]:
            if what == "make":
                name = random.Random().randbytes(16).hex()
                known.append(["made", name, file.make(name).hex()])
            else:
                name = known[int(what.split()[1])][1]
                file.destroy(name)
                known.append(["destroyed", name])
            stream.write(" ".join(known[number]) + "\n")


def look(place: Path) -> None:
    """Compare what is left with the record, before and after the rest of the work."""
    for _ in range(2):
        known = told(place)
        going = {one[1] for one in known if one[0] == "destroyed"}
        coming = WORK[len(known)] if len(known) < len(WORK) else ""
        going_now = known[int(coming.split()[1])][1] if coming.startswith("destroy") else ""
        file = KeyFile(place / "d" / "keys")
        for what, name, *digits in known:
            found = file.find(name)
            if what == "destroyed":
                assert found is None, "a destroyed key came back"
            elif name == going_now:
                assert found is None or found.hex() == digits[0]
            elif name not in going:
                assert found is not None, "a key that was given out is gone"
                assert found.hex() == digits[0]
        if known:
            assert file.find("0" * 32) is None, "a key that never was is not said to be none"
        held = b"".join(path.read_bytes() for path in place.glob("d/*"))
        for what, name, *digits in known:
            assert what == "destroyed" or name not in going or digits[0].encode() not in held, "its digits are there"
        work(place)
    assert [path.name for path in place.glob("d/*")] == ["keys"]


def begun(place: Path) -> Recorder:
    """An empty place without any work done."""
    place.mkdir()
    (place / TOLD).touch()
    return Recorder(place)


def break_off(place: Path, recorder: Recorder, breaker: Breaker) -> None:
    """Break the work off; return every call that was made."""

    def decide(call: Call) -> int | None:
        if Path(call.path).name == TOLD:
            return recorder.note(call)
        answer = breaker.decide(call)
        if answer == 0:
            recorder.note(call)
        elif call.name == "write" and (answer == SHORT or breaker.half):
            recorder.note(call._replace(data=call.data[: len(call.data) // 2]))
        return answer

    def refused() -> None:
        with suppress(StorageError):
            work(place)

    assert traced(refused, decide).status <= 0


def fail_power(recorder: Recorder, directory: Path, images: int, chance: random.Random, first: int = 0) -> int:
    """Check what is left when the power fails at some moments after the `first` calls."""
    moments = [moment for moment in recorder.telling() if moment > first]
    chosen = moments if images >= len(moments) else chance.sample(moments, images)
    for number, moment in enumerate(chosen, chance.randrange(len(HOW))):
        image = directory / "image"
        recorder.image(image, moment, HOW[number % len(HOW)], chance, told=frozenset({TOLD}))
        look(image)
        shutil.rmtree(image)
    return len(chosen)


def every_call(directory: Path, try_one: Callable[[Path, Recorder, int], str]) -> int:
    """Try call after call until there is none so late; return how many were tried."""
    tried, at = 0, 1
    while True:
        place = directory / "place"
        recorder = begun(place)
        met = try_one(place, recorder, at)
        shutil.rmtree(place)
        if not met:
            return tried
        tried += 1
        at += STEP


@pytest.mark.promise(1)
def test_the_power_fails_at_any_call() -> None:
    """Promise 1: after a power failure issued keys are there and destroyed ones are not."""
    chance = random.Random(1)
    with scratch() as directory:
        recorder = begun(directory / "place")
        assert traced(partial(work, directory / "place"), recorder.note).status == 0
        tried = sum(fail_power(recorder, directory, 1000, chance) for _ in range(40 if SLOW else 4))
    assert tried > len(WORK)
    tally("power failure under a key file", tried)


@pytest.mark.promise(1)
@pytest.mark.parametrize("half", [False, True], ids=["before", "half"])
def test_a_kill_at_any_call_and_then_the_power(*, half: bool) -> None:
    """Promise 1: a kill, another program's work and a power failure cost no key."""
    chance = random.Random(half)
    images = 0

    def kill(place: Path, recorder: Recorder, at: int) -> str:
        nonlocal images
        breaker = Breaker(place, at, "kill", half=half)
        break_off(place, recorder, breaker)
        first = len(recorder.calls)
        copy = place.with_name("copy")
        shutil.copytree(place, copy, copy_function=copied())
        look(copy)
        shutil.rmtree(copy)
        assert traced(partial(work, place), recorder.note).status == 0
        images += fail_power(recorder, place.parent, IMAGES, chance, first)
        return breaker.met

    with scratch() as directory:
        tried = every_call(directory, kill)
    assert tried > len(CHANGES) // STEP
    tally("kill -9 under a key file", tried)
    tally("power failure under a key file", images)


@pytest.mark.promise(1)
def test_a_line_that_broke_off_is_gone_before_the_next_one_is_written() -> None:
    """Promise 1: a torn line and its torn replacement never look like a damaged key."""
    chance = random.Random(3)
    with scratch() as directory:
        place = directory / "place"
        place.mkdir()
        file = KeyFile(place / "d" / "keys")
        keys = {name: file.make(name) for name in (f"{number:032x}" for number in range(4))}
        with file.path.open("ab") as stream:
            stream.write(b"0" * 40)
        recorder = Recorder(place)
        assert traced(lambda: file.make("f" * 32), recorder.note).status == 0
        for moment in recorder.telling() * 20:
            recorder.image(directory / "image", moment, "torn", chance)
            left = KeyFile(directory / "image" / "d" / "keys")
            assert {name: left.find(name) for name in keys} == keys
            assert left.find("e" * 32) is None
            shutil.rmtree(directory / "image")


@pytest.mark.promise(1, 12)
@pytest.mark.parametrize("way", ERRORS)
def test_a_call_is_refused_and_then_the_power(way: str) -> None:
    """Promises 1, 12: a refused call is a typed error and costs no key at a power failure."""
    chance = random.Random(way)
    images = 0

    def refuse(place: Path, recorder: Recorder, at: int) -> str:
        nonlocal images
        breaker = Breaker(place, at, way, lasting=chance.random() < 0.3)
        break_off(place, recorder, breaker)
        first = len(recorder.calls)
        images += fail_power(recorder, place.parent, IMAGES // 2, chance, 0)
        assert traced(partial(work, place), recorder.note).status == 0
        images += fail_power(recorder, place.parent, IMAGES, chance, first)
        look(place)
        return breaker.met

    with scratch() as directory:
        tried = every_call(directory, refuse)
    assert tried
    tally(f"a system call fails under a key file: {way}", tried)
    tally("power failure under a key file", images)


def copied() -> Callable[[str, str], str]:
    """A function that copies a directory's files and preserves hard links."""
    made: dict[int, str] = {}

    def copy(source: str, target: str) -> str:
        number = Path(source).stat().st_ino
        if number in made:
            Path(target).hardlink_to(made[number])
        else:
            made[number] = shutil.copy2(source, target)
        return target

    return copy
