"""Checkpointer of LangGraph, by the framework's own suite and against its saver in memory."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from langchain_core.messages import AIMessage, AIMessageChunk, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, MessagesState, StateGraph

import eventlog
from eventlog import AlreadyExistsError, CallError, ErasedError, FencedError, LeaseHeldError, NotFoundError
from eventlog.adapters.langgraph import FORMAT, EverdeltaSaver, removal
from eventlog.adapters.langgraph.rejoined import kin_of
from eventlog.adapters.langgraph.threads import Threads
from eventlog.testing.file_search import files_with
from projections import ModelView
from tests.adapters.langchain_lists import listed, viewed
from tests.adapters.langgraph_programs import PROGRAMS, Program, Tee
from tests.support.engines import ENCRYPTED, ENGINES, Engine

MODES = [*ENGINES, ENCRYPTED]
SLOW = os.environ.get("EVERDELTA_SLOW") == "1"
CONFIG: Any = {"configurable": {"thread_id": "t"}}


@pytest.mark.parametrize("mode", MODES)
def test_suite_of_the_framework(mode: str) -> None:
    """All tests of the framework's conformance suite pass, of every capability."""

    @checkpointer_test(name=f"everdelta {mode}")
    async def saver() -> AsyncGenerator[EverdeltaSaver, None]:
        engine = Engine(mode)
        yield EverdeltaSaver(engine.open())
        engine.close()

    report = asyncio.run(validate(saver))
    for name, found in report.results.items():
        assert (found.detected, found.failures, found.tests_skipped) == (True, [], 0), name
    assert sum(found.tests_passed for found in report.results.values()) == 81


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_random_programs_agree_with_the_saver_in_memory(mode: str, delta: bool) -> None:
    """After every command both savers have the same, and each checkpoint's view is its list."""

    @settings(max_examples=25 if mode == "memory" else 3)
    @given(PROGRAMS)
    def agree(program: list[tuple[str, list[str], int]]) -> None:
        engine = Engine(mode)
        try:
            ours = EverdeltaSaver(engine.open())
            tee = Tee(ours, InMemorySaver())
            played = Program(tee, ours, delta=delta)
            for command, script, pick in program:
                if command == "reopen":
                    played.ours = tee.ours = EverdeltaSaver(engine.open())
                played.run(command, script, pick, "copy" if pick % 5 == 0 else "t")
                played.check()
        finally:
            engine.close()

    agree()


@pytest.mark.parametrize("delta", [False, True])
def test_random_programs_with_its_own_versions(delta: bool) -> None:
    """Versions of channels that are counted per branch mix up no branches."""

    @settings(max_examples=15)
    @given(PROGRAMS)
    def play(program: list[tuple[str, list[str], int]]) -> None:
        with eventlog.open("memory:") as store:
            saver = EverdeltaSaver(store)
            played = Program(saver, saver, delta=delta)
            for command, script, pick in program:
                played.run(command, script, pick, "copy" if pick % 5 == 0 else "t")
                played.check()

    play()


def answered(state: Any) -> Any:
    """Answer."""
    del state
    return {"messages": [AIMessage("well")]}


def graph_of(saver: EverdeltaSaver) -> Any:
    """Return a graph whose one node answers."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", answered)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def said(text: str) -> dict[str, Any]:
    """Return an input."""
    return {"messages": [HumanMessage(text)]}


def put(
    saver: EverdeltaSaver,
    messages: list[Any] | None,
    parent: Any = None,
    thread: str = "t",
    made: Any = None,
    **metadata: Any,
) -> Any:
    """Put a checkpoint with a list of messages, or with none that it knows; return its config."""
    checkpoint: Any = made or empty_checkpoint()
    version = saver.get_next_version(None, None) if parent is None else int(parent["version"]) + 1
    checkpoint["channel_values"] = {} if messages is None else {"messages": messages}
    checkpoint["channel_versions"] = {"messages": version}
    before: dict[str, Any] = {} if parent is None else parent["configurable"]
    config: Any = {"thread_id": thread, "checkpoint_ns": "", **before}
    described: Any = {"source": "loop", "step": 0, **metadata}
    stored: Any = saver.put({"configurable": config}, checkpoint, described, {"messages": version})
    return {**stored, "version": version}


class OwnMessage(HumanMessage):
    """A class of a program's own."""

    mood: str = ""


MESSAGES: list[Any] = [
    SystemMessage("be brief", id="s1"),
    HumanMessage("hello é", id="h1", name="alice"),
    AIMessage(
        [{"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "text", "text": "so"}, {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": [1, 1.0, None]}}],
        tool_calls=[{"name": "look", "args": {"at": [1, 1.0, None]}, "id": "c1"}, {"name": "find", "args": {}, "id": "c2"}],
        response_metadata={"model_name": "m", "model_provider": "p", "stop_reason": "tool_use"},
        usage_metadata={"input_tokens": 12, "output_tokens": 5, "total_tokens": 17, "input_token_details": {"cache_read": 10}},
        id="a1",
    ),
    ToolMessage("found", tool_call_id="c2", artifact={"rows": (1, 2)}, id="t1"),
    ToolMessage([{"type": "text", "text": "seen"}, {"type": "image", "base64": "iVBO", "mime_type": "image/png"}], tool_call_id="c1", status="error"),
    HumanMessage([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "http://x/1.png"}}]),
    AIMessageChunk(content="streamed", id="a2"),
    SystemMessage("a summary"),
    OwnMessage(content="mine", mood="fine"),
    HumanMessage("extra", unknown={"x": (1,)}),
    AIMessage("", invalid_tool_calls=[{"name": "look", "args": "{", "id": "c9", "error": "no JSON"}]),
    ChatMessage(content="as another", role="critic"),
]  # fmt: skip


def test_messages_of_all_kinds_come_back(engine: Engine) -> None:
    """Messages come back as the saver in memory gives them, and the view shows them."""
    for end in range(len(MESSAGES) + 1):
        messages = MESSAGES[:end]
        saver = EverdeltaSaver(engine.open())
        config = put(saver, messages, thread=f"t{end}")
        wanted = saver.serde.loads_typed(saver.serde.dumps_typed(messages))
        for one in (saver, EverdeltaSaver(engine.open())):
            found = one.get_tuple(config)
            assert found is not None
            assert found.checkpoint["channel_values"]["messages"] == wanted
            assert list(map(type, found.checkpoint["channel_values"]["messages"])) == list(map(type, wanted))
        if end < 11:  # a call that is no JSON shows as such
            assert viewed(ModelView.of(saver.session(f"t{end}"))) == listed(messages)


def test_message_changed_in_place_is_told_again(engine: Engine) -> None:
    """A list whose message was changed in place, deep inside, is told as it is now."""
    saver = EverdeltaSaver(engine.open())
    call = AIMessage("", tool_calls=[{"name": "look", "args": {"at": "door"}, "id": "c1"}], id="a1")
    messages: list[Any] = [HumanMessage("go", id="h1"), call]
    first = put(saver, messages)
    call.tool_calls[0]["args"]["at"] = "window"
    second = put(saver, messages, first)
    for config, at in ((first, "door"), (second, "window")):
        view = ModelView.of(saver.session("t"), at=saver.version(config))
        assert viewed(view)[-1][3] == f'{{"at":"{at}"}}'


@pytest.mark.parametrize("said", [[], ["go", "on"], ["go", "no"], ["else"]])
def test_checkpoint_that_comes_late_is_not_what_is_shown(engine: Engine, said: list[str]) -> None:
    """A slow worker puts an older checkpoint last: the newest one is shown."""
    slow, quick = EverdeltaSaver(engine.open()), EverdeltaSaver(engine.open())
    first = put(slow, [HumanMessage("go", id="h1")])
    made = empty_checkpoint()
    newest = put(quick, [HumanMessage("go", id="h1"), AIMessage("on", id="a1")], first)
    late = put(slow, [HumanMessage(text, id=text) for text in said], first, made=made)
    for saver in (slow, quick):
        assert saver.get_tuple(CONFIG) == saver.get_tuple(newest)
        session = saver.session("t")
        assert viewed(ModelView.of(session)) == [("user", "go"), ("assistant", "on")]
        assert viewed(ModelView.of(session, at=saver.version(newest))) == [("user", "go"), ("assistant", "on")]
        assert viewed(ModelView.of(session, at=saver.version(late))) == [("user", text) for text in said]
    put(quick, [HumanMessage("go", id="h1"), AIMessage("on", id="a1"), HumanMessage("so", id="h2")], newest)
    assert len(viewed(ModelView.of(slow.session("t")))) == 3


def test_channel_that_becomes_empty_empties_the_view(engine: Engine) -> None:
    """A channel that has no value any more, and is none of deltas, has no messages."""
    saver = EverdeltaSaver(engine.open())
    first = put(saver, [HumanMessage("go", id="h1")])
    saver.put_writes(first, [("messages", [HumanMessage("on", id="h2")])], "task")
    put(saver, None, first)
    assert viewed(ModelView.of(saver.session("t"))) == []
    put(saver, None, first, counters_since_delta_snapshot={"messages": [1, 1]})
    assert viewed(ModelView.of(saver.session("t"))) == [("user", "go"), ("user", "on")]


def test_results_without_an_open_call_are_shown(engine: Engine) -> None:
    """A second result of a call, and one of no call in the list, are in the view as messages."""
    saver = EverdeltaSaver(engine.open())
    calls: Any = [{"name": "look", "args": {}, "id": id} for id in ("c1", "c2")]
    results = [ToolMessage(text, tool_call_id=id) for text, id in (("one", "c1"), ("once more", "c1"), ("two", "c2"))]
    image: Any = [{"type": "text", "text": "seen"}, {"type": "image", "base64": "iVBO", "mime_type": "image/png"}]
    messages = [HumanMessage("go"), AIMessage("", tool_calls=calls), *results, ToolMessage(image, tool_call_id="none")]
    config: Any = None
    for end in range(1, len(messages) + 1):
        config = put(saver, messages[:end], config)
        assert viewed(ModelView.of(saver.session("t"))) == listed(messages[:end])
    put(saver, [messages[0], *messages[2:]], config)
    texts = [("user", text) for text in ("go", "one", "once more", "two", "seen")]
    assert viewed(ModelView.of(saver.session("t"))) == [*texts, ("user", "file")]


def test_usage_counts_once(engine: Engine) -> None:
    """The cost of an answer counts once, though its list is told again on another branch."""
    saver = EverdeltaSaver(engine.open())
    usage: Any = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    cost = AIMessage("dear", id="a1", usage_metadata=usage)
    first = put(saver, [HumanMessage("go", id="h1")])
    put(saver, [HumanMessage("go", id="h1"), cost], first)
    put(saver, [HumanMessage("stop", id="h2"), cost], first)
    assert saver.session("t").info.tokens == 12


def test_each_value_of_a_channel_is_stored_once(tmp_path: Path) -> None:
    """A large value that all checkpoints have, and lists that grow, cost what is new in them."""
    engine = Engine("embedded", tmp_path)
    saver = EverdeltaSaver(engine.open())
    sizes: list[int] = []
    messages: list[Any] = []
    config: Any = None
    for _ in range(6):
        written = saver.store.metrics()
        for _ in range(20):
            messages.append(HumanMessage(f"message {len(messages)} " * 5, id=f"h{len(messages)}"))
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": list(messages), "files": {"large": "x" * 100_000}}
            checkpoint["channel_versions"] = {"messages": len(messages), "files": len(messages)}
            where: Any = config or {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            config = saver.put(where, checkpoint, {"source": "loop"}, {"messages": 1, "files": 1})
        now = saver.store.metrics()
        sizes.append(now.payload_bytes + now.body_bytes - written.payload_bytes - written.body_bytes)
    assert max(sizes[1:]) < 1.1 * min(sizes[1:])
    assert sizes[1] < 20 * 2_000
    engine.close()


async def test_asyncio_and_threads_see_one_thread(engine: Engine) -> None:
    """Runs in asyncio, on several threads at once, leave what runs without it leave."""
    saver = EverdeltaSaver(engine.open())
    graph = graph_of(saver)
    await asyncio.gather(*(graph.ainvoke(said(f"hi {n}"), {"configurable": {"thread_id": f"t{n}"}}) for n in range(8)))
    await graph.ainvoke(said("again"), {"configurable": {"thread_id": "t0"}})
    assert len([one async for one in saver.alist(None)]) == 8 * 3 + 3
    assert len([one async for one in saver.alist({"configurable": {"thread_id": "t0"}}, limit=2)]) == 2
    for n in range(8):
        messages = graph.get_state({"configurable": {"thread_id": f"t{n}"}}).values["messages"]
        assert len(messages) == (4 if n == 0 else 2)
        assert viewed(ModelView.of(saver.session(f"t{n}"))) == listed(messages)


def put_inner(saver: EverdeltaSaver, space: str, durability: str = "exit", **parents: str) -> Any:
    """Put the first checkpoint of a subgraph in a namespace, with those around it."""
    where: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": space, "__pregel_durability": durability}}
    described: Any = {"source": "input"}
    if parents:
        described["parents"] = {name.removeprefix("root"): id for name, id in parents.items()}
    return saver.put(where, empty_checkpoint(), described, {})


@pytest.mark.promise(4)
@pytest.mark.parametrize("is_used_again", [False, True])
def test_late_writes_bring_no_thread_back(engine: Engine, is_used_again: bool) -> None:
    """A late write of a run, by any saver, is refused after a deletion, and leaves nothing."""
    late, other = EverdeltaSaver(engine.open()), EverdeltaSaver(engine.open())
    for deleting in (late, other):
        config = put(late, [HumanMessage("secret")])
        root = config["configurable"]["checkpoint_id"]
        inner = put_inner(late, "inner:1", root=root)
        time.sleep(0.002)
        deleting.delete_thread("t")
        if is_used_again:
            graph_of(other).invoke(said("anew"), CONFIG)
        for saver in (late, other, EverdeltaSaver(engine.open())):
            time.sleep(0.002)  # ids have the time, deletions have it in milliseconds
            refused = empty_checkpoint()
            put_inner(saver, "inner:2", root=refused["id"])
            with pytest.raises(ErasedError):
                saver.put(config, refused, {"source": "loop"}, {})
            for origin in (config, inner):
                with pytest.raises(ErasedError):
                    saver.put_writes(origin, [("messages", AIMessage("late"))], "task")
            with pytest.raises(ErasedError):
                put_inner(saver, "inner:3", root=root)
            with pytest.raises(ErasedError):
                put_inner(saver, "inner:3|deep:1", root=root, inner=inner["configurable"]["checkpoint_id"])
            with pytest.raises(ErasedError):
                saver.put(inner, empty_checkpoint(), {"source": "loop"}, {})
            if not is_used_again:
                with pytest.raises(ErasedError):
                    put_inner(saver, "inner:4")
            assert saver.get_tuple(config) is None
            assert len(list(saver.list(CONFIG))) == (3 if is_used_again else 0)
        other.delete_thread("t")
    assert list(late.store.sessions(format=FORMAT)) == []


async def test_subgraph_of_a_run_may_come_first(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a run that stores at its end begins a thread with checkpoints of subgraphs."""
    monkeypatch.setattr("eventlog.adapters.langgraph.threads.PATIENCE", 0.1)
    saver, root = EverdeltaSaver(engine.open()), empty_checkpoint()["id"]
    for _ in range(2):
        put_inner(saver, "inner:1", root=root)
        put_inner(EverdeltaSaver(engine.open()), "inner:2", root=root)
        with pytest.raises(NotFoundError):
            put_inner(saver, "inner:3", "async", root=root)
        assert len(list(saver.list(CONFIG))) == 2
        saver.delete_thread("t")
        await asyncio.sleep(0.002)
        root = empty_checkpoint()["id"]
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    late = asyncio.to_thread(put_inner, saver, "inner:1", "async", root=root)
    waiting = asyncio.create_task(late)
    await asyncio.sleep(0.05)
    await saver.aput(config, {**empty_checkpoint(), "id": root}, {"source": "loop"}, {})
    await waiting
    assert len(list(saver.list(CONFIG))) == 2


def nested_graph(saver: EverdeltaSaver) -> Any:
    """Return a graph with a subgraph that keeps its state, and one that does not."""
    inner: Any = StateGraph(MessagesState)
    outer: Any = StateGraph(MessagesState)
    inner.add_sequence([("first", slowly), ("second", slowly)])
    inner.add_edge(START, "first")
    outer.add_sequence(
        [("model", slowly), ("kept", inner.compile(checkpointer=True)), ("again", slowly), ("inner", inner.compile())]
    )
    outer.add_edge(START, "model")
    return outer.compile(checkpointer=saver)


def slowly(state: Any) -> Any:
    """Answer after a moment."""
    time.sleep(0.002)
    return answered(state)


@pytest.mark.promise(4)
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_run_that_is_deleted_meanwhile_leaves_nothing(engine: Engine, durability: Any) -> None:
    """A run whose thread another worker deletes at any time ends with an error, or is whole."""
    saver, deleting = EverdeltaSaver(engine.open()), EverdeltaSaver(engine.open())
    graph, chance = nested_graph(saver), random.Random(5)
    refused = 0
    for number in range(40 if SLOW else 6):
        errors: list[Any] = []

        def run(errors: list[Any] = errors) -> None:
            try:
                graph.invoke(said("hi"), CONFIG, durability=durability)
            except NotFoundError as error:
                errors.append(error)

        if number % 2:
            run()
        worker = Thread(target=run)
        worker.start()
        time.sleep(chance.uniform(0, 0.1))
        deleting.delete_thread("t")
        worker.join()
        refused += len(errors)
        found: list[Any] = list(deleting.list(CONFIG))
        spaces = {one.config["configurable"]["checkpoint_ns"] for one in found}
        assert "" in spaces or not spaces
        assert not (errors and spaces)
        deleting.delete_thread("t")
    assert refused or not SLOW
    assert list(deleting.store.sessions()) == []


def test_a_turn_is_taken_back_from_an_earlier_checkpoint(engine: Engine) -> None:
    """A run of an earlier config hides the turn in state and view; its scope stays."""
    saver = EverdeltaSaver(store := engine.open())
    store.open_session((FORMAT, "t"), scope="alice")
    graph = graph_of(saver)
    graph.invoke(said("first"), CONFIG)
    kept = graph.get_state(CONFIG).config
    graph.invoke(said("wrong"), CONFIG)
    saver.session("t").rollback(saver.version(kept))
    assert (len(graph.get_state(CONFIG).values["messages"]), len(ModelView.of(saver.session("t")))) == (4, 2)
    graph.invoke(said("right"), kept)
    texts = [message.text for message in graph.get_state(CONFIG).values["messages"]]
    assert texts == ["first", "well", "right", "well"]
    assert viewed(ModelView.of(saver.session("t"))) == listed(graph.get_state(CONFIG).values["messages"])
    assert [info.scope for info in store.sessions()] == ["alice"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_is_whole_however_slow_the_disk(is_async: bool) -> None:
    """A write of a task waits for its checkpoint, which a slow machine puts late."""

    class Slow(EverdeltaSaver):
        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            if metadata["step"] == 0:
                time.sleep(1.2)
            return super().put(config, checkpoint, metadata, new_versions)

    with eventlog.open("memory:") as store:
        graph = graph_of(Slow(store))
        state = asyncio.run(graph.ainvoke(said("a"), CONFIG)) if is_async else graph.invoke(said("a"), CONFIG)
        assert state == graph.get_state(CONFIG).values


def test_a_failed_put_ends_the_wait_for_its_checkpoint() -> None:
    """A task waits long for a checkpoint on its way, but not where the disk has failed."""
    with eventlog.open("memory:") as store:
        threads = Threads(store, "")
        assert sum(threads.patience("t")) > 29
        with pytest.raises(OSError, match="full"), threads.putting("t"):
            raise OSError("full")
        assert sum(threads.patience("t")) < 2 < sum(threads.patience("other"))


def test_writes_without_their_checkpoint_are_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task's write waits for its checkpoint, and is refused without one."""
    monkeypatch.setattr("eventlog.adapters.langgraph.threads.PATIENCE", 0.1)
    saver = EverdeltaSaver(engine.open())
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "none"}}
    with pytest.raises(NotFoundError):
        saver.put_writes(config, [("messages", [])], "task")
    with pytest.raises(NotFoundError):
        asyncio.run(saver.aput_writes(config, [("messages", [])], "task"))
    with pytest.raises(NotFoundError):
        put(saver, [], {**config, "version": 1})
    with pytest.raises(CallError):
        saver.put_writes(CONFIG, [("messages", [])], "task")
    with pytest.raises(CallError):
        saver.get_tuple({"configurable": {}})
    assert list(saver.store.sessions()) == []


@pytest.mark.promise(4)
def test_superseded_worker_leaves_nothing(engine: Engine) -> None:
    """A worker whose lease was taken over is refused, also what its tasks wrote."""
    old, new = EverdeltaSaver(engine.open()), EverdeltaSaver(engine.open())
    config = put(old, [HumanMessage("go", id="h1")])
    with old.session("t").lease():
        with new.session("t").lease(take_over=True):
            put(new, [HumanMessage("go", id="h1"), AIMessage("new")], config)
        with pytest.raises(FencedError):
            put(old, [HumanMessage("go", id="h1"), AIMessage("old")], config)
        with pytest.raises(FencedError):
            old.put_writes(config, [("messages", AIMessage("old"))], "task")
    assert len(list(new.list(CONFIG))) == 2
    found = new.get_tuple(config)
    assert found is not None
    assert found.pending_writes == []
    assert viewed(ModelView.of(new.session("t"))) == [("user", "go"), ("assistant", "new")]


@pytest.mark.parametrize("mode", ["embedded", ENCRYPTED])
def test_what_was_removed_leaves_no_byte(mode: str, tmp_path: Path) -> None:
    """After a scrub no file has what pruned, deleted and removed checkpoints alone had."""
    engine = Engine(mode, tmp_path)
    saver = EverdeltaSaver(engine.open())
    large = "secret-large " * 3000
    first = put(saver, [HumanMessage("kept", id="h1")], run_id="one")
    gone = put(
        saver,
        [HumanMessage("kept", id="h1"), AIMessage("secret-branch", id="a1"), AIMessage(large)],
        first,
        run_id="two",
    )
    saver.put_writes(gone, [("messages", AIMessage("secret-write")), ("notes", "secret-note")], "task")
    put(saver, [HumanMessage("kept", id="h1"), AIMessage("kept too")], first, run_id="three")
    saver.copy_thread("t", "copy")
    saver.prune(["t"])
    assert len(list(saver.list(CONFIG))) == 1
    saver.store.scrub()
    copied: Any = {"configurable": {"thread_id": "copy"}}
    shared = [found.checkpoint["channel_values"]["messages"][1:2] for found in saver.list(copied)]
    assert [[one.content for one in found] for found in shared] == [["kept too"], ["secret-branch"], []]
    saver.delete_for_runs(["two"])
    assert len(list(saver.list(copied))) == 2
    saver.store.scrub()
    for text in ("secret-branch", "secret-large", "secret-write", "secret-note"):
        assert files_with(engine.path, text) == []
    for thread in ("t", "copy"):
        found = saver.get_tuple({"configurable": {"thread_id": thread}})
        assert found is not None
        assert [one.content for one in found.checkpoint["channel_values"]["messages"]] == ["kept", "kept too"]
        assert viewed(ModelView.of(saver.session(thread))) == [("user", "kept"), ("assistant", "kept too")]
    saver.prune(["t"], strategy="delete")
    saver.delete_for_runs(["one", "three"])
    saver.store.scrub()
    saver.store.vacuum()
    assert files_with(engine.path, "kept") == []
    assert list(saver.store.sessions()) == []
    engine.close()


def test_copy_is_a_fork(engine: Engine) -> None:
    """A copy costs little, goes its own way and outlives its source; a target is new."""
    saver = EverdeltaSaver(engine.open())
    graph = graph_of(saver)
    graph.invoke(said("one"), CONFIG)
    before = saver.store.metrics().events
    saver.copy_thread("t", "copy")
    assert saver.store.metrics().events - before < 5
    with pytest.raises(AlreadyExistsError):
        saver.copy_thread("t", "copy")
    with pytest.raises(NotFoundError):
        saver.copy_thread("none", "other")
    with pytest.raises(CallError):
        saver.prune(["t"], strategy="most")
    copied: Any = {"configurable": {"thread_id": "copy"}}
    graph.invoke(said("two"), copied)
    saver.delete_thread("t")
    texts = [one.content for one in graph.get_state(copied).values["messages"]]
    assert texts == ["one", "well", "two", "well"]


def test_encrypted_serializer_hides_the_messages(tmp_path: Path) -> None:
    """With an encrypting serializer no file has a message, and the view is empty."""

    class Reversed:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "reversed", plaintext[::-1]

        def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
            assert ciphername == "reversed"
            return ciphertext[::-1]

    engine = Engine("embedded", tmp_path)
    saver = EverdeltaSaver(engine.open(), serde=EncryptedSerializer(Reversed()))
    graph = graph_of(saver)
    graph.invoke(said("secret-question"), CONFIG)
    assert len(graph.get_state(CONFIG).values["messages"]) == 2
    assert ModelView.of(saver.session("t")).version > 0
    assert viewed(ModelView.of(saver.session("t"))) == []
    assert files_with(engine.path, "secret-question") == []
    engine.close()


@pytest.mark.promise(4)
@pytest.mark.parametrize("command", ["delete", "runs", "prune"])
def test_nothing_comes_between_a_removal(engine: Engine, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """While checkpoints are removed, no other worker puts one or copies the thread."""
    ours, other = EverdeltaSaver(engine.open()), EverdeltaSaver(engine.open(), wait=0)
    first = put(ours, [HumanMessage("go", id="h1")], run_id="one")
    put(ours, [HumanMessage("go", id="h1"), AIMessage("gone")], first, run_id="one")
    refused: list[str] = []

    def meanwhile(session: Any, _kin: Any = kin_of) -> Any:
        found = _kin(session)
        for late in (lambda: put(other, [HumanMessage("new")], run_id="two"), lambda: other.copy_thread("t", "copy")):
            with pytest.raises(LeaseHeldError):
                late()
            refused.append(command)
        return found

    monkeypatch.setattr(removal, "kin_of", meanwhile)
    if command == "delete":
        ours.delete_thread("t")
    elif command == "runs":
        ours.delete_for_runs(["one"])
    else:
        ours.prune(["t"])
    assert len(refused) == 2
    config = put(other, [HumanMessage("new")], run_id="two")
    assert other.get_tuple(config) is not None
    assert len(list(other.list(CONFIG))) == (2 if command == "prune" else 1)
