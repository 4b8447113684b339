"""Checkpoints of a thread, read and copied, and the interrupts that are open in one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory

from eventlog.adapters.langgraph.stored import Stored
from eventlog.adapters.langgraph.thread import Thread
from eventlog.errors import CallError, DamagedError
from eventlog.session.answering import AskedCall


class Place(NamedTuple):
    """The thread, the namespace and the checkpoint that a config names."""

    thread_id: Any
    ns: str
    id: str | None

    @property
    def thread(self) -> str:
        """The thread's id as a text."""
        return str(self.thread_id)


def named_checkpoint(config: RunnableConfig) -> Place:
    """Return what a config names."""
    found: dict[str, Any] = config.get("configurable") or {}
    if found.get("thread_id") is None:
        raise CallError("a config names its thread: {'configurable': {'thread_id': ...}}")
    return Place(found["thread_id"], found.get("checkpoint_ns") or "", found.get("checkpoint_id") or None)


def config_of(thread_id: Any, ns: str, id: str) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id}}


def tuple_of(thread: Thread, place: Place) -> CheckpointTuple | None:
    """Return a checkpoint, the newest by default; None if there is none."""
    while (stored := thread.stored(place.ns, place.id)) is not None:
        try:
            return _tuple(thread, place.thread_id, stored)
        except DamagedError:
            if thread.revision(place.ns, stored.id):
                raise
    return None  # it was deleted meanwhile


def matching(
    thread: Thread, thread_id: Any, *, ns: str | None, only: str | None, before: str | None, filter: Mapping[str, Any]
) -> Iterator[CheckpointTuple]:
    """Yield the checkpoints of a thread, newest first."""
    spaces = thread.spaces() if ns is None else [ns]
    ids = sorted(((id, space) for space in spaces for id in thread.ids(space)), reverse=True)
    for id, space in ids:
        if (only and id != only) or (before and id >= before):
            continue
        stored = thread.stored(space, id)
        if stored is None:
            continue
        metadata = thread.serde.loads_typed(stored.metadata)
        if all(metadata.get(name) == value for name, value in filter.items()):
            found = tuple_of(thread, Place(thread_id, space, id))
            if found is not None:
                yield found


def delta_history(thread: Thread | None, place: Place, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
    """Return what was written to channels on the way to a checkpoint, since a stored value."""
    history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
    target = None if thread is None or not channels else thread.stored(place.ns, place.id)
    if thread is None or target is None:
        return history
    waiting, walked = set(channels), {target.id}
    after = target
    while waiting:
        stored, writes = thread.before(after)
        if stored is not None and stored.id in walked:
            break
        for write in reversed(writes):
            if write.channel in waiting:
                value = thread.serde.loads_typed(write.value)
                history[write.channel]["writes"].append((write.task, write.channel, value))
        if stored is None:
            break
        after = stored
        walked.add(stored.id)
        for channel in [channel for channel in waiting if stored.has(channel)]:
            history[channel]["seed"] = thread.channel(stored, channel)
            waiting.discard(channel)
    for found in history.values():
        found["writes"].reverse()
    return history


def _tuple(thread: Thread, thread_id: Any, stored: Stored) -> CheckpointTuple:
    loads = thread.serde.loads_typed
    checkpoint = loads(stored.checkpoint)
    checkpoint["channel_values"] = {name: thread.channel(stored, name) for name in stored.channels()}
    parent = None if stored.parent is None else config_of(thread_id, stored.ns, stored.parent)
    writes = [(one.task, one.channel, loads(one.value)) for one in thread.writes(stored.ns, stored.id)]
    return CheckpointTuple(
        config_of(thread_id, stored.ns, stored.id), checkpoint, loads(stored.metadata), parent, writes
    )


INTERRUPT, RESUME = "__interrupt__", "__resume__"
"""Channels of what a task asked, and of the answer."""


def open_interrupts(found: CheckpointTuple) -> Iterator[AskedCall]:
    """Yield what the tasks of a checkpoint wait for.

    `message` is the checkpoint, `part` the task, `call` the id of the interrupt, as `Command` takes
    it. A value with `action_requests`, as middleware for approvals makes, is a call for each.
    """
    writes = found.pending_writes or []
    answered = {task for task, channel, _ in writes if channel == RESUME}
    time = int(datetime.fromisoformat(found.checkpoint["ts"]).timestamp() * 1_000)
    for task, channel, value in writes:
        if channel != INTERRUPT or task in answered:
            continue
        for each in _each(value):
            for tool, arguments, reason in _requests(getattr(each, "value", None)):
                name = str(getattr(each, "id", ""))
                yield AskedCall(found.checkpoint["id"], name, task, tool, arguments, reason, time)


def _each(value: Any) -> Iterator[Any]:
    """Yield the interrupts of a task's write."""
    if isinstance(value, (list, tuple)):
        yield from value  # pyright: ignore[reportUnknownVariableType]
    else:
        yield value


def _requests(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield tool, arguments and reason of what an interrupt asks for."""
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    requests: Any = fields.get("action_requests")
    if not isinstance(requests, list):
        yield "interrupt", json.dumps(value, ensure_ascii=False, default=str), ""
        return
    for request in _each(requests):
        asked = cast("dict[str, Any]", request) if isinstance(request, dict) else {}
        arguments = json.dumps(asked.get("args", {}), ensure_ascii=False, default=str)
        yield str(asked.get("name", "")), arguments, str(asked.get("description", ""))


def place_in_time(one: CheckpointTuple) -> tuple[str, str, RunnableConfig]:
    """Return what orders checkpoints as they were made, parents first, and the config of one."""
    return one.checkpoint["id"], named_checkpoint(one.config).ns, one.config


def take_in(thread: Thread, found: CheckpointTuple, wait: float) -> None:
    """Store a checkpoint and the writes of its tasks, unless they are here."""
    place, checkpoint = named_checkpoint(found.config), found.checkpoint
    id = checkpoint["id"]
    if not thread.has(place.ns, id):
        parent = None if found.parent_config is None else named_checkpoint(found.parent_config).id
        new = checkpoint["channel_versions"]
        thread.put(place.ns, parent, checkpoint, found.metadata, new=new, wait=wait, is_copy=True)
    tasks: dict[str, list[tuple[str, object]]] = {}
    for task, channel, value in found.pending_writes or ():
        tasks.setdefault(task, []).append((channel, value))
    for number, (task, writes) in enumerate(tasks.items()):
        thread.put_writes(place.ns, id, writes, task, f"{number:08}", run="", wait=wait)
