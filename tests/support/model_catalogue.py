"""Make the catalogue of models that ships with the package from a release of litellm.

    pip download --no-deps litellm
    python -m tests.support.model_catalogue litellm-….whl [DATE]

Writes `eventlog/models/models.json` and the licence beside it. DATE is the day of which the prices
are, today by default. Of litellm's list this takes models that answer in text, of the providers
below, under the names that OpenCode and models.dev give these providers.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

from tests.support.pages import ROOT

FOLDER = ROOT / "eventlog" / "models"
LIST = "litellm/model_prices_and_context_window_backup.json"
PROVIDERS = {
    "anthropic": "anthropic", "azure": "azure", "bedrock": "amazon-bedrock", "bedrock_converse": "amazon-bedrock", "cerebras": "cerebras",
    "cohere_chat": "cohere", "dashscope": "alibaba", "deepinfra": "deepinfra", "deepseek": "deepseek", "fireworks_ai": "fireworks-ai",
    "gemini": "google", "groq": "groq", "minimax": "minimax", "mistral": "mistral", "moonshot": "moonshotai", "openai": "openai",
    "together_ai": "togetherai", "vertex_ai-anthropic_models": "google-vertex-anthropic", "vertex_ai-language-models": "google-vertex",
    "xai": "xai", "zai": "zai",
}  # fmt: skip
"""The providers that are taken: litellm's name, and the name in the catalogue."""
ALIASES = {
    "bedrock": "amazon-bedrock", "cohere_chat": "cohere", "dashscope": "alibaba", "fireworks": "fireworks-ai", "fireworks_ai": "fireworks-ai",
    "gemini": "google", "google-gla": "google", "moonshot": "moonshotai", "together": "togetherai", "together_ai": "togetherai",
}  # fmt: skip
"""Other names of these providers: litellm's, and those of agent frameworks."""
LEFT_OUT = re.compile(r"^ft:|audio|realtime|search|deep-research|container|image|computer-use|guard")
"""Names of models that are billed for more than text, or tuned by their users."""
REGION = re.compile(r"^(\*|[a-z-]+-\d|us|eu|apac|global|global-standard)/")
"""Begin of a name that says where a model runs; no program sends it."""
HOSTS = frozenset({"amazon-bedrock", "deepinfra", "fireworks-ai", "togetherai"})
"""Providers of many models, of which those are taken that can call tools."""
PRICES = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
)
"""Fields of a price: input, output, cache read, cache write."""
ABOVE = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
MILLION = 1_000_000


def catalogue_of(listed: dict[str, dict[str, Any]], *, date: str, source: str) -> dict[str, Any]:
    """Return the catalogue of litellm's list."""
    models: dict[str, dict[str, Any]] = {}
    for name, facts in listed.items():
        provider = PROVIDERS.get(str(facts.get("litellm_provider")))
        if provider is None or facts.get("mode") not in {"chat", "responses"}:
            continue
        short = name.removeprefix(f"{facts['litellm_provider']}/").removeprefix("vertex_ai/").removeprefix("cohere/")
        if provider in HOSTS and not facts.get("supports_function_calling"):
            continue
        entry = _entry(short, facts)
        if entry is not None:
            models.setdefault(provider, {})[short] = entry
    return {
        "date": date,
        "source": source,
        "licence": "MIT, Copyright (c) 2023 Berri AI; see LICENSE",
        "aliases": ALIASES,
        "models": {provider: dict(sorted(models[provider].items())) for provider in sorted(models)},
    }


def _entry(name: str, facts: dict[str, Any]) -> list[Any] | None:
    """Return limits and rates of a model; None if it is left out."""
    window = facts.get("max_input_tokens")
    outputs = set(facts.get("supported_output_modalities") or ["text"])
    if not isinstance(window, int) or window <= 0 or outputs != {"text"} or LEFT_OUT.search(name) or REGION.match(name):
        return None
    output = facts.get("max_output_tokens")
    limits = [window, output] if isinstance(output, int) and output > 0 else [window]
    rates = [*_rates(facts)]
    return [limits, rates] if rates else [limits]


def _rates(facts: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield a model's rates, for the smallest requests first; none if tokens do not tell them."""
    tiers = cast("list[dict[str, Any]]", facts.get("tiered_pricing") or [])
    for priced in tiers or [facts]:
        reasoning = priced.get("output_cost_per_reasoning_token")
        if not all(priced.get(field) for field in PRICES[:2]) or reasoning not in {None, priced[PRICES[1]]}:
            return
    for number, tier in enumerate(tiers):
        yield _rate(tier, int(tier["range"][0]) if number else 0, "")
    if tiers:
        return
    yield _rate(facts, 0, "")
    bounds = sorted(int(found[1]) for field in facts if (found := ABOVE.fullmatch(field)))
    for bound in bounds:
        yield _rate(facts, bound * 1_000, f"_above_{bound}k_tokens")


def _rate(facts: dict[str, Any], above: int, suffix: str) -> list[Any]:
    """Return a rate per million tokens as decimal texts, without what is not known at its end."""
    found: list[Any] = []
    for field in PRICES:
        price = facts.get(f"{field}{suffix}", facts.get(field))
        found.append(f"{(Decimal(repr(price)) * MILLION).normalize():f}" if price else None)
    if above:
        return [*found, above]
    while found[-1] is None:
        found.pop()
    return found


def main(wheel: Path, date: str) -> None:
    """Write the catalogue and its licence."""
    with ZipFile(wheel) as files:
        listed: dict[str, dict[str, Any]] = json.loads(files.read(LIST))
        licence = next(name for name in files.namelist() if re.search(r"dist-info/(licenses/)?LICENSE$", name))
        text = files.read(licence).decode()
    source = f"litellm {wheel.name.split('-')[1]}, model_prices_and_context_window.json"
    catalogue = catalogue_of(listed, date=date, source=source)
    lines = json.dumps(catalogue, separators=(",", ":"), ensure_ascii=False)
    lines = lines.replace('},"', '},\n"').replace(']],"', ']],\n"').replace(']"', ']\n"')
    (FOLDER / "models.json").write_text(f"{lines}\n", encoding="utf-8")
    (FOLDER / "LICENSE").write_text(text, encoding="utf-8")
    count = sum(map(len, catalogue["models"].values()))
    print(f"{count} models of {len(catalogue['models'])} providers, {len(lines):,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else f"{datetime.now(UTC):%Y-%m-%d}")
