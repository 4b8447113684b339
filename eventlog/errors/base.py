"""The root of the errors, and how an error shows what it names."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

SHOWN = 80
"""Characters of an id that an error shows."""


def cut(text: str) -> str:
    """Return the text, cut at the length that an error shows."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def brief(value: object) -> str:
    """A caller's value for an error message: texts in quotes, long values cut."""
    if isinstance(value, str):
        return repr(cut(value))
    try:
        return cut(repr(value))
    except ValueError:
        return "a number of too many digits"
    except RecursionError:
        return "something nested too deep"


class EventlogError(Exception):
    """The root of the tree above."""


@contextmanager
def giving_way_to(error: BaseException | None, block: str, *kinds: type[Exception]) -> Generator[None]:
    """Keep an error at the end of a block from hiding the exception that left the block.

    `block` names the block. An `EventlogError` becomes a note of `error` if that is no `Exception`,
    or one of `kinds`.
    """
    try:
        yield
    except EventlogError as failure:
        if error is None or (isinstance(error, Exception) and not isinstance(error, kinds)):
            raise
        error.add_note(f"closing the {block} then failed, too: {failure}")
