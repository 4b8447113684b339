"""Wrong types: every public function and method, each argument in turn, gives an error of this package or takes what it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

import eventlog
import projections
from eventlog import events as ev
from eventlog.errors import CallError, EventlogError
from eventlog.session.session import Session
from projections import LiveView, ModelView
from projections.window import ContextWindow

WRONG: list[Any] = [object(), None, "b", b"x", 3, -1, 1 << 70, float("nan"), [5], {}]
"""Values of types that most arguments are not of."""
WAITS = {"wait", "timeout"}
"""A length of time: a large one is waited for."""
INTERNAL = frozenset(
    {
        "begin",
        "close",
        "command",
        "commit_now",
        "complete_compaction",
        "start_compaction",
        "inherited",
        "keep",
        "forget",
        "renew_if_due",
        "run",
        "abandon",
        "tick",
        "usable",
        "effective_ranges",
    }
)
"""Of the handles in this package, for each other."""
HEAVY = {"scrub", "vacuum", "backup", "retain", "erase", "subscribe"}
"""Work on files, or wait for what others do; what they take is checked elsewhere."""
FITTING: dict[str, Any] = {
    "at": 1,
    "content": "x",
    "data": "{}",
    "first": ev.SessionStarted(),
    "input": {},
    "items": [],
    "bodies": [],
    "kind": eventlog.File("image/png", "data:"),
    "namespace": "n",
    "options": projections.RenderOptions(),
    "parts": [],
    "schemas": "[]",
    "todos": [],
    "tool": "bash",
    "usage": eventlog.Usage(eventlog.Tokens()),
    "value": "{}",
}
"""What an argument that must be given is given, by its name; else a text."""


class Case(NamedTuple):
    """One argument of one public callable; `made` gives the callable and what belongs to it."""

    name: str
    argument: str
    made: Callable[[eventlog.Store], Callable[..., Any]]


def session(store: eventlog.Store) -> Session:
    """A session with a turn."""
    made = store.create_session(id="s", title="t")
    made.user("hi", id="m1")
    with made.assistant("p/m", id="m2") as reply:
        reply.say("x")
        reply.tool("bash", call_id="c", input={}).succeed("out")
        reply.finish()
    return made


def opened(store: eventlog.Store) -> eventlog.Reply:
    """A reply that is being filled."""
    made = session(store).assistant("p/m")
    made.__enter__()
    return made


THINGS: dict[str, Callable[[eventlog.Store], Any]] = {
    "Store": lambda store: (session(store), store)[1],
    "Session": session,
    "Reply": opened,
    "Call": lambda store: opened(store).tool("bash", call_id="c"),
    "Stream": lambda store: opened(store).text(),
    "ModelView": lambda store: ModelView.of(session(store)),
    "LiveView": lambda store: LiveView(session(store)),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ModelView.of": ModelView.of,
    "LiveView": LiveView,
    "ContextWindow": ContextWindow,
    "eventlog.open": eventlog.open,
    "eventlog.restore": eventlog.restore,
    "eventlog.repair": eventlog.repair,
    **{
        f"projections.{name}": getattr(projections, name)
        for name in projections.__all__
        if inspect.isfunction(getattr(projections, name))
    },
}
KINDS = {
    "Store": eventlog.Store,
    "Session": Session,
    "Reply": eventlog.Reply,
    "Call": eventlog.Call,
    "Stream": eventlog.Stream,
    "ModelView": ModelView,
    "LiveView": LiveView,
}


def cases() -> Iterator[Case]:
    """Every argument of every public function, and of every public method of what a program holds."""
    for name, kind in KINDS.items():
        for method, function in inspect.getmembers(kind, inspect.isfunction):
            if not method.startswith("_") and method not in INTERNAL | HEAVY:
                for argument in [*inspect.signature(function).parameters][1:]:
                    if argument not in WAITS:
                        yield Case(f"{name}.{method}", argument, partial(_method, name, method))
    for name, called in FUNCTIONS.items():
        for argument in inspect.signature(called).parameters:
            yield Case(name, argument, partial(_function, name))


def _method(name: str, method: str, store: eventlog.Store) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(THINGS[name](store), method)
    return found


def _function(name: str, _store: eventlog.Store) -> Callable[..., Any]:
    return FUNCTIONS[name]


CASES = [*cases()]


def arguments(function: Callable[..., Any], store: eventlog.Store) -> dict[str, Any]:
    """What a call needs that is right."""
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is parameter.empty:
            found[name] = FITTING.get(name, "x")
            if name in {"session", "parent"} and "Session" in str(parameter.annotation):
                found[name] = store.session("s") if store.log.head("s") else session(store)
            elif name == "store":
                found[name] = store
            elif name in {"source", "into", "path"}:
                found[name] = "nowhere"
    return found


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{case.name}({case.argument})" for case in CASES])
def test_a_wrong_type_is_an_error_of_this_package(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an argument is given, the call takes it or raises a typed error, no longer than a line."""
    monkeypatch.chdir(tmp_path)
    case = CASES[number]
    for wrong in WRONG:
        if case.argument in {"path", "source", "into"} and isinstance(wrong, str):
            continue
        store = eventlog.open("memory:")
        function = case.made(store)
        given = {**arguments(function, store), case.argument: wrong}
        try:
            result = function(**given)
            if isinstance(result, Iterator):
                list(islice(cast("Iterator[object]", result), 3))
        except EventlogError as error:
            said = str(error)
        else:
            said = ""
        finally:
            with suppress(EventlogError):
                store.close()
        assert len(said) < 700


def test_a_clock_gives_whole_milliseconds() -> None:
    """A clock of the caller's that gives something else is named, whenever it does."""
    given: list[Any] = [None, 1.5, "now"]
    for time in given:
        times = iter([1_700_000_000_000])
        with eventlog.open("memory:", clock=partial(next, times, time)) as store:
            next(times, None)
            with pytest.raises(CallError, match="a clock gives UTC milliseconds as a whole number"):
                store.create_session()
            store.clock = lambda: 1_700_000_000_000


def test_an_id_of_any_length_gives_a_short_error() -> None:
    """Ten megabytes in the place of an id, or of any name, are not in the error."""
    long = "x" * 10_000_000
    with eventlog.open("memory:") as store:
        made = session(store)
        calls: list[Callable[[], object]] = [
            lambda: store.session(long),
            lambda: store.info(long),
            lambda: store.create_session(id=long),
            lambda: store.create_session(parent=long),
            lambda: made.find(long),
            lambda: made.remove_message(long),
            lambda: made.remove_part(long),
            lambda: made.edit_part(long, "x"),
            lambda: made.redact(long),
            lambda: made.unpin(long),
            lambda: made.pin(part=long),
            lambda: made.prune([long]),
            lambda: made.restore([long]),
            lambda: made.rollback(before=long),
            lambda: made.user("x", id=long),
            lambda: made.promote(long),
            lambda: projections.preset(long),
            lambda: ContextWindow(made, long),
            lambda: store.erase("s", forks=cast("Any", long)),
        ]
        for call in calls:
            with pytest.raises(EventlogError) as refused:
                call()
            assert len(str(refused.value)) < 400
