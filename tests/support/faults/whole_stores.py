"""Starting places for work on whole stores, with everything that it may lose."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from eventlog.integrity.heads import StoreHead
from eventlog.log.embedded.options import Options
from eventlog.maintenance import backup as backups
from eventlog.maintenance import copy_commits
from eventlog.maintenance.gathered import waiting
from eventlog.open_log import open_log
from eventlog.session.session import Session
from eventlog.store import Store
from tests.support.crash_writer import must_succeed
from tests.support.faults.abandoned_store import copied_as_left
from tests.support.faults.agent import open_agent, turn
from tests.support.faults.encrypted_stores import KEPT, has_keys, is_large, is_said, keep_keys, keys_of
from tests.support.faults.large_stores import WEIGHT, fill
from tests.support.sample_sessions import exchange, started

SIZES: dict[str, Any] = {"journal_bytes": 32 << 10, "fold_bytes": 24 << 10, "map_bytes": 96 << 10}
"""Options with a map too small for what is written: it grows."""
TOLD = frozenset({"acknowledged", "head", "turns", KEPT})
"""Files for what is known outside the store."""
SECRET = "the redacted name of the king"
GONE = "what the erased session said"
LAST = "what the session that goes now said"
LARGE = "a large text, stored once, with more words than a row has room for " * 40


def patched() -> None:
    """Patch this process: copies in many transactions, small maps."""
    patch = pytest.MonkeyPatch()
    patch.setattr(copy_commits, "BATCH_COMMITS", 6)
    patch.setattr(backups, "Options", small)


def small(**more: Any) -> Options:
    """Options with small sizes."""
    return Options(**{**SIZES, **more})


def opened(path: Path) -> Store:
    """The store at a path, open for writing."""
    return Store(open_log(path, keys=keys_of(path.parent), **SIZES))


def reading(path: Path) -> Store:
    """The store at a path, open for reading."""
    return Store(open_log(path, keys=keys_of(path.parent), read_only=True))


def _say(session: Session, text: str, turns: int = 2) -> None:
    for number in range(turns):
        session.user(f"{number} {text} {LARGE}", request_id=f"r{number}")
        exchange(session, f"answer {number} " * 5)


def _fill(path: Path, weight: int) -> None:
    """Fill a store: large texts, a fork, a sub-session, a redaction, an erased session."""
    if weight:
        fill(path, weight, session="b", keys=keys_of(path.parent))
    with opened(path) as store:
        session = store.create_session(id="a")
        _say(session, "first")
        exchange(store.fork(session, session.version, id="f"))
        _say(session.subsession(id="sub"), LAST, 1)
        exchange(session, LAST)
        talk = store.session("b") if weight else store.create_session(id="b")
        talk.user(f"{SECRET} {LARGE}", id="m")
        talk.redact(started(talk, {"m"})[0], search=False)
        for value in (f"{SECRET} {LARGE}", "the newest value"):
            talk.values.put("plan", value)
        _say(store.create_session(id="gone"), GONE)
        keys = keys_of(path.parent)
        if keys is not None:
            keep_keys(path.parent)
        store.host.gather = lambda: None
        store.erase("gone")
        for file in waiting(store.log):  # the bytes stay, for the work to remove
            file.unlink()
    if keys is not None:  # as if the program had died before the key was destroyed
        shutil.copy(path.parent / KEPT, keys)
        for text in (GONE, LAST, SECRET):
            assert is_said(path, keys, text)


def _go_on(path: Path) -> None:
    with opened(path) as store:
        _say(store.create_session(id="later"), "more")
        exchange(store.session("a"))


def _keep_head(place: Path) -> None:
    with reading(place / "s") as store:
        (place / "head").write_text(store.head().text())


def kept_head(place: Path) -> StoreHead:
    """The head saved outside the store."""
    return StoreHead.parse((place / "head").read_text())


def make_templates(directory: Path, kind: str) -> None:
    """Make in `directory` the starting place of every kind of work with this kind of store."""
    weight = WEIGHT if is_large(kind) else 0
    for name in ("nothing", "plain", "agent"):
        (directory / name).mkdir()
        if has_keys(kind):
            keep_keys(directory / name)

    def plain() -> None:
        _fill(directory / "plain" / "s", weight)
        _keep_head(directory / "plain")

    def copies() -> None:
        for name in ("more", "anew"):
            shutil.copytree(directory / "plain", directory / name)
            with opened(directory / name / "s") as store:
                store.backup(directory / name / "b")
            shutil.copy(directory / name / "head", directory / name / "before")
        with opened(directory / "anew" / "s") as store:
            store.vacuum()
        for name in ("more", "anew"):
            _go_on(directory / name / "s")
            _keep_head(directory / name)
        shutil.copytree(directory / "more", directory / "copied", ignore=shutil.ignore_patterns("b", "before"))
        (directory / "copied" / "s").rename(directory / "copied" / "b")

    def left() -> None:  # in a process that dies, so that its journal is not folded
        shutil.copytree(directory / "plain", directory / "left")
        store = opened(directory / "left" / "s")
        exchange(store.session("a"))
        (directory / "left" / "head").write_text(store.head().text())
        copied_as_left(directory / "left" / "s", directory / "left" / "as it is")

    def agent() -> None:
        if weight:
            fill(directory / "agent" / "s", weight, keys=keys_of(directory / "agent"))
        store, session = open_agent(open_log(directory / "agent" / "s", keys=keys_of(directory / "agent"), **SIZES))
        with store:
            turn(session, 0, lambda _: None)
        (directory / "agent" / "turns").write_text("1")
        _keep_head(directory / "agent")

    for job in (plain, copies, left, agent):
        must_succeed(job)
    shutil.rmtree(directory / "left" / "s")
    (directory / "left" / "as it is").rename(directory / "left" / "s")
