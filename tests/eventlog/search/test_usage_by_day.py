"""Usage by day beside the sums of every session's own usage report."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path

import pytest

import eventlog
from eventlog import CallError, MessageError, ModelCatalogue, Session, Store
from eventlog import events as ev
from eventlog.codec.decoded import Span
from eventlog.errors import LimitError
from eventlog.importers import import_file
from eventlog.models.catalogue import KnownModel, Rates
from eventlog.search import search
from eventlog.values import Limits, Tokens, Usage
from projections.reports.usage import UsageTotals, usage_by_model
from tests.support.engines import ENCRYPTED, ENGINES, Engine

DAY = 86_400_000
RECORDED = Path(__file__).parents[2] / "golden" / "imports" / "claude-early-results.jsonl"
"""A history of the first of January 2026."""
MODELS = ("acme/flat", "acme/steps", "acme/unknown", None)
RATES = {
    "acme/flat": KnownModel(Limits(1000), (Rates(Decimal(3), Decimal(15)),)),
    "acme/steps": KnownModel(
        Limits(1000),
        (
            Rates(Decimal(1), Decimal(2), Decimal("0.1")),
            Rates(Decimal(2), Decimal(4), Decimal("0.2"), above=100),
            Rates(Decimal(5), Decimal(9), above=150),
        ),
    ),
}
CATALOGUE = ModelCatalogue(RATES, date="2026-01-01")
WORKER = """
import eventlog, sys
from eventlog.values import Tokens, Usage
with eventlog.open(sys.argv[1]) as store:
    session = store.create_session(scope="beside")
    for number in range(200):
        session.record_usage(Usage(Tokens(number)), model="acme/flat")
"""

Sums = dict[tuple[int, str, str], tuple[UsageTotals, Counter[str], set[str]]]


def plain(store: Store) -> Sums:
    """Sum the own events of every session, by day, scope and model."""
    spans: dict[tuple[int, str, str], list[Span]] = defaultdict(list)
    seen: dict[tuple[int, str, str], Counter[str]] = defaultdict(Counter)
    ids: dict[tuple[int, str, str], set[str]] = defaultdict(set)
    for info in store.sessions():
        session, models = store.session(info.id), dict[str, str]()
        for span in session.reader.spans():
            event, day = span.item, max(span.time, 0) // DAY * DAY
            if isinstance(event, ev.AssistantMessageStarted):
                models[event.message] = "" if event.model is None else str(event.model)
            if span.first <= info.version - info.events:
                continue  # inherited
            if isinstance(event, ev.AssistantMessageStarted):
                place = day, info.scope, models[event.message]
                seen[place]["replies"] += 1
            elif isinstance(event, ev.MessageFinished) and event.error is not None and event.error.name != "aborted":
                place = day, info.scope, models[event.message]
                seen[place]["errors"] += 1
            elif isinstance(event, ev.UsageRecorded):
                place = day, info.scope, "" if event.model is None else str(event.model)
                spans[place].append(span)
                seen[place]["errors"] += event.failed and event.message is None
            else:
                continue
            ids[place].add(info.id)
    sums: Sums = {}
    for place in spans.keys() | seen.keys():
        (totals,) = usage_by_model(spans[place], store.host.models) or [UsageTotals(place[2])]
        sums[place] = totals, seen[place], ids[place]
    return sums


def agree(store: Store) -> None:
    """Compare the index with the sums."""
    store.flush()
    found = store.usage_by_day(wait=None)
    assert not found.behind
    wanted = plain(store)
    assert [(each.day, each.scope, each.model) for each in found.days] == sorted(wanted)
    for each in found.days:
        totals, seen, ids = wanted[each.day, each.scope, each.model]
        assert (each.replies, each.errors) == (seen["replies"], seen["errors"])
        assert each.sessions == ids
        for name in ("calls", "failed", "unpriced", "estimated", "cost", "estimate"):
            assert getattr(each, name) == getattr(totals, name), name
        for name in ("input", "output", "reasoning", "cache_read", "cache_write"):
            assert getattr(each.tokens, name) == getattr(totals, name), name


def live(store: Store, chance: random.Random) -> None:
    """Do one thing to a session of the store."""
    session = store.session(chance.choice([info.id for info in store.sessions()]))
    tokens = Tokens(chance.randrange(120), chance.randrange(9), 0, chance.randrange(90), chance.randrange(2))
    usage = Usage(tokens, chance.choice([None, None, Decimal(chance.randrange(99)) / 7]))
    match chance.randrange(8):
        case 0:
            store.create_session(scope=chance.choice(["", "alice", "爱丽丝"]))
        case 1:
            session.fork(chance.randrange(1, session.version + 1))
        case 2 if sum(1 for _ in store.sessions()) > 3:
            store.erase(session.id, forks="keep")
        case 3 if session.version > 1:
            session.rollback(to=chance.randrange(1, session.version))
        case 4:
            session.record_usage(usage, model=chance.choice(MODELS), failed=chance.random() < 0.5)
        case _:
            session.user("and now?")
            with session.assistant(chance.choice(MODELS)) as reply:
                reply.add_text("this")
                match chance.randrange(4):
                    case 0:
                        reply.abort(MessageError("api", "refused"))
                    case 1:
                        reply.abort()
                    case _:
                        reply.finish(usage=usage)


@pytest.mark.parametrize("name", [*ENGINES, ENCRYPTED])
def test_any_program_is_summed_up_as_its_sessions_are(name: str, tmp_path: Path) -> None:
    """Any program leaves the sums of all sessions, also with a second store beside."""
    place, chance = Engine(name, tmp_path), random.Random(7)
    now = [1_767_200_000_000]
    stores = [place.open(clock=lambda: now[0], models=CATALOGUE) for _ in range(2)]
    stores[0].create_session(scope="alice")
    for number in range(160):
        now[0] += DAY // 50
        live(chance.choice(stores), chance)
        if number % 4 == 0:
            agree(chance.choice(stores))
    for store in stores:
        agree(store)
    place.close()


@pytest.mark.parametrize("name", [*ENGINES, ENCRYPTED])
def test_usage_has_no_bound_where_searches_have_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with too much text for an index in memory is summed up all the same."""
    monkeypatch.setattr(search, "MAX_MEMORY", 50)
    place = Engine(name, tmp_path)
    store = place.open(models=CATALOGUE)
    chance, in_memory = random.Random(1), store.log.derived_directory is None
    store.create_session(scope="alice").user("word " * 20)
    for _ in range(20):
        live(store, chance)
        agree(store)
        if in_memory:
            with pytest.raises(LimitError):
                store.search("word")
    place.close()


def test_an_erased_session_counts_no_more_at_once(store: Store) -> None:
    """Right after an erase nothing of it is counted, also while the index is behind."""
    for name in ("kept", "erased"):
        spend(store.create_session(id=name, scope=name), Usage(Tokens(5), Decimal("0.5")))
    assert {each.scope for each in store.usage_by_day(wait=None).days} == {"kept", "erased"}
    store.erase("erased")
    assert {each.scope for each in store.usage_by_day(wait=0).days} == {"kept"}
    agree(store)


def spend(session: Session, usage: Usage) -> None:
    """Record a call."""
    session.record_usage(usage, model="acme/unknown")


def test_a_fork_and_a_rollback_count_once_what_was_spent(store: Store) -> None:
    """Inherited usage is the parent's, and usage that was rolled back was spent."""
    session = store.create_session(id="parent", scope="a")
    spend(session, Usage(Tokens(5), Decimal("0.5")))
    fork = session.fork(id="fork")
    spend(fork, Usage(Tokens(7)))
    session.rollback(to=1)
    sums = store.usage_by_day(wait=None).days
    assert sum(each.tokens.input for each in sums) == 12
    assert sum(each.cost for each in sums) == Decimal("0.5")
    assert [each.unpriced - each.estimated for each in sums] == [1]
    agree(store)


@pytest.mark.parametrize("order", [["parent", "first"], ["first", "parent"]])
def test_what_forks_tell_again_counts_once_without_the_erased(store: Store, order: list[str]) -> None:
    """A reply and its error count for one session that told them, as long as one is left."""
    session = store.create_session(id="parent")
    asked = session.user("go")
    begun, broken = ev.AssistantMessageStarted("r", asked), MessageError("broken", "x")
    forks = [session.fork(id=name) for name in ("first", "second")]
    for each in (session, *forks):
        with each.lease() as lease:
            each.executor.command([begun, ev.MessageFinished("r", None, broken)], lease=lease)

    def counted() -> list[tuple[int, int]]:
        return [(day.replies, day.errors) for day in store.usage_by_day(wait=None).days]

    assert counted() == [(1, 1)]
    for name in order:
        store.erase(name, forks="keep")
        assert counted() == [(1, 1)]
    store.erase("second")
    assert counted() == []


def test_users_of_a_tenant_are_apart_and_its_sum_is_theirs(store: Store) -> None:
    """With the scope "tenant/user" lists, search and erasure are for one user."""
    for number, scope in enumerate(("acme/ann", "acme/bob", "acme 2/ann"), 1):
        session = store.create_session(scope=scope)
        session.user(f"salary of {scope}")
        spend(session, Usage(Tokens(number)))
    assert [hit.snippet for hit in store.search("salary", scope="acme/bob").hits] == ["salary of acme/bob"]
    assert [info.scope for info in store.newest_sessions("acme/ann").sessions] == ["acme/ann"]
    days = store.usage_by_day(wait=None).days
    assert sum(day.tokens.input for day in days if day.scope.startswith("acme/")) == 3
    store.erase_scope("acme/ann")
    assert {info.scope for info in store.sessions()} == {"acme/bob", "acme 2/ann"}


def test_days_scopes_and_models_are_chosen(tmp_path: Path) -> None:
    """Filters leave the days that begin in a time, and those of one scope and model."""
    times = [0]
    with eventlog.open(tmp_path / "s", clock=lambda: times[0]) as store:
        for day in range(4):
            times[0] = 1_767_225_600_000 + day * DAY + 5
            spend(store.create_session(scope=f"scope {day % 2}"), Usage(Tokens(day)))
            store.session(next(store.sessions()).id).record_usage(Usage(Tokens(1)), model="acme/other")
        first = 1_767_225_600_000
        assert {each.day for each in store.usage_by_day(since=first + 1, until=first + 3 * DAY).days} == {
            first + DAY,
            first + 2 * DAY,
        }
        assert {each.scope for each in store.usage_by_day(scope="scope 1").days} == {"scope 1"}
        assert {each.model for each in store.usage_by_day(model="acme/other").days} == {"acme/other"}
        assert store.usage_by_day(scope="none").days == store.usage_by_day(model="none").days == ()
        with pytest.raises(CallError, match="UTC milliseconds"):
            store.usage_by_day(since="today")  # type: ignore[arg-type]
        with pytest.raises(CallError, match="a scope and a model"):
            store.usage_by_day(model=7)  # type: ignore[arg-type]


def test_imported_sessions_count_on_their_own_days(tmp_path: Path) -> None:
    """A recorded history counts on the days on which it was recorded."""
    with eventlog.open(tmp_path / "s") as store:
        import_file(store, RECORDED)
        agree(store)
        assert {each.day for each in store.usage_by_day().days} == {1_767_225_600_000}


def test_a_second_process_writes_meanwhile(tmp_path: Path) -> None:
    """Usage that another process records while the index follows is counted once."""
    with eventlog.open(tmp_path / "s", models=CATALOGUE) as store:
        spend(store.create_session(), Usage(Tokens(5)))
        beside = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path / "s")])
        while beside.poll() is None:
            store.usage_by_day(wait=0.2)
        assert beside.returncode == 0
        agree(store)
        assert sum(each.calls for each in store.usage_by_day().days) == 201
