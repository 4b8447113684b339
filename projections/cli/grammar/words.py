"""The words of a call, read as the values of a command's parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from projections.cli.exits import UsageFault
from projections.cli.grammar.parameters import Parameter

__all__ = ["Reading", "read_words", "unknown"]

_LONGEST_NUMBER = 18
"""Digits of the longest number that is read: no version, size or count has more."""


class Reading(NamedTuple):
    """The values of a call by parameter, and whether it asks for help."""

    values: dict[str, Any]
    wants_help: bool = False


def read_words(parameters: Sequence[Parameter], words: Iterable[str], command: str) -> Reading:
    """Return the values that the words give; raises `UsageFault` if they do not fit."""
    options = {name: each for each in parameters if each.is_option for name in (*each.on, *each.off)}
    arguments = [each for each in parameters if not each.is_option]
    values: dict[str, Any] = {}
    placed: list[str] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == "--":
            placed += queue
            break
        if word == "--help":
            return Reading(values, wants_help=True)
        if not word.startswith("-") or word == "-":
            placed.append(word)
            continue
        name, value = _split(word, options)
        option = options.get(name)
        if option is None:
            raise UsageFault(f"{command} has no option {_shown(name)}{unknown(name, options)}")
        if option.is_flag:
            if value is not None:
                raise UsageFault(f"{name} takes no value")
            values[option.name] = name not in option.off
            continue
        if value is None:
            if not queue:
                raise UsageFault(f"{name} needs {_article(option.placeholder)}")
            value = queue.pop(0)
        values[option.name] = _value(option, name, value)
    values.update(_placed(arguments, placed, command))
    for each in parameters:
        if each.name not in values:
            if each.is_required:
                needed = f"{each.label} {each.placeholder}" if each.is_option else each.label
                raise UsageFault(f"{command} needs {needed}")
            values[each.name] = each.default
    return Reading(values)


def _split(word: str, options: dict[str, Parameter]) -> tuple[str, str | None]:
    """Return name and value of `--name=value`, `--name`, `-nvalue` or `-n`."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    name, value = word[:2], word[2:]
    if name in options and not options[name].is_flag and value:
        return name, value
    return word, None


def _placed(arguments: Sequence[Parameter], words: list[str], command: str) -> dict[str, Any]:
    """Return the values of the arguments, each in its place."""
    values: dict[str, Any] = {}
    for each in arguments:
        if each.many and words:
            values[each.name] = [_value(each, each.label, word) for word in words]
            words = []
        elif words:
            values[each.name] = _value(each, each.label, words[0])
            words = words[1:]
    if words:
        takes = " ".join(each.label for each in arguments) or "no arguments"
        raise UsageFault(f"{command} takes {takes}; {_shown(words[0])} is one too many")
    return values


def _value(parameter: Parameter, name: str, word: str) -> Any:
    written = parameter.written
    if parameter.choices:
        if word not in parameter.choices:
            raise UsageFault(f"{name} is one of {', '.join(parameter.choices)}, not {_shown(word)}")
        return word
    if parameter.type is int:
        return _number(name, word, written.min)
    if parameter.type is Path:
        return Path(word)
    return word if written.read is None else written.read(word)


def _number(name: str, word: str, least: int | None) -> int:
    digits = word[1:] if word[:1] in {"-", "+"} else word
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _LONGEST_NUMBER:
        raise UsageFault(f"{name} is a whole number, not {_shown(word)}")
    number = int(word)
    if least is not None and number < least:
        raise UsageFault(f"{name} is {least} or more, not {number}")
    return number


def unknown(name: str, known: Iterable[str]) -> str:
    """Return the known name that is meant, as a question; "" if none is near."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]}?" if found else ""


def _shown(word: str) -> str:
    return repr(word if len(word) <= 80 else f"{word[:80]}…")


def _article(placeholder: str) -> str:
    return f"a value: {placeholder}"
