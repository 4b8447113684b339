"""What is done to a whole store, as work that can break off anywhere: making, backup, restore, repair, vacuum, scrub, erasure, retention, and an agent's turns.

Each kind of work has a place to begin from, the work itself, what must hold when it broke off, and what must hold when it was
done again.  Imported by `upkeep_crash.py`, which kills it, refuses its calls and pulls the plug.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eventlog import backup as backups
from eventlog import copying
from eventlog.errors import AlreadyExistsError, CallError, DamagedError, ErasedError, ReadOnlyError, UnfinishedError
from eventlog.head import StoreHead
from eventlog.log.embedded import open_log
from eventlog.log.options import Options
from eventlog.repairing import repair
from eventlog.session import Session
from eventlog.store import Store
from projections import ModelView
from projections.verify import verify
from tests.crash_writer import must_succeed
from tests.faults.agent import finished, open_agent, sound, turn
from tests.faults.left import copied_as_left
from tests.faults.planned import probe_here
from tests.searching import files_with
from tests.talking import exchange, started

__all__ = ["TOLD", "WORKS", "Work", "make_templates", "patched"]

SIZES: dict[str, Any] = {"journal_bytes": 32 << 10, "fold_bytes": 24 << 10, "map_bytes": 96 << 10}
"""A map with too little room for what is written: it grows."""
TOLD = frozenset({"head", "turns"})
"""Files that stand for what somebody outside the store knows."""
SECRET = "the redacted name of the king"
GONE = "what the erased session said"
LAST = "what the session that goes now said"
LARGE = "a large text, stored once, with more words than a row has room for " * 40
_STORE = {"edition", "format", "journal", "lmdb", "lock", "mark", "open", "turn"}
_JOURNAL = re.compile(r"\d{10}\.log|spare-[^.]*")
TURNS = 3


def patched() -> None:
    """For this process: copies in many transactions, in maps that are too small, and no child for every opening."""
    patch = pytest.MonkeyPatch()
    probe_here(patch)
    patch.setattr(copying, "BATCH_COMMITS", 6)
    patch.setattr(backups, "Options", small)


def small(**more: Any) -> Options:
    """Options with small sizes."""
    return Options(**{**SIZES, **more})


def opened(path: Path) -> Store:
    """The store at a path, to write."""
    return Store(open_log(path, **SIZES))


def reading(path: Path) -> Store:
    """The store at a path, to read."""
    return Store(open_log(path, read_only=True))


# --- places to begin from


def _say(session: Session, text: str, turns: int = 2) -> None:
    for number in range(turns):
        session.user(f"{number} {text} {LARGE}", request_id=f"r{number}")
        exchange(session, f"answer {number} " * 5)


def _fill(path: Path) -> None:
    """Sessions with large texts, a fork, a sub-session, something redacted, and a session that was erased."""
    with opened(path) as store:
        session = store.create_session(id="a")
        _say(session, "first")
        exchange(store.fork(session, session.version, id="f"))
        _say(session.subsession(id="sub"), LAST, 1)
        exchange(session, LAST)
        talk = store.create_session(id="b")
        talk.user(f"{SECRET} {LARGE}", id="m")
        talk.redact(started(talk)[0], search=False)
        _say(store.create_session(id="gone"), GONE)
        store.erase("gone")


def _go_on(path: Path) -> None:
    with opened(path) as store:
        _say(store.create_session(id="later"), "more")
        exchange(store.session("a"))


def _keep_head(place: Path) -> None:
    with reading(place / "s") as store:
        (place / "head").write_text(store.head().text())


def _head(place: Path) -> StoreHead:
    return StoreHead.parse((place / "head").read_text())


def make_templates(directory: Path) -> None:
    """Make, in `directory`, the place to begin from of every kind of work."""

    def plain() -> None:
        _fill(directory / "plain" / "s")
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
        shutil.copytree(directory / "more" / "s", directory / "copied" / "b")
        shutil.copy(directory / "more" / "head", directory / "copied" / "head")
        (directory / "nothing").mkdir()

    def left() -> None:  # by a process that dies: its journal is not folded
        shutil.copytree(directory / "plain" / "s", directory / "left" / "s")
        store = opened(directory / "left" / "s")
        exchange(store.session("a"))
        (directory / "left" / "head").write_text(store.head().text())
        copied_as_left(directory / "left" / "s", directory / "left" / "as it is")

    def agent() -> None:
        store, session = open_agent(open_log(directory / "agent" / "s", **SIZES))
        with store:
            turn(session, 0, lambda _: None)
        (directory / "agent" / "turns").write_text("1")
        _keep_head(directory / "agent")

    for job in (plain, copies, left, agent):
        must_succeed(job)
    shutil.rmtree(directory / "left" / "s")
    (directory / "left" / "as it is").rename(directory / "left" / "s")


# --- what must hold


def _has(store: Store, head: StoreHead) -> bool:
    """Whether every session is as it was; a rewriting may have added one that says what it left."""
    now = store.head().by_session
    return all(now.get(kept.session) == kept for kept in head.sessions)


def _same(path: Path, *heads: StoreHead) -> None:
    """There is a whole store, with one of these histories."""
    with reading(path) as store:
        assert store.head() in heads, f"{path.name} has another history"
        assert store.log.check() == []


def _half_made(path: Path, *heads: StoreHead) -> None:
    """What is being copied to is nothing yet, or says that it is unfinished, or is whole."""
    with suppress(UnfinishedError, ReadOnlyError):  # the latter: it is finished when it is opened to be written
        if (path / "format").exists():
            _same(path, *heads)
        else:
            with pytest.raises(CallError):
                open_log(path, read_only=True).close()


def _clean(path: Path) -> None:
    """Nothing is left over in a store."""
    names = {entry.name for entry in path.iterdir()}
    assert names <= _STORE, f"left over: {names - _STORE}"
    assert {entry.name for entry in (path / "lmdb").iterdir()} <= {"data.mdb", "lock.mdb"}
    odd = [entry.name for entry in (path / "journal").iterdir() if not _JOURNAL.fullmatch(entry.name)]
    assert not odd, odd


def _whole(path: Path, head: StoreHead) -> None:
    """The store has this history, verifies, can be written to, and nothing is left over."""
    with reading(path) as store:
        assert _has(store, head)
    _clean(path)
    with opened(path) as store:
        report = verify(store, against=head, deep=True)
        assert report.sound, report
        assert store.log.check() == []
        exchange(store.create_session(id="new"))
    _clean(path)


def _without(path: Path, *texts: str) -> None:
    for text in texts:
        assert not files_with(path, text), f"{text!r} is still there"


def _bytes(path: Path) -> dict[str, bytes]:
    """What is read of a store, as it lies."""
    files = [*(path / "journal").glob("*.log"), path / "lmdb" / "data.mdb", path / "format"]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@dataclass(frozen=True)
class Work:
    """A kind of work.  All are given the place, a directory that holds the stores."""

    template: str
    run: Callable[[Path], object]
    look: Callable[[Path], object]
    """When it broke off."""
    done: Callable[[Path], object]
    """When it was done again."""
    finished: tuple[type[Exception], ...] = ()
    """Says that it was done before."""

    def again(self, place: Path) -> None:
        """Do it again; if it was finished before, it may say so."""
        with suppress(*self.finished):
            self.run(place)


def _make(place: Path) -> None:
    with opened(place / "s") as store:
        exchange(store.session("a") if store.log.head("a") is not None else store.create_session(id="a"))


def _look_made(place: Path) -> None:
    if (place / "s" / "format").exists():
        with reading(place / "s") as store:
            assert verify(store).sound


def _done_made(place: Path) -> None:
    with opened(place / "s") as store:
        assert store.session("a").version > 1
        assert verify(store, deep=True).sound
    _clean(place / "s")


def _backup(place: Path) -> None:
    with Store(open_log(place / "s", read_only=True, **SIZES)) as store:
        store.backup(place / "b")


def _look_backup(place: Path) -> None:
    _same(place / "s", _head(place))
    heads = [_head(place)]
    if (place / "before").exists():
        heads.append(StoreHead.parse((place / "before").read_text()))
    _half_made(place / "b", *heads)


def _done_backup(place: Path) -> None:
    _same(place / "s", _head(place))
    _whole(place / "b", _head(place))
    if (place / "s" / "edition").exists():  # it was vacuumed
        _without(place / "b", GONE)


def _restore(place: Path) -> None:
    backups.restore(place / "b", place / "r", options=Options(**SIZES))


def _repair(place: Path) -> None:
    losses = repair(place / "s", place / "r", options=Options(**SIZES)).losses
    if losses:
        shutil.rmtree(place / "r")
        raise DamagedError(f"lost: {losses}")


def _look_copied(source: str) -> Callable[[Path], None]:
    def look(place: Path) -> None:
        before = _bytes(place.parent / "templates" / ("copied" if source == "b" else "left") / source)
        assert _bytes(place / source) == before, "what was copied from was changed"
        _half_made(place / "r", _head(place))

    return look


def _done_copied(place: Path) -> None:
    _whole(place / "r", _head(place))


def _vacuum(place: Path) -> None:
    with opened(place / "s") as store:
        store.vacuum()


def _scrub(place: Path) -> None:
    with opened(place / "s") as store:
        store.scrub()


def _look_rewritten(place: Path) -> None:
    with suppress(ReadOnlyError), reading(place / "s") as store:  # it is finished when it is opened to be written
        assert _has(store, _head(place))
        assert store.log.check() == []
    with opened(place / "s") as store:
        assert _has(store, _head(place))
        assert store.log.check() == []
        assert ModelView.of(store.session("f")).messages
    _clean(place / "s")


def _done_vacuum(place: Path) -> None:
    _without(place / "s", GONE)
    _whole(place / "s", _head(place))


def _done_scrub(place: Path) -> None:
    _without(place / "s", GONE, SECRET)
    _whole(place / "s", _head(place))


def _erase(place: Path) -> None:
    with opened(place / "s") as store:
        store.erase("a", forks="keep", subsessions="cascade")


def _retain(place: Path) -> None:
    with opened(place / "s") as store:
        store.retain(count=0)


def _look_erased(place: Path) -> None:
    with reading(place / "s") as store:
        assert verify(store, against=_head(place)).sound
        assert store.log.check() == []
        for info in store.sessions():
            assert ModelView.of(store.session(info.id)).version


def _done_erased(left: set[str]) -> Callable[[Path], None]:
    def done(place: Path) -> None:
        with opened(place / "s") as store:
            assert {info.id for info in store.sessions()} == left
            assert store.vacuum().erased
            report = verify(store, against=_head(place), deep=True)
            assert report.sound, report
        _without(place / "s", GONE, LAST)
        _clean(place / "s")

    return done


def _turns(place: Path) -> None:
    def told(head: StoreHead) -> None:
        (place / "head.new").write_text(head.text())
        (place / "head.new").rename(place / "head")

    store, session = open_agent(open_log(place / "s", **SIZES))
    with store:
        for number in range(int((place / "turns").read_text()), TURNS):
            turn(session, number, told)
            (place / "turns.new").write_text(str(number + 1))
            (place / "turns.new").rename(place / "turns")


def _look_turns(place: Path) -> None:
    with reading(place / "s") as store:
        sound(store, _head(place))


def _done_turns(place: Path) -> None:
    with opened(place / "s") as store:
        sound(store, _head(place))
        finished(store.session("session"), TURNS, failed=3)
    _clean(place / "s")


WORKS = {
    "making": Work("nothing", _make, _look_made, _done_made),
    "backup": Work("plain", _backup, _look_backup, _done_backup),
    "backup of what is new": Work("more", _backup, _look_backup, _done_backup),
    "backup in place of another": Work("anew", _backup, _look_backup, _done_backup),
    "restore": Work("copied", _restore, _look_copied("b"), _done_copied, (AlreadyExistsError,)),
    "repair": Work("left", _repair, _look_copied("s"), _done_copied, (CallError,)),
    "vacuum": Work("plain", _vacuum, _look_rewritten, _done_vacuum),
    "scrub": Work("plain", _scrub, _look_rewritten, _done_scrub),
    "erase": Work("plain", _erase, _look_erased, _done_erased({"b", "f"}), (ErasedError,)),
    "retain": Work("plain", _retain, _look_erased, _done_erased(set())),
    "an agent's turns": Work("agent", _turns, _look_turns, _done_turns),
}
