"""Store of LangGraph on a shelf, against the framework's own one in memory."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from eventlog import CallError
from eventlog.adapters.langgraph import EverdeltaStore
from eventlog.adapters.langgraph.item_store import PAGE
from eventlog.adapters.langgraph.items import decode, place_in
from eventlog.testing.file_search import files_with
from tests.support.engines import ENCRYPTED, ENGINES, Engine

LONG = "x" * 300
LABELS = st.sampled_from(["a", "b", "ab", "é", LONG])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES = st.lists(LABELS, max_size=2).map(tuple)
KEYS = st.sampled_from(["k", "k.k", "..", "a/b", LONG, f"{LONG}y"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
VALUES = st.dictionaries(st.sampled_from(["n", "m"]), JSON, max_size=2)
WANTED: st.SearchStrategy[Any] = JSON | st.dictionaries(st.sampled_from(["$eq", "$ne"]), JSON, min_size=1)
OPERATIONS = st.one_of(
    st.builds(PutOp, NAMESPACES, KEYS, st.none() | VALUES, st.none(), st.none()),
    st.builds(PutOp, NAMESPACES, KEYS, VALUES, st.none(), st.none()),
    st.builds(GetOp, NAMESPACES, KEYS, st.booleans()),
    st.builds(
        SearchOp,
        PREFIXES,
        st.none() | st.dictionaries(st.sampled_from(["n", "m"]), WANTED, max_size=1),
        st.just(100),
        st.just(0),
        st.none(),
        st.booleans(),
    ),
    st.builds(
        ListNamespacesOp,
        st.none()
        | st.lists(
            st.builds(
                MatchCondition,
                st.sampled_from(["prefix", "suffix"]),
                st.lists(LABELS | st.just("*"), min_size=1, max_size=2).map(tuple),
            ),
            max_size=2,
        ).map(tuple),
        st.none() | st.integers(1, 3),
        st.just(100),
        st.just(0),
    ),
)


def shown(result: Any) -> Any:
    """Return what two stores must agree on; items are found in any order, and times differ."""
    if isinstance(result, list):
        return sorted(map(shown, result), key=repr)  # pyright: ignore[reportUnknownArgumentType]
    if result is None or isinstance(result, tuple):
        return result  # pyright: ignore[reportUnknownVariableType]
    return result.namespace, result.key, result.value


@pytest.mark.parametrize("mode", [*ENGINES, ENCRYPTED])
def test_random_batches_agree_with_the_store_in_memory(mode: str) -> None:
    """Batches give what the store in memory gives, also to a store opened anew."""

    @settings(max_examples=60 if mode == "memory" else 10)
    @given(st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), min_size=1, max_size=6))
    def agree(batches: list[list[Any]]) -> None:
        engine = Engine(mode)
        try:
            ours, theirs = EverdeltaStore(engine.open()), InMemoryStore()
            for batch in batches:
                batch.sort(key=lambda op: not isinstance(op, ListNamespacesOp))
                for namespace in [one for one, items in theirs._data.items() if not items]:
                    del theirs._data[namespace]  # it lists namespaces that have no item any more
                assert list(map(shown, ours.batch(batch))) == list(map(shown, theirs.batch(batch)))
            again = EverdeltaStore(engine.open())
            every: list[Any] = [SearchOp((), None, 100)]
            assert list(map(shown, again.batch(every))) == list(map(shown, theirs.batch(every)))
        finally:
            engine.close()

    agree()


def test_namespaces_are_listed_as_by_the_store_in_memory(engine: Engine) -> None:
    """Prefixes, suffixes, wildcards, depths and pages give its namespaces, in its order."""
    ours, theirs = EverdeltaStore(engine.open()), InMemoryStore()
    names = ["users 1", "users 2", "users 2 notes", "users 2 notes old", "teams users 1", "teams notes", "notes"]
    stores: list[BaseStore] = [ours, theirs]
    for store in stores:
        assert store.list_namespaces() == []
        for name in names:
            store.put(tuple(name.split()), "k", {"name": name})
    asked: list[dict[str, Any]] = [
        {},
        {"prefix": ("users",)},
        {"prefix": ("users", "*")},
        {"prefix": ("*", "users")},
        {"suffix": ("notes",)},
        {"suffix": ("*", "notes")},
        {"prefix": ("teams",), "suffix": ("1",)},
        {"prefix": ("none",)},
        *({"max_depth": depth} for depth in (1, 2, 3)),
        *({"limit": 2, "offset": offset} for offset in (0, 2, 6, 9)),
        {"prefix": ("users",), "max_depth": 2, "limit": 1, "offset": 1},
    ]
    for one in asked:
        assert ours.list_namespaces(**one) == theirs.list_namespaces(**one), one
    for store in stores:
        store.batch([PutOp(("langgraph", "own"), "k", {})])  # which `put` refuses
        assert store.get(("langgraph", "own"), "k") is not None
        assert len(store.search(())) == len(names) + 1


def test_namespaces_with_many_items_hide_none(engine: Engine) -> None:
    """Behind a namespace of several pages come those below it, beside it, and with long keys."""
    ours, theirs = EverdeltaStore(engine.open()), InMemoryStore()
    namespaces = [
        "a",
        "a -",
        "a -b",
        "a /",
        "a b",
        "a b /",
        "a b c",
        "a b c d",
        "a-",
        "a/",
        "ab",
        "b",
        LONG,
        f"a {LONG}",
    ]
    puts = [
        PutOp(tuple(name.split()), key, {})
        for name in namespaces
        for key in [*(f"{number}" for number in range(PAGE + 1 if name in {"a", "a b", "ab"} else 2)), "." + LONG, "/"]
    ]
    stores: list[BaseStore] = [ours, theirs]
    for store in stores:
        store.batch(puts)
    asked: list[dict[str, Any]] = [
        {},
        *({"max_depth": depth} for depth in (1, 2, 3)),
        *({"prefix": prefix} for prefix in [("a",), ("a", "*", "c"), ("*", "b"), ("a", "b"), ("a", LONG), (LONG,)]),
        *({"suffix": suffix} for suffix in [("/",), ("b", "*"), (LONG,)]),
    ]
    for one in asked:
        assert ours.list_namespaces(**one) == theirs.list_namespaces(**one), one


def test_namespaces_with_lone_surrogates_are_found(engine: Engine) -> None:
    """They are searched and listed by their names, beside a namespace without."""
    store, odd = EverdeltaStore(engine.open()), "a\ud800"
    store.batch([PutOp(("a",), f"{number}", {}) for number in range(PAGE + 1)])
    store.batch([PutOp((odd,), "k", {}), PutOp((odd, "é"), "k", {}), PutOp((odd,), odd + LONG, {"long": 1})])
    assert [item.namespace for item in store.search((odd,))] == [(odd,), (odd,), (odd, "é")]
    assert store.search((odd,), filter={"long": 1})[0].key == odd + LONG
    assert store.list_namespaces(prefix=(odd,)) == [(odd,), (odd, "é")]
    assert store.list_namespaces(max_depth=1) == [("a",), (odd,)]


def test_a_list_of_namespaces_does_not_read_the_keys_of_each_item(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three namespaces of many items take a page for each, and one by its name reads no other."""
    store = EverdeltaStore(engine.open())
    store.batch([PutOp(("users", f"u{user}"), f"{number}", {}) for user in range(3) for number in range(5 * PAGE)])
    seen: list[str] = []

    def noted(name: str) -> Any:
        seen.append(name)
        return place_in(name)

    monkeypatch.setattr("eventlog.adapters.langgraph.item_store.place_in", noted)
    assert len(store.list_namespaces()) == 3
    assert len(seen) == 3 * PAGE
    seen.clear()
    assert store.list_namespaces(prefix=("users", "u1")) == [("users", "u1")]
    assert len(seen) == PAGE


NAMELESS: list[Any] = [(), ("",), ("a", ""), ("a.b",), ("a", "b.c"), ("langgraph",), ("langgraph", "a"), ("a", 1)]


@pytest.mark.parametrize("namespace", NAMELESS, ids=repr)
def test_what_is_no_namespace_is_refused(engine: Engine, namespace: Any) -> None:
    """A put with labels that are empty, reserved, no text or have a full stop stores nothing."""
    store = EverdeltaStore(engine.open())
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {})
    with pytest.raises(InvalidNamespaceError):
        asyncio.run(store.aput(namespace, "k", {}))
    assert store.search(()) == []


def test_pages_of_a_search_are_the_whole(engine: Engine) -> None:
    """Searches with offsets and limits give each item once, in the order of their keys."""
    store = EverdeltaStore(engine.open())
    for number in range(7):
        store.put(("docs", f"user{number % 2}"), f"{number}", {"n": number})
    pages = [store.search(("docs",), limit=3, offset=offset) for offset in (0, 3, 6)]
    assert [item.key for page in pages for item in page] == ["0", "2", "4", "6", "1", "3", "5"]
    assert [item.key for item in store.search(("docs",), filter={"n": {"$gt": 2, "$lte": 5}})] == ["4", "3", "5"]
    assert store.search(("docs",), filter={"n": {"$lt": "no number"}}) == []
    assert store.list_namespaces(prefix=("docs",), suffix=("*",), limit=1, offset=1) == [("docs", "user1")]


def test_items_end_after_their_time(engine: Engine) -> None:
    """An item whose time is over is in no answer; a read prolongs it, and a sweep removes it."""
    now = [1_000_000]
    store = EverdeltaStore(engine.open(clock=lambda: now[0]), ttl={"default_ttl": 2.0, "refresh_on_read": True})
    store.put(("a",), "short", {"n": 1})
    store.put(("a",), "long", {"n": 2}, ttl=10)
    store.put(("a",), "for good", {"n": 3}, ttl=None)
    now[0] += 90_000
    assert store.get(("a",), "short") is not None
    now[0] += 90_000
    assert store.get(("a",), "short", refresh_ttl=False) is not None
    now[0] += 60_000
    assert store.get(("a",), "short") is None
    assert [item.key for item in store.search(("a",))] == ["for good", "long"]
    store.put(("a", "over", LONG), "k", {}, ttl=1)
    store.put(("a", "over"), "k", {}, ttl=1)
    assert store.list_namespaces(max_depth=2) == [("a",), ("a", "over")]
    now[0] += 60_000
    assert store.list_namespaces() == [("a",)]
    assert store.sweep_ttl() == 3
    assert store.sweep_ttl() == 0
    now[0] += 600_000
    assert [item.key for item in store.search(("a",))] == ["for good"]


def test_reading_undoes_nothing_that_came_in_between(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that others delete or put while it is read, or swept, is left as they made it."""
    now = [1_000_000]
    store = EverdeltaStore(engine.open(clock=lambda: now[0]), ttl={"refresh_on_read": True})
    other = EverdeltaStore(store.store)
    changes: list[tuple[str, Any]] = []

    def decoded(data: bytes) -> Any:
        found = decode(data)
        while changes:
            key, value = changes.pop()
            other.batch([PutOp(("a",), key, value, ttl=None if value is None else 5)])
        return found

    monkeypatch.setattr("eventlog.adapters.langgraph.item_store.decode", decoded)
    for key in ("gone", "new"):
        store.put(("a",), key, {"n": 1}, ttl=1)
    changes.append(("gone", None))
    assert store.get(("a",), "gone") is not None
    assert store.get(("a",), "gone") is None
    changes.append(("new", {"n": 2}))
    assert [item.value for item in store.search(("a",))] == [{"n": 1}]
    store.put(("a",), "old", {"n": 1}, ttl=1)
    now[0] += 60_000
    changes.append(("old", {"n": 3}))
    assert store.sweep_ttl() == 0
    assert [item.value for item in store.search(("a",))] == [{"n": 2}, {"n": 3}]


def test_batch_is_stored_whole_or_not_at_all(engine: Engine) -> None:
    """A batch with a value that is no JSON is refused, and nothing of it is stored."""
    store = EverdeltaStore(engine.open())
    with pytest.raises(CallError):
        store.batch([PutOp(("a",), "good", {"n": 1}), PutOp(("a",), "bad", {"n": {1, 2}})])
    assert store.get(("a",), "good") is None
    store.put(("a",), "k", {"n": 1})
    with pytest.raises(CallError):
        store.search(("a",), filter={"n": {"$near": 1}})
    with pytest.raises(CallError):
        store.put(("a",), "k", {}, ttl=0)


async def test_times_of_an_item_are_those_of_its_puts(engine: Engine) -> None:
    """An item that is put again was made when it was put first, as asyncio sees it as well."""
    now = [1_000]
    store = EverdeltaStore(engine.open(clock=lambda: now[0]))
    await store.aput(("a",), "k", {"n": 1})
    now[0] = 5_000
    await store.aput(("a",), "k", {"n": 2})
    found = await store.aget(("a",), "k")
    assert found is not None
    assert (found.created_at.timestamp(), found.updated_at.timestamp(), found.value) == (1, 5, {"n": 2})
    await store.adelete(("a",), "k")
    assert await store.asearch(("a",)) == []


async def test_a_subclass_puts_and_deletes_in_asyncio_as_well(engine: Engine) -> None:
    """A subclass with a put and a delete of its own has them in asyncio, too."""
    seen: list[str] = []

    class Watching(EverdeltaStore):
        def put(self, namespace: tuple[str, ...], key: str, *args: Any, **kwargs: Any) -> None:
            seen.append(f"put {key}")
            super().put(namespace, key, *args, **kwargs)

        def delete(self, namespace: tuple[str, ...], key: str) -> None:
            seen.append(f"delete {key}")
            super().delete(namespace, key)

    store = Watching(engine.open())
    await store.aput(("a",), "k", {"n": 1})
    assert await store.aget(("a",), "k") is not None
    await store.adelete(("a",), "k")
    assert seen == ["put k", "delete k"]


@pytest.mark.parametrize("mode", ["embedded", ENCRYPTED])
def test_deleted_items_leave_no_byte(mode: str, tmp_path: Path) -> None:
    """After a scrub no file has what was deleted or replaced."""
    engine = Engine(mode, tmp_path)
    store = EverdeltaStore(engine.open())
    store.put(("a",), "k", {"text": "secret-small"})
    store.put(("a",), "big", {"text": "secret-big " * 3000})
    store.put(("a",), "k", {"text": "public"})
    store.delete(("a",), "big")
    store.store.scrub()
    for text in ("secret-small", "secret-big"):
        assert files_with(engine.path, text) == []
    found = store.get(("a",), "k")
    assert found is not None
    assert found.value == {"text": "public"}
    engine.close()


def test_a_sweeper_removes_what_is_over_until_it_is_stopped(engine: Engine) -> None:
    """Sweeps come at the interval of settings or call, until a stop, or the store closes."""
    opened = engine.open()
    store = EverdeltaStore(opened, ttl={"default_ttl": 0.0001, "sweep_interval_minutes": 60})
    assert store.stop_ttl_sweeper()
    assert not store.start_ttl_sweeper().done()
    assert store.stop_ttl_sweeper(20)
    ended = store.start_ttl_sweeper(0.0005)
    assert store.start_ttl_sweeper() is ended
    store.put(("a",), "k", {})
    shelf = opened.shelf("langgraph")
    until = time.monotonic() + 20
    while shelf.values.keys("") and time.monotonic() < until:
        time.sleep(0.01)
    assert not shelf.values.keys("")
    opened.close()
    ended.result(20)
    assert store.stop_ttl_sweeper(0)
