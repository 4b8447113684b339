"""Rows forged with right checksums: typed errors, and the sound sessions are saved."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventlog import Store
from eventlog.errors import EventlogError
from eventlog.history.session_lists import lists_of
from eventlog.log.embedded.engine import open_log
from eventlog.maintenance.repair import repair
from projections.reports.session_tree import export_ranges
from projections.verify.verify import verify
from projections.view.model_view import ModelView
from tests.faults.tally import SLOW, tally
from tests.support.forged_rows import mutations, put_head, put_row, rows

pytestmark = pytest.mark.promise(12)

SMALL: dict[str, Any] = {"map_bytes": 8 << 20, "journal_bytes": 256 << 10, "lists_of": lists_of}
Forge = Callable[[Path], None]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store: `a` with a fork, a value and a large text, and `sound`, left alone."""
    path = tmp_path_factory.mktemp("forged") / "s"
    with Store(open_log(path, **SMALL), checkpoint_events=3) as store:
        session = store.create_session(id="a", title="t", scope="alice")
        session.user("question", request_id="r")
        with session.assistant(model="acme/one") as reply:
            reply.tool("bash", call_id="c", input={"command": "ls"}).succeed("x" * 3000)
            reply.finish("stop")
        session.values.put("k", "v")
        session.fork(id="f").user("on another branch")
        store.create_session(id="sound").user("untouched")
        store.newest_sessions(limit=3)
        ModelView.of(session)
    return path


def circle(path: Path) -> None:
    """Let two sessions be forks of each other."""
    put_head(path, "a", said={"fork_of": "f", "forked_at": 2}, base=2)
    put_head(path, "f", said={"fork_of": "a", "forked_at": 2}, base=2)


FORGERIES: dict[str, Forge] = {
    "a head's number below zero": lambda path: put_head(path, "a", number=-1),
    "a head's version below zero": lambda path: put_head(path, "a", version=-1),
    "a head's position below zero": lambda path: put_head(path, "a", position=-1),
    "a head that begins behind all versions": lambda path: put_head(path, "a", base=(1 << 63) - 1),
    "a head without a catalog entry": lambda path: put_head(path, "a", entry=b""),
    "a head that has lost its events": lambda path: put_head(path, "a", number=0),
    "a fork of itself": lambda path: put_head(path, "f", said={"fork_of": "f"}),
    "two forks of each other": circle,
    "a key of a chunk with one byte": lambda path: put_row(path, "commits", b"\0", b"\0"),
    "a key of a session that is no text": lambda path: put_row(
        path, "sessions", b"\xff\xfe", rows(path)["sessions"][b"a"]
    ),
}


def reads(store: Store) -> Iterator[Callable[[], object]]:
    """Calls that read, each to be tried."""
    log = store.log
    yield lambda: list(log.heads())
    yield lambda: log.commits_after(0)
    yield lambda: store.newest_sessions(limit=5)
    yield lambda: list(store.sessions())
    yield store.unfinished
    yield lambda: store.head().text()
    yield log.engine.check
    yield lambda: verify(store)
    yield lambda: list(store.subscribe(None, timeout=0))
    for name in ("a", "f", "sound"):
        yield from (partial(read, store, name) for read in READS)


READS: list[Callable[[Store, str], object]] = [
    lambda store, name: list(store.log.read(name, reverse=True)),
    lambda store, name: ModelView.of(store.session(name)).messages,
    lambda store, name: list(store.session(name).values.items()),
    lambda store, name: list(export_ranges(store.session(name), tree=True)),
]


def writes(store: Store) -> Iterator[Callable[[], object]]:
    """Calls that write, each to be tried."""
    for name in ("a", "f", "sound"):
        yield from (partial(write, store, name) for write in WRITES)
    yield lambda: store.create_session().user("new")
    yield store.flush
    yield store.scrub
    yield lambda: store.erase("a", forks="cascade")


WRITES: list[Callable[[Store, str], object]] = [
    lambda store, name: store.session(name).user("more"),
    lambda store, name: store.session(name).fork(),
]


def survive(path: Path, calls: Callable[[Store], Iterator[Callable[[], object]]], *, read_only: bool) -> None:
    """Make each call; an error must be the product's."""
    try:
        with Store(open_log(path, read_only=read_only, **SMALL)) as store:
            for call in calls(store):
                try:
                    call()
                except EventlogError:
                    continue
    except EventlogError:
        return


def is_saved(path: Path, new: Path) -> None:
    """Repair; the new store is sound, and has the session that was not touched."""
    repair(path, new)
    with Store(open_log(new, read_only=True, **SMALL)) as store:
        report = verify(store)
        assert report.sound, [report.problems, [one.problems for one in report.sessions]]
        assert [message.role for message in ModelView.of(store.session("sound")).messages] == ["user"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", FORGERIES)
def test_forged_row_is_a_typed_error_and_a_repair_saves_the_rest(name: str, original: Path, tmp_path: Path) -> None:
    """A row with a right checksum and wrong contents costs its session only, by typed errors."""
    path = tmp_path / "s"
    shutil.copytree(original, path)
    FORGERIES[name](path)
    survive(path, reads, read_only=True)
    is_saved(path, tmp_path / "new")
    survive(path, writes, read_only=False)
    survive(path, reads, read_only=False)


def test_no_field_of_any_row_ends_a_call_untyped(original: Path, tmp_path: Path) -> None:
    """Each field of the rows of each tree takes each of some values: the errors are typed."""
    chance = random.Random(7)
    every = [
        (tree, key, changed)
        for tree in ("meta", "sessions", "commits", "positions", "bodies")
        for key, row in rows(original)[tree].items()
        for changed in mutations(msgspec.msgpack.decode(row))
    ]
    tried = every if SLOW else chance.sample(every, 12)
    for number, (tree, key, changed) in enumerate(tried):
        path = tmp_path / str(number)
        shutil.copytree(original, path)
        put_row(path, tree, key, changed)
        survive(path, reads, read_only=bool(number % 2))
        is_saved(path, tmp_path / f"new {number}")
        shutil.rmtree(path)
        shutil.rmtree(tmp_path / f"new {number}")
    tally("a row forged, with a right checksum", len(tried))
