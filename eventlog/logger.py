"""The engine's logger, made at the first message: importing does not load `logging`.

What is logged has no content of conversations in it. The engines of the log have loggers of their
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger


def logger() -> Logger:
    """The logger `eventlog`."""
    import logging

    return logging.getLogger("eventlog")
