"""Docstrings of public names: keyword parameters named, first sentences standing alone."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import eventlog
from eventlog import AsyncSession
from tests.eventlog.test_wrong_types import MADE
from tests.growth.names import MODULES
from tests.support.names_page import FURTHER

VAGUE = re.compile(r"\b(that|those|which|what|it)\b", re.IGNORECASE)
"""Words that stand for a noun: at most one in a first sentence."""
SENTENCE = re.compile(r"(?<=[.!?:])\s|\n\n")
REFERENCE = re.compile(r"[Ss]ee `([\w.]+)`")


class Documented(NamedTuple):
    """A public function, method or class, and its docstring."""

    name: str
    value: Any
    text: str

    @property
    def first(self) -> str:
        """The first sentence."""
        return SENTENCE.split(self.text.strip(), maxsplit=1)[0]


def documented() -> dict[str, Documented]:
    """Every public name, as `function`, `Class` or `Class.method`."""
    found: dict[str, Documented] = {}
    for module in (*MODULES, *FURTHER):
        loaded = import_module(module)
        for name in loaded.__all__:
            for entry in _of(name, getattr(loaded, name)):
                found.setdefault(entry.name, entry)
    return found


def _of(name: str, value: Any) -> Iterator[Documented]:
    if inspect.isfunction(value):
        yield Documented(name, value, inspect.getdoc(value) or "")
    elif inspect.isclass(value):
        yield Documented(name, value, inspect.getdoc(value) or "")
        bases = (base for base in reversed(value.__mro__) if base.__module__.startswith(("eventlog", "projections")))
        for key, member in {key: member for base in bases for key, member in vars(base).items()}.items():
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if not key.startswith("_") and inspect.isfunction(function):
                yield Documented(f"{name}.{key}", function, inspect.getdoc(function) or "")
        if name in MADE and inspect.isfunction(made := vars(value).get("__init__")):
            texts = (inspect.getdoc(value) or "", made.__doc__ or "")
            yield Documented(f"{name}.__init__", made, "\n\n".join(texts))


ALL = documented()


def unnamed(entry: Documented, others: dict[str, Documented]) -> list[str]:
    """Keyword parameters that neither the docstring names nor the one that it refers to.

    A twin for asyncio has the parameters of its original.
    """
    if not inspect.isfunction(entry.value):
        return []
    texts = [entry.text, *(others[name].text for name in _referred(entry) if name in others)]
    keywords = [
        parameter.name
        for parameter in inspect.signature(entry.value).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    return [name for name in keywords if not any(f"`{name}" in text for text in texts)]


def _referred(entry: Documented) -> list[str]:
    original = entry.name.removeprefix("Async")
    return [*REFERENCE.findall(entry.text), original, original.removeprefix("a")]


def test_a_docstring_names_each_keyword_parameter() -> None:
    """The docstring of a public function says what each of its keyword parameters is."""
    assert {name: missing for name, entry in ALL.items() if (missing := unnamed(entry, ALL))} == {}


def test_a_first_sentence_names_its_nouns() -> None:
    """The first sentence of a public docstring has at most one word that stands for a noun."""
    assert {name: entry.first for name, entry in ALL.items() if len(VAGUE.findall(entry.first)) > 1} == {}


def test_the_help_of_a_handle_names_its_ids() -> None:
    """The id of a session, message, part or call, which later calls name, is in its help."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        with session.assistant("acme/one") as reply:
            handles = [session, reply, reply.stream_text(), reply.tool("look", call_id="c"), AsyncSession(session)]
            lacking = {
                type(handle).__name__: [
                    name
                    for name in ("id", "call_id")
                    if hasattr(handle, name) and f"`{name}`" not in (inspect.getdoc(handle) or "")
                ]
                for handle in handles
            }
    assert {name: names for name, names in lacking.items() if names} == {}


def test_both_rules_find_what_they_are_for() -> None:
    """A parameter without a name and a vague sentence are found; a reference counts."""

    def bad(*, wait: float) -> None:
        """Do what it says."""

    def good(*, wait: float) -> None:
        """Wait; see `f`."""

    def entry(name: str, function: Callable[..., None]) -> Documented:
        return Documented(name, function, function.__doc__ or "")

    assert unnamed(entry("bad", bad), {}) == ["wait"]
    assert len(VAGUE.findall(entry("bad", bad).first)) == 2
    assert unnamed(entry("good", good), {"f": Documented("f", good, "`wait` is a time.")}) == []
