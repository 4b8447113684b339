"""Random programs of LangGraph, run on two savers at once."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Annotated, Any, TypedDict

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import EmptyInputError
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Send, interrupt

from eventlog.adapters.langgraph import EverdeltaSaver
from projections import ModelView
from tests.adapters.langchain_lists import listed, viewed

STEPS = (
    "answer",
    "call",
    "parallel",
    "thinks",
    "summary",
    "remove",
    "edit",
    "mutate",
    "ask",
    "inner",
    "files",
    "twice",
)
TURNS = st.lists(st.sampled_from(STEPS), max_size=4)
PICKS = st.integers(0, 40)
PROGRAMS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "turn",
                "turn",
                "turn",
                "resume",
                "branch",
                "replay",
                "update",
                "update at",
                "copy",
                "prune",
                "delete",
                "reopen",
            ]
        ),
        TURNS,
        PICKS,
    ),
    min_size=1,
    max_size=8,
)


def joined(state: list[Any] | None, writes: Sequence[Any]) -> list[Any]:
    """Reduce what was written to a `DeltaChannel` of messages, as `add_messages` does."""
    messages: Any = list(state or [])
    for write in writes:
        messages = add_messages(messages, write)
    return list(messages)


class Tee(BaseCheckpointSaver[Any]):
    """A saver whose commands go to two others, which must give equal answers."""

    def __init__(self, ours: EverdeltaSaver, theirs: InMemorySaver) -> None:
        super().__init__()
        self.ours = ours
        self.theirs = theirs

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """Return what both have."""
        ours, theirs = self.ours.get_tuple(config), self.theirs.get_tuple(config)
        same(ours, theirs)
        return ours

    def list(self, config: Any, **options: Any) -> Iterator[CheckpointTuple]:
        """Return what both list."""
        ours, theirs = list(self.ours.list(config, **options)), list(self.theirs.list(config, **options))
        theirs.sort(key=lambda one: one.checkpoint["id"], reverse=True)
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
        return iter(ours)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Put a checkpoint into both, as it is now: the program goes on and may change it."""
        checkpoint = self._frozen(checkpoint)
        ours = self.ours.put(config, checkpoint, metadata, new_versions)
        assert ours == self.theirs.put(config, checkpoint, metadata, new_versions)
        return ours

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        """Put writes into both, as they are now."""
        writes = [(channel, self._frozen(value)) for channel, value in writes]
        self.ours.put_writes(config, writes, task_id, task_path)
        self.theirs.put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread in both."""
        self.ours.delete_thread(thread_id)
        self.theirs.delete_thread(thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread in both; the one in memory knows no such command."""
        self.ours.copy_thread(source_thread_id, target_thread_id)
        source, target = source_thread_id, target_thread_id
        self.theirs.storage[target] = copy.deepcopy(self.theirs.storage[source])
        tables: list[Any] = [self.theirs.writes, self.theirs.blobs]
        for table in tables:
            found = {(target, *key[1:]): copy.copy(row) for key, row in table.items() if key[0] == source}
            table.update(found)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Prune ours; the newest stay, and what else stays is as it was."""
        self.ours.prune(thread_ids, strategy=strategy)
        for id in thread_ids:
            kept = {one.checkpoint["id"] for one in self.ours.list({"configurable": {"thread_id": id}})}
            for found in self.theirs.storage[id].values():
                assert not found or max(found) in kept
                for gone in found.keys() - kept:
                    del found[gone]

    def get_delta_channel_history(self, *, config: Any, channels: Any) -> Any:
        """Return the history that both have."""
        ours = self.ours.get_delta_channel_history(config=config, channels=channels)
        theirs = self.theirs.get_delta_channel_history(config=config, channels=channels)
        assert ours == theirs
        return ours

    def _frozen(self, value: Any) -> Any:
        return self.serde.loads_typed(self.serde.dumps_typed(value))

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return a version that is unique among branches, which the one in memory needs."""
        return self.theirs.get_next_version(current, channel)


def same(ours: CheckpointTuple | None, theirs: CheckpointTuple | None) -> None:
    """Both savers have the same checkpoint."""
    assert (ours is None) == (theirs is None)
    if ours is None or theirs is None:
        return
    assert ours.checkpoint == theirs.checkpoint
    assert ours.metadata == theirs.metadata
    assert ours.parent_config == theirs.parent_config
    assert ours.pending_writes == theirs.pending_writes
    config: Any = ours.config
    assert config["configurable"]["checkpoint_id"] == theirs.checkpoint["id"]


def _think(state: Any) -> Any:
    del state
    return {"messages": [AIMessage("inside")], "notes": ["inner"]}


class Program:
    """A graph of an agent whose model does what a script says, and the threads it runs on."""

    def __init__(self, saver: BaseCheckpointSaver[Any], ours: EverdeltaSaver, *, delta: bool = False) -> None:
        self.saver = saver
        self.ours = ours
        self.script: list[str] = []
        self._numbers = count(1)
        self.channel: Any = DeltaChannel(joined, snapshot_frequency=3) if delta else add_messages
        self.graph = self._compiled(self.channel)

    def _compiled(self, channel: Any) -> Any:
        state: Any = TypedDict(
            "state",
            {"messages": Annotated[list[AnyMessage], channel], "notes": Annotated[list[str], operator.add]},
        )
        inner: Any = StateGraph(state)
        inner.add_node("think", _think)
        inner.add_edge(START, "think")
        graph: Any = StateGraph(state)
        graph.add_node("model", self._model)
        graph.add_node("tool", self._tool)
        graph.add_node("tools", self._tools)
        within = inner.compile(checkpointer=True)

        def run_inner(state: Any) -> Any:
            found = within.invoke({"messages": state["messages"][-1:], "notes": []})
            return {"notes": found["notes"][:1]}

        graph.add_node("inner", run_inner)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", self._next, ["tools", "tool", "inner", "model", END])
        graph.add_edge("tools", "model")
        graph.add_edge("tool", "model")
        graph.add_edge("inner", "model")
        return graph.compile(checkpointer=self.saver)

    # -- nodes ---------------------------------------------------------------------------------

    def _model(self, state: Any) -> Any:
        messages = state["messages"]
        step = self.script[0] if self.script else "answer"
        number = next(self._numbers)
        text = f"{step} {number} é"
        if step == "ask":
            answer = interrupt("may I?")
            self.script = self.script[1:]
            return {"messages": [AIMessage(f"{text} {answer}", id=f"m{number}")]}
        self.script = self.script[1:]
        calls = [
            {"name": "look", "args": {"at": text}, "id": f"c{number}a", "type": "tool_call"},
            {"name": "find", "args": {"n": number}, "id": f"c{number}b", "type": "tool_call"},
        ]
        usage: Any = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
        match step:
            case "call":
                return {"messages": [AIMessage(text, tool_calls=calls, id=f"m{number}", usage_metadata=usage)]}
            case "parallel":
                return {"messages": [AIMessage("", tool_calls=calls, id=f"m{number}")], "notes": [text]}
            case "thinks":
                content: list[Any] = [{"type": "reasoning", "reasoning": text}, {"type": "text", "text": "so"}]
                return {"messages": [AIMessage(content, response_metadata={"model_name": "m"})]}
            case "summary":
                kept = messages[-2:]
                return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), SystemMessage(text), *kept]}
            case "remove":
                gone = messages[number % len(messages)] if messages else None
                return {"messages": [RemoveMessage(gone.id)] if gone is not None else [], "notes": [text]}
            case "edit":
                return {"messages": [one.model_copy(update={"content": text}) for one in messages[-1:]]}
            case "mutate":
                for message in messages[:1]:
                    message.additional_kwargs["seen"] = number
                return {"messages": [AIMessage(text)]}
            case "files":
                image = {"type": "image_url", "image_url": {"url": f"http://x/{number}.png"}}
                return {"messages": [HumanMessage([{"type": "text", "text": text}, image])]}
            case "inner":
                return {"notes": [text]}
            case "twice":
                results = [ToolMessage(f"{one} {text}", tool_call_id=f"c{number}b") for one in ("one", "two")]
                return {"messages": [AIMessage("", tool_calls=calls[1:], id=f"m{number}"), *results]}
            case _:
                return {"messages": [AIMessage(text, id=f"m{number}", usage_metadata=usage)]}

    def _next(self, state: Any) -> Any:
        last = state["messages"][-1] if state["messages"] else None
        if isinstance(last, AIMessage) and last.tool_calls:
            if last.content:
                return "tools"
            return [Send("tool", {"call": call}) for call in last.tool_calls]
        if self.script and self.script[0] == "inner":
            return "inner"
        return "model" if self.script else END

    def _tool(self, state: Any) -> Any:
        call = state["call"]
        return {"messages": [ToolMessage(f"did {call['id']}", tool_call_id=call["id"])], "notes": [call["id"]]}

    def _tools(self, state: Any) -> Any:
        results = [
            ToolMessage(f"found {call['id']}", tool_call_id=call["id"], artifact=(1, call["id"]))
            for call in reversed(state["messages"][-1].tool_calls)
        ]
        return {"messages": results}

    # -- commands ------------------------------------------------------------------------------

    def run(self, command: str, script: list[str], pick: int, thread: str = "t") -> None:
        """Run a command on a thread."""
        config: Any = {"configurable": {"thread_id": thread}}
        self.script = copy.copy(script)
        said = {"messages": [HumanMessage(f"asked {next(self._numbers)}")], "notes": []}
        history = list(self.graph.get_state_history(config)) if command not in {"turn", "resume"} else []
        at = history[pick % len(history)].config if history else config
        if command == "delete":
            self.saver.delete_thread(thread)
        elif command == "copy" and history:
            target = "copy" if thread == "t" else "t"
            self.saver.delete_thread(target)  # a copy is the beginning of a thread
            self.saver.copy_thread(thread, target)
        elif command == "prune" and history:
            before = self.graph.get_state(config).values
            self.saver.prune([thread])
            assert self.graph.get_state(config).values == before
        elif command == "turn":
            self.graph.invoke(said, config, durability=("sync", "async", "exit")[pick % 3])
        elif command == "resume":
            self.graph.invoke(Command(resume="yes") if self.graph.get_state(config).next else said, config)
        elif command == "branch":
            self.graph.invoke(said, at)
        elif command == "replay" and history:
            with suppress(EmptyInputError):  # nothing was said before that checkpoint
                self.graph.invoke(None, at)
        elif command in {"update", "update at"}:
            target = config if command == "update" else at
            messages: list[Any] = self.graph.get_state(target).values.get("messages") or []
            changes: list[Any] = [HumanMessage(f"told {pick}")]
            if messages and pick % 2:
                changes = [RemoveMessage(messages[pick % len(messages)].id)]
            elif messages and pick % 3:
                changes = [messages[-1].model_copy(update={"content": f"changed {pick}"})]
            self.graph.update_state(target, {"messages": changes}, as_node="model")

    def check(self) -> None:
        """At every checkpoint of every thread the view is the list."""
        for thread in ("t", "copy"):
            config: Any = {"configurable": {"thread_id": thread}}
            for state in self.graph.get_state_history(config):
                view = ModelView.of(self.ours.session(thread), at=self.ours.version(state.config))
                assert viewed(view) == listed(state.values.get("messages") or [])
            newest = self.graph.get_state(config)
            if newest.config["configurable"].get("checkpoint_id"):
                assert viewed(ModelView.of(self.ours.session(thread))) == listed(newest.values.get("messages") or [])
