"""A pager before the terminal, by the rules of git.

Long output of a command that reads goes through the program that PAGER names, else through `less`.
With LESS unset, `less` ends by itself if all fits the screen, and shows colours. `PAGER=cat`, or
an empty one, is none; so is a program that is not there. In a pipe or file there is no pager.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from projections.cli.screen import Paged

if TYPE_CHECKING:
    from subprocess import Popen

__all__ = ["paged"]

_DEFAULT = "less"
_SETTINGS = {"LESS": "FRX", "LV": "-c"}
"""Environment of the pager, where the user has not set it otherwise."""


@contextmanager
def paged() -> Generator[None]:
    """Send what the block prints through the pager, if a person reads it."""
    command = os.environ.get("PAGER", _DEFAULT).strip()
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or command in {"", "cat"}:
        yield
        return
    from shutil import which
    from subprocess import PIPE, Popen

    program = command.split()[0]
    if which(program) is None:
        yield
        return
    # The user's own setting is a command line for the shell, as in git.
    with Popen(  # noqa: S602
        command, shell=True, stdin=PIPE, text=True, encoding="utf-8", errors="replace", env={**_SETTINGS, **os.environ}
    ) as process:
        terminal, Paged.now = sys.stdout, True
        assert process.stdin is not None
        sys.stdout = process.stdin
        try:
            yield
        except BrokenPipeError:  # the reader has left the pager
            pass
        finally:
            sys.stdout, Paged.now = terminal, False
            with suppress(BrokenPipeError):
                process.stdin.close()
            _wait(process)
            sys.stderr.writelines(Paged.notes)
            Paged.notes.clear()


def _wait(process: Popen[str]) -> None:
    """Wait for the reader to leave; Ctrl-C belongs to the pager meanwhile."""
    while True:
        try:
            process.wait()
        except KeyboardInterrupt:
            continue
        return
