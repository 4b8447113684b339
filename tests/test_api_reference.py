"""The API reference is what the code says, and has every public name."""

from __future__ import annotations

import re
from importlib import import_module
from types import ModuleType

import pytest

from tests.growth.names import MODULES, public_operations
from tests.support.api_reference import PAGES, reference


@pytest.mark.parametrize("package", PAGES)
def test_the_reference_is_up_to_date(package: str) -> None:
    """Signatures and docstrings on the page are those of the code."""
    text = PAGES[package].read_text(encoding="utf-8")
    assert text == reference(package), "run python -m tests.support.api_reference"


def test_every_public_name_and_operation_is_there() -> None:
    """Each public name has its place, and each method its signature below its class."""
    missing: set[str] = set()
    for package in PAGES:
        text = reference(package)
        sections = {part.partition("\n")[0]: part for part in text.split("\n### ")}
        for module in (module for module in MODULES if module.partition(".")[0] == package):
            for name, value in vars(import_module(module)).items():
                if name not in import_module(module).__all__ or isinstance(value, ModuleType):
                    continue
                section = sections.get(name) or sections.get(getattr(value, "__name__", name))
                if section is None and f"- **`{name}`**" not in text:
                    missing.add(f"{module}.{name}")
                for operation in (found for found in public_operations() if found.startswith(f"{name}.")):
                    member = operation.partition(".")[2]
                    if section is None or not re.search(
                        rf"^((async )?def {member}\(|{member}: )", section, re.MULTILINE
                    ):
                        missing.add(operation)
    assert missing == set()


def test_the_reference_is_for_readers() -> None:
    """No line is too wide, no private name is shown, and nothing lacks its docstring."""
    for package in PAGES:
        text = reference(package)
        assert [line for line in text.splitlines() if len(line) > 130] == []
        assert re.findall(r"^(?:async )?def _\w+|^### _\w+", text, re.MULTILINE) == []
        assert re.findall(r"```\n\n(?:```|###)", text) == []
        assert " at 0x" not in text
