"""Names of the adapters' modules, and examples of their pages, where the frameworks are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import test_pages as pages
from tests import test_public_names as names
from tests.support.frameworks import has_adk, module_needs_one, needs_one
from tests.support.pages import Block

ADK = "google_adk"
"""Found in the names of modules, and in programs, that need Google ADK."""
MODULES = [module for module in names.MODULES if module_needs_one(module) and (has_adk() or ADK not in module)]
PROGRAMS = [block for block in pages.EXAMPLES if needs_one(block.code) and (has_adk() or ADK not in block.code)]


@pytest.mark.parametrize("module", MODULES)
def test_public_names_of_an_adapter(module: str) -> None:
    """Names of a module that needs a framework are sorted and true, and hide no module."""
    names.test_all_is_sorted_and_true(module)
    names.test_no_module_is_called_like_a_function_of_its_package(module)


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_an_example_of_an_adapter_runs(block: Block, tmp_path: Path) -> None:
    """Every example that imports a framework is a program that runs as it stands."""
    pages.test_an_example_runs(block, tmp_path)
