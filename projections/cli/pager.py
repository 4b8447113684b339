"""A pager before the terminal.

Long output of a command that reads goes through the program that PAGER names, else through `less`.
With LESS unset, `less` ends by itself if all fits the screen, and shows colours. `PAGER=cat`, or
an empty one, is none; so is a program that is not there. In a pipe or file there is no pager.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from projections.cli.screen import Paged

_SETTINGS = {"LESS": "FRX", "LV": "-c"}
"""Environment of the pager, where the user has not set it otherwise."""


@contextmanager
def paged() -> Generator[None]:
    """Send the output of the block through the pager, if a person reads it."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or _names_none(os.environ.get("PAGER", "less")):
        yield
        return
    from click import get_pager_file

    os.environ.update(_SETTINGS | os.environ)
    failure: Exception | None = None
    with get_pager_file(color=True) as pager:
        terminal, sys.stdout, Paged.now = sys.stdout, pager, True
        try:
            yield
        except BrokenPipeError:  # the reader has left the pager
            raise
        except Exception as error:  # noqa: BLE001  # reported once the reader has left, who reads what came before it
            failure = error
        finally:
            sys.stdout, Paged.now = terminal, False
    sys.stderr.writelines(Paged.notes)
    Paged.notes.clear()
    if failure is not None:
        raise failure


def _names_none(command: str) -> bool:
    import shlex

    try:
        return shlex.split(command) in ([], ["cat"])
    except ValueError:  # an unbalanced quote
        return True
