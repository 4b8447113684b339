"""The application: its global options, its commands, and the exit code of an error.

Each command imports heavy modules when it runs, so that `eventlog --help` is quick.
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
from projections.cli.registry import CommandGroup, new_app

__all__ = ["application", "run"]

_GLOBAL = ("--store", "--key-file")


def application() -> typer.Typer:
    """Return the application with all commands."""
    app = new_app(
        name="eventlog",
        cls=CommandGroup,
        help="Store, inspect and replay conversations of LLM agents.",
        epilog="--store and --key-file may also follow the command. Exit codes: 0 done, 1 faults found, "
        "2 wrong call, 3 not found, 4 data damaged, 5 busy, 6 storage failed, 7 compaction failed.",
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
            help="Key file of an encrypted store, outside of its directory; a new store is encrypted with it "
            "[environment: EVENTLOG_KEY_FILE].",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Store, inspect and replay conversations of LLM agents."""
    del store, key_file, version


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    output.prepare()
    try:
        result: Any = application()(args=_globals_first(arguments), prog_name="eventlog", standalone_mode=False)
        if result == Exit.INTERRUPTED:
            return _report(KeyboardInterrupt())
        return result if isinstance(result, int) else Exit.OK
    except Exception as error:  # noqa: BLE001  # every error ends as one line and an exit code
        return _report(error)
    except KeyboardInterrupt as error:
        return _report(error)


def _globals_first(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `--store` and `--key-file` before the command."""
    front: list[str] = []
    others: list[str] = []
    queue = list(arguments)
    while queue:
        argument = queue.pop(0)
        if argument == "--":
            others += [argument, *queue]
            break
        if argument in _GLOBAL and queue:
            front += [argument, queue.pop(0)]
        elif argument.startswith(tuple(f"{option}=" for option in _GLOBAL)):
            front.append(argument)
        else:
            others.append(argument)
    return front + others


def _report(error: BaseException) -> int:
    """Print an error in one line and return its exit code."""
    if os.environ.get("EVENTLOG_DEBUG"):
        import traceback

        sys.stderr.write(output.safe("".join(traceback.format_exception(error))))
    usage = getattr(error, "format_message", None)
    if usage is not None:
        return _report_usage(error, usage())
    if isinstance(error, typer.Abort):
        error = KeyboardInterrupt()
    code, text = classify(error)
    if code is Exit.PIPE:
        _discard_output()
    else:
        output.note(f"eventlog: {text}")
    return code


def _report_usage(error: BaseException, message: str) -> int:
    """Print an error of the command-line library: an option or argument that does not fit."""
    context: typer.Context | None = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "eventlog"
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(message + "\n")
        return Exit.USAGE
    first = " ".join(message.split()).replace("Value error, ", "").rstrip(".")
    output.note(f"eventlog: {first}; see `{path} --help`")
    return Exit.USAGE


def _discard_output() -> None:
    """Direct standard output to the null device, which takes the interpreter's last flush."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
