"""The index of lists: made when it is first needed, kept by folds, disposable."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from random import Random
from subprocess import Popen
from threading import Event
from typing import Any

import pytest

from eventlog.errors import BusyError
from eventlog.log.contract import Log, place_of
from eventlog.log.embedded.engine import EmbeddedLog, open_log
from eventlog.log.embedded.segments.segments import Segments
from eventlog.log.validation import RESERVED
from tests.eventlog.log.test_lists import ids, lists_of, put
from tests.support.crash_writer import KillingIO, Shared, child
from tests.support.faulty_io import FaultyIO
from tests.support.python_process import ROOT, printed
from tests.support.sample_sessions import begin

OTHER = """
import sys
from eventlog.log.embedded.engine import open_log
from tests.eventlog.log.test_lists import lists_of, put
log = open_log(sys.argv[1], lists_of=None if sys.argv[2] == "without" else lists_of)
for number in range(3):
    put(log, f"s{number}", 100 + number, b"b")
log._partition.fold()
log.close()
"""


BUSY = """
import random, sys
from tests.eventlog.log.test_lists import lists_of, put
from eventlog.log.embedded.engine import open_log
log = open_log(sys.argv[1], lists_of=lists_of, fold_bytes=4096)
while True:
    put(log, f"s{random.randrange(40)}", random.randrange(1000), None)
"""


def opened(path: Path, **options: Any) -> EmbeddedLog:
    """A log with lists."""
    return open_log(path, lists_of=lists_of, **options)


def filled(path: Path, count: int = 9, **options: Any) -> None:
    """Make a store by a program that has no lists."""
    log = open_log(path, **options)
    for number in range(count):
        put(log, f"s{number}", number, b"a")
    log.close()


def segments_of(log: EmbeddedLog) -> Segments:
    """The folded part of a log."""
    return log._partition.tail.segments


def is_current(log: EmbeddedLog) -> bool:
    """Whether the index is there and goes as far as the folded part."""
    segments = segments_of(log)
    with segments.environment.reading() as txn:
        return segments.lists.reaches(txn, segments.folded_in(txn).position)


def rows(log: EmbeddedLog) -> dict[bytes, bytes]:
    """The stored rows of the index."""
    segments = segments_of(log)
    tree = segments.environment.trees["derived"]
    with segments.environment.reading() as txn, txn.cursor(tree) as cursor:
        return {bytes(key): bytes(value) for key, value in cursor if bytes(key).startswith(RESERVED)}


def newest(log: Log) -> list[str]:
    """Ids of the whole list."""
    return ids(log.newest([b"a", b"b"], limit=99))


def change(log: EmbeddedLog, key: bytes, value: bytes | None) -> None:
    """Write or delete a row of the index behind the log's back."""
    segments = segments_of(log)
    tree = segments.environment.trees["derived"]
    segments.environment.writing(
        lambda txn: txn.delete(key, db=tree) if value is None else txn.put(key, value, db=tree)
    )


def test_a_store_of_an_earlier_program_gets_its_index_when_it_is_listed(tmp_path: Path) -> None:
    """The first list makes the index, no fold; then folds and other processes keep it."""
    path = tmp_path / "s"
    filled(path)
    with_lists = opened(path)
    put(with_lists, "t", 50, b"a")
    with_lists._partition.fold()
    assert rows(with_lists) == {}
    assert newest(with_lists)[:2] == ["t", "s8"]
    assert is_current(with_lists)
    put(with_lists, "s0", 60, b"")
    put(with_lists, "s1", 61, None)
    with_lists._partition.fold()
    assert is_current(with_lists)
    assert len(rows(with_lists)) == 1 + 9
    assert newest(with_lists)[:3] == ["s1", "t", "s8"]
    printed(OTHER, path, "with")
    assert is_current(with_lists)
    assert newest(with_lists)[:4] == ["s2", "s1", "s0", "t"]
    assert with_lists.check() == []
    with_lists.close()


def test_an_index_that_another_program_left_behind_is_made_anew(tmp_path: Path) -> None:
    """A fold without lists leaves the index as it was; it is not used, and made anew."""
    path = tmp_path / "s"
    filled(path)
    log = opened(path)
    assert newest(log)[0] == "s8"
    log.close()
    printed(OTHER, path, "without")
    with_lists = opened(path)
    assert not is_current(with_lists)
    assert with_lists.check() == []
    assert newest(with_lists)[:4] == ["s2", "s1", "s0", "s8"]
    assert is_current(with_lists)
    assert len(rows(with_lists)) == 1 + 9
    with_lists.close()


def test_a_reader_lists_without_an_index_and_writes_none(tmp_path: Path) -> None:
    """A store opened for reading is listed by its heads, and stays as it is."""
    path = tmp_path / "s"
    filled(path)
    log = opened(path, read_only=True)
    assert newest(log) == [f"s{number}" for number in range(8, -1, -1)]
    assert rows(log) == {}
    log.close()


def test_a_process_killed_while_the_index_is_made(tmp_path: Path) -> None:
    """Wherever it dies, the next one lists the same and has a whole index."""
    at = 0
    while True:
        at += 1
        path = tmp_path / str(at)
        filled(path)

        def work(io: KillingIO, path: Path = path) -> None:
            log = opened(path, io=io)
            newest(log)
            os._exit(0)

        io = KillingIO(Shared(), at, "before")
        io.armed = True
        _, status = os.waitpid(child(partial(work, io)), 0)
        assert status in {0, signal.SIGKILL}
        alive = not status
        log = opened(path)
        assert newest(log) == [f"s{number}" for number in range(8, -1, -1)]
        assert is_current(log)
        assert log.check() == []
        log.close()
        if alive:
            break
    assert at > 3


@pytest.mark.parametrize("what", ["flipped", "missing", "foreign", "mark"])
def test_a_damaged_index_is_found_and_made_anew(tmp_path: Path, what: str) -> None:
    """`check` tells a row that is damaged, missing or wrong; a damaged one is not listed by."""
    path = tmp_path / "s"
    filled(path)
    log = opened(path)
    whole = newest(log)
    before = rows(log)
    mark, *keys = sorted(before)
    key = keys[4]
    if what == "flipped":
        change(log, key, bytes([before[key][0] ^ 1]) + before[key][1:])
    elif what == "missing":
        change(log, key, None)
    elif what == "foreign":
        change(log, key, before[keys[5]])
    else:
        change(log, mark, b"\0" * len(before[mark]))
    faults = log.check()
    assert len(faults) == (what != "mark")
    assert all("index of lists" in fault for fault in faults)
    if what != "missing":  # a row that is not there is not seen by a page
        assert newest(log) == whole
        assert rows(log) == before
        assert log.check() == []
    log.close()


@pytest.mark.parametrize("processes", [False, True])
def test_lists_while_others_append_and_fold(tmp_path: Path, *, processes: bool) -> None:
    """Each list that is read meanwhile is in order, and has every session once."""
    path = tmp_path / "s"
    filled(path, 40)
    log = opened(path, fold_bytes=4096)
    stopped = Event()

    def append(seed: int) -> None:
        chance = Random(seed)
        while not stopped.is_set():
            put(log, f"s{chance.randrange(40)}", chance.randrange(1000), None)

    writers = [begin(partial(append, seed)) for seed in range(2)]
    other = Popen([sys.executable, "-c", BUSY, path], cwd=ROOT) if processes else None
    try:
        for _ in range(150):
            heads = log.newest([b"a"], limit=99)
            assert len({head.session for head in heads}) == 40
            places = [place_of(head) for head in heads]
            assert places == sorted(places, reverse=True)
    finally:
        stopped.set()
        if other is not None:
            other.kill()
            other.wait()
    for writer in writers:
        writer.result(60)
    log._partition.fold()
    assert log.check() == []
    log.close()


def test_no_room_for_the_index(tmp_path: Path) -> None:
    """Where the index cannot be written, a list is made from all heads."""
    io = FaultyIO()
    io.refused["index: begun"] = BusyError("no room to fold")
    path = tmp_path / "s"
    filled(path)
    log = opened(path, io=io)
    assert newest(log)[0] == "s8"
    assert rows(log) == {}
    log.close()


def test_a_log_is_shared_with_a_handle_that_has_no_lists(tmp_path: Path) -> None:
    """A second handle without `lists_of` joins; the first one's folds keep the index."""
    path = tmp_path / "s"
    first = opened(path)
    second = open_log(path)
    put(second, "s", 1, b"a")
    assert newest(first) == ["s"]
    assert newest(second) == ["s"]
    second.close()
    first.close()
