"""The API reference: two pages of all public names, made from signatures and docstrings.

`python -m tests.support.api_reference` writes `eventlog/API.md` and `projections/API.md`. What is
public is `tests/growth/names.py`. A name stands under its shortest import; members stand in the
order of their source.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

import msgspec

from eventlog.errors import EventlogError
from eventlog.events import Base
from tests.growth.names import MODULES
from tests.support.pages import ROOT

__all__ = ["PAGES", "reference"]

PAGES = {"eventlog": ROOT / "eventlog" / "API.md", "projections": ROOT / "projections" / "API.md"}
"""The page of each package."""

VALUES = ("eventlog.events", "eventlog.values")
"""Modules of values, beside those of operations."""
FURTHER = (
    "eventlog.integrity.heads",
    "projections.exports.html",
    "projections.exports.sqlite",
    "projections.inspector",
    "projections.reports.timeline",
    "projections.reports.usage",
    "projections.server",
    "projections.verify.verify",
)
"""Modules that the pages name, and that need an extra or a longer import."""
WIDTH = 100
_HEAD = """\
# {package}: API reference

Every public name with its signature and what its docstring says, and the values that signatures
name. Made by `python -m tests.support.api_reference`. {about}

{contents}
"""
_ABOUT = {
    "eventlog": "[README.md](README.md) says how the parts work together.",
    "projections": "[README.md](README.md) says how the parts work together.",
}
_KINDS = ("Functions", "Classes", "Values", "Types and constants", "Events", "Errors")


class Name(NamedTuple):
    """A public name, and where it is imported from."""

    name: str
    module: str
    value: Any
    home: str
    """The module that defines it."""
    line: int


class Member(NamedTuple):
    """A method, property or attribute: how it is written, and what is said of it."""

    shown: str
    text: str


def reference(package: str) -> str:
    """Return the page of a package."""
    kinds: dict[str, list[Name]] = {kind: [] for kind in _KINDS}
    for name in _with_named(list(_names(package)), package):
        kinds[_kind(name.value)].append(name)
    kinds = {kind: _in_order(kind, names) for kind, names in kinds.items() if names}
    contents = "\n".join(_contents(kind, names) for kind, names in kinds.items())
    parts = [_HEAD.format(package=package, about=_ABOUT[package], contents=contents)]
    for kind, names in kinds.items():
        parts.append(f"## {kind}\n")
        parts += [_BRIEF.get(kind, _section)(name) for name in names]
        parts += [""] if kind in _BRIEF else []
    return "\n".join(parts).rstrip() + "\n"


def _contents(kind: str, names: list[Name]) -> str:
    listed = ", ".join(
        f"`{name.name}`" if kind in _BRIEF else f"[`{name.name}`](#{name.name.lower()})" for name in names
    )
    if kind in _BRIEF:
        return f"- [{kind}](#{kind.lower().replace(' ', '-')})"
    return textwrap.fill(
        f"- [{kind}](#{kind.lower()}): {listed}",
        WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


# -- which names ---------------------------------------------------------------------------------


def _names(package: str) -> Iterator[Name]:
    """Yield each public name of a package once."""
    modules = [name for name in (*MODULES, *VALUES, *FURTHER) if name.partition(".")[0] == package]
    seen: list[Any] = []
    for module in sorted(modules, key=lambda name: (name.count("."), modules.index(name))):
        loaded = import_module(module)
        for name in _all_of(loaded):
            value = getattr(loaded, name)
            if isinstance(value, ModuleType) or any(value is other for other in seen):
                continue
            if not isinstance(value, str | int | type(None)):
                seen.append(value)
            home = getattr(value, "__module__", None)
            home = home if isinstance(home, str) and home.partition(".")[0] in PAGES else _assigned_in(module, name)
            yield Name(name, module, value, home, _lines(home).get(getattr(value, "__name__", name), 0))


def _all_of(module: ModuleType) -> list[str]:
    return list(getattr(module, "__all__", ()))


def _assigned_in(module: str, name: str) -> str:
    """The module in which an alias is defined: the one that assigns it."""
    return module if name in _notes(module) else next((home for home in VALUES if name in _notes(home)), module)


def _kind(value: Any) -> str:
    if inspect.isfunction(value):
        return "Functions"
    if not inspect.isclass(value) or value.__module__ == "builtins":
        return "Types and constants"
    if issubclass(value, EventlogError):
        return "Errors"
    if issubclass(value, Base):
        return "Events"
    if issubclass(value, (msgspec.Struct, enum.Enum)) or hasattr(value, "_fields"):
        return "Values"
    return "Classes"


def _in_order(kind: str, names: list[Name]) -> list[Name]:
    """Events and errors in the order of their source, others by name."""
    if kind in {"Events", "Errors"}:
        return sorted(names, key=lambda name: (name.home, name.line))
    return sorted(names, key=lambda name: name.name.lower())


def _with_named(names: list[Name], package: str) -> list[Name]:
    """Add the values and aliases of the package that signatures and fields name, and theirs."""
    known = [name.value for name in names]
    for name in names:  # which grows
        for home, annotation in _annotations(name.value):
            for word in re.findall(r"[A-Z]\w+", annotation):
                module = _imported(home).get(word, home)
                value = getattr(import_module(module), word, None)
                if module.partition(".")[0] != package or value is None or any(value is other for other in known):
                    continue
                module = getattr(value, "__module__", module) if inspect.isclass(value) else module
                if module.partition(".")[0] == package and _kind(value) in ADDED:
                    known.append(value)
                    names.append(Name(word, module, value, module, _lines(module).get(word, 0)))
    return names


ADDED = ("Values", "Types and constants")
"""Kinds of names that are shown because a signature names them."""


def _annotations(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the annotations of a function, or of a class and its members, with their modules."""
    if inspect.isfunction(value):
        yield value.__module__, " ".join(map(str, value.__annotations__.values()))
    elif inspect.isclass(value) and not issubclass(value, (EventlogError, Base)):
        for base in (base for base in value.__mro__ if base.__module__.partition(".")[0] in PAGES):
            yield base.__module__, " ".join(map(str, vars(base).get("__annotations__", {}).values()))
            for name in (*_defined(base), "__init__"):
                member = vars(base).get(name)
                member = getattr(member, "__func__", getattr(member, "fget", member))
                if inspect.isfunction(member):
                    yield from _annotations(inspect.unwrap(member))


@cache
def _imported(module: str) -> dict[str, str]:
    """The names that a module imports, also for the type checker only, with their modules."""
    found = (node for node in ast.walk(_tree(module)) if isinstance(node, ast.ImportFrom))
    return {alias.asname or alias.name: node.module or "" for node in found for alias in node.names}


# -- how they are shown --------------------------------------------------------------------------


def _section(name: Name) -> str:
    """A name with a heading of its own."""
    value = name.value
    package = name.module.partition(".")[0]
    place = [f"`from {name.module} import {name.name}`\n"] if name.module != package else []
    if inspect.isfunction(value):
        return "\n".join([f"### {name.name}\n", *place, _block(_signature(name.name, value)), _text(value)])
    parts = [f"### {name.name}\n", *place]
    if _kind(value) == "Values":
        parts.append(_block(_fields(name.name, value)))
    elif made := _made(name.name, value):
        parts.append(_block(made))
    parts.append(_text(value))
    noted = [_item(f"`{field}`", note) for field, note in _notes_of(value).items()]
    parts += [*noted, ""] if noted else []
    for member in _members(value):
        parts += [_block(member.shown), member.text]
    return "\n".join(parts)


CALLED = (
    "AsyncContextWindow",
    "AsyncLive",
    "AsyncSession",
    "AsyncSubscription",
    "AsyncTurn",
    "ContextWindow",
    "Feed",
    "HttpSummarizer",
    "LiveSession",
    "LiveView",
    "Transcript",
)
"""Classes that a program makes by calling them; it gets all others from a method."""


def _made(name: str, kind: type[Any]) -> str:
    """How an object is made, of a class that a program calls."""
    if name not in CALLED:
        return ""
    return _signature(name, kind.__init__, bound=True).removeprefix("def ").removesuffix(" -> None")


def _alias(name: Name) -> str:
    """An alias with what it stands for, or a constant."""
    meant = _meant(name.home, name.name)
    return _item(f"**`{name.name}`**" + (f" = `{meant}`" if meant else ""), _notes(name.home).get(name.name, ""))


def _event(name: Name) -> str:
    """An event or an error: its fields and its first paragraph."""
    fields = _fields("", name.value, WIDTH * WIDTH) if issubclass(name.value, msgspec.Struct) else ""
    return _item(f"**`{name.name}`**" + (f" `{fields}`" if fields else ""), _first(name.value.__doc__ or ""))


_BRIEF = {"Types and constants": _alias, "Events": _event, "Errors": _event}
"""Kinds whose names are items of a list."""


def _members(kind: type[Any]) -> Iterator[Member]:
    """Yield the public methods and properties, those of bases of the project behind them."""
    seen: set[str] = set()
    for base in kind.__mro__:
        is_other_protocol = base is not kind and "Protocol" in [other.__name__ for other in base.__bases__]
        if base.__module__.partition(".")[0] not in PAGES or is_other_protocol:
            continue
        for name in _defined(base):
            member = vars(base).get(name)
            if name in seen or member is None:
                continue
            seen.add(name)
            yield from _member(name, member)


def _member(name: str, member: Any) -> Iterator[Member]:
    if isinstance(member, property):
        assert member.fget is not None
        returns = inspect.signature(member.fget).return_annotation
        yield Member(f"{name}: {_plain(returns)}", _text(member.fget))
    elif isinstance(member, (classmethod, staticmethod)):
        function = cast("Any", member).__func__
        yield Member(_signature(name, function, bound=isinstance(member, classmethod)), _text(function))
    elif inspect.isfunction(member):
        yield Member(_signature(name, member, bound=True), _text(member))


def _signature(name: str, function: Any, *, bound: bool = False) -> str:
    """The call of a function, wrapped."""
    plain = inspect.unwrap(function)
    signature = inspect.signature(plain)
    parameters = list(signature.parameters.values())[bound:]
    shown: list[str] = []
    star = False
    for number, parameter in enumerate(parameters):
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        shown.append(_parameter(parameter))
        following = parameters[number + 1] if number + 1 < len(parameters) else None
        if parameter.kind is parameter.POSITIONAL_ONLY and (
            following is None or following.kind is not parameter.POSITIONAL_ONLY
        ):
            shown.append("/")
    returns = "" if signature.return_annotation is signature.empty else f" -> {_plain(signature.return_annotation)}"
    word = "async def" if inspect.iscoroutinefunction(plain) else "def"
    return _wrapped(f"{word} {name}(", shown, f"){returns}")


def _parameter(parameter: inspect.Parameter) -> str:
    stars = 1 if parameter.kind is parameter.VAR_POSITIONAL else 2 if parameter.kind is parameter.VAR_KEYWORD else 0
    shown = "*" * stars + parameter.name
    if parameter.annotation is not parameter.empty:
        shown += f": {_plain(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        shown += f" = {_default(parameter.default)}"
    return shown


def _fields(name: str, kind: type[Any], width: int = WIDTH) -> str:
    """A value as it is made: its fields with their types and defaults."""
    if issubclass(kind, msgspec.Struct):
        shown: list[str] = []
        for field in msgspec.structs.fields(kind):
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            shown.append(f"{field.name}: {_annotation(kind, field.name)}" + _with_default(default))
        return _wrapped(f"{name}(", shown, ")", width)
    if issubclass(kind, enum.Enum):
        return _wrapped(f"{name}: ", [member.name for member in kind], "")
    defaults: dict[str, Any] = getattr(kind, "_field_defaults", {})
    named = [
        f"{field}: {_annotation(kind, field)}" + _with_default(defaults.get(field, msgspec.NODEFAULT))
        for field in kind._fields
    ]
    return _wrapped(f"{name}(", named, ")")


def _with_default(default: Any) -> str:
    return "" if default is msgspec.NODEFAULT else f" = {_default(default)}"


def _annotation(kind: type[Any], field: str) -> str:
    found = (vars(base).get("__annotations__", {}).get(field) for base in kind.__mro__)
    return _plain(next((annotation for annotation in found if annotation is not None), "Any"))


def _plain(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = getattr(annotation, "__forward_arg__", text)
    return " ".join(str(text).split())


def _default(value: Any) -> str:
    if inspect.isfunction(value) or inspect.isclass(value) or inspect.isbuiltin(value):
        top = value.__module__.partition(".")[0]
        return value.__name__ if top in PAGES or top == "builtins" else f"{top}.{value.__name__}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, str):
        return '"' + repr(value)[1:-1].replace('"', '\\"') + '"'
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}()" if _is_default(value) else f"{type(value).__name__}(…)"
    return repr(value)


def _is_default(value: msgspec.Struct) -> bool:
    fields = msgspec.structs.fields(value)
    return all(not field.required for field in fields) and value == type(value)()


def _wrapped(begin: str, inside: list[str], end: str, width: int = WIDTH) -> str:
    line = begin + ", ".join(inside) + end
    if len(line) <= width - 4 or not inside:
        return line
    rows: list[str] = []
    for item in inside:
        if rows and len(rows[-1]) + len(item) + 6 <= WIDTH:
            rows[-1] += f" {item},"
        else:
            rows.append(f"    {item},")
    return "\n".join([begin, *rows, end])


def _block(text: str) -> str:
    return f"```pyi\n{text}\n```\n"


def _item(begin: str, text: str) -> str:
    """An item of a list, wrapped; its further paragraphs belong to it."""
    first, *more = inspect.cleandoc(text).split("\n\n")
    paragraphs = [f"- {begin}: {first}" if first else f"- {begin}", *more]
    return "\n\n".join(
        textwrap.fill(
            " ".join(paragraph.split()),
            WIDTH,
            initial_indent="" if number == 0 else "  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for number, paragraph in enumerate(paragraphs)
    )


# -- what is said of them ------------------------------------------------------------------------


def _text(value: Any) -> str:
    """The docstring of a class or function, and an empty line."""
    doc = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    return f"{doc}\n" if doc else ""


def _first(doc: str) -> str:
    return doc.partition("\n\n")[0]


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(Path(inspect.getfile(import_module(module))).read_text(encoding="utf-8"))


@cache
def _lines(module: str) -> dict[str, int]:
    """The line of each definition at a module's top level."""
    return {
        node.name: node.lineno
        for node in _tree(module).body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    }


def _defined(kind: type[Any]) -> list[str]:
    """The public functions of a class, in the order of their source."""
    node = _class(kind)
    functions = [] if node is None else node.body
    return [
        found.name
        for found in functions
        if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)) and not found.name.startswith("_")
    ]


def _class(kind: type[Any]) -> ast.ClassDef | None:
    nodes = (node for node in _tree(kind.__module__).body if isinstance(node, ast.ClassDef))
    return next((node for node in nodes if node.name == kind.__name__), None)


def _notes_of(kind: type[Any]) -> dict[str, str]:
    """Docstrings of the public attributes of a class, in its body and its `__init__`."""
    node = _class(kind)
    if node is None:
        return {}
    made = [found.body for found in node.body if isinstance(found, ast.FunctionDef) and found.name == "__init__"]
    notes = _notes_in(node.body)
    for body in made:
        notes |= {
            name.removeprefix("self."): note for name, note in _notes_in(body).items() if name.startswith("self.")
        }
    return {name: note for name, note in notes.items() if not name.startswith("_")}


@cache
def _notes(module: str) -> dict[str, str]:
    """Docstrings of the aliases and constants of a module."""
    return _notes_in(_tree(module).body)


def _notes_in(body: Iterable[ast.stmt]) -> dict[str, str]:
    notes: dict[str, str] = {}
    last = ""
    for node in body:
        text = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else None
        if last and isinstance(text, str):
            notes[last] = inspect.cleandoc(text)
        last = ""
        if isinstance(node, ast.AnnAssign):
            last = ast.unparse(node.target)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            last = ast.unparse(node.targets[0])
    return notes


def _meant(module: str, name: str) -> str:
    """The types that an alias stands for; nothing of a constant."""
    for node in _tree(module).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and node.value is not None:
            return ast.unparse(node.value) if ast.unparse(node.annotation) == "TypeAlias" else ""
    return ""


if __name__ == "__main__":
    for package, page in PAGES.items():
        page.write_text(reference(package), encoding="utf-8")
