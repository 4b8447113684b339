"""Every asyncio twin has what its original has, with the same parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

import eventlog
from eventlog import AsyncReply, AsyncSession, AsyncSubscription, AsyncTurn, Reply, Session, Store, TextStream, ToolCall
from projections import AsyncContextWindow, AsyncLive, ContextWindow, LiveSession, loop
from tests.growth.names import MODULES

BY_DO = "`do` runs it"
READS = "reads, and is used on `sync`"
LACKS: dict[str, dict[str, str]] = {
    "AsyncSession": {
        **dict.fromkeys(
            (
                *("archive", "edit_part", "fork", "interrupt", "late_result", "pin", "record_custom", "record_usage"),
                *("redact", "redo", "remove_message", "remove_part", "rename", "rollback", "set_metadata", "set_note"),
                *("set_settings", "set_system_prompt", "set_todos", "set_tools", "subsession", "unarchive", "unpin"),
            ),
            BY_DO,
        ),
        **dict.fromkeys(("events", "head", "history", "info", "reader", "text", "version"), READS),
        "context": "`do` runs its commands",
        "values": "`do` runs its commands",
        "executor": "below the handle",
        "store": "blocks as a whole; `asyncio.to_thread` runs it",
        "pipeline": "belongs to a thread; `do` runs a function that has one",
    },
    "AsyncReply": dict.fromkeys(("begin", "close"), "`async with` does it")
    | {
        "view": "`assistant` sets it",
        "lease_wait": "`async with` waits for as long",
        "looks_back": "`finish` does it",
        "told": "`fill` sets it",
        "lost": "a summary sets it",
        "is_empty": "`fill` sets it",
        "record_custom": "`AsyncSession.do` does it",
    },
    "AsyncTurn": dict.fromkeys(("ask", "begin", "begin_again", "decide", "patience", "release"), "`async with` does it")
    | {"wait": "given to `turn`, and no one else's"},
    "AsyncContextWindow": {
        "start_task": "gives a `with` that blocks; `run_task` takes a coroutine",
        "start_subtask": "gives a `with` that blocks; `run_subtask` takes a coroutine",
    },
    "AsyncLive": {
        "advance": "`async for` calls it",
        "gone": "the end of `async for` says it",
        "is_ahead": "`async for` looks at it",
        "session": "given to it",
    },
}
"""Names that a twin rightly lacks, with the reason."""
OTHER: dict[str, dict[str, str]] = {
    "afill_retrying": {"sleep": "is a coroutine function"},
}
"""Parameters that a twin has not, or has with another default, and why."""
FURTHER: dict[str, dict[str, Callable[..., Any]]] = {
    "AsyncReply": {
        "end": TextStream.end,
        "start": ToolCall.start,
        "succeed": ToolCall.succeed,
        "fail": ToolCall.fail,
    },
}
"""Methods of a twin that await those of another class: the class's object comes first."""
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    loop.afill_retrying: loop.fill_retrying,
    AsyncSubscription: Store.subscribe,
    AsyncLive: LiveSession,
}
"""Functions, and classes that are made as a function is called, with their originals."""


def pairs(store: Store) -> Iterator[tuple[object, object]]:
    """Yield a twin and its original of every class that has one; their attributes are all set."""
    session = store.create_session(id="s")
    yield AsyncSession(session), session
    reply = session.assistant("acme/one")
    yield AsyncReply(session, reply), reply
    turn = session.turn("Hi", "r1")
    with turn:
        yield AsyncTurn(turn), turn
    window = ContextWindow(session, limits=eventlog.Limits())
    yield AsyncContextWindow(window), window
    yield AsyncLive(store, "s"), LiveSession(store, "s")


def public(thing: object) -> set[str]:
    """The public names of an object, those of its attributes included."""
    return {name for name in dir(thing) if not name.startswith("_")}


def parameters(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Kind and default by name; the object comes first in no method."""
    found = inspect.signature(function).parameters.values()
    return {each.name: (each.kind, each.default) for each in found if each.name != "self"}


def differences(name: str, twin: Callable[..., Any], original: Callable[..., Any]) -> set[str]:
    """The parameters that differ, but those with a reason."""
    has, wanted = parameters(twin), parameters(original)
    differing = {each for each in has.keys() | wanted.keys() if has.get(each) != wanted.get(each)}
    assert OTHER.get(name, {}).keys() <= differing, f"{name} is no exception any more"
    return differing - OTHER.get(name, {}).keys()


def test_a_twin_has_the_names_of_its_original() -> None:
    """A twin lacks a public name of its original only for a reason that is given here."""
    with eventlog.open("memory:") as store:
        lacking = {type(twin).__name__: public(original) - public(twin) for twin, original in pairs(store)}
    assert lacking == {name: set(reasons) for name, reasons in LACKS.items()}


def test_a_twin_takes_what_its_original_takes() -> None:
    """Methods of both have the same parameters: names, kinds, defaults and order."""
    with eventlog.open("memory:") as store:
        for twin, original in pairs(store):
            for name in sorted(public(twin) & public(original)):
                here, there = (inspect.getattr_static(type(each), name, None) for each in (twin, original))
                if inspect.isfunction(here) and inspect.isfunction(there):
                    assert differences(f"{type(twin).__name__}.{name}", here, there) == set()
                    both = [each for each in parameters(here) if each in parameters(there)]
                    assert both == [each for each in parameters(there) if each in parameters(here)]
                else:
                    assert isinstance(here, property) or not isinstance(there, property)


@pytest.mark.parametrize("twin", [*FUNCTIONS], ids=lambda twin: twin.__name__)
def test_a_function_takes_what_its_original_takes(twin: Callable[..., Any]) -> None:
    """A function for asyncio has the parameters of the blocking one."""
    beside = {"store"} if twin is AsyncSubscription else set[str]()
    assert differences(twin.__name__, twin, FUNCTIONS[twin]) == beside


@pytest.mark.parametrize("name", FURTHER["AsyncReply"])
def test_a_text_or_call_is_ended_with_its_own_parameters(name: str) -> None:
    """`end`, `start`, `succeed` and `fail` take a text or call, and what its method takes."""
    method, *_ = parameters(getattr(AsyncReply, name))
    assert differences(f"AsyncReply.{name}", getattr(AsyncReply, name), FURTHER["AsyncReply"][name]) == {method}


def test_every_twin_is_compared() -> None:
    """Each public name for asyncio is among those compared."""
    public_names = [set(import_module(module).__all__) for module in MODULES]
    found = {
        name
        for names in public_names
        for name in names
        if name.startswith("Async") or (name.startswith("a") and name[1:] in names)
    }
    compared = {function.__name__ for function in FUNCTIONS} | LACKS.keys()
    assert found == compared


def test_a_twin_that_lacks_something_is_found() -> None:
    """The comparison finds a parameter that is missing, and one with another default."""

    def here(a: int, *, b: int = 1) -> None: ...
    def there(a: int, *, b: int = 2, c: int = 3) -> None: ...

    assert differences("x", here, there) == {"b", "c"}
    assert public(AsyncSession) < public(Session) | {"do", "sync", "id"}
    assert "add_text" in public(AsyncReply) & public(Reply)
