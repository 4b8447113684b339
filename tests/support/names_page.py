"""Pages of the public names, one line a name: `NAMES.md` of each package.

`python -m tests.support.names_page` writes them.  A name stands under the module with the shortest
import, with the first sentence of its docstring.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.growth.names import MODULES
from tests.support.pages import ROOT

PAGES = {package: ROOT / package / "NAMES.md" for package in ("eventlog", "projections")}
"""The page of each package."""

FURTHER = (
    "eventlog.events",
    "eventlog.values",
    "eventlog.integrity.heads",
    "projections.exports.html",
    "projections.exports.sqlite",
    "projections.inspector",
    "projections.reports.timeline",
    "projections.reports.usage",
    "projections.server",
    "projections.verify.verify",
)
"""Public modules with a longer import, or with an extra."""
_HEAD = """\
# {package}: public names

`help(name)` prints a name's signature and docstring, which are the reference; [README.md](README.md)
says how the parts work together. Made by `python -m tests.support.names_page`.
"""


def names_page(package: str) -> str:
    """Return the page of a package."""
    parts = [_HEAD.format(package=package)]
    seen: list[Any] = []
    for module in (name for name in (*MODULES, *FURTHER) if name.partition(".")[0] == package):
        lines = [f"- `{name}`: {first}" for name, first in _names(module, seen)]
        if lines:
            parts.append("\n".join([f"## {module}\n", *lines]) + "\n")
    return "\n".join(parts)


def _names(module: str, seen: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield each public name that no earlier module has, with its first sentence."""
    loaded = import_module(module)
    for name in sorted(loaded.__all__, key=str.lower):
        value = getattr(loaded, name)
        if isinstance(value, ModuleType) or any(value is other for other in seen):
            continue
        if not isinstance(value, str | int | type(None)):
            seen.append(value)
        text = (
            inspect.getdoc(value)
            if (inspect.isclass(value) and value is not str) or inspect.isroutine(value)
            else _note(value, loaded, name)
        )
        yield name, (text or "").partition("\n\n")[0].partition(".  ")[0].replace("\n", " ").strip()


def _note(value: Any, module: ModuleType, name: str) -> str:
    """Return the docstring below an alias or constant, where it is assigned."""
    others = [found for key, found in sorted(sys.modules.items()) if key.partition(".")[0] in PAGES]
    for home in (module, *(found for found in others if vars(found).get(name) is value)):
        body = ast.parse(Path(str(home.__file__)).read_text(encoding="utf-8")).body
        for node, after in pairwise(body):
            target: ast.expr | None = node.target if isinstance(node, ast.AnnAssign) else None
            target = node.targets[0] if isinstance(node, ast.Assign) else target
            if isinstance(target, ast.Name) and target.id == name and isinstance(after, ast.Expr):
                return str(ast.literal_eval(after.value))
    return ""


if __name__ == "__main__":
    for package, page in PAGES.items():
        page.write_text(names_page(package), encoding="utf-8")
