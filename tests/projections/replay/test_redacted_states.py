"""Checkpoints hold nothing of a redacted part, however old the state they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventlog
from eventlog import events as ev
from projections import LiveView, ModelView
from projections.replay import loop
from projections.replay.checkpoints import Checkpoints
from projections.transcript.transcript import TranscriptProjection
from projections.verify.verify import verify
from projections.view.targets import PROJECTION
from tests.support.compactions import compacted
from tests.support.sample_sessions import exchange

SECRET = "hunter2"
META = f'{{"id":"{SECRET}"}}'


@pytest.fixture(autouse=True)
def _near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "APART", 20)


def said(session: eventlog.Session) -> list[str]:
    """Add a part of each kind that holds the secret, and return the parts."""
    session.user("question", id="m0")
    session.append(
        [
            (1, ev.PartStarted("m0", "text", eventlog.Text(SECRET, metadata=META))),
            (1, ev.PartStarted("m0", "file", eventlog.File("text/plain", f"data:,{SECRET}", SECRET))),
            (1, ev.PartStarted("m0", "task", eventlog.Subtask(SECRET, SECRET))),
            (1, ev.PartStarted("m0", "note", eventlog.values.Patch(SECRET, (SECRET,)))),
        ]
    )
    session.pin(part="text")
    with session.assistant(model="acme/one") as reply:
        call = reply.tool("read", call_id="c1", input={"path": SECRET}, id="call")
        call.succeed(SECRET, title=SECRET)
        reply.finish("stop")
    return ["text", "file", "task", "note", "call"]


def derived(store: eventlog.Store) -> list[bytes]:
    """The keys of the derived values that hold the secret."""
    return [key for key, value in store.log.scan_derived(b"") if SECRET.encode() in value]


@pytest.mark.parametrize("how", ["kept view", "live view", "stale save"])
@pytest.mark.parametrize("compacts", [False, True])
def test_no_checkpoint_after_a_scrub_holds_what_was_redacted(tmp_path: Path, how: str, *, compacts: bool) -> None:
    """Also one of a state from before another handle redacted, pins and touches included."""
    with eventlog.open(tmp_path / "s") as store, eventlog.open(tmp_path / "s") as other:
        session, theirs = store.create_session(id="s"), other.session("s")
        parts = said(session)
        if compacts:
            compacted(session)
        live = LiveView(session)
        assert SECRET in repr([*ModelView.of(session).messages, *live.view.messages])
        for part in parts:
            theirs.redact(part)
        other.scrub()
        if how == "stale save":
            live.save()
        assert not derived(store)
        for _ in range(15):
            exchange(session)
        if how == "kept view":
            assert SECRET not in repr(ModelView.of(session).messages)
        elif how == "live view":
            live.advance()
        assert [*Checkpoints(store.log).versions(PROJECTION, session.reader)]
        assert not derived(store)
        assert verify(store, deep=True).sound


def test_what_a_redacted_part_is_told_later_is_in_no_state(tmp_path: Path) -> None:
    """A text that streams on, and a call that ends, add nothing; verification agrees."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="s")
        session.user("question")
        with session.assistant(model="acme/one") as reply:
            text = reply.stream_text(id="text")
            call = reply.tool("read", call_id="c1", id="call")
            call.start({"path": SECRET})
            for part in ("text", "call"):
                session.redact(part)
            text.append(SECRET)
            text.end()
            call.succeed(SECRET, title=SECRET)
            reply.finish("stop")
        compacted(session)
        for projection in (PROJECTION, TranscriptProjection()):
            state = loop.state_at(session, projection).state
            assert SECRET.encode() not in projection.encode(state)
            Checkpoints(store.log).save(projection, session.reader, session.version, state, ())
        assert verify(store, deep=True).sound
        store.scrub()
        assert verify(store, deep=True).sound
