"""Target 7: the next view after one more event, and a request after a small change."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

import eventlog
from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.history import begun, small_turns
from benchmarks.measure import in_turn, timed
from benchmarks.workloads import turns
from projections.formats.openai import ChatEncoder, chat_messages
from projections.view.model_view import LiveView, ModelView

__all__ = ["CASES"]

NEXT = 10.0
"""Microseconds that the next view may take."""
ROUNDS = 50
"""Events, each followed by a view."""
REQUEST_TURNS = 130
"""Turns of a view of about 600 KB: 150,000 tokens of four bytes each."""


def _following(session: eventlog.Session, *, warm: bool = False) -> Callable[[], list[float]]:
    live, other = LiveView(session), LiveView(session)
    live.advance()

    def one_more() -> list[float]:
        session.user("Go on")
        if warm:
            other.advance()
        return [timed(lambda: live.advance().messages)]

    return one_more


def _next(setting: Setting) -> dict[str, Measurement]:
    lengths = setting.sizes.lengths
    with opened(setting.directory, "next") as store:
        names = {length: begun(store, small_turns(length // 2)) for length in lengths}
        sides = {str(length): _following(store.session(name)) for length, name in names.items()}
        samples = in_turn(sides, ROUNDS, warm_up=2)
        longest = store.session(names[lengths[-1]])
        warm = in_turn({"warm": _following(longest, warm=True)}, ROUNDS, warm_up=2)["warm"]
    micro = {int(name): side_samples.median * 1e6 for name, side_samples in samples.items()}
    setting.notes.curve("next", "everdelta", micro)
    return {
        "target.7.next": Measurement(micro[lengths[-1]], NEXT),
        "target.7.next.flat": Measurement(micro[lengths[-1]], micro[lengths[0]]),
        "target.7.next.warm": Measurement(warm.median * 1e6, NEXT),
    }


def _rendered(setting: Setting) -> dict[str, Measurement]:
    with opened(setting.directory, "render") as store:
        session = store.session(begun(store, turns(REQUEST_TURNS, seed=8)))
        live = LiveView(session)
        messages = live.advance().messages
        request = chat_messages(messages)
        encoder = ChatEncoder()
        encoder.encode(messages)

        def changed() -> list[float]:
            session.user("Go on")
            later = live.advance().messages
            return [timed(lambda: encoder.encode(later))]

        def bare() -> list[float]:
            return [timed(lambda: msgspec.json.encode(request))]

        rounds = setting.sizes.rounds * 4
        samples = in_turn(
            {"cold": lambda: [timed(lambda: ChatEncoder().encode(messages))], "end": changed, "bare": bare},
            rounds,
            warm_up=2,
        )
        replayed = in_turn(
            {"replay": lambda: [timed(lambda: ChatEncoder().encode(ModelView.of(session).messages))], "bare": bare},
            setting.sizes.rounds,
        )
    milli = {name: side_samples.median * 1e3 for name, side_samples in samples.items()}
    return {
        "target.7.render.cold": Measurement(milli["cold"], milli["bare"]),
        "target.7.render.end": Measurement(milli["end"], milli["bare"]),
        "target.7.render.replay": Measurement(replayed["replay"].median * 1e3, replayed["bare"].median * 1e3),
    }


BARE = "bare msgspec JSON encoding of the same request"

CASES = (
    Case(
        "target.7.next",
        (
            Figure(
                "target.7.next",
                "next view after one more message, longest session (100,000 messages with --full)",
                "µs",
                "10 µs",
                Target("<=", 1),
            ),
            Figure(
                "target.7.next.flat",
                "next view after one more message, longest session",
                "µs",
                "in a session of 100 messages",
                Target("<=", 2),
            ),
            Figure("target.7.next.warm", "next view, longest session, with warm caches", "µs", "10 µs"),
        ),
        _next,
    ),
    Case(
        "target.7.render",
        (
            Figure(
                "target.7.render.cold",
                "a view of 600 KB rendered to OpenAI's JSON, nothing cached",
                "ms",
                BARE,
                Target("<=", 2.5),
            ),
            Figure(
                "target.7.render.end",
                "a view of 600 KB rendered to OpenAI's JSON, only its end changed",
                "ms",
                BARE,
                Target("<=", 0.25),
            ),
            Figure(
                "target.7.render.replay",
                "a view of 600 KB rendered to OpenAI's JSON, replayed from the log",
                "ms",
                BARE,
            ),
        ),
        _rendered,
    ),
)
