"""Every recorded session: replay at any version equals live, and each call has one result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pytest

import eventlog
from eventlog.codec.decoded import DecodedCommit
from eventlog.errors import ImportFormatError
from eventlog.importers import import_file
from eventlog.session.session import Session
from projections.replay.loop import Follower, replay
from projections.transcript.transcript import TranscriptProjection
from projections.view.model_view import LiveView, ModelView
from projections.view.neutral import Call, NeutralMessage, Result
from projections.view.targets import ModelViewProjection
from tests.support.shared import shared_path
from tests.support.spans import Recording

DATA = shared_path("data")
SOURCES = sorted(
    [
        *DATA.glob("entireio_claude_code/*.jsonl"),
        *DATA.glob("claude_code_*/*.jsonl"),
        *DATA.glob("sse_extracted/*.sse"),
        *DATA.glob("prism_sse/*.sse"),
        *shared_path("parity", "dev").glob("*/exports/*.json"),
    ]
)
WHOLE = 500
"""Most versions at which a session is compared; longer ones are thinned by `THIN`."""
THIN = 8
GROUPS = 24


class Until(Recording):
    """A session up to an earlier version, read once and held in memory."""

    def __init__(self, session: Session) -> None:
        super().__init__((), name=session.id)
        self._decoded = list(session.reader.decoded_commits())
        self._past = session.reader.state().history

    def decoded_commits(self, after: int = 0, upto: int | None = None) -> Iterator[DecodedCommit]:
        """Yield the runs append by append, none behind the version."""
        return super().decoded_commits(after, self.version if upto is None else min(upto, self.version))

    def effective_ranges(self, at: int | None = None) -> list[tuple[int, int]]:
        """The effective versions."""
        return self._past.at(self.version if at is None else at)


def versions(session: Session) -> list[int]:
    """Return the versions at which a session is checked."""
    newest = session.version
    if newest <= WHOLE:
        return list(range(1, newest + 1))
    step = newest * THIN / WHOLE
    return sorted({round(step * number) for number in range(1, int(newest / step) + 1)} | {newest} - {0})


def answered(messages: Iterator[NeutralMessage] | list[NeutralMessage]) -> None:
    """Check that each call has exactly one result, in its message or right after it."""
    open_calls: Counter[str] = Counter()
    for message in messages:
        if message.role == "assistant":
            assert not +open_calls, f"calls without a result: {open_calls}"
        for part in message.parts:
            if isinstance(part, Call):
                open_calls[part.call] += 1
            elif isinstance(part, Result):
                open_calls[part.call] -= 1
                assert open_calls[part.call] >= 0, f"a result without a call: {part.call}"
    assert not +open_calls, f"calls without a result: {open_calls}"


@pytest.fixture(scope="module", params=range(GROUPS))
def sessions(request: pytest.FixtureRequest) -> Iterator[list[Session]]:
    """The recorded sessions of one group, imported."""
    with eventlog.open("memory:") as store:
        for path in SOURCES[request.param :: GROUPS]:
            with suppress(ImportFormatError):
                import_file(store, path)
        yield [store.session(info.id) for info in store.sessions()]


@pytest.mark.promise(7)
def test_replay_equals_live_at_every_version(sessions: list[Session]) -> None:
    """Promise 7 over all recordings: replayed view and transcript have the live bytes."""
    for session in sessions:
        source = Until(session)
        for projection in (ModelViewProjection(), TranscriptProjection()):
            source.version = 0
            follower = Follower(projection, source)
            for version in versions(session):
                source.version = version
                follower.advance()
                replayed = replay(projection, source, version).state
                assert projection.encode(follower.state) == projection.encode(replayed), (session.id, version)


def test_each_call_has_one_result(sessions: list[Session]) -> None:
    """In every recorded session, now and half way, each call has exactly one result."""
    assert sessions
    for session in sessions:
        newest = session.version
        for at in sorted({max(newest * number // 6, 1) for number in range(1, 7)}):
            answered(list(ModelView.of(session, at).messages))
        live = LiveView(session).view
        fresh = ModelView.of(session)
        assert list(live.messages) == list(fresh.messages)
        assert live.digest == fresh.digest


def test_the_sample_of_versions_is_what_it_says(store: eventlog.Store) -> None:
    """Short sessions are looked at at every version, long ones at their end, too."""
    short, long = store.create_session(), store.create_session()
    for _ in range(3):
        short.user("a")
    for _ in range(WHOLE):
        long.user("a")
    assert versions(short) == list(range(1, short.version + 1))
    chosen = versions(long)
    assert chosen[-1] == long.version
    assert all(first < second for first, second in pairwise(chosen))
