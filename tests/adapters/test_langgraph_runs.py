"""Runs taken out of a thread with a `DeltaChannel`, as if they had not been."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

import eventlog
from eventlog.adapters.langgraph import EverdeltaSaver, removal
from eventlog.testing.file_search import files_with
from projections import ModelView
from tests.adapters.langchain_lists import listed, viewed
from tests.support.engines import Engine

Run = tuple[str, list[Any]]
"""A run's id, and what its one step says."""
Durability = Literal["sync", "async", "exit"]
delta_channel: Any = DeltaChannel


def config_of(run: str = "", thread: str = "t") -> Any:
    """Return the config of a run."""
    return {"configurable": {"thread_id": thread}, "metadata": {"run_id": run} if run else {}}


def reduced(state: list[Any] | None, writes: Sequence[Any]) -> list[Any]:
    """Reduce messages as `add_messages` does; what is not there counts as removed."""
    messages: Any = list(state or [])
    for write in writes:
        known = {REMOVE_ALL_MESSAGES, *(one.id for one in messages)}
        messages = add_messages(messages, [one for one in write if one.type != "remove" or one.id in known])
    return list(messages)


def noted(notes: list[str] | None, new: Sequence[list[str]]) -> list[str]:
    """Reduce notes."""
    return [*(notes or ()), *chain(*new)]


def graph_on(saver: Any, *, every: int = 1000, whole: bool = False, noting: int = 1000) -> Any:
    """Return a graph whose step says what its input names."""
    delta: Any = delta_channel(reduced, snapshot_frequency=every)
    channel: Any = add_messages if whole else delta

    notes: Any = delta_channel(noted, snapshot_frequency=noting)
    fields: Any = {
        "messages": Annotated[list[AnyMessage], channel],
        "notes": Annotated[list[str], notes],
        "saying": list[Any],
    }

    def say(state: Any) -> Any:
        return {"messages": state["saying"], "saying": [], "notes": [f"note of {state['messages'][-1].content}"]}

    builder: Any = StateGraph(TypedDict("State", fields, total=False))  # type: ignore[operator]
    builder.add_node("say", say)
    builder.add_edge(START, "say")
    builder.add_edge("say", END)
    return builder.compile(checkpointer=saver)


def play(graph: Any, runs: Sequence[Run], durability: Durability = "sync", thread: str = "t") -> None:
    """Play runs, each with a question."""
    for run, said in runs:
        question = HumanMessage(f"question of {run}", id=f"q-{run}")
        graph.invoke({"messages": [question], "saying": said}, config_of(run, thread), durability=durability)


def plain(*names: str) -> list[Run]:
    """Return runs that answer their question."""
    return [(name, [AIMessage(f"answer of {name}", id=f"a-{name}")]) for name in names]


def texts(graph: Any, thread: str = "t") -> list[str]:
    """Return the messages that the model would see."""
    return [one.content for one in graph.get_state(config_of(thread=thread)).values.get("messages", [])]


def same_everywhere(saver: EverdeltaSaver, graph: Any, thread: str = "t") -> None:
    """Require that the view is the state at every checkpoint that is left."""
    for state in graph.get_state_history(config_of(thread=thread)):
        view = ModelView.of(saver.session(thread), at=saver.version(state.config))
        assert viewed(view) == listed(state.values.get("messages", []))
    state = graph.get_state(config_of(thread=thread))
    assert viewed(ModelView.of(saver.session(thread))) == listed(state.values.get("messages", []))


@pytest.mark.promise(4)
@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("every", [1, 1000])
@pytest.mark.parametrize("gone", [["a"], ["b", "c"], ["a", "c", "e"]])
def test_only_the_named_runs_go_from_state_and_view(
    engine: Engine, durability: Durability, every: int, gone: list[str]
) -> None:
    """Runs before, between and behind those that go stay, in state, view and on disk."""
    saver = EverdeltaSaver(engine.open())
    graph = graph_on(saver, every=every)
    play(graph, plain(*"abcde"), durability)
    told = [message.source for message in ModelView.of(saver.session("t")).messages]
    saver.delete_for_runs(gone)
    left = [name for name in "abcde" if name not in gone]
    assert texts(graph) == [f"{what} of {name}" for name in left for what in ("question", "answer")]
    assert graph.get_state(config_of()).values["notes"] == [f"note of question of {name}" for name in left]
    same_everywhere(saver, graph)
    assert {message.source for message in ModelView.of(saver.session("t")).messages} <= set(told)
    play(graph, plain("f"), durability)
    assert texts(graph)[-4:] == [f"{what} of {name}" for name in (left[-1], "f") for what in ("question", "answer")]
    same_everywhere(saver, graph)
    saver.prune(["t"])
    assert texts(graph) == [f"{what} of {name}" for name in [*left, "f"] for what in ("question", "answer")]
    engine.close()
    saver = EverdeltaSaver(engine.open())
    assert len(texts(graph_on(saver, every=every))) == 2 * len(left) + 2
    engine.close()


@pytest.mark.promise(4)
@pytest.mark.parametrize("way", ["sync", "exit", "pruned"])
def test_a_run_that_went_leaves_no_byte(way: str, tmp_path: Path) -> None:
    """After a scrub no file has a word of the run, its snapshot, or the writes before it."""
    saver = EverdeltaSaver(eventlog.open(tmp_path / "store"))
    graph = graph_on(saver, every=1, noting=1) if way == "pruned" else graph_on(saver)
    play(graph, plain(*"abc"), "exit" if way == "exit" else "sync")
    if way == "pruned":
        saver.prune(["t"])
        play(graph, plain("d"))
    kept, gone = ("ab", "cd") if way == "pruned" else ("a", "bc")
    saver.delete_for_runs([*gone])
    saver.store.scrub()
    assert texts(graph) == [f"{what} of {name}" for name in kept for what in ("question", "answer")]
    saver.store.close()
    assert files_with(tmp_path / "store", f"answer of {kept[-1]}")
    said = "answer of" if way == "pruned" else "of"
    assert [found for name in gone for found in files_with(tmp_path / "store", f"{said} {name}")] == []


@pytest.mark.promise(4)
def test_a_run_that_summed_up_is_undone_with_it() -> None:
    """Without a run there is again what it removed or changed."""
    saver = EverdeltaSaver(eventlog.open("memory:"))
    graph = graph_on(saver)
    summed = [RemoveMessage(id=REMOVE_ALL_MESSAGES), AIMessage("summary", id="s")]
    changed = [AIMessage("other answer", id="a-a"), RemoveMessage(id="q-a")]
    play(graph, [*plain("a"), ("b", summed), *plain("c"), ("d", changed), *plain("e")])
    assert texts(graph)[0] == "summary"
    saver.delete_for_runs(["b"])
    assert texts(graph)[:2] == ["other answer", "question of c"]
    same_everywhere(saver, graph)
    saver.delete_for_runs(["d"])
    assert texts(graph) == [f"{what} of {name}" for name in "ace" for what in ("question", "answer")]
    same_everywhere(saver, graph)


@pytest.mark.promise(4)
def test_a_copy_keeps_the_run() -> None:
    """A copy of the thread keeps what is removed from its source, and the other way round."""
    saver = EverdeltaSaver(eventlog.open("memory:"))
    graph = graph_on(saver, every=3)
    play(graph, plain(*"abc"))
    saver.copy_thread("t", "copy")
    play(graph, plain("d"))
    play(graph, plain("e"), thread="copy")
    ours = next(thread for id, thread in saver._threads.all(saver.serde) if id == "t")
    removal.remove_run(ours, "b", wait=1)
    assert texts(graph) == [f"{what} of {name}" for name in "acd" for what in ("question", "answer")]
    assert texts(graph, "copy") == [f"{what} of {name}" for name in "abce" for what in ("question", "answer")]
    same_everywhere(saver, graph)
    same_everywhere(saver, graph, "copy")


@pytest.mark.promise(4)
def test_a_whole_list_stays_whole() -> None:
    """A checkpoint that has a whole list keeps it, as with LangGraph's own savers."""
    saver = EverdeltaSaver(eventlog.open("memory:"))
    graph = graph_on(saver, whole=True)
    play(graph, plain(*"abc"))
    before = texts(graph)
    saver.delete_for_runs(["b"])
    assert texts(graph) == before
    same_everywhere(saver, graph)


@pytest.mark.promise(4)
@pytest.mark.parametrize("seed", range(60))
def test_what_is_left_is_as_if_the_runs_had_not_been(seed: int) -> None:
    """Random runs that say, change, remove and sum up, without some of them."""
    pick = random.Random(seed)
    runs: list[Run] = []
    for number in range(pick.randint(3, 7)):
        name = f"r{number}"
        said: list[Any] = [AIMessage(f"answer of {name}", id=f"a-{name}")]
        other = f"r{pick.randrange(number or 1)}"
        match pick.choice(["say", "say", "say", "change", "remove", "sum up"] if number else ["say"]):
            case "change":
                said.append(AIMessage(f"changed by {name}", id=f"a-{other}"))
            case "remove":
                said.append(RemoveMessage(id=f"a-{other}"))
            case "sum up":
                said.insert(0, RemoveMessage(id=REMOVE_ALL_MESSAGES))
            case _:
                pass
        runs.append((name, said))
    gone = pick.sample([name for name, _ in runs], pick.randint(1, len(runs) - 1))
    durability: Durability = pick.choice(["sync", "exit"])
    every = pick.choice([1, 2, 5, 1000])
    # a snapshot at the end of a run does not say where what it changed belongs
    order: Any = sorted if durability == "exit" and every < 1000 else list
    saver = EverdeltaSaver(eventlog.open("memory:"))
    graph = graph_on(saver, every=every)
    play(graph, runs, durability)
    saver.delete_for_runs(gone)
    left = [run for run in runs if run[0] not in gone]
    model = graph_on(InMemorySaver(), every=every)
    play(model, left, durability)
    assert order(texts(graph)) == order(texts(model))
    same_everywhere(saver, graph)
    play(graph, plain("last"), durability)
    play(model, plain("last"), durability)
    assert order(texts(graph)) == order(texts(model))
    same_everywhere(saver, graph)


@pytest.mark.promise(4)
@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize(("every", "noting"), [(1, 1), (2, 2), (3, 3), (5, 5), (4, 2), (2, 5), (1000, 3)])
@pytest.mark.parametrize("gone", [*"adeh", "gh", "efgh"])
def test_after_a_prune_only_the_named_runs_go(durability: Durability, every: int, noting: int, gone: str) -> None:
    """Messages before a run stay, also if a prune left only its snapshot of them."""
    saver = EverdeltaSaver(eventlog.open("memory:"))
    graph = graph_on(saver, every=every, noting=noting)
    play(graph, plain(*"abcd"), durability)
    saver.prune(["t"])
    play(graph, plain(*"efgh"), durability)
    saver.prune(["t"])
    there = {state.metadata["run_id"] for state in graph.get_state_history(config_of())}
    saver.delete_for_runs([*gone])
    left = [name for name in "abcdefgh" if name not in {*gone} & there]
    assert texts(graph) == [f"{what} of {name}" for name in left for what in ("question", "answer")]
    state = graph.get_state(config_of())
    assert state.next == ()
    notes = [note for note in state.values["notes"] if note[-1] in left]  # a snapshot of notes stays whole
    assert notes == [f"note of question of {name}" for name in left]
    assert viewed(ModelView.of(saver.session("t"))) == listed(graph.get_state(config_of()).values["messages"])
    assert not {*gone} & {state.metadata.get("run_id") for state in graph.get_state_history(config_of())}
    play(graph, plain("i"), durability)
    saver.prune(["t"])
    saver.delete_for_runs([*gone])
    assert texts(graph) == [f"{what} of {name}" for name in [*left, "i"] for what in ("question", "answer")]
    assert viewed(ModelView.of(saver.session("t"))) == listed(graph.get_state(config_of()).values["messages"])
