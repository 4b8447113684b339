"""A call of the program: its global options, its command, and the exit code of an error.

Each command imports heavy modules when it runs, so that `eventlog --help` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from projections.cli import output
from projections.cli.exits import Exit, classify
from projections.cli.registry import Commands
from projections.cli.screen import safe
from projections.cli.store_option import Context
from projections.cli.words import COMPLETION, STORE, flag

_CODES = (
    "`eventlog COMMAND --help` explains a command; --store, --key-file and --json may stand before or behind it. "
    "Exit codes: 0 done, 1 faults found, 2 wrong call, 3 not found, 4 data damaged, 5 busy, 6 storage failed, "
    "7 compaction failed."
)


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            output.line(f"eventlog {version('everdelta')}")
        except PackageNotFoundError:
            output.line("eventlog, not installed")
        ctx.exit()


@click.group(
    cls=Commands,
    epilog=_CODES,
    options_metavar="[OPTIONS]",
    subcommand_metavar="COMMAND [ARGUMENTS]",
    context_settings={"max_content_width": 100, "show_default": True},
)
@flag("--json", help="Print JSON, as the same option behind the command does.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def PROGRAM(json: bool) -> None:  # noqa: N802  # `Commands` hands it to the command
    """Store, inspect and replay conversations of LLM agents."""


PROGRAM.params[:0] = STORE


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    output.prepare()
    try:
        if os.environ.get(COMPLETION):
            _complete(os.environ[COMPLETION])
            return Exit.OK
        with PROGRAM.make_context("eventlog", list(arguments), obj=Context()) as call:
            code = PROGRAM.invoke(call)
        sys.stdout.flush()
    except click.exceptions.Exit:  # after the help, or the version
        return Exit.OK
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # every error ends as one line and an exit code
        return _report(error)
    return code or Exit.OK


def _complete(instruction: str) -> None:
    """Print what may stand where the user is typing; of an error nothing is said."""
    from click.shell_completion import shell_complete

    with suppress(Exception):
        shell_complete(PROGRAM, {"obj": Context()}, "eventlog", COMPLETION, instruction)


def _report(error: BaseException) -> int:
    """Print an error in one line and return its exit code."""
    if os.environ.get("EVENTLOG_DEBUG"):
        import traceback

        sys.stderr.write(safe("".join(traceback.format_exception(error))))
    code, text = classify(error)
    try:
        sys.stdout.flush()
    except OSError:  # its reader has left, or its disk is full
        _discard_output()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        sys.stderr.write(f"{error.message}\n")
    elif text:
        output.note(f"eventlog: {text}")
    return code


def _discard_output() -> None:
    """Direct standard output to the null device, which takes the interpreter's last flush."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
