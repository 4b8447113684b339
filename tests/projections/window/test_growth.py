"""A hundred compactions cost what they say and nothing else (promise 14)."""

from __future__ import annotations

import random

import pytest

import eventlog
from eventlog.codec.batch import encode
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Body
from projections import ModelView
from projections.loop import ContextWindow
from projections.replay import checkpoints
from projections.requests.openai import chat_messages
from projections.window import CompactionPolicy, ContextPolicy, OverflowPolicy
from tests.support.window_loop import MODEL, sections

pytestmark = pytest.mark.promise(14)

COMPACTIONS = 100
POLICY = ContextPolicy(
    compaction=CompactionPolicy(tail_turns=1, preserve_recent_tokens=1_000_000),
    overflow=OverflowPolicy(auto=False),
    counter="chars/4",
)


def fill(session: Session, number: int) -> None:
    """Add a turn as large as the last compaction's, with outputs that are new."""
    made = random.Random(number)
    session.user(f"question {number}")
    with session.assistant(MODEL) as reply, session.pipeline():
        reply.add_text(f"answer {number} " + "word " * 60)
        for call in range(4):
            output = "\n".join(made.randbytes(40).hex() for _ in range(400))
            reply.tool("look", call_id=f"c{call}", input="{}").succeed(output)
        reply.finish("tool-calls")
    with session.assistant(MODEL) as reply:
        reply.finish()


def view_bytes(session: Session) -> int:
    """The size of the view as it is sent."""
    return len(str(chat_messages(ModelView.of(session).messages)))


def derived(store: Store) -> int:
    """Bytes stored beside events and bodies: checkpoints, counts and others, keys included."""
    return sum(len(key) + len(value) for key, value in store.log.scan_derived(b""))


def appended(session: Session, after: int) -> int:
    """Canonical bytes of the events after a version."""
    return sum(len(encode([(0, recorded.event)], 0)) for recorded in session.events(after))


def test_a_hundred_compactions_of_a_constant_view_add_next_to_nothing() -> None:
    """Promise 14: a hundred compactions add less than 2 % of a view's bytes each."""
    with eventlog.open("memory:") as store, eventlog.open("memory:") as other:
        session, control = store.create_session(id="s"), other.create_session(id="s")
        window = ContextWindow(session, POLICY, summarizer=lambda _: sections(), environment={})
        sizes: list[int] = []
        events: list[int] = []
        fill(session, -1)
        for number in range(COMPACTIONS):
            fill(session, number)
            fill(control, number)
            version, bodies = session.version, len(list(store.log.bodies()))
            assert window.compact().completed
            events.append(appended(session, version))
            sizes.append(view_bytes(session))
            assert len(list(store.log.bodies())) == bodies
        with ContextWindow(control, POLICY, environment={}) as counting:
            assert counting.tokens > COMPACTIONS * 1_000  # so that each of its bodies is counted, too
        view = sum(sizes) / COMPACTIONS
        assert max(sizes) < min(sizes) * 1.1
        added = (derived(store) - derived(other)) / COMPACTIONS
        print(f"view {view:.0f} bytes; each: events {events[-1]} bytes, beyond them {added:.0f} ({added / view:.2%})")
        assert added < 0.03 * view
        assert max(events) < min(events) * 1.1
        assert max(events) < 0.02 * view


def test_checkpoints_have_references_and_are_few(store: Store) -> None:
    """A checkpoint names its bodies and does not hold them, and the older ones are let go."""
    session = store.create_session(id="s")
    window = ContextWindow(session, POLICY, summarizer=lambda _: sections(), environment={})
    for number in range(20):
        fill(session, number)
        window.compact()
    kept = [value for _, value in store.log.scan_derived(b"checkpoint\0model-view")]
    assert 0 < len(kept) <= checkpoints.MAX_CHECKPOINTS
    assert max(map(len, kept)) < 0.15 * view_bytes(session)
    part = next(
        found
        for found in window.state.situation().state.where.values()
        if isinstance(getattr(found[1], "output", None), Body)
    )[1]
    digest = getattr(part, "output").digest  # noqa: B009  # only tool parts have one
    assert any(digest in value for value in kept)
