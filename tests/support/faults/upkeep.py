"""Work on a whole store that can break off anywhere: backup, repair, vacuum and others."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from eventlog.codec.payload import LEDGER, is_clear
from eventlog.errors import AlreadyExistsError, CallError, DamagedError, ErasedError, ReadOnlyError, UnfinishedError
from eventlog.integrity.heads import StoreHead
from eventlog.log.commit import Committed, LeaseState
from eventlog.log.contract import Log
from eventlog.log.embedded.generations import files_of
from eventlog.log.embedded.options import Options
from eventlog.maintenance import backup as backups
from eventlog.maintenance.repair import repair
from eventlog.open_log import open_log
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from projections import ModelView
from projections.verify.verify import verify
from tests.support.faults.agent import finished, open_agent, sound, turn
from tests.support.faults.encrypted_stores import KEPT, forgotten, is_said, keys_of
from tests.support.faults.planned_appends import AT_LAST, OPTIONS, compare, workload
from tests.support.faults.whole_stores import GONE, LAST, SECRET, SIZES, kept_head, opened, reading
from tests.support.sample_sessions import exchange

_STORE = {"format", "generation", "lock", "mark", "open", "turn"}
_JOURNAL = re.compile(r"\d{10}\.log|spare-[^.]*")
TURNS = 3
PLAN = workload()


def _has(store: Store, head: StoreHead, records: Collection[int] = (0,)) -> bool:
    """Whether exactly these sessions are unchanged; `records`: allowed scrub ledger versions."""
    now = dict(store.head().by_session)
    left = store.log.head(LEDGER)
    if left is not None and is_clear(left.session, left.entry):
        del now[LEDGER]
    return now == head.by_session and (0 if left is None else left.version) in records


def _same(path: Path, *heads: StoreHead) -> None:
    """Check that a whole store is there, with one of these histories."""
    with reading(path) as store:
        assert store.head() in heads, f"{path.name} has another history"
        assert store.log.check() == []


def _half_made(path: Path, *heads: StoreHead) -> None:
    """Check that a copy's target is empty, says that it is unfinished, or is whole."""
    with suppress(UnfinishedError, ReadOnlyError):  # ReadOnlyError: the store is complete once it is opened for writing
        if (path / "format").exists():
            _same(path, *heads)
        else:
            with pytest.raises(CallError):
                reading(path).close()


def _clean(path: Path) -> None:
    """Check that no remains are left in a store."""
    names = {entry.name for entry in path.iterdir()}
    files = files_of(path)
    assert names <= {*_STORE, files.name}, f"left over: {names - _STORE}"
    assert {entry.name for entry in (files / "lmdb").iterdir()} <= {"data.mdb", "lock.mdb"}
    odd = [entry.name for entry in (files / "journal").iterdir() if not _JOURNAL.fullmatch(entry.name)]
    odd += [entry.name for entry in path.parent.glob("s.keys.*")]
    assert not odd, odd


def _whole(path: Path, head: StoreHead, records: Collection[int] = (0,)) -> None:
    """Check that a store has this history, verifies, can be written and has no remains."""
    with reading(path) as store:
        assert _has(store, head, records)
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
        if keys_of(path.parent) is not None:
            assert not is_said(path, path.parent / KEPT, text), f"{text!r} is still there, for who has kept the keys"


def _bytes(path: Path) -> dict[str, bytes]:
    """The raw bytes that a store's files hold."""
    parts = files_of(path)
    files = [*(parts / "journal").glob("*.log"), parts / "lmdb" / "data.mdb", path / "format"]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@dataclass(frozen=True)
class Work:
    """A kind of work; its functions get the place, a directory that holds the stores."""

    template: str
    run: Callable[[Path], object]
    look: Callable[[Path], object]
    """Check after the work broke off."""
    done: Callable[[Path], object]
    """Check after the work was repeated."""
    finished: tuple[type[Exception], ...] = ()
    """Whether the work may say that it was done before."""

    def again(self, place: Path) -> None:
        """Repeat the work; if it was complete before, it may say so."""
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
    with Store(open_log(place / "s", keys=keys_of(place), read_only=True, **SIZES)) as store:
        store.backup(place / "b")


def _look_backup(place: Path) -> None:
    _same(place / "s", kept_head(place))
    heads = [kept_head(place)]
    if (place / "before").exists():
        heads.append(StoreHead.parse((place / "before").read_text()))
    _half_made(place / "b", *heads)


def _done_backup(place: Path) -> None:
    _same(place / "s", kept_head(place))
    _whole(place / "b", kept_head(place))
    if (place / "s" / "generation").exists():  # the store was vacuumed
        _without(place / "b", GONE)


def _encrypt(place: Path) -> None:
    with Store(open_log(place / "s", read_only=True, **SIZES)) as store:
        store.backup(place / "e", keys=place / "e.keys")


def _look_encrypted(place: Path) -> None:
    _same(place / "s", kept_head(place))
    with (
        suppress(UnfinishedError, CallError),
        Store(open_log(place / "e", keys=place / "e.keys", read_only=True)) as store,
    ):
        assert verify(store).sound  # it opens only as a whole
        assert {info.id for info in store.sessions()} >= {"a", "b", "f"}


def _done_encrypted(place: Path) -> None:
    _look_encrypted(place)
    _without(place / "e", GONE, LAST, SECRET)
    with reading(place / "s") as plain, Store(open_log(place / "e", keys=place / "e.keys", **SIZES)) as store:
        assert list(store.sessions()) == list(plain.sessions())
        for info in store.sessions():
            assert ModelView.of(store.session(info.id)).digest == ModelView.of(plain.session(info.id)).digest
        report = verify(store, deep=True)
        assert report.sound, report
        exchange(store.create_session(id="new"))
    _clean(place / "e")


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
        _half_made(place / "r", kept_head(place))

    return look


def _done_copied(place: Path) -> None:
    _whole(place / "r", kept_head(place))


def _vacuum(place: Path) -> None:
    with opened(place / "s") as store:
        store.vacuum()


def _scrub(place: Path) -> None:
    with opened(place / "s") as store:
        store.scrub()


def _look_rewritten(*records: int) -> Callable[[Path], None]:
    def look(place: Path) -> None:
        with suppress(ReadOnlyError), reading(place / "s") as store:  # complete once opened for writing
            assert _has(store, kept_head(place), records)
            assert store.log.check() == []
        with opened(place / "s") as store:
            assert _has(store, kept_head(place), records)
            assert store.log.check() == []
            assert ModelView.of(store.session("f")).messages
        _clean(place / "s")

    return look


def _done_rewritten(records: int, *texts: str) -> Callable[[Path], None]:
    def done(place: Path) -> None:
        _without(place / "s", *texts)
        if keys_of(place) is not None:
            assert forgotten(place / "s", place) == 1
        _whole(place / "s", kept_head(place), (records,))

    return done


def _erase(place: Path) -> None:
    with opened(place / "s") as store:
        store.erase("a", forks="keep", subsessions="cascade")


def _expire(place: Path) -> None:
    with opened(place / "s") as store:
        store.expire(count=0)


def _look_erased(place: Path) -> None:
    with reading(place / "s") as store:
        assert verify(store, against=kept_head(place)).sound
        assert store.log.check() == []
        for info in store.sessions():
            assert ModelView.of(store.session(info.id)).version


def _done_erased(left: set[str], dead: int) -> Callable[[Path], None]:
    def done(place: Path) -> None:
        with opened(place / "s") as store:
            assert {info.id for info in store.sessions()} == left
            store.vacuum()
            report = verify(store, against=kept_head(place), deep=True)
            assert report.sound, report
        _without(place / "s", GONE, LAST)
        if keys_of(place) is not None:
            assert forgotten(place / "s", place) == dead
        _clean(place / "s")

    return done


def _turns(place: Path) -> None:
    def told(head: StoreHead) -> None:
        (place / "head.new").write_text(head.text())
        (place / "head.new").rename(place / "head")

    store, session = open_agent(open_log(place / "s", keys=keys_of(place), **SIZES))
    with store:
        for number in range(int((place / "turns").read_text()), TURNS):
            turn(session, number, told)
            (place / "turns.new").write_text(str(number + 1))
            (place / "turns.new").rename(place / "turns")


def _look_turns(place: Path) -> None:
    with reading(place / "s") as store:
        sound(store, kept_head(place))


def _done_turns(place: Path) -> None:
    with opened(place / "s") as store:
        sound(store, kept_head(place))
        finished(store.session("session"), TURNS, failed=3)
    _clean(place / "s")


def _appends(place: Path) -> None:
    """Append the plan in groups of one to four, and note each acknowledgement."""
    log = open_log(place / "s", keys=keys_of(place), **OPTIONS)
    known, chance = len(log.commits_after(0, 1_000_000)), random.Random(3)
    acks = os.open(place / "acknowledged", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    waiting = list(enumerate(PLAN))
    while waiting:
        group = [waiting.pop(0) for _ in range(min(len(waiting), chance.randrange(1, 5)))]
        for number, ticket in [(number, log.submit(append)) for number, append in group]:
            done = ticket.wait(60)
            assert done.repeated == (number < known), f"request r{number} was not settled rightly"
            os.write(acks, f"{done.session} {done.first} {done.last} {done.position}\n".encode())
        log.put_derived([(b"derived", b"%d" % len(waiting))])
    if (lease := _lease(log)) != AT_LAST:
        assert log.set_lease("s0", AT_LAST, replaces=lease)
    os.write(acks, b"lease\n")
    log.close()


def _lease(log: Log) -> LeaseState:
    head = log.head("s0")
    assert head is not None
    return head.lease


def _look_appends(place: Path) -> None:
    if (place / "s" / "format").exists():
        _compare_appends(place, open_log(place / "s", keys=keys_of(place), read_only=True, **OPTIONS))


def _done_appends(place: Path) -> None:
    assert _compare_appends(place, open_log(place / "s", keys=keys_of(place), **OPTIONS)) == len(PLAN)
    _clean(place / "s")


def _compare_appends(place: Path, log: Log) -> int:
    """Check that what was acknowledged is there; return how many appends are."""
    acks = place / "acknowledged"
    lines = acks.read_text().split("\n") if acks.exists() else []
    told = [
        Committed(session, int(first), int(last), int(position))
        for session, first, last, position in (line.split() for line in lines[:-1] if line != "lease")
    ]
    try:
        found = compare(log, PLAN, told)
        assert "lease" not in lines or _lease(log) == AT_LAST, "the lease is gone"
    finally:
        log.close()
    return found


WORKS = {
    "appends": Work("nothing", _appends, _look_appends, _done_appends),
    "making": Work("nothing", _make, _look_made, _done_made),
    "backup": Work("plain", _backup, _look_backup, _done_backup),
    "backup of what is new": Work("more", _backup, _look_backup, _done_backup),
    "backup in place of another": Work("anew", _backup, _look_backup, _done_backup),
    "encryption": Work("plain", _encrypt, _look_encrypted, _done_encrypted, (AlreadyExistsError,)),
    "restore": Work("copied", _restore, _look_copied("b"), _done_copied, (AlreadyExistsError,)),
    "repair": Work("left", _repair, _look_copied("s"), _done_copied, (CallError,)),
    "vacuum": Work("plain", _vacuum, _look_rewritten(0), _done_rewritten(0, GONE)),
    "scrub": Work("plain", _scrub, _look_rewritten(0, 1), _done_rewritten(1, GONE, SECRET)),
    "erase": Work("plain", _erase, _look_erased, _done_erased({"b", "f"}, 2), (ErasedError,)),
    "expire": Work("plain", _expire, _look_erased, _done_erased(set(), 4)),
    "an agent's turns": Work("agent", _turns, _look_turns, _done_turns),
}

OF_PLAIN_STORES = {"encryption"}
"""Works that an encrypted store refuses."""
