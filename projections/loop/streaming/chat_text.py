"""The texts of a choice of Chat Completions, whichever field and form they come in.

A choice says something in `delta`, in a whole `message`, or in `text` (legacy completions). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

from eventlog.errors import UnknownStreamError

__all__ = ["Kind", "said_by", "texts_of"]

Kind: TypeAlias = Literal["text", "reasoning"]


def said_by(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a choice holds: its delta, or its whole message; {} if it has neither."""
    given: object = choice.get("delta")
    found: object = choice.get("message") if given is None else given
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise UnknownStreamError(f"a delta that is a {type(found).__name__}")
    return cast("Mapping[str, Any]", found)


def texts_of(choice: Mapping[str, Any]) -> Iterator[tuple[Kind, str]]:
    """Yield the texts of a choice, none of them empty, in the order of generation.

    What the model refuses with is text. `UnknownStreamError` for a content in another form,
    `ConnectionError` for a damaged one.
    """
    said = said_by(choice)
    thought = said.get("reasoning_content") or said.get("reasoning")
    if isinstance(thought, str) and thought:
        yield "reasoning", thought
    legacy = None if said else choice.get("text")  # some servers send it beside the delta, too
    for content in (said.get("content"), said.get("refusal"), legacy):
        yield from _texts("text", content)


def _texts(kind: Kind, content: object) -> Iterator[tuple[Kind, str]]:
    """Yield the texts of a content: a text, a part, or a list of either."""
    if isinstance(content, str):
        if content:
            yield kind, content
    elif isinstance(content, list):
        for item in cast("list[object]", content):
            yield from _texts(kind, item)
    elif isinstance(content, Mapping):
        part = cast("Mapping[str, Any]", content)
        if "thinking" in part:
            yield from _texts("reasoning", part["thinking"])
        elif "text" in part or "refusal" in part:
            yield from _texts(kind, part.get("text") or part.get("refusal"))
        else:
            raise UnknownStreamError(f"a part of content of type {part.get('type')}")
    elif content is not None:  # of no API: a damaged chunk
        raise ConnectionError(f"the answer broke off: its content is a {type(content).__name__}")
