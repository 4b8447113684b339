"""The catalogue of models: the data that ships, prices and windows from it, own models."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventlog
from eventlog import (
    CallError,
    KnownModel,
    Limits,
    Model,
    ModelCatalogue,
    Price,
    Rates,
    Tokens,
    UnknownModelError,
    Usage,
    shipped_models,
)
from eventlog import events as ev
from eventlog.models import catalogue as module
from projections import ContextWindow
from projections.reports.usage import session_usage, total
from tests.support.engines import Engine
from tests.support.model_catalogue import catalogue_of

FOLDER = Path(module.__file__).parent
TIERED = KnownModel(
    Limits(1_000_000, 64_000),
    (Rates(Decimal(1), Decimal(4), Decimal("0.1"), Decimal("1.25")), Rates(Decimal(2), Decimal(6), above=200_000)),
)
OWN = ModelCatalogue({"acme/one": TIERED}, date="2026-12-01")


def used(session: eventlog.Session) -> list[ev.UsageRecorded]:
    """The usage that a session recorded."""
    return [found.event for found in session.events() if isinstance(found.event, ev.UsageRecorded)]


def test_the_data_is_small_dated_and_licensed() -> None:
    """The catalogue that ships has at most 100 KB, a date, a source and a licence."""
    data = (FOLDER / "models.json").read_bytes()
    assert len(data) <= 100_000
    file = json.loads(data)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", file["date"])
    assert file["source"].startswith("litellm ")
    assert "MIT License" in (FOLDER / "LICENSE").read_text()
    assert len(shipped_models()) == sum(map(len, file["models"].values())) > 500


def test_every_model_that_ships_has_a_window_that_can_be_used() -> None:
    """Each model has a window with room for a request, and positive rates in order."""
    models = shipped_models()
    for name in models:
        limits = models.limits(name)
        assert limits.context > 0, name
        assert limits.output is None or 0 < limits.output <= limits.context // 2, name
        known = models.get(name)
        assert known is not None
        assert all(rates.input > 0 and rates.output > 0 for rates in known.rates), name
        assert [rates.above for rates in known.rates] == sorted(rates.above for rates in known.rates)


@pytest.mark.parametrize("name", ["openai/gpt-5", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-pro"])
def test_common_models_are_known(name: str) -> None:
    """Models of the large providers have a window and a price."""
    price = shipped_models().price(Model(*name.split("/")), Tokens(1_000, 100))
    assert price is not None
    assert price.cost > 0
    assert shipped_models().limits(name).context >= 100_000


def test_other_names_of_a_provider_count() -> None:
    """A provider is known by litellm's name as well; a model by its exact name only."""
    models = shipped_models()
    assert models.get("gemini/gemini-2.5-pro") == models.get(Model("google", "gemini-2.5-pro"))
    for name in ("gpt-5", "openai/GPT-5", "openai/gpt-5 ", "openai", "", "/"):
        assert name not in models
        assert models.get(name) is None


def test_the_data_is_made_from_the_list() -> None:
    """Windows, prices, tiers and caches are taken over, of models billed by text alone."""
    listed: dict[str, dict[str, Any]] = {
        "one": {
            "litellm_provider": "openai", "mode": "chat", "max_input_tokens": 1_000, "max_output_tokens": 100,
            "input_cost_per_token": 1.25e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1.25e-07,
            "input_cost_per_token_above_200k_tokens": 2.5e-06, "output_cost_per_token_above_200k_tokens": 1.5e-05,
        },
        "gemini/two": {"litellm_provider": "gemini", "mode": "chat", "max_input_tokens": 10},
        "dashscope/three": {
            "litellm_provider": "dashscope", "mode": "chat", "max_input_tokens": 10,
            "tiered_pricing": [
                {"range": [0, 256_000.0], "input_cost_per_token": 5e-08, "output_cost_per_token": 4e-07},
                {"range": [256_000.0, 1e6], "input_cost_per_token": 2.5e-07, "output_cost_per_token": 2e-06},
            ],
        },
        "thinks": {
            "litellm_provider": "openai", "mode": "chat", "max_input_tokens": 10, "input_cost_per_token": 1e-06,
            "output_cost_per_token": 1e-06, "output_cost_per_reasoning_token": 2e-06,
        },
        "audio": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 10},
        "draws": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 1, "supported_output_modalities": ["image"]},
        "embeds": {"litellm_provider": "openai", "mode": "embedding", "max_input_tokens": 10},
        "no-window": {"litellm_provider": "openai", "mode": "chat"},
        "other": {"litellm_provider": "nobody", "mode": "chat", "max_input_tokens": 10},
    }  # fmt: skip
    made = catalogue_of(listed, date="2026-01-01", source="a list")
    assert made["models"] == {
        "alibaba": {"three": [[10], [["0.05", "0.4"], ["0.25", "2", None, None, 256_000]]]},
        "google": {"two": [[10]]},
        "openai": {
            "one": [[1_000, 100], [["1.25", "10", "0.125"], ["2.5", "15", "0.125", None, 200_000]]],
            "thinks": [[10]],
        },
    }


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [
        (Tokens(1_000, 100), "0.0014"),
        (Tokens(100, 10, cache_read=1_000, cache_write=400), "0.00074"),
        (Tokens(200_000, 0), "0.2"),
        (Tokens(200_001, 0), "0.400002"),
        (Tokens(1, 0, cache_read=200_000), "0.400002"),
        (Tokens(100_000_000, 0), "200"),
    ],
)
def test_a_price_is_exact(tokens: Tokens, cost: str) -> None:
    """Each kind of token has its rate, a long request its own; no cent is rounded."""
    price = OWN.price(Model("acme", "one"), tokens)
    assert price is not None
    assert price == Price(Decimal(cost), "2026-12-01")
    assert "E" not in str(price.cost)


@pytest.mark.parametrize("tokens", [Tokens(), Tokens(total=100)])
def test_unknown_tokens_have_no_price(tokens: Tokens) -> None:
    """A call whose tokens are not known costs an unknown sum, not nothing."""
    assert OWN.price(Model("acme", "one"), tokens) is None


@given(st.builds(Tokens, *[st.integers(0, 1 << 40)] * 5))
def test_a_price_is_the_sum_of_its_tokens(tokens: Tokens) -> None:
    """The cost of any tokens is their number times their rates."""
    price = OWN.price(Model("acme", "one"), tokens)
    read = tokens.input + tokens.cache_read + tokens.cache_write
    if read + tokens.output == 0:
        assert price is None
        return
    rates = TIERED.rates[read > 200_000]
    caches = [rates.cache_read or rates.input, rates.cache_write or rates.input]
    counts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write]
    wanted = sum(
        count * int(rate * 100) for count, rate in zip(counts, [rates.input, rates.output, *caches], strict=True)
    )
    assert price is not None
    assert price.cost * 100_000_000 == wanted


def test_usage_is_priced_where_it_is_recorded(engine: Engine) -> None:
    """A usage without a cost gets the catalogue's price and date, in the log and in sums."""
    session = engine.open().create_session()
    tokens = Tokens(1_000, 100)
    with session.assistant("openai/gpt-5") as reply:
        reply.finish(usage=Usage(tokens))
    session.record_usage(Usage(tokens, Decimal("0.5")), model="openai/gpt-5")
    session.record_usage(Usage(tokens), model="acme/unknown")
    session.record_usage(Usage(tokens))
    first, reported, *unknown = used(session)
    assert (first.usage.cost, first.catalogue) == shipped_models().price(Model("openai", "gpt-5"), tokens)
    assert (reported.usage.cost, reported.catalogue) == (Decimal("0.5"), "")
    assert [(event.usage.cost, event.catalogue) for event in unknown] == [(None, "")] * 2
    sums = total(session_usage(session).own)
    assert (sums.unpriced, sums.catalogues) == (2, (shipped_models().date,))
    assert session.info.cost == sums.cost == Decimal("0.50225")


def test_a_price_is_never_computed_again(tmp_path: Path) -> None:
    """A later catalogue leaves what was recorded; another one may know other models."""
    tokens = Tokens(1_000_000)
    with eventlog.open(tmp_path / "store", models=OWN) as store:
        store.create_session(id="s").record_usage(Usage(tokens), model="acme/one")
    later = OWN.extended({"acme/one": KnownModel(Limits(10), (Rates(Decimal(9), Decimal(9)),))}, date="2027-01-01")
    with eventlog.open(tmp_path / "store", models=later) as store:
        session = store.session("s")
        session.record_usage(Usage(tokens), model="acme/one")
        assert [(event.usage.cost, event.catalogue) for event in used(session)] == [
            (Decimal(2), "2026-12-01"),
            (Decimal(9), "2027-01-01"),
        ]
    with eventlog.open(tmp_path / "store", models=ModelCatalogue()) as store:
        session = store.session("s")
        session.record_usage(Usage(tokens), model="openai/gpt-5")
        assert used(session)[-1].usage.cost is None


def test_a_function_of_prices_wins() -> None:
    """With `prices` the catalogue is not asked, also for models unknown to the function."""
    with eventlog.open("memory:", prices=lambda _model, _tokens: None) as store:
        session = store.create_session()
        session.record_usage(Usage(Tokens(10)), model="openai/gpt-5")
        assert used(session)[0].usage.cost is None


def test_a_window_needs_no_numbers_for_a_known_model(engine: Engine) -> None:
    """A known model's limits are in force, recorded, and found by the next program."""
    session = engine.open().create_session()
    limits = shipped_models().limits("openai/gpt-5")
    with ContextWindow(session, model="openai/gpt-5", environment={}) as window:
        assert window.state.limits == limits
        assert window.state.usable == limits.context - 32_000
    again = ContextWindow(session, environment={})
    assert (again.state.model, again.state.limits) == (Model("openai", "gpt-5"), limits)
    settings = [found.event for found in session.events() if isinstance(found.event, ev.SettingsSet)]
    with again:
        pass
    assert [event.limits for event in settings] == [limits]
    assert sum(isinstance(found.event, ev.SettingsSet) for found in session.events()) == 1


def test_limits_that_were_recorded_or_given_win() -> None:
    """Given limits win over recorded ones, and those of the same model over the catalogue's."""
    small = Limits(50_000, 1_000)
    with eventlog.open("memory:") as store:
        session = store.create_session()
        with ContextWindow(session, model="openai/gpt-5", limits=small, environment={}):
            pass
        assert ContextWindow(session, model="openai/gpt-5", environment={}).state.limits == small
        other = ContextWindow(session, model="anthropic/claude-sonnet-4-5", environment={})
        assert other.state.limits == shipped_models().limits("anthropic/claude-sonnet-4-5")
        with other:
            pass
        assert ContextWindow(session, environment={}).state.limits == other.state.limits


def test_a_model_that_only_the_session_names_is_looked_up() -> None:
    """A recorded model has the catalogue's limits if it is known, and none if it is not."""
    with eventlog.open("memory:") as store:
        for name, limits in (("openai/gpt-5", shipped_models().limits("openai/gpt-5")), ("acme/one", None)):
            session = store.create_session(model=name)
            session.set_settings(model=name)
            assert ContextWindow(session, environment={}).state.limits == limits


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("openai/gtp-5", "openai/gpt-5"),
        ("gpt-5", "openai/gpt-5"),
        ("openrouter/gpt-5", "openai/gpt-5"),
        ("acme/qqqq", ""),
    ],
)
def test_an_unknown_model_is_an_error_that_says_what_to_give(name: str, near: str) -> None:
    """The error names the model, near names, the arguments, and the catalogue's date."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        with pytest.raises(UnknownModelError) as found:
            ContextWindow(session, model=name)
        for word in (name, near, "limits=", "models=", shipped_models().date):
            assert word in str(found.value)
        assert found.value.model == name
        assert (near in found.value.near) == bool(near)
        assert len(found.value.near) <= module.NEAR
        assert ContextWindow(session, model=name, limits=Limits()).state.usable is None


def test_a_catalogue_is_extended() -> None:
    """Own models are added to those that ship, or win over them, under a date of their own."""
    models = shipped_models().extended({"acme/one": TIERED, "openai/gpt-5": TIERED}, date="2026-12-01")
    assert len(models) == len(shipped_models()) + 1
    assert models.get("acme/one") == models.get("openai/gpt-5") == TIERED
    assert "gemini/gemini-2.5-pro" in models
    assert shipped_models().get("acme/one") is None
    price = models.price(Model("google", "gemini-2.5-pro"), Tokens(10))
    assert price is not None
    assert price.catalogue == "2026-12-01"


@pytest.mark.parametrize(
    ("models", "date", "rule"),
    [
        ({"a/b": Limits(1)}, "2026-12-01", "KnownModel"),
        ({"a/b": KnownModel(Limits(-1))}, "2026-12-01", "limit"),
        ({5: TIERED}, "2026-12-01", "named by a str"),
        ({"a/b": TIERED}, "", "date"),
        ({"a/b": KnownModel(Limits(1), (Rates(Decimal(-1), Decimal(1)),))}, "x", "at least 0"),
        ({"a/b": KnownModel(Limits(1), (Rates(Decimal("NaN"), Decimal(1)),))}, "x", "at least 0"),
        ({"a/b": KnownModel(Limits(1), (Rates(1.5, Decimal(1)),))}, "x", "Decimal"),  # type: ignore[arg-type]
        ({"a/b": KnownModel(Limits(1), TIERED.rates[::-1])}, "x", "order"),
        ({"a/b": KnownModel(Limits(1), [])}, "x", "tuple"),  # type: ignore[arg-type]
        ([], "x", "mapping"),
    ],
)
def test_wrong_facts_are_refused(models: dict[str, KnownModel], date: str, rule: str) -> None:
    """A catalogue of values that cannot be told apart from mistakes is a `CallError`."""
    with pytest.raises(CallError, match=rule):
        ModelCatalogue(models, date=date)


def test_a_store_takes_a_catalogue_only() -> None:
    """`open` refuses models that are no catalogue."""
    with pytest.raises(CallError, match="ModelCatalogue"):
        eventlog.open("memory:", models={})  # type: ignore[arg-type]
