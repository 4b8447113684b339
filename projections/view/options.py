"""Render options of a view, which each step records, and their presets.

`default` is ours; `opencode-1.18` renders that version's view byte for byte, and lists everything
in which the two differ.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from eventlog.errors import NotFoundError
from eventlog.validation import require, require_or_none
from eventlog.values import Model, target_of

Capability: TypeAlias = Literal["text", "image", "pdf", "audio", "video"]

ALL_CAPABILITIES: tuple[Capability, ...] = ("text", "image", "pdf", "audio", "video")


class Constraints(msgspec.Struct, frozen=True, omit_defaults=True):
    """Constraints of a provider.  The defaults refuse nothing."""

    drop_empty: bool = False
    """No empty text, and no message without content."""
    alternate: bool = False
    """Consecutive user messages become one."""
    after_tool: str | None = None
    """An assistant message with this text is put between a tool's result and a user message."""
    call_id_pattern: Literal["any", "word", "alphanumeric"] = "any"
    """Characters allowed in call ids: any, `A-Za-z0-9_-`, or `A-Za-z0-9`."""
    call_id_length: int | None = None
    """Exact length of call ids."""


UNCONSTRAINED = Constraints()


class RenderOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the view is rendered.  The defaults are the preset `default`."""

    model: Model | None = None
    """The model to be sent to. Reasoning of another model is sent as text, without provider
    metadata; None: the same model.
    """
    capabilities: tuple[Capability, ...] = ALL_CAPABILITIES
    """Media that the model takes; a file of another kind becomes an error text."""
    strip_media: bool = False
    """Images and PDFs become `[Attached mime: name]`, in a tool's result behind its output."""
    tool_output_limit: int | None = None
    """Longest tool output, or error, in characters; what is over is cut and said so."""
    media_in_results: bool = True
    """Images and PDFs stay in the tool result; else they follow it in a user message."""
    constraints: Constraints = UNCONSTRAINED
    reminder: bool = False
    """User messages that arrived while a turn runs are wrapped as a system reminder."""
    max_steps: str | None = None
    """Text of a last assistant message that tells the model to stop."""
    keep_empty_text: bool = False
    """Empty assistant texts are sent, so that a message that broke off is in the view."""
    drop_failed: bool = False
    """A failed assistant message is left out unless it was aborted.

    Else only a message with nothing to show is left out.
    """
    reasoning_separator: str = "\n\n"
    """Put between another model's reasoning and the text after it."""
    show_all_compactions: bool = False
    """Requested, failed and older compactions show their own messages; else they are hidden."""
    interrupted_output: bool = False
    """An interrupted tool that had printed something shows that as its result, instead of the
    error.
    """
    whole_errors: bool = False
    """The error of a failed call is shown whole, however long it is."""
    carry: bool = True
    """The carryover of a compaction is shown behind its summary."""
    strip_attachments: bool = False
    """With `strip_media`, all files of tool results are left out without a word."""
    order_by_seen: bool = True
    """A user message stands behind the later replies that had not seen it.

    That is up to the first that has. Else messages are in the order of their events.
    """
    state_from: int = 0
    """Answers before this place are sent without the provider's own state, which it refused.

    That is their signatures, ciphers and ids.
    """
    target: str = ""
    """The target to be sent to (`eventlog.values.target_of`), where an endpoint matters.

    "": the target of the newest call that did not fail, if it asked `model`; else `model` itself.
    """

    def __post_init__(self) -> None:
        require_or_none(Model, self.model, "the model of options is a Model, such as Model('openai', 'gpt-5')")

    @property
    def asked(self) -> str:
        """The target as far as the options say it; "": any."""
        return self.target or target_of(self.model)


DEFAULT = RenderOptions()

OPENCODE_1_18 = RenderOptions(
    media_in_results=False,
    keep_empty_text=True,
    drop_failed=True,
    reasoning_separator="",
    show_all_compactions=True,
    interrupted_output=True,
    whole_errors=True,
    strip_attachments=True,
    carry=False,
    order_by_seen=False,
)

PRESETS = {"default": DEFAULT, "opencode-1.18": OPENCODE_1_18}


def preset(name: str) -> RenderOptions:
    """The options of a preset; `NotFoundError` for another name."""
    require(str, name, "a preset is named by a str")
    try:
        return PRESETS[name]
    except KeyError:
        raise NotFoundError("preset", name, known=PRESETS) from None
