"""Power fails after any call of a workload; each possible disk is opened and compared."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from eventlog.errors import DamagedError
from eventlog.integrity.heads import StoreHead
from eventlog.log.commit import Committed
from eventlog.open_log import open_log
from eventlog.store import Store
from tests.faults.tally import SLOW, tally
from tests.support.faults.abandoned_store import copied_as_left
from tests.support.faults.agent import finished, open_agent, sound, turn
from tests.support.faults.encrypted_stores import KINDS, keys_for, said_of
from tests.support.faults.images import HOW, Image, image_of
from tests.support.faults.planned_appends import OPTIONS, compare, complete, probe_here, scratch, workload
from tests.support.faults.recording import Call, Recording, recorded

ROOT = Path(__file__).resolve().parents[2]
IMAGES = {"plain": 6000 if SLOW else 120, "encrypted": 2000 if SLOW else 40}
AGENT_IMAGES = {"plain": 3000 if SLOW else 40, "encrypted": 1000 if SLOW else 15}
TURNS = 12 if SLOW else 8
PLAN = workload()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probe without a child process, for speed."""
    probe_here(monkeypatch)


def record(store: Path, patch: pytest.MonkeyPatch, keys: Path | None = None) -> Recording:
    """Run the plan in groups of one to four, with derived values, to an orderly close."""
    open_log(store, keys=keys, **OPTIONS).close()
    chance = random.Random(3)
    with recorded(store, patch) as (io, begin, acknowledge):
        log = open_log(store, keys=keys, io=io, **OPTIONS)
        recording = begin()
        waiting = list(PLAN)
        while waiting:
            group = [waiting.pop(0) for _ in range(min(len(waiting), chance.randrange(1, 5)))]
            tickets = [log.submit(append) for append in group]
            for ticket in tickets:
                acknowledge(ticket.wait(60))
            log.put_derived([(b"derived", b"%d" % len(waiting))])
        log.close()
    return recording


def record_agent(path: Path, patch: pytest.MonkeyPatch, keys: Path | None) -> Recording:
    """Run an agent's turns, with tools, compactions and checkpoints."""
    open_log(path, keys=keys, **OPTIONS).close()
    with recorded(path, patch) as (io, begin, acknowledge):
        store, session = open_agent(open_log(path, keys=keys, io=io, **OPTIONS))
        recording = begin()
        with store:
            for number in range(TURNS):
                turn(session, number, acknowledge)
    return recording


def spread(calls: list[Call], most: int, chance: random.Random) -> list[int]:
    """Moments at which the power fails; three quarters of them are right before a flush."""
    moments = range(1, len(calls) + 1)
    due = {"flush", "flush names", "lmdb ends", "rename"}
    telling = [moment for moment in moments if moment == len(calls) or calls[moment].what in due]
    return sorted(chance.choices(telling, k=most * 3 // 4) + chance.choices(moments, k=most - most * 3 // 4))


def fail(
    recording: Recording, most: int, look: Callable[[Path, Image, int], int], chance: random.Random
) -> Counter[str]:
    """Fail the power at most `most` times and check what is left; count the findings."""
    found: Counter[str] = Counter()
    with scratch() as directory:
        for number, count in enumerate(spread(recording.calls, most, chance)):
            how = HOW[number % len(HOW)]
            image = image_of(recording, count, how, chance)
            path = directory / "image"
            image.write(path)
            try:
                found["recovered"] += look(path, image, number)
            except Exception as error:
                raise AssertionError(f"a power failure after call {count} of {len(recording.calls)}, {how}") from error
            shutil.rmtree(path)
            found[how] += 1
            found["acknowledged"] += len(image.acknowledged)
    return found


def look_at_log(path: Path, image: Image, number: int, keys: Path | None = None) -> int:
    """Open and compare; every eighth time go on with the rest of the plan."""
    acknowledged = [one for one in image.acknowledged if isinstance(one, Committed)]
    go_on = number % 8 == 0
    log = open_log(path, keys=keys, read_only=not go_on, **OPTIONS)
    try:
        count = compare(log, PLAN, acknowledged)
        if go_on:
            complete(log, PLAN)
    finally:
        log.close()
    if go_on:
        log = open_log(path, keys=keys, **OPTIONS)
        assert compare(log, PLAN, acknowledged) == len(PLAN)
        log.close()
    return count


def look_at_agent(path: Path, image: Image, number: int, keys: Path | None) -> int:
    """Verify deep against the newest reported head; every tenth time finish the agent."""
    kept = next((head for head in reversed(image.acknowledged) if isinstance(head, StoreHead)), None)
    go_on = number % 10 == 0
    store = Store(open_log(path, keys=keys, read_only=not go_on, **OPTIONS))
    with store:
        count = sound(store, kept)
    if go_on:
        store, session = open_agent(open_log(path, keys=keys, **OPTIONS))
        with store:
            for question in range(TURNS):
                turn(session, question, lambda _head: None)
            sound(store, kept)
            finished(session, TURNS)
    return count


@pytest.mark.promise(1, 2, 3, 5, 12)
@pytest.mark.parametrize("kind", KINDS)
def test_a_power_failure_at_any_moment(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promises 1-3, 5, 12: acknowledged ⊆ recovered in order, nothing half, no error."""
    keys = keys_for(tmp_path / "store", kind)
    recording = record(tmp_path / "store", monkeypatch, keys)
    found = fail(recording, IMAGES[kind], partial(look_at_log, keys=keys), random.Random(5))
    assert found["acknowledged"]
    tally("power failure, appends" + said_of(kind), IMAGES[kind], calls=len(recording.calls), **found)


@pytest.mark.promise(1, 2, 3, 7, 11)
@pytest.mark.parametrize("kind", KINDS)
def test_a_power_failure_under_an_agent(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promises 1-3, 7, 11: durable events are unchanged, replay equals live, agent goes on."""
    keys = keys_for(tmp_path / "store", kind)
    recording = record_agent(tmp_path / "store", monkeypatch, keys)
    found = fail(recording, AGENT_IMAGES[kind], partial(look_at_agent, keys=keys), random.Random(6))
    assert found["acknowledged"]
    fault = "power failure, an agent with tools and compactions" + said_of(kind)
    tally(fault, AGENT_IMAGES[kind], calls=len(recording.calls), **found)


def test_the_images_lose_what_was_not_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log whose flushes do nothing loses acknowledged appends in the built images."""
    recording = record(tmp_path / "store", monkeypatch)
    recording.calls = [call for call in recording.calls if call.what not in {"flush", "flush names"}]
    image = image_of(recording, len(recording.calls), "lost", random.Random(1))
    image.write(tmp_path / "image")
    assert image.acknowledged
    with pytest.raises((AssertionError, DamagedError)):
        look_at_log(tmp_path / "image", image, 1)


@pytest.mark.promise(2, 12)
def test_a_mark_that_never_reached_the_disk(tmp_path: Path) -> None:
    """Promises 2, 12: a store with an empty watermark file is read to its end and followed."""
    path = tmp_path / "store"
    log = open_log(path, **OPTIONS)
    acknowledged = [log.submit(append).wait(30) for append in PLAN[:20]]
    copied_as_left(path, tmp_path / "left")
    log.close()
    (tmp_path / "left" / "mark").write_bytes(b"")
    reader = open_log(tmp_path / "left", read_only=True, **OPTIONS)
    assert compare(reader, PLAN, acknowledged) == 20
    goes_on = (
        "import sys; from eventlog.log.embedded.engine import open_log; from tests.support.faults.planned_appends import OPTIONS, workload\n"
        "log = open_log(sys.argv[1], **OPTIONS)\n"
        "[log.submit(append).wait(30) for append in workload()[20:30]]\n"
        "log.close()\n"
    )
    subprocess.run([sys.executable, "-c", goes_on, str(tmp_path / "left")], cwd=ROOT, check=True, timeout=60)
    assert compare(reader, PLAN, acknowledged) == 30
    reader.close()
