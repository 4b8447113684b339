"""The context policy: every number and switch of the window, recorded in the session.

The decisions are pure functions of it: `limits.py`, `truncation.py`, `prune/planners.py`,
`compaction/selection.py`, `next_step.py`.  It is recorded as JSON (`SettingsSet.policy`), so that a
replay decides as was decided.  Environment variables switch parts off on one machine and are not
recorded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

import msgspec

from eventlog.errors import CallError, NotFoundError
from eventlog.errors.base import brief, cut
from eventlog.models.catalogue import Rates
from eventlog.validation import require


class TruncationPolicy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """When a tool's output is cut for the view, and which end is kept."""

    enabled: bool = True
    max_lines: int = 2_000
    max_bytes: int = 50 * 1024
    direction: Literal["head", "tail", "both"] = "both"
    window_share: float | None = 0.125
    """With a known window, the preview is also held below this share of usable.

    None: the same limit for all models.
    """


class Prices(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    input: Decimal = Decimal(3)
    cache_read: Decimal = Decimal("0.30")
    cache_write: Decimal = Decimal("3.75")
    output: Decimal = Decimal(15)


def prices_of(rates: Rates) -> Prices:
    """Return the prices of a model; a cache without a price of its own costs what input costs."""
    read, write = (rates.input if rate is None else rate for rate in (rates.cache_read, rates.cache_write))
    return Prices(rates.input, read, write, rates.output)


class PrunePolicy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The old results, arguments, thoughts and media to clear, and the least gain of a prune."""

    enabled: bool = True
    policy: str | None = None
    """Name of a planner in `planner.PLANNERS`, or of a registered one.

    "recency", "superseded", "cost-aware", "opencode". None: "cost-aware" where prices are known,
    else "recency".
    """
    trigger: float = 0.5
    """Share of usable that a request must have before the loop prunes; 0: at any size."""
    protect: int = 40_000
    """Tokens of the newest content to clear that stay; at most a quarter of usable."""
    minimum: int = 20_000
    """Candidates must sum to more than this, or an eighth of usable if that is less."""
    scale: bool = True
    """Whether `protect` and `minimum` shrink with the window."""
    turns: int = 2
    """Newest turns that are protected after a loop."""
    steps: int | None = 2
    """Newest steps that are protected inside a loop; None: never prune inside a loop."""
    arguments: bool = True
    """Whether the large texts in old arguments are cleared, too."""
    reasoning: bool = True
    """Whether old thoughts are cleared, too, but for those that their provider wants back."""
    media: bool = True
    """Whether old images, documents and other files of the user are cleared, too."""
    protected_tools: tuple[str, ...] = ("skill",)
    """Tools whose calls stay; names are compared without case, but by "opencode"."""
    prices: Prices | None = None
    """Prices for the cost-aware policy; None: those of the model in the catalogue."""
    expected_turns: int | None = None
    """Requests that the cost-aware policy expects still to come in the session.

    None: estimated from the steps that gathered the results, and those until the window is full.
    """

    @property
    def planner(self) -> str:
        """The name of the planner that a loop asks."""
        return self.policy or ("recency" if self.prices is None else "cost-aware")

    @property
    def by_hand(self) -> str:
        """The name of the planner of a prune by hand, at any cost."""
        return self.policy or "recency"


class OverflowPolicy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """When the window is full."""

    auto: bool = True
    reserved: int | None = None
    """Tokens kept free below an input limit.

    None: `buffer`, at most the model's largest output.
    """
    buffer: int = 20_000
    output_cap: int = 32_000
    count_next: Literal["always", "before-usage", "never"] = "always"
    """When the counted tokens of the next request are looked at beside the usage of the last
    step.
    """
    max_messages: int | None = None
    """Most messages in the view."""


class CompactionPolicy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The parts kept by a compaction, the sections asked for, and the summaries accepted."""

    tail_turns: int | None = 2
    """Most turns kept verbatim; 0: no tail; None: as many as the budget holds."""
    preserve_recent_tokens: int | None = None
    """Tokens of the tail; None: a quarter of usable, within the two below."""
    preserve_min: int = 2_000
    preserve_max: int = 8_000
    keep_newest_user: bool = True
    """Whether the newest real user message is kept verbatim in any case."""
    tail_when_all_fits: bool = True
    """Whether the tail is kept when everything fits its budget (OpenCode then keeps nothing)."""
    synthetic_turns: bool = False
    """Whether a user message that the program wrote begins a turn, too (OpenCode's do)."""
    replay_keeps_steps: bool = True
    """Whether a refused turn that has steps keeps its question in front, without a replay.

    OpenCode drops the steps.
    """
    tool_output_limit: int = 2_000
    """Characters of a tool's output in the request for a summary."""
    require_sections: bool = True
    """Whether a summary that is short and has no known heading is asked for once more.

    Sections that it left out are then there as "(none)". Off with a prompt of one's own.
    """
    max_failures: int = 3
    """Automatic compactions in a row that may come to nothing before they stop."""
    auto_continue: bool = True
    replay: bool = True
    """Whether the message that a refused request was for is added again."""
    background_share: float = 0.6
    """Share of usable from which a window with `background=True` has a summary written.

    Not under an OpenCode preset.
    """


class LoopPolicy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Bounds of a loop."""

    max_steps: int | None = None
    """Model calls of one turn; the view of the last call says that no tools may follow."""
    doom_loop: int = 3
    """Identical calls in a row, or turns of two in alternation, to report; 0 for none."""


class ContextPolicy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """All of it.  The defaults are the preset `default`."""

    truncation: TruncationPolicy = TruncationPolicy()
    prune: PrunePolicy = PrunePolicy()
    overflow: OverflowPolicy = OverflowPolicy()
    compaction: CompactionPolicy = CompactionPolicy()
    loop: LoopPolicy = LoopPolicy()
    preset: str = "default"
    """Render options of the view (`projections.view.options`)."""
    counter: str = ""
    """Name of the counter that decides: an encoding, "chars/4", or "" for the model's own,
    calibrated.
    """


DEFAULT_POLICY = ContextPolicy()

OPENCODE_POLICY = ContextPolicy(
    truncation=TruncationPolicy(direction="tail", window_share=None),
    prune=PrunePolicy(
        policy="opencode", trigger=0.0, scale=False, steps=None, arguments=False, reasoning=False, media=False
    ),
    overflow=OverflowPolicy(count_next="never"),
    compaction=CompactionPolicy(
        tail_turns=None,
        preserve_max=15_000,
        keep_newest_user=False,
        tail_when_all_fits=False,
        synthetic_turns=True,
        replay_keeps_steps=False,
        require_sections=False,
    ),
    preset="opencode-1.18",
    counter="chars/4",
)
"""OpenCode 1.18's numbers and chars/4.  Pruning is on, as where the pairs were recorded."""

POLICIES = {"default": DEFAULT_POLICY, "opencode-1.18": OPENCODE_POLICY}


def policy_named(name: str) -> ContextPolicy:
    """The policy of a preset; `NotFoundError` for another name."""
    require(str, name, "a policy is named by a str")
    try:
        return POLICIES[name]
    except KeyError:
        raise NotFoundError("policy", name, known=POLICIES) from None


def encode_policy(policy: ContextPolicy) -> str:
    """Encode a policy as canonical JSON, without defaults; `CallError` for a wrong field."""
    try:
        return msgspec.json.encode(policy, order="deterministic").decode()
    except (TypeError, ValueError, OverflowError) as error:
        raise CallError(f"the context policy cannot be recorded: {cut(str(error))}") from None


def decode_policy(text: str | None) -> ContextPolicy:
    """Decode a recorded policy, None as the default; `CallError` if it cannot be read."""
    if text is None:
        return DEFAULT_POLICY
    try:
        return msgspec.json.decode(text, type=ContextPolicy)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise CallError(f"the context policy cannot be read: {error}") from None


SWITCHES = ("EVENTLOG_AUTO_COMPACT", "EVENTLOG_PRUNE")


def switched(policy: ContextPolicy, environment: Mapping[str, str] | None = None) -> ContextPolicy:
    """Return the policy without what `EVENTLOG_AUTO_COMPACT=0`, `EVENTLOG_PRUNE=0` switch off.

    They only ever switch off, and hold for every decision; `CallError` for a value that is neither
    on nor off.
    """
    found = os.environ if environment is None else environment
    compact, prune = (_is_on(name, found.get(name)) for name in SWITCHES)
    if not compact:
        policy = msgspec.structs.replace(policy, overflow=msgspec.structs.replace(policy.overflow, auto=False))
    if not prune:
        policy = msgspec.structs.replace(policy, prune=msgspec.structs.replace(policy.prune, enabled=False))
    return policy


def _is_on(name: str, value: str | None) -> bool:
    text = (value or "").strip().lower()
    if text in {"", "1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off"}:
        return False
    raise CallError(f"{name}={brief(value)} is neither on (1) nor off (0)")
