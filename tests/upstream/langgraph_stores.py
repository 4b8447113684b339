"""Plugin of pytest that puts this store's classes in place of LangGraph's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any, Self

import langgraph.checkpoint.memory
import langgraph.store.memory

import eventlog
from eventlog.adapters.langgraph import EverdeltaSaver, EverdeltaStore


class Saver(EverdeltaSaver):
    """The checkpointer, made as `InMemorySaver` is."""

    def __init__(self, *, serde: Any = None, factory: object = None) -> None:
        del factory  # of dicts
        super().__init__(eventlog.open("memory:"), serde=serde)
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stack.close()


class ItemStore(EverdeltaStore):
    """The store of items, made as `InMemoryStore` is."""

    def __init__(self, *, index: Any = None) -> None:
        super().__init__(eventlog.open("memory:"), index=index)


@contextmanager
def opened(_place: str) -> Generator[EverdeltaSaver]:
    """Open a checkpointer in a directory, as `SqliteSaver` is opened."""
    with TemporaryDirectory() as directory, eventlog.open(directory) as store:
        yield EverdeltaSaver(store)


@asynccontextmanager
async def opened_async(place: str) -> AsyncGenerator[EverdeltaSaver]:
    """See `opened`."""
    with opened(place) as saver:
        yield saver


for name, made in {"InMemorySaver": Saver, "MemorySaver": Saver}.items():
    setattr(langgraph.checkpoint.memory, name, made)
langgraph.store.memory.InMemoryStore = ItemStore  # type: ignore[misc, assignment]
import_module("langgraph.checkpoint.sqlite.aio")
SQLITE: Any = import_module("langgraph.checkpoint.sqlite")
SQLITE.SqliteSaver.from_conn_string = opened
SQLITE.aio.AsyncSqliteSaver.from_conn_string = opened_async
