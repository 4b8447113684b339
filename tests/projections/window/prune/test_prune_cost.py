"""The default policy: when it prunes, by which planner, and what the work costs under it."""

from __future__ import annotations

from decimal import Decimal

import pytest

import eventlog
from benchmarks.cases.prune import BOUND, FIXED, RATES, Shape, compared, drawn, ratio, worked
from eventlog.models.catalogue import Rates
from eventlog.values import Limits
from projections.loop import CallModel, ContextWindow, Prune
from projections.view.options import DEFAULT
from projections.window import ContextPolicy, PrunePolicy, SummaryRequest, summarize_offline
from projections.window.policy.policy import OPENCODE_POLICY, OverflowPolicy, Prices, prices_of
from projections.window.prune.planners import plan_prune
from tests.support.prune_sessions import Letters, Talk, conversation, plan

PRICES = Prices(Decimal(1), Decimal("0.1"), Decimal(1), Decimal(8))
SHAPES = (*FIXED, *drawn(10))


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("shape", SHAPES, ids=map(str, SHAPES))
def test_the_default_costs_at_most_five_percent_more_than_the_best(shape: Shape, rates: str) -> None:
    """On fixed and on drawn shapes: the best of no pruning, recency and cost-aware."""
    assert ratio(compared(shape, RATES[rates])) <= BOUND


def test_a_window_that_is_nearly_empty_is_never_pruned() -> None:
    """The loop prunes from half of usable on, or from the share that the policy says."""
    work = Shape(1_000_000, ((9_000,) * 12,))
    for name in (None, "recency", "superseded", "cost-aware"):
        assert worked(work, PrunePolicy(policy=name), RATES["plain"]).prunes == 0
    early = worked(work, PrunePolicy(policy="recency", trigger=0.05), RATES["plain"])
    assert early.prunes > 0
    assert early.largest < 100_000
    full = worked(Shape(1_000_000, ((9_900,) * 60,)), PrunePolicy(policy="recency"), RATES["plain"])
    assert full.prunes == 1
    assert 490_000 < full.largest < 510_000
    assert OPENCODE_POLICY.prune.trigger == 0.0


def test_a_prune_by_hand_does_not_ask_how_full_the_window_is() -> None:
    """Nor what it costs: `window.prune` takes the oldest results, if they are enough."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        for number in range(4):
            session.user(f"question {number}")
            with session.assistant("openai/gpt-5") as reply:
                reply.tool("read", call_id="c", input={"n": number}).succeed(f"{number} " * 15_000)
                reply.finish()
        window = ContextWindow(session, model="openai/gpt-5", limits=Limits(1_000_000, 8_000), environment={})
        assert window.tokens < 0.2 * 992_000
        done = window.prune()
        assert done is not None
        assert done.plan.policy == "recency"


def test_the_planner_follows_from_what_is_known_of_prices() -> None:
    """Cost-aware where the catalogue, or the policy, has the model's prices; else by age."""
    planners: list[str] = []
    with eventlog.open("memory:") as store:
        for model, prune in (
            ("openai/gpt-5", PrunePolicy()),
            ("my/model", PrunePolicy()),
            ("my/model", PrunePolicy(prices=PRICES)),
            ("openai/gpt-5", PrunePolicy(policy="superseded")),
        ):
            window = ContextWindow(
                store.create_session(), ContextPolicy(prune=prune), model=model, limits=Limits(100_000, 8_000)
            )
            planners.append(window.state.situation().prune_policy().planner)
            assert window.state.policy.prune == prune
        known = ContextWindow(store.create_session(), model="openai/gpt-5").state.situation().prune_policy().prices
    assert planners == ["cost-aware", "recency", "cost-aware", "superseded"]
    assert known is not None
    assert (known.cache_read, known.cache_write) == (known.input / 10, known.input)


def test_a_cache_without_a_price_costs_what_input_costs() -> None:
    """Prices of the catalogue, as usage is priced."""
    one = Decimal(1)
    assert prices_of(Rates(one, one * 2)) == Prices(one, one, one, one * 2)
    assert prices_of(Rates(one, one, one / 4, one * 3)) == Prices(one, one / 4, one * 3, one)


def steps(count: int, size: int) -> Talk:
    """One turn of so many equal steps."""
    talk = Talk().user("")
    for _ in range(count):
        talk.step(talk.tool(size))
    return talk


@pytest.mark.parametrize(("count", "pays"), [(20, False), (28, False), (30, True), (40, True)])
def test_a_prune_comes_when_reading_has_cost_as_much_as_it_will(count: int, *, pays: bool) -> None:
    """Steps of G = 100 letters; the newest twelve and the markers stay, which is B."""
    policy = PrunePolicy(protect=1_000, prices=PRICES, scale=False)
    found = plan(steps(count, 100).messages, policy, inside=True)
    assert (found is not None) is pays
    if found is not None:
        assert (found.policy, len(found.parts)) == ("cost-aware", count - 12)


@pytest.mark.parametrize(("left", "pays"), [(None, True), (10_000, True), (2_100, True), (2_000, False), (0, False)])
def test_what_a_compaction_clears_for_nothing_is_not_pruned_before(left: int | None, *, pays: bool) -> None:
    """N is at most the steps that fill the window up to B = 1,344 letters; 7.3 are needed."""
    policy = PrunePolicy(protect=1_000, prices=PRICES, scale=False)
    state = conversation(steps(30, 100).messages)
    found = plan_prune(state, policy, Letters(), options=DEFAULT, usable=None, inside=True, until_compaction=left)
    assert (found is not None) is pays


def asked(request: SummaryRequest) -> str:
    """A summariser that stands for a model."""
    return summarize_offline(request)


@pytest.mark.parametrize("compacts", ["for nothing", "paid", "never"])
def test_only_a_compaction_that_costs_nothing_is_waited_for(compacts: str) -> None:
    """A summary that asks a model costs more than pruning, and without compactions none comes."""
    policy = ContextPolicy(prune=PrunePolicy(prices=PRICES), overflow=OverflowPolicy(auto=compacts != "never"))
    summarizer = asked if compacts == "paid" else summarize_offline
    with eventlog.open("memory:") as store:
        session = store.create_session()
        session.user("a long turn")
        with session.pipeline():
            for number in range(250):
                with session.assistant("my/model") as reply:
                    reply.tool("read", call_id=f"c{number}", input={"n": number}).succeed(f"{number} " + "word " * 80)
                    reply.finish("tool-calls")
        window = ContextWindow(
            session, policy, model="my/model", limits=Limits(36_000, 4_000), summarizer=summarizer, environment={}
        )
        assert 0.75 < window.tokens / 32_000 < 1
        assert isinstance(window.next_step(), CallModel if compacts == "for nothing" else Prune)
