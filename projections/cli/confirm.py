"""A question before anything is erased, or read that was not named."""

from __future__ import annotations

import sys

import click

from projections.cli import output
from projections.cli.exits import Fault


def confirm(*lines: str, yes: bool, done: str = "erased") -> None:
    """Ask whether to do what the lines say; raises `Fault` unless the answer is yes.

    With `yes` nothing is asked. `done` is the word for what is done then. Without a terminal there
    is no user to answer: that is refused.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Fault(f"{lines[0]}: this needs a yes, and there is no terminal to ask on: give --yes")
    for line in lines:
        output.note(line)
    if not click.confirm("Do it?", err=True):
        raise Fault(f"nothing was {done}")
