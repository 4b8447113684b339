"""The shape of the packages: what they name, what they import, and what importing them costs."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(path for package in ("eventlog", "projections") for path in (ROOT / package).rglob("*.py"))
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in FILES
    if path.name != "__main__.py"
)
HEAVY = ("asyncio", "concurrent.futures", "cryptography", "eventsourcing", "psycopg", "rich", "tiktoken", "typer")
"""What a program that only stores and looks must not pay for."""


def imports_of(path: Path) -> set[str]:
    """Every module a file imports, also inside functions, as far as its first two names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found.add(node.module or "")
    return found


def top_names(path: Path) -> set[str]:
    """The public names that a module defines at its top level: classes, functions, aliases with a type."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
    return {name for name in found if not name.startswith("_")}


@pytest.mark.parametrize("module", MODULES)
def test_all_is_sorted_and_true(module: str) -> None:
    """`__all__` of every module that has one is sorted, without repetition, and each name in it is there."""
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None)
    if names is None:
        assert module.rpartition(".")[2] in {"importers", "log", "formats"} or not top_names(Path(str(loaded.__file__)))
        return
    assert list(names) == sorted(set(names), key=lambda name: (not name.isupper(), name[0].islower(), name))
    for name in names:
        assert hasattr(loaded, name), f"{module}.{name}"


@pytest.mark.parametrize("package", ["eventlog", "projections"])
def test_the_packages_name_all_that_they_import(package: str) -> None:
    """The public names of a package are what its `__init__` brings in, no less, and other names raise AttributeError."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    brought = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package
        for alias in node.names
    }
    loaded = importlib.import_module(package)
    assert brought
    assert set(loaded.__all__) >= brought
    assert all(getattr(loaded, name) is not None for name in loaded.__all__)
    assert not hasattr(loaded, "NoSuchName")


def test_imports_go_one_way() -> None:
    """`eventlog` never imports `projections`, and neither imports tests or benchmarks."""
    for path in FILES:
        first = {name.partition(".")[0] for name in imports_of(path)}
        assert not first & {"tests", "benchmarks"}, path
        if path.is_relative_to(ROOT / "eventlog"):
            assert "projections" not in first, path


def test_one_file_knows_each_outside_library() -> None:
    """Libraries with many faces stay behind one: LMDB in its environment, typer in the command line, tiktoken in tokens."""
    allowed = {
        "typer": "projections/cli/",
        "rich": "projections/cli/",
        "tiktoken": "projections/tokens/",
        "lmdb": "eventlog/log/",
        "eventsourcing": "eventlog/recorder/",
    }
    for path in FILES:
        for name in imports_of(path):
            place = allowed.get(name.partition(".")[0])
            assert place is None or path.relative_to(ROOT).as_posix().startswith(place), (path, name)


@pytest.mark.parametrize("package", ["eventlog", "projections"])
def test_importing_loads_nothing_heavy(package: str) -> None:
    """Importing a package brings in neither an event loop nor a tokeniser nor anything of the command line."""
    script = f"import sys, {package}\nprint(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
