"""The longest recorded session: its view at any past version is the view that was computed live then (promise 10)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import eventlog
from eventlog import events as ev
from eventlog.codec.decoded import Recorded
from eventlog.importers import import_file
from eventlog.importers.event_jsonl.format import bodies_of
from eventlog.session.session import Session
from eventlog.store import Store, begin_session
from projections.view.model_view import LiveView, ModelView
from tests.faults.tally import SLOW
from tests.support.shared import shared_path

pytestmark = pytest.mark.promise(10)

LONGEST = "entireio_codex/entire-graph__d9_4ea7db13b9_0_full.jsonl"
VERSIONS = 1_000
PARTS = 4
"""Equal shares of the versions, one of them in CI and all with EVERDELTA_SLOW=1."""


def recorded(store: Store) -> Session:
    """The session that was recorded, imported."""
    import_file(store, shared_path("data", LONGEST))
    return max((store.session(info.id) for info in store.sessions()), key=lambda session: session.version)


def said_again(source: Session, store: Store, stops: set[int]) -> tuple[Session, dict[int, tuple[bytes, int]]]:
    """The same session written once more, with a live view beside it: digest and length of what that showed at each stop."""
    session: Session | None = None
    live: LiveView | None = None
    seen: dict[int, tuple[bytes, int]] = {}
    waiting: list[Recorded] = []
    for found in source.events():
        if session is None or live is None:
            assert isinstance(found.event, ev.SessionStarted)
            session = begin_session(store, found.event, id=found.session, time=found.time)
            live = LiveView(session)
        else:
            waiting.append(found)
        if found.version not in stops and found.version != source.version:
            continue
        if waiting:
            bodies = {
                body.digest: source.store.log.body(body.digest) or b""
                for one in waiting
                for body in bodies_of(one.event)
            }
            session.append([(one.time, one.event) for one in waiting], bodies=bodies)
            waiting = []
        view = live.advance()
        assert view.version == found.version
        seen[found.version] = view.digest, len(view.messages)
    assert session is not None
    return session, seen


@pytest.mark.parametrize("part", range(PARTS if SLOW else 1))
def test_a_thousand_past_versions_are_what_they_were(tmp_path: Path, part: int) -> None:
    """Issue 5: the view at 1,000 random versions of the longest session equals the view computed live then, also opened again."""
    with eventlog.open("memory:") as original:
        source = recorded(original)
        newest = source.version
        assert newest > 5_000
        chosen = random.Random(5).sample(range(1, newest + 1), VERSIONS)[part::PARTS]
        with eventlog.open(tmp_path / "s", checkpoint_events=700) as store:
            session, seen = said_again(source, store, set(chosen))
            assert session.version == newest
            name = session.id
    with eventlog.open(tmp_path / "s", read_only=True) as store:
        session = store.session(name)
        for version in chosen:  # in no order
            view = ModelView.of(session, version)
            assert (view.digest, len(view.messages)) == seen[version], version
    assert len({digest for digest, _ in seen.values()}) > len(chosen) // 10, "the versions differ"
