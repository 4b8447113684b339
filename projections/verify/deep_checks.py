"""Deep checks of a session: replay equals live, and stored derived data equal a replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from eventlog.events import RecordForgotten
from eventlog.history.catalog import entry_of
from eventlog.history.ranges import Range, merged, without
from eventlog.log.commit import Head
from eventlog.session.session import Session
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import Follower, redact_parts, replay
from projections.replay.projection import Projection
from projections.verify.streams import Problem, StreamCheck

COMPARISONS = 8
"""At how many versions of a session the live state is compared with a replay."""


def deep_checks(
    session: Session, check: StreamCheck, head: Head, projections: Sequence[Projection[Any]], version: int
) -> Iterator[Callable[[list[Problem]], None]]:
    """Yield the checks of a session up to `version`; each adds the faults it finds to a list."""
    for projection in projections:
        yield partial(_compare, projection, session, version)
        yield partial(_checkpoints, projection, session, version)
    yield partial(_state, session, version)
    yield partial(_total, check, session, head)
    yield partial(_rows, session, version)


def _compare(projection: Projection[Any], session: Session, version: int, problems: list[Problem]) -> None:
    """Follow the session as a live reader does, and compare with replays on the way."""
    source = session.reader
    follower = Follower(projection, source, at=1)
    for number in range(1, COMPARISONS + 1):
        at = max(version * number // COMPARISONS, 1)
        follower.advance(at)
        redact_parts(projection, follower.state, source.inherited_redactions(), source, at)
        if projection.encode(follower.state) != projection.encode(replay(projection, source, at).state):
            problems.append(Problem(f"{projection.name}: replay differs from live", at))
            return


def _checkpoints(projection: Projection[Any], session: Session, version: int, problems: list[Problem]) -> None:
    """Compare every usable checkpoint with a replay from the first event."""
    source = session.reader
    checkpoints = Checkpoints(session.store.log)
    for at, state, _ in checkpoints.valid(projection, source, version, version):
        states = state, replay(projection, source, at).state
        found = {projection.encode(redact_parts(projection, one, source.redactions(at), source, at)) for one in states}
        if len(found) > 1:  # as shown now
            problems.append(Problem(f"{projection.name}: the checkpoint differs from a replay", at))


def _state(session: Session, version: int, problems: list[Problem]) -> None:
    """Compare the checkpoints of command state with a replay."""
    wrong = session.reader.wrong_checkpoints(version)
    problems.extend(Problem("command state: the checkpoint differs from a replay", at) for at in wrong)


def _total(check: StreamCheck, session: Session, head: Head, problems: list[Problem]) -> None:
    """Compare the number of visible messages with that of the state."""
    if not check.counted or check.version != head.version or session.reader.state().visible == head.messages:
        return
    if not head.base or not _forgotten_since(session, head):
        problems.append(Problem("its number of visible messages is not that of a replay"))


def _forgotten_since(session: Session, head: Head) -> list[Range]:
    """Return what was forgotten in a fork's parents since.

    Its total follows with its next append.
    """
    inherited = session.events(upto=head.base)
    known = [
        one for recorded in inherited if isinstance(recorded.event, RecordForgotten) for one in recorded.event.ranges
    ]
    return without(session.reader.forgotten(), merged((*known, *entry_of(head).forgotten)))


def _rows(session: Session, version: int, problems: list[Problem]) -> None:
    """Compare the rows of the transcript with a replay."""
    from projections.transcript.row_check import wrong_rows  # loaded for a deep check only

    wrong = wrong_rows(session, version)
    problems.extend(Problem("transcript: the rows differ from a replay", at) for at in wrong)
