"""Mechanical rules of prose: docstrings and comments that can be read without the code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import pytest

from tests.support.pages import FILES, PAGES, ROOT

PACKAGES = ("eventlog", "projections", "tests", "benchmarks")
LONGEST = 88
"""Characters of a first line: what an editor shows of it beside the name."""
BEGINNINGS = re.compile(r"(The same|It|What)\b")
WORDS = re.compile(r"\b(whoever|nobody|somebody|whatever)\b", re.IGNORECASE)
SECTION = re.compile(r"§|\b(issue #?|spec )\d", re.IGNORECASE)
PUBLISHED = re.compile(r"\b(RFC|NIST|POSIX|ISO|Unicode)\b")
DOCUMENT = re.compile(r"(?<![\w.*{}-])([\w][\w./-]*\.md)\b")
OTHERS_DOCUMENTS = {"AGENTS.md", "CLAUDE.md"}
"""Files of other programs that the importers speak of."""


class Text(NamedTuple):
    """A docstring or comment, and where it is."""

    place: str
    text: str
    is_docstring: bool = False

    @property
    def first(self) -> str:
        """The first line."""
        return self.text.strip().partition("\n")[0]


def texts_of(place: str, source: str) -> Iterator[Text]:
    """Yield the docstrings of a module, those of attributes included, and its comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    text = statement.value.value
                    if isinstance(text, str):
                        yield Text(f"{place}:{statement.lineno}", text, is_docstring=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(f"{place}:{token.start[0]}", token.string)


@cache
def texts(package: str) -> tuple[Text, ...]:
    """The docstrings and comments of a package."""
    names = [name for name in FILES if name.startswith(f"{package}/") and name.endswith(".py")]
    return tuple(text for name in names for text in texts_of(name, (ROOT / name).read_text(encoding="utf-8")))


def is_long(text: Text) -> bool:
    """Return whether a docstring's first line is too long for an editor's hover."""
    return text.is_docstring and len(text.first) > LONGEST


def begins_badly(text: Text) -> bool:
    """Return whether a docstring begins with a word that refers to another text."""
    return text.is_docstring and BEGINNINGS.match(text.first) is not None


def names_no_actor(text: Text) -> bool:
    """Return whether a text speaks of persons instead of naming who acts."""
    return WORDS.search(text.text) is not None


def cites_what_does_not_ship(text: Text) -> bool:
    """Return whether a text refers to a document that is not in the repository."""
    if any(SECTION.search(line) and not PUBLISHED.search(line) for line in text.text.splitlines()):
        return True
    named = {name.rpartition("/")[2] for name in DOCUMENT.findall(text.text)} - OTHERS_DOCUMENTS
    return not named <= {name.rpartition("/")[2] for name in FILES}


RULES: list[Callable[[Text], bool]] = [is_long, begins_badly, names_no_actor, cites_what_does_not_ship]


@pytest.mark.parametrize("rule", RULES, ids=["long", "beginning", "words", "documents"])
@pytest.mark.parametrize("package", PACKAGES)
def test_prose_keeps_the_rules(package: str, rule: Callable[[Text], bool]) -> None:
    """Docstrings and comments keep each rule of `eventlog/README.md` that a program can check."""
    assert [f"{text.place}: {text.first}" for text in texts(package) if rule(text)] == []


@pytest.mark.parametrize("page", PAGES)
def test_pages_keep_the_rules(page: str) -> None:
    """Pages name who acts, and cite nothing that does not ship."""
    lines = [Text(f"{page}:{number}", line) for number, line in enumerate(PAGES[page].splitlines(), 1)]
    assert [line for line in lines if names_no_actor(line) or cites_what_does_not_ship(line)] == []


def test_every_rule_finds_what_it_is_for() -> None:
    """Each rule refuses a module that breaks it, and takes one that does not."""
    bad = f'"""It is what it is."""\n\n\nclass A:\n    """{"a" * 89}"""\n\n    b = 1  # {{}}, see §3\n    """See `no_page.md`."""\n'
    bad = bad.format("nobody")
    good = '"""Append one event."""\n\n\nclass A:\n    """A page: `README.md`, RFC 6962 §2.1."""\n'
    assert [[text.place for text in texts_of("m", bad) if rule(text)] for rule in RULES] == [
        ["m:5"],
        ["m:1"],
        ["m:7"],
        ["m:8", "m:7"],
    ]
    assert [text for text in texts_of("m", good) if any(rule(text) for rule in RULES)] == []
