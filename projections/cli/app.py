"""A call of the program: its global options, its command, and the exit code of an error.

Each command imports heavy modules when it runs, so that `eventlog --help` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

from projections.cli import output
from projections.cli.exits import Exit, PipeFault, UsageFault, classify
from projections.cli.grammar.context import Context
from projections.cli.grammar.parameters import Option, Parameter, fields_of
from projections.cli.grammar.words import read_words, unknown
from projections.cli.registry import COMMANDS, GROUPS, Command

__all__ = ["PROGRAM", "run"]

_VARIABLE = "EVENTLOG_COMPLETE"
"""Set by the shell's completion: the words are not run, but completed."""


class _ProgramOptions(NamedTuple):
    """Options before the command that are not of every command."""

    json: Annotated[bool, Option("--json", help="Print JSON, as the same option behind the command does.")] = False
    version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False


_CONTEXT: tuple[Parameter, ...] = tuple(fields_of(Context))
PROGRAM: tuple[Parameter, ...] = (*_CONTEXT, *fields_of(_ProgramOptions))
"""The options that may precede the command."""


def run(arguments: Sequence[str], guard: Callable[[Callable[[], int]], int] | None = None) -> int:
    """Run one command and return its exit code.

    `guard` is given the command to run, once the words are understood.
    """
    output.prepare()
    jobs: list[Callable[[], int]] = []
    code = _reported(lambda: _prepare(list(arguments), jobs))
    if not jobs:
        return code
    (job,) = jobs
    return _reported(job) if guard is None else guard(lambda: _reported(job))


def _reported(job: Callable[[], int]) -> int:
    """Return the exit code of a job, or of the error that it raises."""
    try:
        code = job()
        sys.stdout.flush()
    except BrokenPipeError as error:
        return _report(PipeFault(error))
    except Exception as error:  # noqa: BLE001  # every error ends as one line and an exit code
        return _report(error)
    except KeyboardInterrupt as error:
        return _report(error)
    return code


def _prepare(words: list[str], jobs: list[Callable[[], int]]) -> int:
    """Add the command of a call to the jobs, or print the help that it asks for."""
    if os.environ.get(_VARIABLE):
        from projections.cli.completion import print_candidates

        print_candidates(words)
        return Exit.OK
    before, name, behind = split_call(words)
    given = _read(PROGRAM, before, "eventlog")
    if given is None:
        sys.stdout.write("\n".join([*_help(), ""]))
        return Exit.OK
    if given["version"]:
        output.line(_version())
        return Exit.OK
    if name is None:
        sys.stderr.write("\n".join([*_help(), ""]))
        return Exit.USAGE
    if name not in COMMANDS:
        raise UsageFault(f"there is no command {name!r}{unknown(name, COMMANDS)}; see `eventlog --help`")
    command = Command(name)
    values = _read((*command.parameters, *_CONTEXT), ["--json"] * bool(given["json"]) + behind, name)
    if values is None:
        from projections.cli.grammar.help_page import help_page

        for line in help_page(name, command.text, command.parameters, output.columns()):
            output.line(line)
        return Exit.OK
    places = [given[field] if values[field] is None else values[field] for field in Context._fields]
    jobs.append(lambda: command.call(Context(*places), values))
    return Exit.OK


def split_call(words: Sequence[str]) -> tuple[list[str], str | None, list[str]]:
    """Return the words before the command, its name, and those behind it."""
    valued = {name for option in PROGRAM if not option.is_flag for name in option.on}
    queue = iter(words)
    before: list[str] = []
    for word in queue:
        if not word.startswith("-"):
            return before, word, list(queue)
        before.append(word)
        if word in valued:
            before += [value for value in [next(queue, None)] if value is not None]
    return before, None, []


def _read(parameters: Sequence[Parameter], words: Sequence[str], command: str) -> dict[str, Any] | None:
    """Return the values by parameter; None if the words ask for help."""
    try:
        reading = read_words(parameters, words, command)
    except UsageFault as fault:
        path = "eventlog" if command == "eventlog" else f"eventlog {command}"
        raise UsageFault(f"{fault}; see `{path} --help`") from None
    return None if reading.wants_help else reading.values


def _version() -> str:
    """Return name and version, as the directory of the installation says them."""
    for place in filter(os.path.isdir, sys.path):
        for name in os.listdir(place):  # noqa: PTH208  # quicker
            package, _, rest = name.partition("-")
            if package == "everdelta" and rest.endswith(".dist-info"):
                return f"eventlog {rest.removesuffix('.dist-info')}"
    return "eventlog, not installed"


# -- help --------------------------------------------------------------------------------------


def _help() -> Iterator[str]:
    """Yield the lines of the program's help, without loading a command."""
    from projections.cli.grammar.help_page import columns, option_rows, paragraphs

    width = output.columns()
    yield "Usage: eventlog [OPTIONS] COMMAND [ARGUMENTS]"
    yield ""
    yield "  Store, inspect and replay conversations of LLM agents."
    for title, commands in GROUPS.items():
        yield ""
        yield f"{title}:"
        longest = max(map(len, COMMANDS))
        yield from columns([(f"{name:<{longest}}", sentence) for name, sentence in commands.items()], width)
    yield ""
    yield "Options, before or behind the command:"
    yield from columns(option_rows(PROGRAM), width)
    yield ""
    yield from paragraphs(_CODES, width)


_CODES = (
    "`eventlog COMMAND --help` explains a command. Exit codes: 0 done, 1 faults found, 2 wrong call, 3 not found, "
    "4 data damaged, 5 busy, 6 storage failed, 7 compaction failed."
)


# -- errors ------------------------------------------------------------------------------------


def _report(error: BaseException) -> int:
    """Print an error in one line and return its exit code."""
    if os.environ.get("EVENTLOG_DEBUG"):
        import traceback

        sys.stderr.write(output.safe("".join(traceback.format_exception(error))))
    code, text = classify(error)
    if code is Exit.PIPE:
        _discard_output()
    else:
        output.note(f"eventlog: {text}")
    return code


def _discard_output() -> None:
    """Direct standard output to the null device, which takes the interpreter's last flush."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
