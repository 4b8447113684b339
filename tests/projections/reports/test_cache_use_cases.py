"""Single cases of a step's use of the cache: the event, the tokens, the money."""

from __future__ import annotations

import time
from collections import Counter
from decimal import Decimal
from typing import Any

import msgspec
import pytest

import eventlog
from eventlog.errors import EventlogError
from eventlog.importers import import_file
from eventlog.models.catalogue import KnownModel, ModelCatalogue, Rates
from projections.inspector import answers
from projections.inspector.room import Room
from projections.loop import ContextWindow, window_report
from projections.reports.cache_rules import RULES, UNKNOWN, CacheRules, cache_rules
from projections.reports.cache_uses import CacheUse, cache_uses, newest_cache_use
from projections.reports.timeline import timeline
from projections.reports.wording import cache_words
from tests.support.compactions import compacted
from tests.support.engines import Engine
from tests.support.prefix_cache import RENDER, Program, Provider
from tests.support.shared import shared_path

GPT = "openai/gpt-5"
CLAUDE = "anthropic/claude-sonnet-4-5"
RATES = Rates(Decimal(10), Decimal(30), Decimal(1), Decimal("12.5"))
MODELS = ModelCatalogue(
    {name: KnownModel(eventlog.Limits(200_000, 8_000), (RATES,)) for name in (GPT, CLAUDE)}, date="2026-11-01"
)
LONG = "What a file says, line after line, until it ends. " * 40
MILLION = 1_000_000


@pytest.fixture
def clock() -> list[int]:
    """The time, in milliseconds."""
    return [1_700_000_000_000]


@pytest.fixture
def store(clock: list[int], engine: Engine) -> eventlog.Store:
    """A store that knows prices, on every engine."""
    return engine.open(clock=lambda: clock[0], models=MODELS)


def begun(store: eventlog.Store, clock: list[int], model: str = GPT) -> tuple[Program, list[str]]:
    """A session of three steps that read files; the program, and the parts of the calls."""
    session = store.create_session(id="talk")
    session.set_system_prompt("You help. " * 500)
    program = Program(session, Provider(cache_rules(eventlog.Model(*model.split("/")))), clock)
    session.user("Read them")
    calls: list[str] = []
    for number in range(3):
        calls += program.step(model, f"I read {number}", (f"file {number}.py {LONG}",))
    return program, calls


def newest(program: Program, **given: Any) -> CacheUse:
    """The use of the newest step."""
    return [*cache_uses(program.session, **given)][-1]


@pytest.mark.parametrize("model", [GPT, CLAUDE])
def test_a_prune_costs_what_is_behind_it(store: eventlog.Store, clock: list[int], model: str) -> None:
    """The results behind a pruned one are read anew, at the price of input or of writing."""
    program, calls = begun(store, clock, model)
    program.act("prune", lambda: program.session.context.prune(calls[:1]))
    event = program.session.version
    program.step(model, "Done")
    use = newest(program)
    assert (use.cause, use.event, use.model, use.step) == ("prune", event, model, 4)
    assert use.missed == use.expected - use.reported
    assert use.missed == pytest.approx(program.steps[-1].missed, rel=0.1)
    anew = RATES.cache_write if model == CLAUDE else RATES.input
    assert anew is not None
    assert use.lost == use.missed * (anew - 1) / MILLION


def test_a_prune_of_arguments_alone_is_named(store: eventlog.Store, clock: list[int]) -> None:
    """A prune that clears no result breaks the beginning; its undo finds the old one again."""
    program, _ = begun(store, clock)
    calls = program.step(GPT, "I write", ("ok",), written=LONG)
    for number in (7, 8, 9):
        program.step(GPT, "I read on", (f"file {number}.py {LONG}",))
    program.session.context.prune([], arguments=calls)
    event = program.session.version
    program.step(GPT, "Done")
    assert (newest(program).cause, newest(program).event) == ("prune", event)
    program.session.context.unprune([], arguments=calls)
    program.step(GPT, "Done")
    assert newest(program).missed == 0


def test_without_prices_no_money_is_said(clock: list[int]) -> None:
    """Neither a model without rates nor one without a rate for its cache gives a price."""
    for rates in ((), (Rates(Decimal(10), Decimal(30)),)):
        models = ModelCatalogue({GPT: KnownModel(eventlog.Limits(200_000, 8_000), rates)}, date="2026-11-01")
        with eventlog.open("memory:", clock=lambda: clock[0], models=models) as store:
            program, calls = begun(store, clock)
            program.session.context.prune(calls[:1])
            program.step(GPT, "Done")
            use = newest(program)
        assert use.missed > 0
        assert use.lost is None


def test_steps_that_follow_each_other_miss_nothing(store: eventlog.Store, clock: list[int]) -> None:
    """The first step has nothing to expect; the others have all that was expected."""
    program, _ = begun(store, clock)
    first, *others = cache_uses(program.session)
    assert (first.expected, first.reported) == (0, 0)
    assert all(use.expected == use.reported > 1_024 for use in others)
    assert {use.cause for use in (first, *others)} == {""}


def test_a_fork_begins_with_the_prefix_of_its_parent(store: eventlog.Store, clock: list[int]) -> None:
    """A fork's first step is compared with its parent's last; a late one finds nothing."""
    program, _ = begun(store, clock)
    fork = program.session.fork(id="fork")
    other = Program(fork, program.provider, clock)
    fork.user("Another way")
    other.step(GPT, "Here")
    use = newest(other)
    assert use.expected == use.reported > 0
    late = Program(program.session.fork(id="late"), program.provider, clock)
    late.session.user("Much later")
    late.wait(301)
    late.step(GPT, "Here")
    use = newest(late)
    assert (use.cause, use.event, use.reported) == ("expired", None, 0)
    assert use.missed == use.expected > 0


def test_a_compaction_costs_the_tail_that_stays(store: eventlog.Store, clock: list[int]) -> None:
    """The tail is missed, and nothing that the summary stands for."""
    program, _ = begun(store, clock)
    program.step(GPT, "All read")
    tail = program.session.user("And these")
    program.step(GPT, "I read it", (f"another {LONG * 4}",))
    program.step(GPT, "Read, too")
    compacted(program.session, "what was done", tail=tail)
    event = program.session.version
    program.session.user("Go on")
    program.step(GPT, "Gladly")
    use = newest(program)
    assert (use.cause, use.event) == ("compaction", event)
    assert len(LONG) < use.missed * 4 < 6 * len(LONG)


def test_a_rollback_costs_nothing(store: eventlog.Store, clock: list[int]) -> None:
    """The shorter request was the beginning of the longer one."""
    program, _ = begun(store, clock)
    version = program.session.version
    program.session.user("No")
    program.step(GPT, "I read on", (LONG,))
    program.session.rollback(version)
    program.session.user("Yes")
    program.step(GPT, "So")
    use = newest(program)
    assert (use.cause, use.missed) == ("", 0)
    assert use.reported > 1_024


def test_a_provider_that_reports_no_cache_is_not_known(store: eventlog.Store) -> None:
    """Zeros of a provider that never reported a cache say nothing, and cost nothing."""
    session = store.create_session()
    session.set_system_prompt("You help. " * 500)
    for number in range(2):
        session.user(f"Question {number}")
        with session.assistant(GPT) as reply:
            reply.step(view_version=session.version, render=RENDER)
            reply.finish("stop", usage=eventlog.Usage(eventlog.Tokens(2_000 + number)))
    use = [*cache_uses(session)][-1]
    assert (use.cause, use.missed, use.lost) == ("not known", 0, None)
    assert use.expected == 1_920
    assert cache_words(use) == "0 of 2,001 tokens from the cache, 1,920 expected; the reason is not known"


@pytest.mark.parametrize("given", [{"render": "[]"}, {"view_version": 10**6, "render": RENDER}])
def test_a_request_that_cannot_be_rebuilt_is_not_known(
    store: eventlog.Store, clock: list[int], given: dict[str, Any]
) -> None:
    """A step whose rendering cannot be read, or whose view does not exist, has no named cause."""
    program, _ = begun(store, clock)
    with program.session.assistant(GPT) as reply:
        reply.step(**given)
        reply.finish("stop", usage=eventlog.Usage(eventlog.Tokens(9_000)))
    use = newest(program)
    assert (use.cause, use.missed) == ("not known", 0)
    program.session.user("Once more")
    program.step(GPT, "Here")
    assert timeline(program.session).entries[-1].cache == newest(program)


def test_a_prefix_that_is_whole_and_not_old_is_not_known(store: eventlog.Store, clock: list[int]) -> None:
    """Where nothing changed and no time passed, the provider let it go."""
    program, _ = begun(store, clock)
    program.session.user("Again")
    view = program.session.version
    with program.session.assistant(GPT) as reply:
        reply.step(view_version=view, render=RENDER)
        reply.finish("stop", usage=eventlog.Usage(eventlog.Tokens(4_000)))
    use = newest(program)
    assert (use.cause, use.event) == ("not known", None)
    assert use.missed == use.expected > 0


def test_what_a_hook_changes_is_named(store: eventlog.Store, clock: list[int]) -> None:
    """A patch of the view that changes its first message is a hook's."""
    program, _ = begun(store, clock)
    version = program.session.version
    patch = '{"start":0,"stop":1,"messages":[{"role":"user","parts":[{"type":"text","text":"Other"}]}]}'
    with program.session.assistant(GPT) as reply:
        reply.step(view_version=version, render=RENDER, patch=patch)
        begin = program.session.version
        reply.finish("stop", usage=eventlog.Usage(eventlog.Tokens(2_600, 0, 0, 1_280)))
    use = newest(program)
    assert (use.cause, use.event) == ("hook", begin)


def test_a_page_of_steps_is_that_of_the_whole(store: eventlog.Store, clock: list[int]) -> None:
    """`first` and `last` choose; the newest alone is the last, without its number."""
    program, calls = begun(store, clock)
    program.session.context.prune(calls[:1])
    for _ in range(3):
        program.session.user("More")
        program.step(GPT, "Done")
    uses = [*cache_uses(program.session)]
    assert [use.step for use in uses] == [1, 2, 3, 4, 5, 6]
    assert [*cache_uses(program.session, 3, 5)] == uses[2:5]
    found = newest_cache_use(program.session)
    assert found is not None
    assert [getattr(found, name) for name in found.__struct_fields__[1:]] == [
        getattr(uses[-1], name) for name in found.__struct_fields__[1:]
    ]
    assert newest_cache_use(store.create_session()) is None


def test_the_newest_step_is_found_far_from_its_beginning(store: eventlog.Store, clock: list[int]) -> None:
    """A prune of what is far behind is named, too; usage without steps has no newest step."""
    program, calls = begun(store, clock)
    for number in range(120):
        program.session.user(f"{number}. {LONG[:200]}")
        program.step(GPT, "Yes")
    program.session.context.prune(calls[:1])
    event = program.session.version
    assert event > 600
    program.session.user("And?")
    program.step(GPT, "Done")
    found = newest_cache_use(program.session)
    assert found == msgspec.structs.replace(newest(program), step=None)
    assert found is not None
    assert (found.cause, found.event) == ("prune", event)
    other = store.create_session()
    with other.assistant(GPT) as reply:
        reply.finish("stop", usage=eventlog.Usage(eventlog.Tokens(9_000)))
    assert newest_cache_use(other) is None


def test_timeline_window_and_inspector_tell_it(store: eventlog.Store, clock: list[int]) -> None:
    """A field of the timeline, of the report on the window, and of the inspector's steps."""
    program, calls = begun(store, clock)
    program.act("prune", lambda: program.session.context.prune(calls[:1]))
    event = program.session.version
    program.session.user("What is in them?")
    program.step(GPT, "Done")
    use = newest(program)
    assert [entry.cache for entry in timeline(program.session).entries if entry.cache is not None][-1] == use
    report = window_report(ContextWindow(program.session, limits=eventlog.Limits(100_000, 1_000)))
    assert report.cache is not None
    assert report.cache.missed == use.missed
    assert cache_words(use).endswith(f"{use.missed:,} missed (prune at version {event}, ${use.lost})")
    room = Room(store, "talk")
    shown = answers.verdicts(room, {"first": "4", "last": "4"})["steps"][0]["cache"]
    assert (shown["missed"], shown["cause"], shown["lost"]) == (use.missed, "prune", str(use.lost))
    assert answers.request(room, {"step": "4"})["cache"] == shown


def test_rules_are_found_by_the_makers_name() -> None:
    """A model behind a gateway has its maker's rules; a program's own go before them."""
    assert cache_rules(eventlog.Model("openrouter", "anthropic/claude-opus-4.6")) == RULES["claude-opus-4-6"]
    assert cache_rules(eventlog.Model("azure", "gpt-5")).block == 128
    assert cache_rules(eventlog.Model("acme", "one")) is cache_rules(None) is UNKNOWN
    own = CacheRules(16, 16, life=5)
    assert cache_rules(eventlog.Model("openai", "gpt-5"), {"openai/gpt-5": own}) is own
    assert [RULES["openai/"].kept(tokens) for tokens in (1_023, 1_024, 1_151, 1_152)] == [0, 1_024, 1_024, 1_152]


def steps(count: int) -> float:
    """Least processor seconds of three reports on steps, each twentieth of which is a prune."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        calls: list[str] = []
        for number in range(count):
            session.user(f"Question {number}")
            calls.append(f"c{number}")
            with session.assistant(GPT) as reply:
                reply.step(view_version=session.version - 1, render=RENDER, counted=100 * number)
                call = reply.tool("read", call_id=calls[-1], input={}, id=calls[-1])
                call.succeed(f"{number} {LONG[:200]}")
                reply.finish("stop", usage=eventlog.Usage(eventlog.Tokens(100, 9, 0, 100 * number)))
            if number % 20 == 19:
                session.context.prune(calls[-15:-5])
        seconds: list[float] = []
        for _ in range(3):
            begin = time.process_time()
            assert len([*cache_uses(session)]) == count
            seconds.append(time.process_time() - begin)
        return min(seconds)


def test_the_report_is_linear_in_the_steps() -> None:
    """Eight times as many steps cost about eight times as much."""
    steps(50)
    assert steps(2_400) < 16 * steps(300)


def test_recorded_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    """Of recorded steps most have no miss; the share of those that are not known is printed."""
    causes: Counter[str] = Counter()
    for path in sorted(shared_path("data").glob("entireio_*/*.jsonl")):
        with eventlog.open("memory:") as store:
            try:
                import_file(store, str(path))
            except EventlogError:
                continue
            for info in store.sessions():
                uses = [*cache_uses(store.session(info.id))]
                if any(use.reported for use in uses):
                    causes.update(use.cause for use in uses)
    missed = causes.total() - causes[""]
    with capsys.disabled():
        print(f"\nrecorded: {causes.total()} steps, {missed} misses, not known {causes['not known']}: {dict(causes)}")
    assert causes.total() > 500
    assert causes["not known"] < 0.1 * causes.total()
    assert missed > causes["not known"]
