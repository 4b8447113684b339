"""The first words of a text or part, for lists that would name it by an id otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

from projections.view.neutral import Call, File, NeutralPart, Result

OPENING = 80
"""Characters of the beginning of a text that stands for it."""
READ = 10_000
"""Characters of the longest arguments that are read; of longer ones the JSON is shown."""


def opening(text: str, longest: int = OPENING) -> str:
    """Return the first words of a text on one line, with "…" where it goes on."""
    words = " ".join(text[: 4 * longest].split())
    return words if len(words) <= longest and len(text) <= 4 * longest else f"{words[: longest - 1].rstrip()}…"


def arguments(input: str) -> str:
    """Return the arguments of a call without JSON's marks: a first text bare, others named."""
    if len(input) > READ:
        return input
    try:
        found = msgspec.json.decode(input)
    except (msgspec.DecodeError, ValueError, RecursionError):  # what a model began to write, or "["s
        return input
    if not isinstance(found, dict):
        return input
    members = cast("dict[str, object]", found).items()
    said = [(name, value if isinstance(value, str) else msgspec.json.encode(value).decode()) for name, value in members]
    bare = next(iter(members), ("", None))[1]
    return " ".join(
        text if number == 0 and isinstance(bare, str) else f"{name}={text}" for number, (name, text) in enumerate(said)
    )


def words_of(parts: Iterable[NeutralPart]) -> str:
    """Return the first words of what a view shows of a part: of a call its arguments."""
    for part in parts:
        match part:
            case Call():
                said = arguments(part.input)
            case Result():
                said = part.output
            case File():
                said = " ".join(filter(None, (part.mime, part.filename)))
            case _:
                said = part.text
        if said:
            return opening(said)
    return ""
