"""The pages of public names have each name, with its first sentence."""

from __future__ import annotations

import re
from importlib import import_module
from types import ModuleType

import pytest

from tests.growth.names import MODULES
from tests.support.names_page import PAGES, names_page


@pytest.mark.parametrize("package", PAGES)
def test_the_page_of_names_is_up_to_date(package: str) -> None:
    """Names and sentences on the page are those of the code."""
    assert PAGES[package].read_text(encoding="utf-8") == names_page(package), "run python -m tests.support.names_page"


@pytest.mark.parametrize("package", PAGES)
def test_every_public_name_is_there(package: str) -> None:
    """Each public name, or the class or function behind it, has a line with a sentence."""
    listed = dict(re.findall(r"^- `(\w+)`: (.+)$", names_page(package), re.MULTILINE))
    for module in (import_module(name) for name in MODULES if name.partition(".")[0] == package):
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, ModuleType):
                assert name in listed or getattr(value, "__name__", name) in listed, name
