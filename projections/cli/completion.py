"""Completion of a call: commands, options, their choices, and ids of sessions.

The scripts of `eventlog completion` run the program with EVENTLOG_COMPLETE set and the words that
the user has typed, the last of which may be empty. It prints what may stand there, a line each, and
behind a tab what that is. Where it prints nothing, the shell completes names of files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from projections.cli.exits import UsageFault
from projections.cli.grammar.context import Context
from projections.cli.grammar.parameters import Parameter, fields_of
from projections.cli.grammar.words import read_words
from projections.cli.registry import COMMANDS, Command
from projections.cli.screen import safe

__all__ = ["SCRIPTS", "candidates", "print_candidates"]

SCRIPTS = {
    "bash": """\
_eventlog() {
    local IFS=$'\\n'
    COMPREPLY=($(EVENTLOG_COMPLETE=1 eventlog "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _eventlog eventlog
""",
    "zsh": """\
#compdef eventlog
_eventlog() {
    local -a found
    local line
    for line in ${(f)"$(EVENTLOG_COMPLETE=1 eventlog "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
        found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    done
    if (( $#found )); then _describe eventlog found; else _files; fi
}
compdef _eventlog eventlog
""",
    "fish": """\
function __eventlog
    set -l found (EVENTLOG_COMPLETE=1 eventlog (commandline -opc)[2..] "$(commandline -ct)" 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c eventlog -f -a '(__eventlog)'
""",
}
"""The script of each shell."""


def print_candidates(words: Sequence[str]) -> None:
    """Print what may stand for the last word; of an error nothing is said."""
    with suppress(Exception):
        for word, description in candidates(words):
            told = f"{safe(word, one_line=True)}\t{safe(description, one_line=True)}"
            sys.stdout.write(told + "\n")


def candidates(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what may stand for the last word, each with a description."""
    *before, beginning = words or [""]
    program = tuple(fields_of(Context))
    name = _command(before, program)
    if name is None:
        found: Iterable[tuple[str, str]] = COMMANDS.items()
        yield from _of_parameters(program, before, beginning, Context(), found)
        return
    if not name:
        return
    place = before.index(name)
    known = (*Command(name).parameters, *program)
    yield from _of_parameters(known, before[place + 1 :], beginning, _context(program, before), ())


def _command(before: Sequence[str], program: Sequence[Parameter]) -> str | None:
    """Return the command among the words; "" if the first word that should be one is none."""
    valued = {option for each in program for option in each.on}
    skip = False
    for word in before:
        if skip or word.startswith("-"):
            skip = word in valued and not skip
            continue
        return word if word in COMMANDS else ""
    return None


def _context(program: Sequence[Parameter], before: Sequence[str]) -> Context:
    """Return the store and the keys that the words name."""
    given: list[str] = []
    names = {name for option in program for name in option.on}
    for word, following in zip(before, [*before[1:], ""], strict=True):
        if word in names:
            given += [word, following]
        elif word.partition("=")[0] in names:
            given.append(word)
    try:
        return Context(**read_words(program, given, "eventlog").values)
    except UsageFault:
        return Context()


def _of_parameters(
    parameters: Sequence[Parameter],
    before: Sequence[str],
    beginning: str,
    context: Context,
    others: Iterable[tuple[str, str]],
) -> Iterator[tuple[str, str]]:
    """Yield what may follow words: a value of an option, options, or an argument."""
    options = {name: each for each in parameters if each.is_option for name in (*each.on, *each.off)}
    last = options.get(before[-1]) if before else None
    if last is not None and not last.is_flag:
        yield from _values(last, context, beginning)
        return
    if beginning.startswith("-"):
        found = [(name, each.written.help) for name, each in options.items() if name.startswith("--")]
        yield from (pair for pair in [*found, ("--help", "Show the help.")] if pair[0].startswith(beginning))
        return
    yield from (pair for pair in others if pair[0].startswith(beginning))
    arguments = [each for each in parameters if not each.is_option]
    place = _placed(before, options)
    if arguments and (place < len(arguments) or arguments[-1].many):
        yield from _values(arguments[min(place, len(arguments) - 1)], context, beginning)


def _placed(before: Sequence[str], options: dict[str, Parameter]) -> int:
    """Return how many arguments are among the words."""
    count = 0
    skip = False
    for word in before:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in options and not options[word].is_flag
        else:
            count += 1
    return count


def _values(parameter: Parameter, context: Context, beginning: str) -> Iterator[tuple[str, str]]:
    for choice in parameter.choices:
        if choice.startswith(beginning):
            yield choice, ""
    if parameter.written.candidates is not None:
        yield from parameter.written.candidates(context, beginning)
