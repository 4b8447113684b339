"""Each call of the journal's I/O fails in each way: promises hold, work goes on."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from eventlog.errors import CallError, EventlogError
from eventlog.integrity.heads import StoreHead
from eventlog.open_log import open_log
from eventlog.store import Store
from tests.faults.tally import SLOW, tally
from tests.support.faults.abandoned_store import copied_as_left
from tests.support.faults.agent import SESSION, finished, open_agent, sound, turn
from tests.support.faults.caller import Caller
from tests.support.faults.encrypted_stores import KINDS, keys_for, said_of
from tests.support.faults.failing_io import FAULTS, FailingIO
from tests.support.faults.planned_appends import OPTIONS, compare, workload

STEP = {"plain": 1 if SLOW else 19, "encrypted": 3 if SLOW else 57}
"""One call of so many is made to fail."""


QUIET = {"unlink", "rename"}
"""Harmless calls to fail: removing a file, preparing the next one."""
LAST = (["open"], ["pwrite"])
"""Failing calls of a close without harm: the journal stays in the file it has."""
TURNS = 5
PLAN = workload()[: 60 if SLOW else 40]


@pytest.mark.promise(1, 3, 5, 12)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "until healed"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_call_in_turn_fails(tmp_path: Path, fault: str, kind: str, *, lasting: bool) -> None:
    """Promises 1, 3, 5, 12: at any failing call acknowledged ⊆ recovered, in order, typed."""
    at = 1 + FAULTS.index(fault) if not SLOW else 1
    tried = 0
    errors: Counter[str] = Counter()
    while True:
        io = FailingIO(fault, at, lasting=lasting)
        path = tmp_path / f"{at}"
        keys = keys_for(path, kind)
        caller = Caller(path, PLAN, io.heal, io=io, keys=keys)
        caller.run()
        shutil.rmtree(path)
        if not io.met:
            break
        tried += 1
        errors += caller.errors
        at += STEP[kind]
    assert tried
    tally("an I/O call fails: " + fault + said_of(kind), tried, **errors)


def opens(path: Path, keys: Path | None, io: FailingIO, *, read_only: bool) -> bool:
    """Whether the store opens and closes; a refusal must not blame the caller."""
    refused: EventlogError | None = None
    try:
        open_log(path, keys=keys, io=io, read_only=read_only, **OPTIONS).close()
    except EventlogError as error:
        refused = error
    assert not isinstance(refused, CallError), repr(refused)
    return refused is None


@pytest.mark.promise(12)
@pytest.mark.parametrize("fault", ["EIO", "EMFILE", "short"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_call_of_opening_fails(tmp_path: Path, fault: str, kind: str) -> None:
    """Promise 12: any failing call at opening after a crash is a typed, harmless error."""
    original = tmp_path / "original"
    keys = keys_for(original, kind)
    log = open_log(original, keys=keys, **OPTIONS)
    acknowledged = [log.submit(append).wait(30) for append in PLAN]
    copied_as_left(original, tmp_path / "left")
    log.close()
    tried = 0
    at = 1
    while True:
        io = FailingIO(fault, at, lasting=True)
        path = tmp_path / "copy"
        shutil.copytree(tmp_path / "left", path)
        if opens(path, keys, io, read_only=bool(at % 2)):
            assert not io.met or fault == "short" or set(io.met) <= QUIET or io.met in LAST
        log = open_log(path, keys=keys, **OPTIONS)
        compare(log, PLAN, acknowledged)
        log.close()
        shutil.rmtree(path)
        if not io.met:
            break
        tried += 1
        at += 1 if SLOW else 3
    tally("an I/O call fails while a store is opened: " + fault + said_of(kind), tried)


@pytest.mark.promise(1, 7, 11, 12)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_call_under_an_agent_fails(tmp_path: Path, fault: str, kind: str) -> None:
    """Promises 1, 7, 11, 12: an agent with a failing disk gets typed errors and goes on."""
    at, tried = (1, 0) if SLOW else (3, 0)
    errors: Counter[str] = Counter()
    while True:
        io = FailingIO(fault, at, lasting=bool(at % 2))
        path = tmp_path / f"{at}"
        errors += outlive(path, keys_for(path, kind), io)
        shutil.rmtree(path)
        if not io.met:
            break
        tried += 1
        at += {"plain": 5, "encrypted": 15}[kind] if SLOW else 300
    assert tried
    tally("an I/O call under an agent fails: " + fault + said_of(kind), tried, **errors)


def outlive(path: Path, keys: Path | None, io: FailingIO) -> Counter[str]:
    """Run an agent through a fault, reopening its store when told; count the errors."""
    told: list[StoreHead] = []
    errors: Counter[str] = Counter()
    for _ in range(5):
        store: Store | None = None
        try:
            store, session = open_agent(open_log(path, keys=keys, io=io, **OPTIONS))
            for number in range(TURNS):
                turn(session, number, told.append)
            store.close()
            break
        except EventlogError as error:
            errors[type(error).__name__] += 1
            if store is not None:
                with suppress(EventlogError):
                    store.close()
            io.heal()
    with Store(open_log(path, keys=keys, **OPTIONS)) as store:
        sound(store, told[-1])
        finished(store.session(SESSION), TURNS, failed=errors.total())
    return errors
