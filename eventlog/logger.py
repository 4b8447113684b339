"""The engine's logger, made at the first message: importing does not load `logging`.

A line has no content of conversations in it, no id and no address. Texts of errors may have them:
a line has `kind_of` the error in their place.
"""

from __future__ import annotations

from errno import errorcode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger


def logger() -> Logger:
    """The logger `eventlog`."""
    import logging

    return logging.getLogger("eventlog")


def kind_of(error: BaseException) -> str:
    """The type of an error, and of its cause: `BusyError caused by OSError ENOSPC`."""
    return " caused by ".join(_named(each) for each in (error, error.__cause__) if each is not None)


def _named(error: BaseException) -> str:
    code = errorcode.get(error.errno) if isinstance(error, OSError) and error.errno is not None else None
    return type(error).__name__ if code is None else f"{type(error).__name__} {code}"
