"""The command line as a whole: its commands, the global options, and what becomes of an error.

The commands are in `commands/`, by noun (`registry.py`); heavy modules are imported where a command needs them, so
that `eventlog --help` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from projections.cli import output
from projections.cli.exits import Exit, classify
from projections.cli.registry import Commands, plain

__all__ = ["application", "run"]

_GLOBAL = ("--store", "--key-file")


def application() -> typer.Typer:
    """The commands."""
    app = plain(
        name="eventlog",
        cls=Commands,
        help="Store, look at and replay LLM-agent conversations.",
        epilog="--store and --key-file may also stand behind the command.  Exit codes: 0 done, 1 faults found, 2 wrong call, "
        "3 not found, 4 data damaged, 5 busy, 6 storage failed, 7 compaction failed.",
        no_args_is_help=True,
    )
    app.callback()(_globals)
    return app


def _print_version(value: bool) -> None:
    if not value:
        return
    from importlib import metadata

    try:
        output.line(f"eventlog {metadata.version('everdelta')}")
    except metadata.PackageNotFoundError:
        output.line("eventlog, not installed")
    raise typer.Exit


def _globals(
    *,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            metavar="PATH",
            help="Directory of the store [environment: EVENTLOG_STORE; default: ~/.local/share/eventlog].",
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            help="File with the keys of an encrypted store, outside of it; a store that is made is encrypted with it "
            "[environment: EVENTLOG_KEY_FILE].",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Store, look at and replay LLM-agent conversations."""
    del store, key_file, version


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    output.prepare()
    try:
        result: Any = application()(args=_hoisted(arguments), prog_name="eventlog", standalone_mode=False)
        if result == Exit.INTERRUPTED:
            return _ended(KeyboardInterrupt())
        return result if isinstance(result, int) else Exit.OK
    except Exception as error:  # noqa: BLE001  # whatever it is, it ends as one line and an exit code
        return _ended(error)
    except KeyboardInterrupt as error:
        return _ended(error)


def _hoisted(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--store PATH` and `--key-file FILE` moved to the front, where the global options stand."""
    front: list[str] = []
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        argument = queue.pop(0)
        if argument == "--":
            rest += [argument, *queue]
            break
        if argument in _GLOBAL and queue:
            front += [argument, queue.pop(0)]
        elif argument.startswith(tuple(f"{option}=" for option in _GLOBAL)):
            front.append(argument)
        else:
            rest.append(argument)
    return front + rest


def _ended(error: BaseException) -> int:
    """Say in one line what went wrong, and return the exit code."""
    if os.environ.get("EVENTLOG_DEBUG"):
        import traceback

        sys.stderr.write(output.safe("".join(traceback.format_exception(error))))
    usage = getattr(error, "format_message", None)
    if usage is not None:
        return _misused(error, usage())
    if isinstance(error, typer.Abort):
        error = KeyboardInterrupt()
    code, text = classify(error)
    if code is Exit.PIPE:
        _let_go_of_output()
    else:
        output.note(f"eventlog: {text}")
    return code


def _misused(error: BaseException, message: str) -> int:
    """An error of the command-line library: options and arguments that do not fit."""
    context: typer.Context | None = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "eventlog"
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(message + "\n")
        return Exit.USAGE
    first = " ".join(message.split()).replace("Value error, ", "").rstrip(".")
    output.note(f"eventlog: {first}; see `{path} --help`")
    return Exit.USAGE


def _let_go_of_output() -> None:
    """Let the interpreter flush into nothing when it exits, now that nobody reads."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
