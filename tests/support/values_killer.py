"""A program that kills its own writer of values again and again, and looks at the rest.

Usage: `python -m tests.support.values_killer DIRECTORY MODE SEED KILLS`.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.filesystem import JournalIO
from eventlog.open_log import open_log as open_encrypted
from eventlog.session.values import StoredValue, Values
from eventlog.store import Store
from tests.support.crash_writer import SMALL, KillingIO, Shared, child, must_succeed

KEYS = 40
BEGUN, DONE, FIRST = range(3)
"""Slots: commands begun, commands acknowledged; the numbers of the commands follow."""


def opened(directory: Path, io: JournalIO | None, *, encrypted: bool) -> Store:
    """Open the store, with small files."""
    if encrypted:
        return Store(open_encrypted(directory, keys=directory.with_name("keys")))
    return Store(open_log(directory, io=io or JournalIO(), **SMALL))


def command(number: int) -> tuple[str, str | bytes | None]:
    """The n-th command: a key, and the value that it puts, None to drop it."""
    chance = random.Random(number)
    key = f"key {chance.randrange(KEYS)}"
    kind = chance.randrange(6)
    if not kind:
        return key, None
    text = f"{number} " * (1 if kind < 4 else 700)
    return key, text.encode() if kind % 2 else text


def run(values: Values, number: int) -> None:
    """Give a command; every third one on condition that nothing came between."""
    key, value = command(number)
    expected = values.revision(key) if number % 3 == 0 else None
    if value is None:
        values.drop(key, expected=expected)
    else:
        values.put(key, value, expected=expected)


def write(directory: Path, shared: Shared, io: JournalIO | None, start: int, *, encrypted: bool) -> None:
    """Give commands without end; most of them one by one, some in a pipeline."""
    store = opened(directory, io, encrypted=encrypted)
    session = store.session("s")
    if isinstance(io, KillingIO):
        io.armed = True
    for number in range(start, start + 5_000):
        shared.put(BEGUN, number + 1)
        run(session.values, number)
        shared.put(DONE, number + 1)
    raise AssertionError("the writer was not killed")


def expected(upto: int) -> dict[str, str | bytes]:
    """The values after the commands before number `upto`."""
    state: dict[str, str | bytes] = {}
    for number in range(upto):
        key, value = command(number)
        state.pop(key, None)
        if value is not None:
            state[key] = value
    return state


def look(directory: Path, shared: Shared, *, encrypted: bool) -> None:
    """Compare what is left with what was acknowledged, with the index and without it."""
    with opened(directory, None, encrypted=encrypted) as store:
        values = store.session("s").values
        found = list(values.items())
        state = {each.key: each.value for each in found}
        done, begun = shared.get(DONE), shared.get(BEGUN)
        assert state in (expected(done), expected(begun)), "an acknowledged value is gone, or another one came back"
        shared.put(DONE, begun if state == expected(begun) else done)
        for each in found:
            assert values.get(each.key) == each, "one key says something else than all keys"
        for key in store.log.engine.derived_keys(b""):
            store.log.engine.put_derived([(key, None)])
        again: list[StoredValue] = list(values.items())
        assert again == found, "the index was not what the events say"


def main(directory: Path, mode: str, seed: int, kills: int) -> None:
    """Kill as many writers as asked for."""
    chance = random.Random(seed)
    shared = Shared()
    encrypted = mode.startswith("encrypted ")
    mode = mode.removeprefix("encrypted ")

    def begin() -> None:
        with opened(directory, None, encrypted=encrypted) as store:
            store.create_session(id="s")

    must_succeed(begin)
    for _ in range(kills):
        io = None if mode == "moment" else KillingIO(shared, chance.randrange(1, 60), mode)
        process = child(partial(write, directory, shared, io, shared.get(DONE), encrypted=encrypted))
        if io is None:
            time.sleep(chance.uniform(0.05, 0.4))
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            sys.exit(f"a writer ended with status {status}")
        must_succeed(partial(look, directory, shared, encrypted=encrypted))
    print(kills)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
