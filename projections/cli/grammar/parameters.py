"""The parameters of a command, read from the signature of its function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

__all__ = ["Argument", "Candidates", "Option", "Parameter", "parameters_of"]

Candidates: TypeAlias = Callable[[Any, str], Iterable[tuple[str, str]]]
"""Takes the call's context and the beginning of a word; gives words and descriptions."""
REQUIRED: Any = object()
"""Default of a parameter that has none."""


class Option:
    """A parameter that is written by name: `--limit 5`, or `--limit=5`.

    "--archived/--active" are the two names of a flag that may be on, off or not given.
    """

    def __init__(
        self,
        *names: str,
        help: str,
        metavar: str = "",
        min: int | None = None,
        read: Callable[[str], object] | None = None,
        candidates: Candidates | None = None,
    ) -> None:
        self.names = names
        self.help = help
        self.metavar = metavar
        self.min = min
        self.read = read
        """Turns the word into the value, or raises `UsageFault`."""
        self.candidates = candidates


class Argument:
    """A parameter that is written by its place."""

    def __init__(
        self,
        metavar: str,
        *,
        help: str,
        min: int | None = None,
        candidates: Candidates | None = None,
    ) -> None:
        self.metavar = metavar
        self.help = help
        self.min = min
        self.read: Callable[[str], object] | None = None
        self.candidates = candidates


class Parameter(NamedTuple):
    """One parameter: its name in the function, how it is written, and what it takes."""

    name: str
    written: Option | Argument
    type: Any
    """str, int, bool or Path."""
    default: Any
    choices: tuple[str, ...] = ()
    many: bool = False
    """Whether it takes any number of words."""

    @property
    def is_option(self) -> bool:
        """Whether it is written by name."""
        return isinstance(self.written, Option)

    @property
    def is_flag(self) -> bool:
        """Whether it is an option without a value."""
        return self.type is bool

    @property
    def is_required(self) -> bool:
        """Whether a call without it is wrong."""
        return self.default is REQUIRED

    @property
    def on(self) -> tuple[str, ...]:
        """The names of an option; of a flag those that turn it on."""
        names = getattr(self.written, "names", ())
        return tuple(name.partition("/")[0] for name in names) or (f"--{self.name.replace('_', '-')}",)

    @property
    def off(self) -> tuple[str, ...]:
        """The names that turn a flag off, where it has such names."""
        names = tuple(name.partition("/")[2] for name in getattr(self.written, "names", ()) if "/" in name)
        return names or ((f"--no-{self.name.replace('_', '-')}",) if self.is_flag and self.default is True else ())

    @property
    def label(self) -> str:
        """The longest name of an option, or the word for an argument."""
        return max(self.on, key=len) if self.is_option else self.written.metavar

    @property
    def placeholder(self) -> str:
        """The word that stands for the value in the help."""
        return self.written.metavar or "|".join(self.choices) or {int: "N"}.get(self.type, "TEXT")


def parameters_of(function: Callable[..., object]) -> Iterator[Parameter]:
    """Yield the parameters in order; those of a `NamedTuple` one by one, named `group.field`.

    The parameter `context` has what every command takes, and is not among them.
    """
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = dict(
        zip(reversed(code.co_varnames[: code.co_argcount]), reversed(function.__defaults__ or ()), strict=False)
    )
    defaults.update(function.__kwdefaults__ or {})
    hints = get_type_hints(function, include_extras=True)
    for name in positional:
        hint = hints[name]
        if get_origin(hint) is Annotated:
            yield _parameter(name, hint, defaults.get(name, REQUIRED))
        elif name != "context":
            yield from fields_of(hint, f"{name}.")


def fields_of(group: Any, prefix: str = "") -> Iterator[Parameter]:
    """Yield the fields of a `NamedTuple` whose fields are parameters."""
    hints = get_type_hints(group, include_extras=True)
    for field in group._fields:
        if get_origin(hints[field]) is Annotated:
            yield _parameter(field, hints[field], group._field_defaults.get(field, REQUIRED))._replace(
                name=prefix + field
            )


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    kind, written = get_args(hint)
    if get_origin(kind) in {Union, UnionType}:
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    many = get_origin(kind) is list
    if many:
        (kind,) = get_args(kind)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return Parameter(name, written, str if choices else kind, default, choices, many)
