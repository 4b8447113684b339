"""Promise 11: a fork anchors its parent's head, so a forger has to change every fork too."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import eventlog
from eventlog import Session, Store
from eventlog import events as ev
from eventlog.errors import DamagedError
from eventlog.history.session_lists import lists_of
from eventlog.history.tree_heads import tree_head_before
from eventlog.integrity.fork_anchor import portable, prefix_head, read_prefix
from eventlog.log.commit import Commit
from eventlog.log.embedded.engine import open_log
from eventlog.log.merkle import grow, leaf_of
from eventlog.log.merkle_check import TreeState
from eventlog.maintenance.repair import repair
from projections.verify.verify import verify
from tests.support.engines import ENCRYPTED, ENGINES, Engine
from tests.support.forger import careful, forgeries, rewrite
from tests.support.sample_sessions import exchange, started
from tests.support.verifying import report_of

pytestmark = pytest.mark.promise(11)

SMALL: dict[str, Any] = {"map_bytes": 1 << 24, "journal_bytes": 64 << 10, "lists_of": lists_of}


def head_of(session: Session) -> ev.SessionForked:
    """The first event of a fork."""
    event = next(iter(session.reader.spans(after=session.version - session.info.events))).item
    assert isinstance(event, ev.SessionForked)
    return event


def grown(store: Store, session: str, at: int) -> TreeState:
    """The hash tree of a stream up to the append that holds a version, from its leaves."""
    appends, peaks, version = 0, b"", 0
    for commit in store.log.read(session):
        if commit.first <= at:
            peaks = grow(appends, peaks, leaf_of(commit))
            appends, version = appends + 1, commit.last
    return TreeState(version, appends, peaks)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", [*ENGINES, ENCRYPTED])
def test_a_fork_at_any_version_keeps_the_head_of_that(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stored: bool
) -> None:
    """A fork's first event has its parent's head at the fork, also from a stored tree head."""
    if stored:
        monkeypatch.setattr("eventlog.state.committed.EVERY", 5)
    store = Engine(name, tmp_path).open(**({"checkpoint_events": 5} if stored else {}))
    session = store.create_session(id="p")
    for _ in range(3):
        exchange(session)
    assert bool(tree_head_before(store.log, "p", session.version).appends) is stored
    fork = session.fork(id="f")
    assert read_prefix(head_of(fork).parent_head) == grown(store, "p", session.version)
    exchange(fork)
    for at in range(1, fork.version + 1):
        event = head_of(fork.fork(at))
        owner = "p" if at <= session.version else "f"
        kept = read_prefix(event.parent_head)
        assert kept == grown(store, owner, at), at
        assert kept.version >= at
    assert verify(store, deep=True).sound
    store.close()


def test_the_head_of_a_session_without_one() -> None:
    """A root session anchors no head; bad anchor bytes are damage; exports drop the anchor."""
    with eventlog.open("memory:") as store:
        assert prefix_head(store.log, [], 0) == b""
        session = store.create_session()
        fork = session.fork()
        event = head_of(fork)
        assert portable(event) == replace(event, parent_head=b"")
        for data in (b"\1", event.parent_head[:-1], event.parent_head + bytes(32), bytes(16)):
            with pytest.raises(DamagedError):
                read_prefix(data)


def put_forgery(path: Path, commits: list[Commit]) -> None:
    """Give the parent another history, with all hashes made anew."""
    rewrite(path, "p", careful(commits), tree=True)


def test_a_careful_forgery_of_the_parent_is_found_by_its_fork(tmp_path: Path) -> None:
    """Promise 11: a parent forged with all its hashes is found by its fork's anchor."""
    path = tmp_path / "s"
    with Store(open_log(path, **SMALL)) as store:
        session = store.create_session(id="p")
        session.user("question")
        exchange(session)
        at = session.version
        session.fork(id="f").user("elsewhere")
        session.user("later")
        commits = list(store.log.read("p"))
    everything = [forgery for forgery in forgeries(commits) if forgery.name != "appended"]
    before = [forgery for forgery in everything if forgery.version <= at]
    after = [forgery for forgery in everything if forgery.version > at]
    for forgery in random.Random(6).sample(before, 12) + after[:3]:
        put_forgery(path, forgery.commits)
        with Store(open_log(path, read_only=True)) as store:
            assert report_of(store, "p").first_bad is None, "nothing in the parent's history tells"
            report = report_of(store, "f")
            assert report.sound == (forgery.version > at), (forgery.name, report)
            if not report.sound:
                assert report.first_bad is not None
                assert report.first_bad <= forgery.version
    put_forgery(path, commits)
    with Store(open_log(path, read_only=True)) as store:
        assert verify(store).sound


def test_a_parent_that_is_gone_is_missed_by_its_fork(tmp_path: Path) -> None:
    """Promise 11: a parent put back to an earlier state lacks what its fork inherited."""
    path = tmp_path / "s"
    with Store(open_log(path, **SMALL)) as store:
        session = store.create_session(id="p")
        for _ in range(3):
            exchange(session)
        session.fork(id="f")
        commits = list(store.log.read("p"))
    put_forgery(path, commits[:-1])
    with Store(open_log(path, read_only=True)) as store:
        report = report_of(store, "f")
        assert not report.sound
        assert report.first_bad is not None
        assert report.first_bad <= commits[-1].first


@pytest.mark.parametrize("forked", ["now", "in the middle"])
def test_scrub_erasure_and_copies_change_no_fork(tmp_path: Path, forked: str) -> None:
    """A fork's anchor holds after scrub, erasure of the parent, vacuum, backup and repair."""
    path = tmp_path / "s"
    with Store(open_log(path, **SMALL)) as store:
        session = store.create_session(id="p")
        for _ in range(3):
            exchange(session)
        session.user("a secret that is long enough", id="m")
        parts = started(session)
        at = session.version if forked == "now" else session.version // 2
        session.fork(at, id="f").user("elsewhere")
        session.user("later")
        exchange(session)
        kept = store.head()
        for part in (parts[0], parts[-1]):
            session.redact(part, search=False)
        assert verify(store, against=kept).sound
        store.scrub()
        assert verify(store, against=kept).sound
        store.backup(tmp_path / "backup")
        assert store.erase("p", forks="keep") == ("p",)
        assert verify(store, against=kept).sound
        store.vacuum()
        report = verify(store, against=kept)
        assert report.sound, report
        store.session("f").fork(store.session("f").version, id="g")
        store.vacuum()
        assert verify(store, against=kept, deep=True).sound
    with eventlog.open(tmp_path / "backup", read_only=True) as store:
        assert verify(store, against=kept).sound
    assert repair(path, tmp_path / "repaired").losses == ()
    with eventlog.open(tmp_path / "repaired", read_only=True) as store:
        assert verify(store, against=kept).sound
