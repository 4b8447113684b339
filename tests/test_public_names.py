"""The packages' public names, command line entry, and import costs."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import eventlog
from eventlog import errors
from tests.growth.names import MODULES as DOCUMENTED
from tests.support.frameworks import module_needs_one
from tests.support.names_page import FURTHER

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(path for package in ("eventlog", "projections") for path in (ROOT / package).rglob("*.py"))
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in FILES
    if path.name != "__main__.py"
)
ALONE = [module for module in MODULES if not module_needs_one(module)]
"""Modules that are imported without a framework; `tests/adapters` has the others."""
PUBLIC = {*DOCUMENTED, *FURTHER}
HEAVY = ("asyncio", "click", "concurrent.futures", "cryptography", "eventsourcing", "psycopg", "rich", "tiktoken")
"""Modules that a program which only stores and reads must not load."""


def handed_on(path: Path) -> set[str]:
    """Names that a module's imports bring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {alias.asname or alias.name for node in imports for alias in node.names}


@pytest.mark.parametrize("module", ALONE)
def test_all_is_sorted_and_true(module: str) -> None:
    """`__all__` is sorted and true, and stands only in public modules or for names of others.

    Elsewhere a name is public unless it begins with an underscore.
    """
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None)
    if names is None:
        assert module not in PUBLIC
        return
    path = Path(str(loaded.__file__))
    of_errors_or_events = module.startswith(("eventlog.errors.", "eventlog.events."))
    assert module in PUBLIC or path.name == "__init__.py" or of_errors_or_events or handed_on(path) & {*names}
    assert list(names) == sorted(set(names), key=lambda name: (not name.isupper(), name[0].islower(), name))
    for name in names:
        assert hasattr(loaded, name), f"{module}.{name}"


@pytest.mark.parametrize("package", ["eventlog", "projections"])
def test_the_packages_name_all_that_they_import(package: str) -> None:
    """A package's public names are what its `__init__` imports; others are AttributeError."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    brought = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package
        for alias in node.names
        for name in (
            importlib.import_module(str(node.module)).__all__ if alias.name == "*" else (alias.asname or alias.name,)
        )
    }
    loaded = importlib.import_module(package)
    assert brought
    assert set(loaded.__all__) >= brought
    assert all(getattr(loaded, name) is not None for name in loaded.__all__)
    assert not hasattr(loaded, "NoSuchName")


@pytest.mark.parametrize("module", ALONE)
def test_no_module_is_called_like_a_function_of_its_package(module: str) -> None:
    """No public name of a package is hidden by an imported submodule of the same name."""
    for name in getattr(importlib.import_module(module), "__all__", ()):
        assert f"{module}.{name}" not in MODULES or isinstance(getattr(sys.modules[module], name), ModuleType)


@pytest.mark.parametrize("package", ["eventlog", "projections", "projections.loop", "projections.window"])
def test_public_names_are_listed(package: str) -> None:
    """`dir` shows every public name, those included that are loaded when they are first used."""
    script = f"import {package} as package\nprint(*set(package.__all__) - set(dir(package)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_error_is_a_public_name() -> None:
    """Every engine error is a public name of `eventlog`, so that it can be caught."""
    assert set(errors.__all__) <= set(eventlog.__all__)
    assert all(getattr(eventlog, name) is getattr(errors, name) for name in errors.__all__)


def test_a_handle_has_few_names(tmp_path: Path) -> None:
    """A session has at most 45 public names and a store at most 32."""
    with eventlog.open(tmp_path / "store") as store:
        for handle, most in ((store.create_session(), 45), (store, 32)):
            assert len([name for name in dir(handle) if not name.startswith("_")]) <= most


@pytest.mark.parametrize("package", ["eventlog", "projections"])
def test_packages_run_as_the_program(package: str) -> None:
    """`python -m` with either package is the command line."""
    done = subprocess.run(
        [sys.executable, "-m", package, "--version"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("eventlog")


@pytest.mark.parametrize("package", ["eventlog", "projections"])
def test_importing_loads_nothing_heavy(package: str) -> None:
    """Importing a package loads no event loop, no tokeniser and no command line."""
    script = f"import sys, {package}\nprint(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
