"""Provider constraints: no empty texts, no two user messages in a row, allowed call ids.

They work on neutral messages; `requests/` has the providers' forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256

import msgspec

from projections.view.neutral import Call, NeutralMessage, NeutralPart, Reasoning, Result, Text
from projections.view.options import Constraints

_REFUSED = {"word": re.compile("[^A-Za-z0-9_-]"), "alphanumeric": re.compile("[^A-Za-z0-9]")}


def constrained(parts: Iterable[NeutralPart], constraints: Constraints) -> Iterator[NeutralPart]:
    """Yield the parts that a provider takes, with call ids that it takes."""
    for part in parts:
        if not (constraints.drop_empty and _is_empty(part)):
            yield _renamed(part, constraints)


def join(before: NeutralMessage | None, message: NeutralMessage, constraints: Constraints) -> list[NeutralMessage]:
    """Return the replacement of two neighbours: both, one made of both, or one between them."""
    if before is None:
        return [message]
    if constraints.alternate and before.role == message.role == "user":
        return [msgspec.structs.replace(before, parts=before.parts + message.parts)]
    if constraints.after_tool is not None and before.role == "tool" and message.role == "user":
        return [before, NeutralMessage("assistant", (Text(constraints.after_tool),)), message]
    return [before, message]


def _is_empty(part: NeutralPart) -> bool:
    return isinstance(part, (Text, Reasoning)) and not part.text.strip() and part.metadata is None


def _renamed(part: NeutralPart, constraints: Constraints) -> NeutralPart:
    """The part with a call id that the provider takes.  Different ids stay different."""
    if not isinstance(part, (Call, Result)):
        return part
    refused = _REFUSED.get(constraints.call_id_pattern)
    length = constraints.call_id_length
    if (refused is None or not refused.search(part.call)) and (length is None or len(part.call) == length):
        return part
    size = length or 24
    return msgspec.structs.replace(part, call=sha256(part.call.encode("utf-8", "surrogatepass")).hexdigest()[:size])
