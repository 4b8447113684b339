"""Each public argument, given a wrong type, is accepted or raises this package's error."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import pytest

import eventlog
import projections
from eventlog import events as ev
from eventlog.errors import CallError, EventlogError
from eventlog.session.context import ContextCommands
from eventlog.session.reader import SessionReader
from eventlog.session.session import Session
from eventlog.values import MessageError
from projections import LiveView, ModelView, loop, window
from projections.loop import ContextWindow
from projections.window.prune import planners

WRONG: list[Any] = [object(), None, "b", b"x", -1, 1 << 70, float("nan"), [5], {}]
"""Values of types that most arguments are not of."""
WAITS = {"wait", "timeout"}
"""Lengths of time: of them a None or a large number is waited for."""
PATHS = {"path", "source", "into", "to"}
"""A text is one, so it is no wrong value."""
LEFT_OUT = {
    "ModelView.of": "a classmethod, tried as a function",
    "Pipeline.accept": "for the session's own commands",
    "Reply.close": "for `with`, which gives the class of an exception",
    "ContextCommands.start_compaction": "for the window",
    "SessionReader.effective_ranges": "for readers in this package; `history` takes what it takes",
    "SessionReader.inherited": "for the store",
}
"""Methods that no program calls, and why."""
FITTING: dict[str, Any] = {
    "arguments": {"part": "x"},
    "at": 1,
    "attachments": [],
    "chunks": [],
    "command": len,
    "content": "x",
    "data": "{}",
    "error": ValueError("x"),
    "first": ev.SessionStarted(),
    "input": {},
    "items": [],
    "bodies": [],
    "kind": eventlog.File("image/png", "data:"),
    "namespace": "n",
    "options": projections.RenderOptions(),
    "parts": [],
    "schemas": "[]",
    "timeout": 0.0,
    "todos": [],
    "tool": "bash",
    "usage": eventlog.Usage(eventlog.Tokens()),
    "value": "{}",
    "wait": 0.0,
}
"""Value of an argument that must be given, by its name; else a text."""
STEPS: dict[str, Any] = {
    "CallModel": projections.CallModel("m1", last=False, tokens=0),
    "MessageError": MessageError("api"),
    "PendingCall": projections.PendingCall("prt_c", "c", "bash", "{}", running=False),
    "RunSubtask": projections.RunSubtask("m1", "prt_t", eventlog.Subtask("x", "x", "x")),
    "Step": projections.Promote("m1"),
}
"""Value of an argument that must be given, by its type."""


async def whole_answers() -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks of an answer that is whole."""
    for chunk in WHOLE:
        yield chunk


WHOLE: list[dict[str, Any]] = [{"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}]
SPECIFIC: dict[str, dict[str, Any]] = {
    "projections.loop.fill_retrying": {"ask": lambda: WHOLE},
    "projections.loop.afill_retrying": {"ask": whole_answers},
    "eventlog.import_file": {"path": "transcript.jsonl"},
    "projections.window.apply_patch": {"messages": [], "system": (), "patch": "{}"},
    "projections.window.recall": {"name": "m2"},
    "projections.policy_named": {"name": "default"},
}
"""Values that fit one function only."""


class Case(NamedTuple):
    """One argument of one public callable; `made` gives the callable and its owner."""

    name: str
    argument: str
    made: Callable[[eventlog.Store], Callable[..., Any]]


def session(store: eventlog.Store) -> Session:
    """A session with a turn."""
    if store.log.head("s"):
        return store.session("s")
    made = store.create_session(id="s", title="t")
    made.user("hi", id="m1")
    with made.assistant("p/m", id="m2") as reply:
        reply.add_text("x")
        reply.tool("bash", call_id="c", input={}).succeed("out")
        reply.finish()
    return made


def opened(store: eventlog.Store) -> eventlog.Reply:
    """A reply that is open."""
    made = session(store).assistant("p/m")
    made.__enter__()
    return made


def window_on(store: eventlog.Store) -> ContextWindow:
    """An entered window with an open reply that has a call."""
    made = ContextWindow(session(store))
    made.__enter__()
    reply, _ = made.begin(STEPS["CallModel"])
    reply.tool("bash", call_id="c", id="prt_c")
    made.state.catch_up()
    return made


THINGS: dict[str, Callable[[eventlog.Store], Any]] = {
    "Store": lambda store: (session(store), store)[1],
    "Session": session,
    "ContextCommands": lambda store: session(store).context,
    "SessionReader": lambda store: session(store).reader,
    "Feed": lambda store: eventlog.Feed(session(store), eventlog.OpenAIChatMapping()),
    "Reply": opened,
    "ToolCall": lambda store: opened(store).tool("bash", call_id="c"),
    "ModelCatalogue": lambda _store: eventlog.shipped_models(),
    "Turn": lambda store: session(store).turn("hi", "r"),
    "Values": lambda store: session(store).values,
    "Names": lambda store: (session(store), store.names)[1],
    "Shelf": lambda store: store.shelf("shelf"),
    "TextStream": lambda store: opened(store).stream_text(),
    "ModelView": lambda store: ModelView.of(session(store)),
    "LiveView": lambda store: LiveView(session(store)),
    "Transcript": lambda store: projections.Transcript(session(store)),
    "ContextWindow": window_on,
    "AsyncSession": lambda store: eventlog.AsyncSession(session(store)),
    "AsyncReply": lambda store: eventlog.AsyncReply(session(store), opened(store)),
    "AsyncContextWindow": lambda store: projections.AsyncContextWindow(window_on(store)),
}
KINDS: dict[str, type] = {
    "Store": eventlog.Store,
    "Session": Session,
    "ContextCommands": ContextCommands,
    "SessionReader": SessionReader,
    "Feed": eventlog.Feed,
    "Reply": eventlog.Reply,
    "ToolCall": eventlog.ToolCall,
    "ModelCatalogue": eventlog.ModelCatalogue,
    "Turn": eventlog.Turn,
    "Values": eventlog.Values,
    "Names": eventlog.Names,
    "Shelf": eventlog.Shelf,
    "TextStream": eventlog.TextStream,
    "ModelView": ModelView,
    "LiveView": LiveView,
    "Transcript": projections.Transcript,
    "ContextWindow": ContextWindow,
    "AsyncSession": eventlog.AsyncSession,
    "AsyncReply": eventlog.AsyncReply,
    "AsyncContextWindow": projections.AsyncContextWindow,
}
MADE: dict[str, type] = {
    "Feed": eventlog.Feed,
    "AsyncContextWindow": projections.AsyncContextWindow,
    "AsyncSession": eventlog.AsyncSession,
    "AsyncSubscription": eventlog.AsyncSubscription,
    "AsyncTurn": eventlog.AsyncTurn,
    "ContextWindow": ContextWindow,
    "LiveView": LiveView,
    "LiveSession": projections.LiveSession,
    "ModelCatalogue": eventlog.ModelCatalogue,
    "Transcript": projections.Transcript,
}
"""Classes that a program makes itself."""
NOT_MADE = {
    "AnthropicMapping": "called by a feed, with JSON values that it has checked",
    "AsyncLive": "made of what `LiveSession` takes",
    "OpenAIChatMapping": "called by a feed, with JSON values that it has checked",
    "OpenAIResponsesMapping": "called by a feed, with JSON values that it has checked",
    "RecordBuilder": "called by mappings, whose errors reach the feed's caller",
    "Json": "another name of str",
    "Pipeline": "made by `Session.pipeline`, and without arguments of its own",
    "PruneCase": "given to a planner",
    "SessionReport": "an answer",
    "StoreReport": "an answer",
}
"""Public classes that are no plain values and are not tried, and why."""


def functions() -> dict[str, Callable[..., Any]]:
    """Every public function, and every class that programs instantiate."""
    return {
        **MADE,
        "ModelView.of": ModelView.of,
        **{
            f"{package.__name__}.{name}": getattr(package, name)
            for package in (eventlog, projections, loop, window)
            for name in package.__all__
            if inspect.isfunction(getattr(package, name))
            and (package not in {loop, window} or name not in projections.__all__)
        },
    }


FUNCTIONS = functions()


def cases() -> Iterator[Case]:
    """Every argument of every public function and of every public method of the handles."""
    for name, kind in KINDS.items():
        for method, function in inspect.getmembers(kind, inspect.isfunction):
            if not method.startswith("_") and f"{name}.{method}" not in LEFT_OUT:
                for argument in [*inspect.signature(function).parameters][1:]:
                    if argument not in {"args", "kwargs"}:
                        yield Case(f"{name}.{method}", argument, partial(_method, name, method))
    for name, called in FUNCTIONS.items():
        for argument in inspect.signature(called).parameters:
            if argument not in {"args", "kwargs"}:
                yield Case(name, argument, partial(_function, name))


def _method(name: str, method: str, store: eventlog.Store) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(THINGS[name](store), method)
    return found


def _function(name: str, _store: eventlog.Store) -> Callable[..., Any]:
    return FUNCTIONS[name]


CASES = [*cases()]


def called(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Return the result of a call with these arguments."""
    parameters = inspect.signature(function).parameters.values()
    first = [given.pop(one.name) for one in parameters if one.kind is one.POSITIONAL_ONLY]
    return function(*first, **given)


def arguments(function: Callable[..., Any], store: eventlog.Store) -> dict[str, Any]:
    """Valid arguments for a call."""
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kind = str(parameter.annotation)
        if name in {"args", "kwargs"} or (parameter.default is not parameter.empty and name not in WAITS):
            continue
        if name == "store":
            found[name] = store
        elif kind == "Session" or (name == "parent" and "Session" in kind):
            found[name] = session(store)
        elif kind == "ContextWindow":
            found[name] = ContextWindow(session(store))
        elif kind in {"Reply", "ToolCall", "TextStream"}:
            found[name] = THINGS[kind](store)
        elif kind.startswith("Callable"):
            found[name] = str
        elif name in PATHS:
            found[name] = "nowhere"
        else:
            found[name] = STEPS.get(kind, FITTING.get(name, "x"))
    return found


def carry_out(result: object) -> None:
    """Finish a lazy result: await, iterate or enter it."""
    if inspect.iscoroutine(result):
        asyncio.run(result)
    elif isinstance(result, eventlog.AsyncSubscription):
        asyncio.run(first_of(result))
    elif isinstance(result, Iterator):
        list(islice(cast("Iterator[object]", result), 3))
    elif type(result).__name__ == "_GeneratorContextManager":
        with cast("AbstractContextManager[object]", result):
            pass


async def first_of(following: AsyncIterator[object]) -> None:
    """Await the first item."""
    async for _ in following:
        break


def wrong_for(argument: str) -> list[Any]:
    """The values that are tried for an argument."""
    if argument in PATHS:
        return [wrong for wrong in WRONG if not isinstance(wrong, str)]
    if argument in WAITS:
        return [wrong for wrong in WRONG if wrong is not None and not isinstance(wrong, int)]
    return WRONG


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{case.name}({case.argument})" for case in CASES])
def test_a_wrong_type_is_an_error_of_this_package(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call given any type returns or raises a typed error of at most one line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(planners, "PLANNERS", {**planners.PLANNERS})
    Path("transcript.jsonl").write_text('{"role": "user", "content": "hi"}\n', encoding="utf-8")
    case = CASES[number]
    store: eventlog.Store | None = None
    given: dict[str, Any] = {}
    function: Callable[..., Any] = len
    for wrong in wrong_for(case.argument):
        if store is None:
            store = eventlog.open("memory:")
            function = case.made(store)
            given = {**arguments(function, store), **SPECIFIC.get(case.name, {})}
        try:
            carry_out(called(function, {**given, case.argument: wrong}))
        except EventlogError as error:
            said = str(error)
        else:
            said = ""
            _close(store)  # the call did something
            store = None
        assert len(said) < 700
    if store is not None:
        _close(store)


def _close(store: eventlog.Store) -> None:
    with suppress(EventlogError):
        store.close()


@pytest.mark.parametrize("path", ["a\0b", "a" * 300, "x/" * 3000], ids=["NUL", "long name", "long"])
def test_a_path_that_no_system_takes_is_an_error_of_this_package(tmp_path: Path, path: str) -> None:
    """Too long, or with a NUL, it can neither be opened nor copied to nor restored to."""
    with eventlog.open(tmp_path / "s") as store:
        for call in (eventlog.open, store.backup, partial(eventlog.restore, tmp_path / "s")):
            with pytest.raises(EventlogError):
                call(f"{tmp_path}/{path}")


def test_every_public_name_is_tried() -> None:
    """Every public name is tried, is a plain value or an error, or is excluded with a reason."""
    tried = {*KINDS, *MADE, *NOT_MADE, "ModelView"}
    forgotten = [
        f"{package.__name__}.{name}"
        for package in (eventlog, projections, loop, window)
        for name in package.__all__
        if inspect.isclass(found := getattr(package, name))
        and not issubclass(found, (msgspec.Struct, Exception, tuple))
        and not getattr(found, "_is_protocol", False)
        and name not in tried
    ]
    assert forgotten == []
    methods = {f"{name}.{method}" for name, kind in KINDS.items() for method in dir(kind)}
    assert {name for name in LEFT_OUT if name.partition(".")[0] in KINDS} <= methods


def test_a_clock_gives_whole_milliseconds() -> None:
    """A caller's clock that returns no whole milliseconds is named, at every call."""
    given: list[Any] = [None, 1.5, "now"]
    for time in given:
        times = iter([1_700_000_000_000])
        with eventlog.open("memory:", clock=partial(next, times, time)) as store:
            next(times, None)
            with pytest.raises(CallError, match="a clock gives UTC milliseconds as a whole number"):
                store.create_session()
            store.host.clock = lambda: 1_700_000_000_000


def test_ids_are_texts() -> None:
    """A caller's id maker that returns no text, or too long a one, is named."""
    given: list[Any] = [None, 5, b"x", object(), "", "x" * 1_000]
    for name in given:
        with eventlog.open("memory:", new_id=partial(_gives, name)) as store:
            with pytest.raises(CallError, match=r"new_id gives an id as a str|bytes of the new id"):
                store.create_session()
            made = store.create_session(id="s")
            with pytest.raises(CallError, match=r"new_id gives an id as a str|bytes of the new id"):
                made.user("hi")


def _gives(name: Any, _prefix: str) -> Any:
    return name


def test_an_id_of_any_length_gives_a_short_error() -> None:
    """An id of ten megabytes is not quoted in the error."""
    long = "x" * 10_000_000
    with eventlog.open("memory:") as store:
        made = session(store)
        calls: list[Callable[[], object]] = [
            lambda: store.session(long),
            lambda: store.info(long),
            lambda: store.create_session(id=long),
            lambda: store.create_session(parent=long),
            lambda: made.reader.find(long),
            lambda: made.remove_message(long),
            lambda: made.remove_part(long),
            lambda: made.edit_part(long, "x"),
            lambda: made.redact(long),
            lambda: made.unpin(long),
            lambda: made.pin(part=long),
            lambda: made.context.prune([long]),
            lambda: made.context.unprune([long]),
            lambda: made.rollback(before=long),
            lambda: made.user("x", id=long),
            lambda: made.context.promote(long),
            lambda: projections.preset(long),
            lambda: ContextWindow(made, long),
            lambda: store.erase("s", forks=cast("Any", long)),
        ]
        for call in calls:
            with pytest.raises(EventlogError) as refused:
                call()
            assert len(str(refused.value)) < 400
