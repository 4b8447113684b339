"""What callers hand over, in the form events keep it: large texts by reference, JSON as text, models as values."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msgspec.structs import replace

from eventlog.arguments import require
from eventlog.blobs import INLINE, to_content
from eventlog.errors import CallError
from eventlog.values import Attachment, Json, Model, PartKind, Text

__all__ = ["as_json", "model_of", "stored_attachment", "stored_kind"]


def model_of(model: Model | str | None) -> Model | None:
    """A model from `provider/name`."""
    if model is None or isinstance(model, Model):
        return model
    require(str, model, 'a model is a Model, or a str such as "provider/name"')
    provider, slash, name = model.partition("/")
    return Model(provider, name) if slash else Model("", model)


def stored_kind(kind: PartKind, bodies: dict[bytes, bytes]) -> PartKind:
    """The part with its large text put into `bodies`."""
    if type(kind) is Text and type(kind.text) is str and len(kind.text) <= INLINE:
        return kind  # as most are
    for field in ("text", "url", "prompt"):
        value = getattr(kind, field, None)
        if isinstance(value, str) and field in kind.__struct_fields__:
            kind = replace(kind, **{field: to_content(value, bodies)})
    return kind


def as_json(value: Json | dict[str, object]) -> Json:
    """Return JSON text as it is, and a mapping as compact JSON text."""
    if isinstance(value, str):
        return value
    try:
        return _compact()(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise CallError(f"this cannot be JSON: {error}") from None


@cache
def _compact() -> Callable[[object], str]:
    import json

    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def stored_attachment(attachment: Attachment, bodies: dict[bytes, bytes]) -> Attachment:
    """The attachment with its large data put into `bodies`."""
    if isinstance(attachment.url, str):
        return replace(attachment, url=to_content(attachment.url, bodies))
    return attachment
