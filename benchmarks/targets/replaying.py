"""Target 6: replay of a whole history into the view, beside decoding with bare msgspec."""

from __future__ import annotations

import msgspec

import eventlog
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.history import EVENTS_A_TURN, begun, small_turns
from benchmarks.measure import in_turn, timed
from eventlog.codec.batch import Batch
from eventlog.codec.deltas import DeltaRun
from eventlog.events import Event
from projections.conversation.state import Conversation
from projections.replay.loop import replay
from projections.replay.projection import apply_each
from projections.view.model_view import ModelViewProjection

__all__ = ["CASES"]

EVENTS = 100_000
"""Most events of the history: all of them are objects in memory, too."""
CHUNK = 1_000
"""Events that bare msgspec decodes at a time."""
PROJECTION = ModelViewProjection()


class OneByOne(ModelViewProjection):
    """The projection with every delta as an object, applied by itself.

    A projection without a rule for runs works like this.
    """

    def apply_run(self, state: Conversation, run: DeltaRun, version: int, time: int) -> Conversation:
        """Apply the deltas of a run one by one."""
        times = run.times(time - run.start)
        for number, (at, delta) in enumerate(zip(times, run.deltas(), strict=True), version):
            state = self.apply(state, delta, number, at)
        return state

    def apply_batch(self, state: Conversation, batch: Batch, version: int) -> tuple[Conversation, int]:
        """Apply the events of an append one by one."""
        return apply_each(self, state, batch, version)


ONE_BY_ONE = OneByOne()


def _replays(setting: Setting) -> dict[str, Measurement]:
    path = setting.directory / "history"
    with eventlog.open(path) as store:
        name = begun(store, small_turns(min(EVENTS, setting.sizes.events[-1]) // EVENTS_A_TURN))
    with eventlog.open(path) as store:
        session = store.session(name)
        events = [recorded.event for recorded in session.events()]
        count = len(events)
        encode = msgspec.msgpack.Encoder().encode
        chunks = [encode(events[start : start + CHUNK]) for start in range(0, count, CHUNK)]
        decode = msgspec.msgpack.Decoder(list[Event]).decode
        samples = in_turn(
            {
                "runs": lambda: [timed(lambda: replay(PROJECTION, session.reader))],
                "deltas": lambda: [timed(lambda: replay(ONE_BY_ONE, session.reader))],
                "bare": lambda: [timed(lambda: [decode(chunk) for chunk in chunks])],
            },
            setting.sizes.rounds,
        )
    rate = {name: count / side_samples.median for name, side_samples in samples.items()}
    return {
        "target.6.runs": Measurement(rate["runs"], rate["bare"]),
        "target.6.deltas": Measurement(rate["deltas"], rate["bare"]),
    }


BARE = f"msgspec decoding of the same events, {CHUNK:,} at a time"

CASES = (
    Case(
        "target.6",
        (
            Figure("target.6.runs", "replay from the log, runs of deltas whole", "events/s", BARE, Target(">=", 2)),
            Figure(
                "target.6.deltas", "replay from the log, an object for each delta", "events/s", BARE, Target(">=", 0.35)
            ),
        ),
        _replays,
    ),
)
