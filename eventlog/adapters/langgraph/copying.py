"""Checkpoints of another checkpointer, copied into a thread."""

from __future__ import annotations

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from eventlog.adapters.langgraph.reading import named_checkpoint
from eventlog.adapters.langgraph.thread import Thread

__all__ = ["place_in_time", "take_in"]


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
