"""Lists of a log: `Log.newest` on every engine, against a sort of all heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest

from eventlog.errors import CallError
from eventlog.log.commit import Append, Head
from eventlog.log.contract import Log
from eventlog.log.embedded.engine import EmbeddedLog, open_log
from eventlog.log.memory import MemoryLog
from eventlog.log.postgres import session_lists
from eventlog.log.postgres.opening import open_log as open_server
from tests.support.postgres_server import give_back, new_place

Fold: TypeAlias = Callable[[], None]
NAMES = (b"a", b"b", b"c")


def lists_of(entry: bytes) -> Sequence[bytes]:
    """A test's entry names the session's lists itself."""
    return [name for name in NAMES if name in entry]


def put(log: Log, session: str, time: int, entry: bytes | None) -> None:
    """Append an event, the first one of a new session."""
    creates_at = 0 if log.head(session) is None else None
    log.submit(Append(session=session, payload=b"p", count=1, time=time, creates_at=creates_at, entry=entry)).wait()


def ids(heads: Sequence[Head]) -> list[str]:
    """Ids of heads, in their order."""
    return [head.session for head in heads]


@pytest.fixture(params=["memory", "partitioned", "embedded", "folded", "postgres", "postgres indexed"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Log, Fold]]:
    """A log, and a function that folds it, where the test says so."""
    if request.param.startswith("postgres"):
        if request.param == "postgres indexed":
            monkeypatch.setattr(session_lists, "MANY", 3)
        address = new_place()
        server = open_server(address, lists_of=lists_of)
        yield server, lambda: None
        server.close()
        give_back(address)
        return
    partitions = {"memory": 1, "partitioned": 4}.get(request.param)
    log: Log = (
        open_log(tmp_path / "s", lists_of=lists_of)
        if partitions is None
        else MemoryLog(lists_of, partitions=partitions)
    )

    def fold() -> None:
        if request.param == "folded" and isinstance(log, EmbeddedLog):
            log._partition.fold()

    yield log, fold
    log.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_list_is_a_sort_of_its_heads(place: tuple[Log, Fold], seed: int) -> None:
    """Folded or not, a list has its sessions by time, then position, newest first."""
    log, fold = place
    chance = Random(seed)
    for _ in range(150):
        entry = chance.choice([None, b"a", b"b", b"ab", b"abc", b""])
        put(log, f"s{chance.randrange(25)}", chance.randrange(-5, 30), entry)
        if chance.random() < 0.2:
            fold()
        if chance.random() < 0.4:
            lists = chance.sample(NAMES, chance.randrange(1, 4))
            limit = chance.randrange(1, 12)
            before = chance.choice([None, (chance.randrange(-5, 30), chance.randrange(150))])
            wanted = sorted(
                (
                    head
                    for head in log.heads()
                    if set(lists) & set(lists_of(head.entry)) and (before is None or log.place_of(head) < before)
                ),
                key=log.place_of,
                reverse=True,
            )
            assert log.newest(lists, before=before, limit=limit) == wanted[:limit]
    assert log.check() == []


def test_unknown_lists_and_no_limit(place: tuple[Log, Fold]) -> None:
    """A list without sessions is empty, and so is a page of none."""
    log, _ = place
    assert log.newest([b"a"], limit=5) == []
    put(log, "s", 1, b"a")
    assert log.newest([b"b"], limit=5) == log.newest([], limit=5) == log.newest([b"a"], limit=0) == []


def test_times_at_the_ends_of_their_range(place: tuple[Log, Fold]) -> None:
    """The largest and the smallest time that an append may have are in their order."""
    log, fold = place
    for session, time in (("least", -(1 << 62)), ("most", 1 << 62), ("zero", 0)):
        put(log, session, time, b"a")
    fold()
    assert ids(log.newest([b"a"], limit=5)) == ["most", "zero", "least"]
    assert ids(log.newest([b"a"], before=(0, 0), limit=5)) == ["least"]


@pytest.mark.parametrize("name", ["memory", "embedded"])
def test_a_log_without_lists_says_so(tmp_path: Path, name: str) -> None:
    """A log that was opened without `lists_of` refuses to list, instead of listing nothing."""
    log: Log = MemoryLog() if name == "memory" else open_log(tmp_path / "s")
    try:
        with pytest.raises(CallError, match="lists_of"):
            log.newest([b"a"], limit=5)
    finally:
        log.close()


def test_the_keys_of_the_index_are_refused(place: tuple[Log, Fold]) -> None:
    """A derived value has no key under which the index keeps its rows."""
    log, _ = place
    with pytest.raises(CallError, match="the log's own index"):
        log.put_derived([(b"list\0mine", b"x")])
    log.put_derived([(b"list", b"x"), (b"list\1", b"y")])
    assert log.derived_keys(b"list") == [b"list", b"list\1"]
