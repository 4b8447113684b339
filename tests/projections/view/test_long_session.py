"""Promise 10: each past view of the longest recorded session equals the live one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import eventlog
from eventlog import events as ev
from eventlog.codec.decoded import Recorded
from eventlog.codec.redaction import bodies_of
from eventlog.importers import import_file
from eventlog.session.session import Session
from eventlog.session_store import begin_session
from eventlog.store import Store
from projections.view.model_view import LiveView, ModelView
from tests.faults.tally import SLOW
from tests.support.shared import shared_path

pytestmark = pytest.mark.promise(10)

LONGEST = "entireio_codex/entire-graph__d9_4ea7db13b9_0_full.jsonl"
VERSIONS = 1_000
PARTS = 4
"""The versions are split into shares: one of them in CI, all with EVERDELTA_SLOW=1."""


def recorded(store: Store) -> Session:
    """The recorded session, imported."""
    import_file(store, shared_path("data", LONGEST))
    return max((store.session(info.id) for info in store.sessions()), key=lambda session: session.version)


def said_again(source: Session, store: Store, stops: set[int]) -> tuple[Session, dict[int, tuple[bytes, int]]]:
    """Write the session again; digest and length of its live view at each stop."""
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
    """1,000 random past views equal those computed live, also after reopening."""
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
        for version in chosen:  # in random order
            view = ModelView.of(session, version)
            assert (view.digest, len(view.messages)) == seen[version], version
    assert len({digest for digest, _ in seen.values()}) > len(chosen) // 10, "the versions differ"
