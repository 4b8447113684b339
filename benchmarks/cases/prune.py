"""The price of shapes of work under the default policy, against the best of three others.

The others are no pruning, "recency" and "cost-aware". A shape is a window and the sizes of results,
turn by turn. What a request shares with the one before is read from the provider's cache at a tenth
of the price; the rest costs the price of input, or a quarter more where writing to the cache does.
Compactions are those of the offline digest, which costs nothing. Four shapes are fixed, ten drawn.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from random import Random
from typing import Any, NamedTuple

import eventlog
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from eventlog.models.catalogue import KnownModel, Rates, shipped
from eventlog.values import Limits, Model
from projections.loop import CallModel, Compact, ContextWindow, ModelRequest, Prune, RunTools
from projections.tokens.counter import CharsCounter
from projections.view.neutral import NeutralMessage
from projections.view.token_count import ViewCounter
from projections.window import ContextPolicy, PrunePolicy, TruncationPolicy

RATES = {
    "plain": Rates(Decimal(1), Decimal(8), Decimal("0.1")),
    "written": Rates(Decimal(1), Decimal(8), Decimal("0.1"), Decimal("1.25")),
}
"""Prices of a model: writing to its cache costs what input does, or a quarter more."""
BOUND = 1.05
"""The default policy costs at most so many times the best of the others."""
SEED = 29
OUTPUT = 8_000
_WORD = "result "


class Shape(NamedTuple):
    """A window, and the tokens of the results of each turn, one call a step."""

    context: int
    turns: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        results = [size for turn in self.turns for size in turn]
        mean = sum(results) // len(results)
        return f"{len(results)} calls of {mean:,} tokens, {len(self.turns)} turns, window {self.context:,}"


class Worked(NamedTuple):
    """Totals of a shape under one policy."""

    price: float
    """Of all requests, in tokens of input."""
    prunes: int
    compactions: int
    largest: int
    """Tokens of the largest request."""


FIXED = (
    Shape(400_000, ((9_800,) * 30,)),
    Shape(1_000_000, ((9_800,) * 30,)),
    Shape(400_000, ((3_900,) * 60,)),
    Shape(1_000_000, ((3_900,) * 100,)),
)


def drawn(count: int, seed: int = SEED) -> list[Shape]:
    """Draw shapes: windows, numbers of turns and calls, and sizes that are equal or spread."""
    random = Random(seed)
    shapes: list[Shape] = []
    for _ in range(count):
        context = random.choice((128_000, 200_000, 400_000, 1_000_000))
        mean, spread = 10 ** random.uniform(2.7, 4.1), random.choice((0.0, 0.5, 1.0))
        turns, calls = random.choice((1, 1, 2, 4)), random.randint(10, 120)
        sizes = [min(int(mean * random.lognormvariate(0, spread)) + 1, context // 10) for _ in range(calls)]
        shapes.append(Shape(context, tuple(tuple(sizes[turn::turns]) for turn in range(turns))))
    return shapes


def _given(text: str, arguments: dict[str, Any]) -> str:
    """Return the result of a call, for any arguments."""
    del arguments
    return text


class _Bill:
    """The price of requests, in tokens of input."""

    def __init__(self, rates: Rates) -> None:
        self.price, self.largest = 0.0, 0
        self._read, self._write = float(rates.cache_read or 1), float(rates.cache_write or 1)
        self._counter = ViewCounter(CharsCounter())
        self._before: list[NeutralMessage] = []

    def charge(self, request: ModelRequest) -> None:
        """Charge a request by what it shares with the one before."""
        sent = [*request.messages]
        pairs = enumerate(zip(self._before, sent, strict=False))
        shared = next((place for place, (one, two) in pairs if one is not two and one != two), len(self._before))
        read = min(self._counter.count(sent[:shared]), request.counted) if shared else 0
        self.price += read * self._read + (request.counted - read) * self._write
        self.largest = max(self.largest, request.counted)
        self._before = sent


def worked(shape: Shape, prune: PrunePolicy, rates: Rates) -> Worked:
    """Work through a shape under a prune policy, with a model of these rates."""
    model, limits = Model("benchmark", "model"), Limits(shape.context, OUTPUT)
    models = shipped().extended({str(model): KnownModel(limits, (rates,))}, date="2026-01-01")
    bill = _Bill(rates)
    calls = prunes = compactions = 0
    with eventlog.open("memory:", models=models) as store:
        session = store.create_session()
        policy = ContextPolicy(TruncationPolicy(enabled=False), prune, counter="chars/4")
        with ContextWindow(session, policy, model=model, environment={}) as window:
            for number, turn in enumerate(shape.turns):
                session.user(f"question {number}")
                left = [*turn]
                while step := window.next_step():
                    if isinstance(step, CallModel):
                        reply, request = window.begin(step)
                        bill.charge(request)
                        if left:
                            calls += 1
                            reply.tool("read", call_id=f"c{calls}").stream_input(f'{{"page": {calls}}}')
                            reply.end_step("tool-calls")
                        else:
                            reply.add_text("done")
                            reply.finish()
                    elif isinstance(step, RunTools):
                        text = f"{calls} {_WORD * (left.pop(0) * 4 // len(_WORD))}"
                        window.run(step.calls[0], partial(_given, text))
                        window.finish()
                    else:
                        prunes += isinstance(step, Prune)
                        compactions += isinstance(step, Compact)
                        window.perform(step)
    return Worked(bill.price, prunes, compactions, bill.largest)


POLICIES = {
    "default": PrunePolicy(),
    "off": PrunePolicy(enabled=False),
    "recency": PrunePolicy(policy="recency"),
    "cost-aware": PrunePolicy(policy="cost-aware"),
}


def compared(shape: Shape, rates: Rates) -> dict[str, Worked]:
    """Work through a shape under the default policy and under each of the others."""
    return {name: worked(shape, policy, rates) for name, policy in POLICIES.items()}


def ratio(found: dict[str, Worked]) -> float:
    """Return the price under the default policy, against the best of the others."""
    return found["default"].price / min(other.price for name, other in found.items() if name != "default")


def _priced(_setting: Setting) -> dict[str, Measurement]:
    """Return the worst ratio of all shapes for each kind of prices."""
    shapes = (*FIXED, *drawn(10))
    return {
        f"window.{name}.shapes": Measurement(max(ratio(compared(shape, rates)) for shape in shapes), 1.0)
        for name, rates in RATES.items()
    }


FIGURES = tuple(
    Figure(
        f"window.{name}.shapes",
        f"price of the default policy, worst of 14 shapes of work, prices {name}",
        "",
        "the best of off, recency, cost-aware",
        Target("<=", BOUND),
    )
    for name in RATES
)


CASE = Case("prune", FIGURES, _priced)
