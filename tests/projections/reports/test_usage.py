"""Usage: all kinds of tokens and decimal money; own, inherited, and of the tree."""

from __future__ import annotations

import decimal
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventlog
from eventlog import Session, Store
from eventlog import events as ev
from eventlog.errors import CallError
from eventlog.importers import import_file
from eventlog.session_store import begin_session
from eventlog.values import Model, Price, Retry, Tokens, Usage
from projections.exports.sqlite import write_sqlite
from projections.loop import fill_retrying
from projections.loop.decision.loop_state_projection import LoopStateProjection
from projections.replay.loop import state_at
from projections.reports.session_tree import descendants, whole_tree
from projections.reports.stats import session_stats
from projections.reports.timeline import timeline
from projections.reports.usage import UsageTotals, session_usage, total
from tests.support.export_sessions import put
from tests.support.opencode_exports import events_of_export
from tests.support.pages import ROOT
from tests.support.parity import scenarios
from tests.support.shared import shared_path


def spend(session: Session, cost: str | None, *, model: str = "p/m", failed: bool = False) -> None:
    """Record a call of 1 input, 2 output, 3 reasoning, 4 read and 5 written tokens."""
    price = None if cost is None else Decimal(cost)
    session.record_usage(Usage(Tokens(1, 2, 3, 4, 5), price), model=model, purpose="turn", failed=failed)


def costs(session: Session) -> tuple[Decimal, Decimal, Decimal]:
    """Own, inherited and tree costs in dollars."""
    found = session_usage(session)
    return total(found.own).cost, total(found.inherited).cost, total(found.tree).cost


KILLED = """
import os, sys
import eventlog
USAGE = {"input_tokens": 50_000, "output_tokens": 1}
BEGUN = [
    {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": USAGE}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word"}},
]
def killed(session):
    yield from BEGUN
    session.flush()
    os._exit(9)
with eventlog.open(sys.argv[1]) as store:
    session = store.create_session(id="s")
    session.user("go")
    reply = session.assistant("p/m").__enter__()
    for _ in range(int(sys.argv[2])):
        reply.step()
        reply.add_text("so")
        reply.end_step("tool-calls", usage=eventlog.Usage(eventlog.Tokens(input=7)))
    reply.fill(killed(session))
"""


@pytest.mark.parametrize("steps", [0, 1], ids=["first step", "second step"])
def test_a_reply_whose_usage_a_kill_lost_is_counted(tmp_path: Path, steps: int) -> None:
    """A process is killed after the provider told its tokens: the sums say they lack a reply."""
    program = [sys.executable, "-c", KILLED, str(tmp_path / "s"), str(steps)]
    assert subprocess.run(program, cwd=ROOT, check=False).returncode == 9
    with eventlog.open(tmp_path / "s") as store:
        session = store.session("s")
        with session.assistant("p/m") as reply:
            reply.finish(usage=Usage(Tokens(input=100)))
        sums = total(session_usage(session).own)
        assert (sums.input, sums.untold) == (100 + 7 * steps, 1)
        assert timeline(session).untold == 1
        assert [each.untold for each in session_stats(session).usage] == [1]


def test_every_kind_of_token_is_counted(store: Store) -> None:
    """Sums have each kind of token, the provider's total, failed and unpriced calls."""
    session = store.create_session()
    spend(session, "0.1")
    spend(session, "0.2", model="p/other", failed=True)
    session.record_usage(Usage(Tokens(10, 20, 30, 40, 50, 999)), model="p/m")
    one, two = session_usage(session).own
    assert one == UsageTotals("p/m", 2, 0, 11, 22, 33, 44, 55, Decimal("0.1"), 1, 999 + 12)
    assert two == UsageTotals("p/other", 1, 1, 1, 2, 3, 4, 5, Decimal("0.2"), 0, 12)
    whole = total([one, two])
    assert whole.tokens == Tokens(12, 24, 36, 48, 60, 999 + 24)
    assert (whole.calls, whole.failed, whole.unpriced, whole.cost) == (3, 1, 1, Decimal("0.3"))


def test_a_call_whose_usage_is_told_in_pieces_is_one_call(store: Store, tmp_path: Path) -> None:
    """A transcript that corrects a message's usage has one call of it in every sum."""
    counts = [{"input_tokens": 8, "cache_read_input_tokens": 40, "output_tokens": output} for output in (1, 79)]
    records = [
        {
            "type": "assistant",
            "uuid": f"u{place}",
            "parentUuid": f"u{place - 1}" if place else None,
            "sessionId": "s",
            "timestamp": "2026-01-07T10:00:00Z",
            "message": {
                "id": "m",
                "role": "assistant",
                "model": "acme-1",
                "content": [{"type": "text", "text": f"part {place}"}],
                "usage": usage,
            },
        }
        for place, usage in enumerate(counts)
    ]
    path = tmp_path / "transcript.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    import_file(store, path, format="claude_code")
    (info,) = store.sessions()
    session = store.session(info.id)
    (day,) = store.usage_by_day().days
    told = timeline(session).usage()
    write_sqlite([session], tmp_path / "all.db", inherited=False)
    with closing(sqlite3.connect(tmp_path / "all.db")) as connection:
        rows = connection.execute("SELECT sum(NOT more), sum(NOT more AND cost IS NULL), sum(output) FROM usage")
        assert rows.fetchall() == [(1, 1, 79)]
    own = total(session_usage(session).own)
    assert [(one.calls, one.unpriced) for one in (info, own, day, told)] == [(1, 1)] * 4
    assert [(entry.kind, entry.what) for entry in timeline(session).calls] == [("step", ""), ("step", "more")]
    loop = state_at(session, LoopStateProjection()).state
    assert loop.last_step is not None
    assert loop.last_step.tokens == 127
    assert [entry.tokens for entry in loop.trail] == [127]
    assert own.tokens == Tokens(8, 79, 0, 40, 0, 127)
    assert day.tokens.output == 79
    session.record_usage(Usage(Tokens(0, 5)), model="p/m")
    assert store.info(session.id).calls == 2
    with session.assistant("p/m") as reply:  # of a provider that tells no input
        reply.step()
        reply.finish("stop", usage=Usage(Tokens(0, 5)))
    assert store.info(session.id).calls == 3


def test_a_price_is_stored_with_its_catalogues_date_and_never_computed_again(tmp_path: Path) -> None:
    """A cost from a catalogue keeps its date and its amount when the prices change."""
    asked: list[tuple[Model | None, Tokens]] = []
    prices = {"p/m": Price(Decimal("0.5"), "2026-01-01")}

    def price(model: Model | None, tokens: Tokens) -> Price | None:
        asked.append((model, tokens))
        return prices.get(str(model))

    with eventlog.open(tmp_path / "s", prices=price) as store:
        session = store.create_session(id="s")
        session.user("hi")
        for model in ("p/m", "p/unknown"):
            with session.assistant(model) as reply:
                reply.step()
                reply.end_step(usage=Usage(Tokens(1)))
                reply.finish(usage=Usage(Tokens(2)))
        session.record_usage(Usage(Tokens(3)), model="p/m", purpose="title")
        session.record_usage(Usage(Tokens(4), Decimal(1)), model="p/m")
        session.record_usage(Usage(Tokens(5), Decimal(2)), model="p/m", catalogue="2025-12-31")
    assert asked == [(Model("p", name), Tokens(tokens)) for name in ("m", "unknown") for tokens in (1, 2)] + [
        (Model("p", "m"), Tokens(3))
    ]
    prices["p/m"] = Price(Decimal(9), "2026-02-02")
    with eventlog.open(tmp_path / "s", prices=price) as store:
        known, unknown = session_usage(store.session("s")).own
        used = [
            (event.usage.cost, event.catalogue, event.purpose)
            for event in (recorded.event for recorded in store.session("s").events())
            if isinstance(event, ev.UsageRecorded) and event.model == Model("p", "m")
        ]
    half = Decimal("0.5")
    assert used == [
        (half, "2026-01-01", "turn"),
        (half, "2026-01-01", "turn"),
        (half, "2026-01-01", "title"),
        (Decimal(1), "", "turn"),
        (Decimal(2), "2025-12-31", "turn"),
    ]
    assert (known.cost, known.unpriced, known.catalogues) == (Decimal("4.5"), 0, ("2025-12-31", "2026-01-01"))
    assert (unknown.unpriced, unknown.catalogues) == (2, ())
    assert total([known, unknown]).catalogues == known.catalogues
    assert len(asked) == 5


def half_a_dollar(*_: object) -> float:
    """Return what is no `Price`."""
    return 0.5


def test_prices_and_catalogues_of_another_type_are_refused(store: Store) -> None:
    """A catalogue without a cost, and prices that give no `Price`, are told and not recorded."""
    with pytest.raises(CallError):
        eventlog.open("memory:", prices=cast("Any", 5))
    with eventlog.open("memory:", prices=cast("Any", half_a_dollar)) as odd:
        session = odd.create_session()
        version = session.version
        for usage, catalogue in ((Usage(Tokens(), None), ""), (cast("Any", 5), "")):
            with pytest.raises(CallError):
                session.record_usage(usage, catalogue=catalogue)
        assert session.version == version
    session = store.create_session()
    with pytest.raises(CallError):
        session.record_usage(Usage(Tokens(), None), catalogue="2026-01-01")
    with pytest.raises(CallError):
        session.record_usage(Usage(Tokens(), Decimal(1)), catalogue=cast("Any", 5))
    with session.assistant("p/m") as reply:
        reply.finish(usage=Usage(Tokens(1), Decimal(1)), catalogue="2026-01-01")
    (totals,) = session_usage(session).own
    assert totals.catalogues == ("2026-01-01",)


def test_money_is_exact(store: Store) -> None:
    """A large and a tiny price add up exactly in every decimal context of the caller."""
    session = store.create_session()
    spend(session, "123456789012345678901234567890")
    spend(session, "0.000000000000000000001")
    with decimal.localcontext() as context:
        context.prec = 3
        assert str(costs(session)[0]) == "123456789012345678901234567890.000000000000000000001"


def test_forks_and_subsessions_are_three_numbers(store: Store) -> None:
    """Own, inherited and tree usage count each call once."""
    root = store.create_session(id="root")
    spend(root, "1")
    spend(root, "2")
    fork = root.fork(root.version - 1, id="fork")
    spend(fork, "10")
    deep = fork.fork(id="deep")
    spend(deep, "100")
    spend(root, "4")
    sub = deep.subsession(id="sub")
    spend(sub, "1000")
    store.create_session(id="alone").record_usage(Usage(Tokens(), Decimal(7)))
    assert costs(root) == (Decimal(7), Decimal(0), Decimal(1117))
    assert costs(fork) == (Decimal(10), Decimal(1), Decimal(1117))
    assert costs(deep) == (Decimal(100), Decimal(11), Decimal(1117))
    assert costs(sub) == (Decimal(1000), Decimal(0), Decimal(1117))
    assert whole_tree(store, "sub")[0].id == "root"
    assert {info.id for info in descendants(store, "deep")} == {"deep", "sub"}


def test_a_parent_that_is_gone_ends_the_tree(store: Store) -> None:
    """A sub-session whose parent is missing is the root of its own tree."""
    session = begin_session(store, ev.SessionStarted(parent="elsewhere"), id="child")  # as an importer does
    spend(session, "1")
    assert costs(session) == (Decimal(1), Decimal(0), Decimal(1))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.integers(1, 10**6)), max_size=25))
def test_the_tree_is_the_sum_of_its_sessions(steps: list[tuple[int, int, int]]) -> None:
    """In any family of forks, the tree's cost is the sum of each session's own."""
    with eventlog.open("memory:") as store:
        family = [store.create_session()]
        spent = Decimal(0)
        for kind, pick, price in steps:
            session = family[pick % len(family)]
            if kind == 0:
                family.append(session.fork(1 + pick % session.version))
            elif kind == 1:
                family.append(session.subsession())
            elif kind == 2:
                session.rollback(1 + pick % session.version)
            else:
                spend(session, f"0.{price}")
                spent += Decimal(f"0.{price}")
        for session in family:
            own, inherited, tree = costs(session)
            assert tree == spent
            assert own + inherited == sum(
                (
                    found.event.usage.cost or 0
                    for found in session.events()
                    if isinstance(found.event, ev.UsageRecorded)
                ),
                Decimal(0),
            )


def test_costs_agree_with_opencodes(store: Store) -> None:
    """The cost of a recorded session equals OpenCode's own sum to the last digit."""
    shared_path("parity")
    checked = 0
    for scenario in scenarios():
        for _, export in [*scenario.exports()][:1]:
            session = put(store, events_of_export(export))
            prices = [message["info"].get("cost", 0) for message in export["messages"]]
            own = session_usage(session).own
            assert total(own).cost == sum((Decimal(str(price)) for price in prices), Decimal(0))
            tokens = [message["info"]["tokens"] for message in export["messages"] if "tokens" in message["info"]]
            assert total(own).input == sum(found["input"] for found in tokens)
            checked += total(own).calls
    assert checked > 30


def said(text: str = "", reason: str | None = None) -> dict[str, Any]:
    """A chunk of a stream."""
    return {"choices": [{"delta": {"content": text}, "finish_reason": reason}]}


TOLD: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}}
ENDS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "told": ((said("hi", "stop"), TOLD),),
    "never told": ((said("hi", "stop"),),),
    "cut, then told": ((said("hi"), ConnectionError("cut")), (said("hi", "stop"), TOLD)),
    "withheld": ((said("", "content_filter"),),),
    "refused": ((said("hi"), ValueError("no")),),
    "stopped": ((said("hi"), *[said("more")] * 20),),
}
"""Streams that a model answers with, and how they end."""


@pytest.mark.parametrize("name", ENDS)
def test_a_call_shows_whether_its_usage_was_told_or_not(store: Store, name: str) -> None:
    """Sums have the calls with usage; a step, or a retry, says of every call that it was made."""
    session, streams = store.create_session(), iter(ENDS[name])

    def ask() -> Iterator[Any]:
        for chunk in next(streams):
            if isinstance(chunk, Exception):
                raise chunk
            if name == "stopped":
                session.interrupt()
            yield chunk

    with suppress(ValueError), session.turn("Hi", "r"), session.assistant("openai/gpt-5") as reply:
        fill_retrying(reply, ask, first_wait=0.001)
    found = [recorded.event for recorded in session.events()]
    steps = sum(isinstance(event, ev.StepStarted) for event in found)
    retries = sum(isinstance(event, ev.PartStarted) and isinstance(event.kind, Retry) for event in found)
    assert steps + retries == len(ENDS[name])
    assert sum(each.calls for each in session_usage(session).own) == sum(TOLD in stream for stream in ENDS[name])
