"""The catalogue of models: how much each one reads and writes, and what its tokens cost.

`shipped()` is the one that comes with the package; `ModelCatalogue.extended` adds models of the
program's own. A store knows a catalogue (`open(models=…)`): it prices usage, and gives windows
their limits. A model is found under its provider and its exact name, and under no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from functools import cache
from pathlib import Path

import msgspec

from eventlog.errors import CallError, UnknownModelError
from eventlog.errors.base import brief
from eventlog.validation import require, require_limits, require_or_none
from eventlog.values import Limits, Model, Price, Tokens

_EXACT = Context(prec=100)
_MILLION = Decimal(1_000_000)
NEAR = 3
"""Names that an error suggests at most."""


class Rates(msgspec.Struct, frozen=True, array_like=True):
    """US dollars per million tokens, in requests of more than `above` tokens.

    Tokens of a cache without a rate of their own cost what input costs.
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    above: int = 0

    def cost(self, tokens: Tokens) -> Decimal:
        """Return what these tokens cost, exactly."""
        times = _EXACT.multiply
        parts = (
            times(tokens.input, self.input),
            times(tokens.output, self.output),
            times(tokens.cache_read, self.input if self.cache_read is None else self.cache_read),
            times(tokens.cache_write, self.input if self.cache_write is None else self.cache_write),
        )
        whole = Decimal(0)
        for part in parts:
            whole = _EXACT.add(whole, part)
        cost = _EXACT.divide(whole, _MILLION).normalize(_EXACT)
        return cost.quantize(Decimal(1), context=_EXACT) if cost == cost.to_integral_value() else cost


class KnownModel(msgspec.Struct, frozen=True, array_like=True):
    """A model's limits, and its rates, the one for the smallest requests first; () is unknown."""

    limits: Limits
    rates: tuple[Rates, ...] = ()


class _File(msgspec.Struct, frozen=True):
    """The form of `models.json`."""

    date: str
    source: str
    licence: str
    aliases: dict[str, str]
    models: dict[str, dict[str, KnownModel]]


class ModelCatalogue:
    """Known models by their names, such as `openai/gpt-5`; `date` is that of their prices."""

    def __init__(
        self,
        models: Mapping[str, KnownModel] | None = None,
        *,
        date: str = "",
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        """Make a catalogue of one's own, which knows only these models.

        `aliases` are other names of providers.
        """
        require_or_none(Mapping, models, "models are a mapping of names to KnownModel")
        require_or_none(Mapping, aliases, "aliases are a mapping of providers' names to those in the catalogue")
        require(str, date, "a date is a str")
        self.date = date
        self._models = dict(models or {})
        self._aliases = dict(aliases or {})
        for name, known in self._models.items():
            _require_known(name, known)
            if known.rates and not date:
                raise CallError(f"the prices of {brief(name)} have no date; give `date`, which their costs record")

    def __len__(self) -> int:
        return len(self._models)

    def __contains__(self, model: object) -> bool:
        return isinstance(model, (Model, str)) and self.get(model) is not None

    def get(self, model: Model | str) -> KnownModel | None:
        """Return the limits and prices of a model; None for one not in the catalogue."""
        require((Model, str), model, 'a model is a Model, or a str such as "provider/name"')
        return self._models.get(self._key(model))

    def limits(self, model: Model | str) -> Limits:
        """Return a model's limits; `UnknownModelError` names the nearest ones.

        The largest answer is at most half of the window: lists often repeat the window there.
        """
        known = self.get(model)
        if known is None:
            raise UnknownModelError(str(model), self.near(model), self.date)
        limits = known.limits
        if limits.context and limits.output is not None and limits.input is None:
            return Limits(limits.context, min(limits.output, limits.context // 2))
        return limits

    def price(self, model: Model | None, tokens: Tokens) -> Price | None:
        """Return the price of a call; None if the model, its rates or its tokens are not known."""
        require(Tokens, tokens, "tokens are Tokens")
        known = None if model is None else self.get(model)
        counts = (tokens.input, tokens.cache_read, tokens.cache_write, tokens.output)
        if known is None or not known.rates or not all(type(count) is int and count >= 0 for count in counts):
            return None
        read = sum(counts[:3])
        if not read + tokens.output:
            return None
        rates = known.rates[0]
        for more in known.rates[1:]:
            if read > more.above:
                rates = more
        return Price(rates.cost(tokens), self.date)

    def near(self, model: Model | str) -> tuple[str, ...]:
        """Return names of the catalogue that may be meant: of other providers, or spelt alike."""
        from difflib import get_close_matches

        provider, slash, name = self._key(model).partition("/")
        name = name if slash else provider
        of_name: dict[str, list[str]] = {}
        for known in self._models:
            of_name.setdefault(known.partition("/")[2], []).append(known)
        meant = get_close_matches(f"{provider}/{name}", self._models, NEAR) if slash else []
        alike = [known for found in get_close_matches(name, of_name, NEAR) for known in of_name[found]]
        return tuple(dict.fromkeys([*of_name.get(name, ()), *meant, *alike]))[:NEAR]

    def extended(self, models: Mapping[str, KnownModel], *, date: str) -> ModelCatalogue:
        """Return a catalogue with these models as well; they win over known ones.

        `date` becomes the date of the whole: costs record it.
        """
        require(Mapping, models, "models are a mapping of names to KnownModel")
        for name in models:
            require(str, name, 'a model is named by a str such as "provider/name"')
        return ModelCatalogue({**self._models, **models}, date=date, aliases=self._aliases)

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def _key(self, model: Model | str) -> str:
        named = str(model)
        if named in self._models:
            return named
        provider, slash, name = named.partition("/")
        return f"{self._aliases.get(provider, provider)}{slash}{name}"


def _require_known(name: object, known: object) -> None:
    require(str, name, 'a model is named by a str such as "provider/name"')
    require(KnownModel, known, "a model's facts are a KnownModel")
    assert isinstance(known, KnownModel)
    require(Limits, known.limits, "KnownModel.limits are Limits")
    require_limits(known.limits)
    require(tuple, known.rates, "KnownModel.rates are a tuple of Rates, the one for the smallest requests first")
    for rates in known.rates:
        require(Rates, rates, "KnownModel.rates are a tuple of Rates, the one for the smallest requests first")
        for rate in (rates.input, rates.output, rates.cache_read, rates.cache_write):
            require_or_none(Decimal, rate, "a rate is a Decimal of US dollars per million tokens")
            if rate is not None and not (rate.is_finite() and rate >= 0):
                raise CallError(f"a rate of {rate} for {brief(name)}; expected one of at least 0")
    if [rates.above for rates in known.rates] != sorted({rates.above for rates in known.rates}):
        raise CallError(f"the rates of {brief(name)} are not in the order of `above`")


@cache
def shipped() -> ModelCatalogue:
    """Return the catalogue that comes with the package (`README.md` says where it is from)."""
    file = msgspec.json.decode(Path(__file__).with_name("models.json").read_bytes(), type=_File)
    models = {f"{provider}/{name}": known for provider, named in file.models.items() for name, known in named.items()}
    return ModelCatalogue(models, date=file.date, aliases=file.aliases)
