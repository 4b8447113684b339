"""Checkpointer of LangGraph: a thread is a session, its messages are its records.

A checkpoint is one append, with the messages that are new in it; what is branched, removed or
summarised is a rollback, so the view of the session is the list of messages that LangGraph has.
Channels other than the root namespace's messages, and namespaces of subgraphs, are opaque values.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from eventlog.adapters.langgraph import removal
from eventlog.adapters.langgraph.reading import (
    config_of,
    delta_history,
    matching,
    named_checkpoint,
    open_interrupts,
    place_in_time,
    take_in,
    tuple_of,
)
from eventlog.adapters.langgraph.stored import root_of, run_in
from eventlog.adapters.langgraph.thread import Thread
from eventlog.adapters.langgraph.threads import FORMAT, Threads
from eventlog.adapters.name_keys import key_of_id
from eventlog.adapters.settled import patience, patient, settled
from eventlog.adapters.unshared import fork
from eventlog.errors import ArgumentValueError, CallError, ErasedError, NotFoundError
from eventlog.errors.base import brief
from eventlog.session.answering import AskedCall
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.validation import each

T = TypeVar("T")

DURABILITY = "__pregel_durability"
"""Where a run's config says when it stores checkpoints; of others it is not known."""


def _each_once(thread_ids: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each(thread_ids, "thread ids are a list of ids")))


class MissingYetError(NotFoundError):
    """A checkpoint that a write comes of has not come yet."""


class EverdeltaSaver(BaseCheckpointSaver[Any]):
    """A durable checkpointer: pass it to `compile(checkpointer=)`.

    The first checkpoint of a thread begins the session of the name `("langgraph", thread_id)`.
    `wait` is how many seconds a write waits for another owner or task to give back the session's
    lease. With an `EncryptedSerializer` messages are opaque, and views are empty.
    """

    def __init__(
        self, store: Store, *, serde: SerializerProtocol | None = None, scope: str = "", wait: float = 30.0
    ) -> None:
        super().__init__(serde=serde)
        self.store = store
        self.wait = wait
        self._threads = Threads(store, scope)

    def session(self, thread_id: str) -> Session:
        """Return the session of a thread, for views and leases; `NotFoundError` without one."""
        return self.store.open_session((FORMAT, key_of_id(str(thread_id))), create=False)

    def asked_calls(self, thread_id: str) -> list[AskedCall]:
        """Return the interrupts that a thread waits for; `Command(resume=…)` answers for them.

        Each names its checkpoint (`message`), task (`part`) and interrupt (`call`).
        """
        found = self.get_tuple({"configurable": {"thread_id": str(thread_id), "checkpoint_ns": ""}})
        return [] if found is None else [*open_interrupts(found)]

    async def aasked_calls(self, thread_id: str) -> list[AskedCall]:
        """See `asked_calls`."""
        return await settled(self.asked_calls, thread_id)

    def version(self, config: RunnableConfig) -> int:
        """Return the version of the session at which the view is that of a checkpoint."""
        place = named_checkpoint(config)
        thread = self._threads.find(place.thread, self.serde)
        stored = None if thread is None else thread.stored(place.ns, place.id)
        if thread is None or stored is None:
            raise NotFoundError("checkpoint", place.id or "newest")
        return thread.revision(place.ns, stored.id)

    # -- reading -------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, the newest one by default; None if there is none."""
        place = named_checkpoint(config)
        thread = self._threads.find(place.thread, self.serde)
        return None if thread is None else tuple_of(thread, place)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, or of all threads, newest first."""
        if config is None:
            threads: Iterator[tuple[Any, Thread]] = self._threads.all(self.serde)
            ns = only = None
        else:
            id, _, only = named_checkpoint(config)
            ns = config.get("configurable", {}).get("checkpoint_ns")
            thread = self._threads.find(str(id), self.serde)
            threads = iter([] if thread is None else [(id, thread)])
        bound = None if before is None else get_checkpoint_id(before)
        for thread_id, one in threads:
            for found in matching(one, thread_id, ns=ns, only=only, before=bound, filter=filter or {}):
                if limit is not None:
                    if limit <= 0:
                        return
                    limit -= 1
                yield found

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what was written to channels on the way to a checkpoint, since a stored value."""
        place = named_checkpoint(config)
        return delta_history(self._threads.find(place.thread, self.serde), place, channels)

    # -- writing -------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint in one append; durable when this returns."""
        place = named_checkpoint(config)
        for pause in self._threads.patience(place.thread):
            if self._may_come(config, metadata):
                with self._threads.putting(place.thread):
                    return self._put(config, checkpoint, metadata, new_versions)
            time.sleep(pause)
        raise MissingYetError("checkpoint", root_of(metadata))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote to a checkpoint; `NotFoundError` if there is none."""
        for pause in self._threads.patience(named_checkpoint(config).thread):
            if self._put_writes(config, writes, task_id, task_path):
                return
            time.sleep(pause)
        raise MissingYetError("checkpoint", str(get_checkpoint_id(config)))

    def delete_thread(self, thread_id: str) -> None:
        """Erase a thread; a write that comes later is refused."""
        if (thread := self._threads.find(str(thread_id), self.serde)) is not None:
            removal.erase(thread, wait=patience(self.wait))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of runs, in all threads."""
        runs = dict.fromkeys(each(run_ids, "run ids are a list of str"))
        for run in runs:
            for _, thread in self._threads.all(self.serde):
                removal.remove_run(thread, run, wait=patience(self.wait))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all but the newest checkpoint of each namespace, or with "delete" all."""
        ids = dict.fromkeys(each(thread_ids, "thread ids are a list of ids"))
        if strategy not in ("keep_latest", "delete"):
            raise ArgumentValueError(f"a strategy is keep_latest or delete, not {brief(strategy)}")
        for id in ids:
            if strategy == "delete":
                self.delete_thread(id)
            elif (thread := self._threads.find(str(id), self.serde)) is not None:
                removal.keep_latest(thread, wait=patience(self.wait))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Fork a thread, which costs the same however long it is; the target has none yet."""
        source, name = self.session(source_thread_id), (FORMAT, key_of_id(str(target_thread_id)))
        fork(source, partial(source.fork, name=name), wait=patience(self.wait))

    def copy_from(self, source: BaseCheckpointSaver[Any], thread_ids: Sequence[str] | None = None) -> tuple[str, ...]:
        """Copy threads of another checkpointer, by default all; return their ids.

        `source` is left as it is, `thread_ids` are the ids of its threads. Checkpoints that are
        here stay, so a copy that broke off goes on when it is repeated.
        """
        ids = _each_once(
            [named_checkpoint(one.config).thread_id for one in source.list(None)] if thread_ids is None else thread_ids
        )
        for id in ids:
            found = sorted(map(place_in_time, source.list({"configurable": {"thread_id": id}})), key=itemgetter(0, 1))
            for _, _, config in found:
                self._take_in(id, source.get_tuple(config))
        return ids

    async def acopy_from(
        self, source: BaseCheckpointSaver[Any], thread_ids: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """Copy threads of a checkpointer for asyncio: see `copy_from`."""
        listed = source.alist(None)
        ids = _each_once(
            [named_checkpoint(one.config).thread_id async for one in listed] if thread_ids is None else thread_ids
        )
        for id in ids:
            found = [place_in_time(one) async for one in source.alist({"configurable": {"thread_id": id}})]
            for _, _, config in sorted(found, key=itemgetter(0, 1)):
                await self._patient(partial(self._take_in, id, await source.aget_tuple(config)))
        return ids

    def _take_in(self, id: str, found: CheckpointTuple | None) -> None:
        if found is not None:  # else it was removed meanwhile
            take_in(self._threads.begin(str(id), self.serde), found, patience(self.wait))

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the next version of a channel; of threads of other checkpointers a text."""
        del channel
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.{random.random():016}"
        return 1 if current is None else current + 1

    def _may_come(self, config: RunnableConfig, metadata: CheckpointMetadata) -> bool:
        """Whether the root graph's checkpoint is there, which the first one of a subgraph needs.

        A run that stores its checkpoints at its end stores that one last.
        """
        place, root = named_checkpoint(config), root_of(metadata)
        if not place.ns or place.id is not None:
            return True
        thread = self._threads.find(place.thread, self.serde)
        if thread is not None and (not root or thread.has("", root)):
            return True
        if isinstance(error := self._threads.missing(place.thread, root), ErasedError):
            raise error
        return bool(config.get("configurable", {}).get(DURABILITY, "exit") == "exit")

    def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new: ChannelVersions
    ) -> RunnableConfig:
        id, place = checkpoint["id"], named_checkpoint(config)
        thread = self._threads.find(place.thread, self.serde)
        if thread is None and place.id is not None:
            raise self._threads.missing(place.thread, place.id)
        thread = thread or self._threads.begin(place.thread, self.serde)
        described = get_checkpoint_metadata(config, metadata)
        try:
            thread.put(place.ns, place.id, checkpoint, described, new=new, wait=patience(self.wait))
        except NotFoundError as error:
            now = None if place.ns else self._threads.find(place.thread, self.serde)
            if now is not None:
                removal.remove_inner(now, id, wait=patience(self.wait))
            if place.id is None or isinstance(error, ErasedError):
                raise
            raise self._threads.missing(place.thread, place.id) from None
        return config_of(place.thread_id, place.ns, id)

    def _put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str) -> bool:
        place = named_checkpoint(config)
        if place.id is None:
            raise CallError("what a task wrote belongs to a checkpoint: the config names none")
        thread = self._threads.find(place.thread, self.serde)
        if thread is not None:
            run = run_in(get_checkpoint_metadata(config, {}))
            if thread.put_writes(place.ns, place.id, writes, task, path, run=run, wait=patience(self.wait)):
                return True
        if isinstance(error := self._threads.missing(place.thread, place.id), ErasedError):
            raise error
        return False

    # -- for asyncio ---------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await settled(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await settled(next, found, None)) is not None:
            yield one

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `get_delta_channel_history`."""
        return await settled(self.get_delta_channel_history, config=config, channels=channels)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `put`; a cancelled caller hears of it once it is known whether it is stored.

        The wait for a lease is the caller's, so a cancelled one ends at once.
        """
        return await self._written(config, partial(self.put, config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `put_writes`."""
        await self._written(config, partial(self.put_writes, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """See `delete_thread`."""
        await self._patient(partial(self.delete_thread, thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `delete_for_runs`."""
        await self._patient(partial(self.delete_for_runs, run_ids))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `prune`."""
        await self._patient(partial(self.prune, thread_ids, strategy=strategy))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `copy_thread`."""
        await self._patient(partial(self.copy_thread, source_thread_id, target_thread_id))

    async def _written(self, config: RunnableConfig, write: Callable[[], T]) -> T:
        """Run a write in a thread; this task waits for the lease, and for what it comes of."""
        id = named_checkpoint(config).thread
        missing: MissingYetError | None = None
        for pause in self._threads.patience(id):
            try:
                return await patient(self.store, write, self.wait, meanwhile=self._threads.putting(id))
            except MissingYetError as error:
                missing = error
            await asyncio.sleep(pause)
        assert missing is not None
        raise missing

    async def _patient(self, command: Callable[[], T]) -> T:
        """Run a command in a thread; this task waits for the lease."""
        return await patient(self.store, command, self.wait)
