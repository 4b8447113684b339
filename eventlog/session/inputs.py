"""Convert caller input to event values: large texts to references, models to `Model`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.large_texts import INLINE, to_content
from eventlog.errors import CallError
from eventlog.validation import MAX_DEPTH, require, require_json
from eventlog.values import (
    Attachment,
    Content,
    File,
    Json,
    MessageError,
    Model,
    Opaque,
    PartKind,
    Reasoning,
    Retry,
    Text,
    Tool,
    Truncation,
)

JSON_FIELDS: dict[type[Struct], tuple[str, ...]] = {
    ev.MetadataSet: ("value",),
    ev.SettingsSet: ("policy",),
    ev.UserMessageAdded: ("tools", "format"),
    ev.MessageFinished: ("error",),
    ev.PartStarted: ("kind",),
    ev.PartEnded: ("metadata",),
    ev.ToolRunning: ("metadata",),
    ev.ToolProgress: ("metadata",),
    ev.ToolCompleted: ("metadata",),
    ev.ToolFailed: ("metadata",),
    ev.StepStarted: ("render", "form"),
    ev.Custom: ("data",),
    Text: ("metadata",),
    Reasoning: ("metadata",),
    Tool: ("metadata",),
    File: ("metadata",),
    Opaque: ("data",),
    Retry: ("error",),
    MessageError: ("data",),
}
"""Fields of each type that hold JSON text, or a value with such fields."""
_VALUES = {"kind", "error"}
"""Those fields that hold a value, not a text."""


def model_of(model: Model | str | None) -> Model | None:
    """Parse a model from `provider/name`."""
    if model is None or isinstance(model, Model):
        return model
    require(str, model, 'a model is a Model, or a str such as "provider/name"')
    provider, slash, name = model.partition("/")
    return Model(provider, name) if slash else Model("", model)


def is_blank(text: Content) -> bool:
    """Whether a text has no words."""
    return type(text) is str and not text.strip()


def stored_kind(kind: PartKind, bodies: dict[bytes, bytes]) -> PartKind:
    """Return the part with its large text moved to `bodies`."""
    if type(kind) is Text and type(kind.text) is str and len(kind.text) <= INLINE:
        return kind  # as most are
    for field in ("text", "url", "prompt", "data"):
        value = getattr(kind, field, None)
        if isinstance(value, str) and field in kind.__struct_fields__:
            kind = replace(kind, **{field: to_content(value, bodies)})
    return kind


def as_json(value: Json | dict[str, object], name: str = "the arguments of a call") -> Json:
    """Return JSON text unchanged, and a mapping as compact JSON text.

    "" is allowed: some models send it for a call without arguments. `name` names the value in the
    `CallError` for one that is no JSON.
    """
    try:
        text = value if isinstance(value, str) else _compact()(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise CallError(f"{name} cannot be written as JSON: {error}") from None
    if text is value or text.count("[") + text.count("{") > MAX_DEPTH:
        require_json(object, text or "{}", f"{name} are JSON text, or a dict")
    return text


def require_sound_json(values: Iterable[Struct]) -> None:
    """Raise `CallError` unless the JSON texts in these events are standard JSON."""
    for value in values:
        for field in JSON_FIELDS.get(type(value), ()):
            content: object = getattr(value, field)
            if content is None:
                continue
            if isinstance(content, Struct):
                for inner in JSON_FIELDS.get(type(content), ()):
                    if getattr(content, inner) is not None:
                        require_sound_json((content,))
            elif type(content) is str and field not in _VALUES:
                require_json(object, content, f"{type(value).__name__}.{field} is JSON text")


@cache
def _compact() -> Callable[[object], str]:
    import json

    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def stored_truncation(truncation: Truncation | None, bodies: dict[bytes, bytes]) -> Truncation | None:
    """Return the truncation with a large preview moved to `bodies`."""
    if truncation is None or not isinstance(truncation.preview, str):
        return truncation
    return replace(truncation, preview=to_content(truncation.preview, bodies))


def stored_attachment(attachment: Attachment, bodies: dict[bytes, bytes]) -> Attachment:
    """Return the attachment with its large data moved to `bodies`."""
    require(Attachment, attachment, "an attachment is an Attachment")
    if isinstance(attachment.url, str):
        return replace(attachment, url=to_content(attachment.url, bodies))
    return attachment
