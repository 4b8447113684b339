"""Any version of a long history opens in bounded time, if imported as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog.codec.batch import Batch
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import ErasedError
from eventlog.events import Event
from projections import ContextWindow, ModelView
from projections.conversation.state import Conversation
from projections.replay import loop
from projections.replay.checkpoints import Checkpoints
from projections.view.targets import PROJECTION, ModelViewProjection

NEAR = 60
"""Events between two checkpoints that a replay leaves, here."""
APPEND = 5
"""Most events of an append here."""


@pytest.fixture(autouse=True)
def _near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "APART", NEAR)
    monkeypatch.setattr(loop, "_BYTES_AN_EVENT", 1 << 20)


class Counted(ModelViewProjection):
    """The view's projection, with the number of events that it applied."""

    def __init__(self) -> None:
        super().__init__()
        self.applied = 0
        self.decoded = 0
        counted: Any = self
        counted.apply, counted.apply_batch = self._apply, self._apply_batch

    def _apply(self, state: Conversation, event: Event, version: int, time: int) -> Conversation:
        self.applied += 1
        return ModelViewProjection.apply(state, event, version, time)

    def _apply_batch(self, state: Conversation, batch: Batch, version: int) -> tuple[Conversation, int]:
        found, following = ModelViewProjection.apply_batch(state, batch, version)
        self.applied += following - version
        return found, following

    def decode(self, data: bytes) -> Conversation:
        """Decode a checkpoint."""
        self.decoded += 1
        return super().decode(data)

    def apply_run(self, state: Conversation, run: DeltaRun, version: int, time: int) -> Conversation:
        """Apply a run of deltas, which counts as one event."""
        self.applied += 1
        return super().apply_run(state, run, version, time)


def talk(session: eventlog.Session, turns: int, *, compacted: bool) -> None:
    """Many turns, compacted now and then."""
    with session.lease():
        for number in range(turns):
            session.user(f"question {number}")
            with session.assistant(model="p/m") as reply:
                reply.add_text(f"answer {number} " + "word " * 20)
                reply.finish("stop")
            if compacted and number % 40 == 39:
                with ContextWindow(session) as window:
                    window.compact()


def as_imported(store: eventlog.Store, into: Path) -> eventlog.Store:
    """The store as an importer or bare commands leave it: without checkpoints of views."""
    store.backup(into)
    copy = eventlog.open(into)
    copy.log.put_derived([(key, None) for key in copy.log.derived_keys(b"checkpoint\0")])
    return copy


@pytest.mark.promise(8)
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("then", ["", "rollback", "rollbacks", "fork"])
def test_any_version_opens_from_a_near_checkpoint(tmp_path: Path, compacted: bool, then: str) -> None:
    """After the first view, past ones apply few events, and are those of a whole replay."""
    with eventlog.open(tmp_path / "s") as made:
        session = made.create_session(id="s")
        talk(session, 100, compacted=compacted)
        if then.startswith("rollback"):
            for back in (80, 30) if then == "rollbacks" else (30,):
                session.rollback(session.version - back)
                talk(session, 30, compacted=False)
        elif then == "fork":
            session = session.fork(session.version - 100, id="f")
            talk(session, 60, compacted=False)
        copy = as_imported(made, tmp_path / "copy")
    with copy:
        session = copy.session(session.id)
        ModelView.of(session)
        first = session.reader.ancestry()[-1].first
        for version in range(session.version, first, -37):
            counted: Any = Counted()
            found = loop.state_at(session, counted, version)
            assert counted.applied <= 2 * NEAR + 3 * APPEND, (version, counted.applied)
            whole = loop.state_at(session, PROJECTION, version, uses_checkpoints=False)
            assert found.state.encode() == whole.state.encode()


@pytest.mark.promise(8)
def test_a_version_behind_a_rollback_decodes_one_checkpoint(tmp_path: Path) -> None:
    """A checkpoint of what was rolled back is passed over, its state not decoded."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="s")
        for _ in range(8):
            talk(session, 30, compacted=False)
            ModelView.of(session)
            session.rollback(session.version - 2 * NEAR)
            talk(session, 1, compacted=False)
            counted: Any = Counted()
            found = loop.state_at(session, counted, session.version)
            assert counted.decoded <= 1
            assert counted.applied <= 2 * NEAR
            whole = loop.state_at(session, PROJECTION, uses_checkpoints=False)
            assert found.state.encode() == whole.state.encode()


def test_a_replay_leaves_nothing_where_it_may_not(tmp_path: Path) -> None:
    """A read-only store and an erased session get no checkpoint from a reader."""
    with eventlog.open(tmp_path / "s") as made:
        session = made.create_session(id="s")
        talk(session, 60, compacted=True)
        as_imported(made, tmp_path / "copy").close()
    with eventlog.open(tmp_path / "copy", read_only=True) as store:
        ModelView.of(store.session("s"))
        ModelView.of(store.session("s"), 200)
        assert not store.log.derived_keys(b"checkpoint\0model-view")
    with eventlog.open(tmp_path / "copy") as store:
        session = store.session("s")
        source = session.reader
        checkpoints = Checkpoints(store.log)
        state = loop.state_at(session, PROJECTION, uses_checkpoints=False)
        store.erase("s")
        checkpoints.leave(PROJECTION, source, state.version, state.state, ())
        assert not store.log.derived_keys(b"checkpoint\0model-view")
        with pytest.raises(ErasedError):
            ModelView.of(session)
