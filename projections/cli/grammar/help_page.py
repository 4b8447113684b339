"""The help of a command: usage, what it does, arguments and options."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from projections.cli.grammar.parameters import Parameter

__all__ = ["columns", "help_page", "option_rows", "paragraphs"]

WIDEST = 100
"""Characters of the longest line, however wide the terminal is."""
NAMES = 28
"""Characters beside which the explanation of an option begins."""


def help_page(name: str, text: str, parameters: Sequence[Parameter], width: int) -> Iterator[str]:
    """Yield the lines of the help of a command; `text` is its docstring."""
    arguments = [each for each in parameters if not each.is_option]
    options = [each for each in parameters if each.is_option]
    usage = [f"eventlog {name}", *(_usage(each) for each in arguments)]
    usage += [f"{each.label} {each.placeholder}" for each in options if each.is_required]
    yield f"Usage: {' '.join(usage)} [OPTIONS]"
    yield ""
    yield from paragraphs(text, width, "  ")
    if arguments:
        yield ""
        yield "Arguments:"
        yield from columns(((each.label, each.written.help) for each in arguments), width)
    yield ""
    yield "Options:"
    yield from columns(option_rows(options), width)


def option_rows(options: Iterable[Parameter]) -> list[tuple[str, str]]:
    """Return the names of each option and what it is for."""
    return [*map(_option, options), ("--help", "Show this help.")]


def paragraphs(text: str, width: int, indent: str = "") -> Iterator[str]:
    """Yield a text whose paragraphs are separated by empty lines, wrapped."""
    for number, paragraph in enumerate(textwrap.dedent(_rest_dedented(text)).strip().split("\n\n")):
        if number:
            yield ""
        yield from textwrap.wrap(
            " ".join(paragraph.split()), min(width, WIDEST), initial_indent=indent, subsequent_indent=indent
        )


def columns(rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield two columns; the second is wrapped beside the first."""
    rows = list(rows)
    first = min(max(len(name) for name, _ in rows), NAMES)
    for name, words in rows:
        lines = textwrap.wrap(words, max(min(width, WIDEST) - first - 4, 20)) or [""]
        if len(name) > first:
            yield f"  {name}"
        else:
            yield f"  {name:<{first}}  {lines.pop(0)}".rstrip()
        yield from (f"  {'':<{first}}  {line}" for line in lines)


def _rest_dedented(text: str) -> str:
    """Return a docstring with its first line indented as the others are."""
    first, newline, rest = text.partition("\n")
    return first + newline + textwrap.dedent(rest)


def _usage(argument: Parameter) -> str:
    name = argument.label + ("..." if argument.many else "")
    return name if argument.is_required else f"[{name}]"


def _option(option: Parameter) -> tuple[str, str]:
    names = ", ".join(sorted(option.on, key=len))
    if option.off:
        names += f" / {option.off[0]}"
    if not option.is_flag:
        names += f" {option.placeholder}"
    help = option.written.help
    if option.choices and option.written.metavar:
        help += f" One of {', '.join(option.choices)}."
    if isinstance(option.default, (str, int)) and not isinstance(option.default, bool) and option.default != "":
        help += f" [default: {option.default}]"
    return names, help
