"""Store of LangGraph: the long-term memory that agents share, on a shelf.

The puts and deletions of a batch are one append. A read that prolongs an item, and a sweep, leave
it alone where another writer has put or deleted it since it was read. What was replaced is
removed from the files by the next `Store.scrub`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from eventlog.adapters.langgraph.items import (
    MINUTES,
    Kept,
    Place,
    TtlSweeper,
    decode,
    encode,
    end_of,
    is_found,
    key_in,
    matches,
    name_of,
    place_in,
    prefix_of,
    time_of,
)
from eventlog.adapters.langgraph.stored import bytes_of
from eventlog.adapters.odd_values import told, value_of
from eventlog.adapters.settled import settled
from eventlog.errors import ArgumentTypeError, ArgumentValueError, CallError, ConflictError, ErasedError
from eventlog.errors.base import brief
from eventlog.records.json_value import parsed
from eventlog.session.shelf import Shelf
from eventlog.store import Store
from eventlog.validation import each

MINUTE = 60_000
"""Milliseconds."""
PAGE = 64
"""Keys that a list of namespaces reads at once."""
LONGEST_TTL = 1_000_000_000
"""Minutes."""


class _Found(NamedTuple):
    """An item as it was read."""

    place: Place
    kept: Kept
    revision: int


class EverdeltaStore(BaseStore):
    """Items under namespaces: pass it to `compile(store=)`.

    Values are JSON objects. Items lie on the shelf of a name. `ttl` says how many minutes they are
    kept by default, and whether reading them counts; `sweep_ttl` removes those whose time is over,
    and `start_ttl_sweeper` does so again and again.
    There is no search by meaning: an `index` and a query are refused.
    """

    supports_ttl = True

    def __init__(
        self, store: Store, *, shelf: str = "langgraph", ttl: TTLConfig | None = None, index: None = None
    ) -> None:
        _require_no_index(index)
        known = TTLConfig.__annotations__
        if unknown := [name for name in ttl or {} if name not in known]:
            raise ArgumentTypeError(f"a ttl has the settings {', '.join(known)}, not {brief(unknown[0])}")
        self.store = store
        self.ttl_config = ttl
        self._name = shelf
        self._shelf: Shelf | None = None
        self._sweeper: TtlSweeper | None = None

    def _opened(self) -> Shelf:
        """Return the shelf, which stays open between calls; a new one if it was dropped."""
        with suppress(ErasedError):
            if self._shelf is not None:
                self.store.registry.get(self._shelf.id)
                return self._shelf
        self._shelf = shelf = self.store.shelf(self._name)
        return shelf

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations: reads see what was there before, and the writes are one append."""
        shelf, now = self._opened(), self.store.host.clock()
        results: list[Result] = []
        puts: dict[Place, PutOp] = {}
        read: list[_Found] = []
        given: Iterable[Any] = ops
        for op in given:
            _require_namespaces(op)
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                _require_no_index(op.index)
                puts[op.namespace, op.key] = op
                results.append(None)
            elif isinstance(op, GetOp):
                found = self._read(shelf, (op.namespace, op.key), now)
                read += [found] if found is not None and op.refresh_ttl else []
                results.append(None if found is None else Item(**_fields(found)))
            elif isinstance(op, SearchOp):
                if op.query is not None:
                    raise ArgumentValueError(f"items have no search by meaning: leave the query out, {_INSTEAD}")
                hits = self._found(shelf, op, now)
                read += hits if op.refresh_ttl else []
                results.append([SearchItem(**_fields(found)) for found in hits])
            elif isinstance(op, ListNamespacesOp):
                results.append(self._namespaces(shelf, op, now))
            else:
                raise ArgumentValueError(f"an operation is a get, a search, a put or a list, not {type(op).__name__}")
        written = {key_in(*place): self._put(shelf, place, op, now) for place, op in puts.items()}
        if written:
            with shelf.pipeline():
                for key, kept in written.items():
                    if kept is None:
                        shelf.values.drop(key)
                    else:
                        shelf.values.put(key, encode(kept))
        if not self.store.log.read_only:
            for found in {found.place: found for found in read if found.place not in puts}.values():
                if found.kept.ttl is not None:
                    with suppress(ConflictError):  # put or deleted since
                        value = encode(_prolonged(found.kept, now))
                        shelf.values.put(key_in(*found.place), value, expected=found.revision)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `batch`; a cancelled caller hears of it once it is known whether it is stored."""
        return await settled(self.batch, list(ops))

    async def aput(self, *args: Any, **kwargs: Any) -> None:
        """See `put`, which is called if a subclass has its own."""
        if type(self).put is BaseStore.put:
            await super().aput(*args, **kwargs)
        else:
            await settled(self.put, *args, **kwargs)

    async def adelete(self, *args: Any, **kwargs: Any) -> None:
        """See `delete`, which is called if a subclass has its own."""
        if type(self).delete is BaseStore.delete:
            await super().adelete(*args, **kwargs)
        else:
            await settled(self.delete, *args, **kwargs)

    def sweep_ttl(self) -> int:
        """Remove the items whose time is over; returns how many."""
        shelf, now = self._opened(), self.store.host.clock()
        swept = 0
        for found in shelf.values.items():
            if decode(bytes_of(found.value)).is_over(now):
                with suppress(ConflictError):  # put or deleted since
                    shelf.values.drop(found.key, expected=found.revision)
                    swept += 1
        return swept

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep in a thread, until `stop_ttl_sweeper`, or until the returned future is cancelled.

        `sweep_interval_minutes` is by default that of the `ttl` settings, else 5.
        """
        if self._sweeper is None or self._sweeper.ended.done():
            minutes = sweep_interval_minutes or (self.ttl_config or {}).get("sweep_interval_minutes") or MINUTES
            self._sweeper = TtlSweeper(self.sweep_ttl, minutes)
        return self._sweeper.ended

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the sweeps; return whether they have ended within `timeout` seconds."""
        return self._sweeper is None or self._sweeper.stop(timeout)

    def _read(self, shelf: Shelf, place: Place, now: int) -> _Found | None:
        value = shelf.values.get(key_in(*place))
        if value is None:
            return None
        kept = decode(bytes_of(value.value))
        return None if kept.is_over(now) else _Found(place, kept, value.revision)

    def _found(self, shelf: Shelf, op: SearchOp, now: int) -> list[_Found]:
        """Return what a search finds, in the order of namespaces and keys."""
        found: list[_Found] = []
        namespace, depth, most = op.namespace_prefix, len(op.namespace_prefix), op.offset + op.limit
        for value in shelf.values.items(prefix_of(namespace)):
            if len(found) >= most:
                break
            kept = decode(bytes_of(value.value))
            place = kept.place or place_in(value.key) or ((), "")
            if place[0][:depth] != namespace or kept.is_over(now):
                continue
            if op.filter:
                held: Any = value_of(parsed(kept.value))
                if not all(is_found(held.get(name), wanted) for name, wanted in op.filter.items()):
                    continue
            found.append(_Found(place, kept, value.revision))
        return found[op.offset :]

    def _namespaces(self, shelf: Shelf, op: ListNamespacesOp, now: int) -> list[tuple[str, ...]]:
        """Return the namespaces that have items; of each the value of one that is kept is read."""
        found: set[tuple[str, ...]] = set()
        begin, after = prefix_of(_common_labels(op)), ""
        while names := shelf.values.keys(begin, after=after, limit=PAGE):
            after = names[-1]
            for name in names:
                place = place_in(name)
                if place is not None and (place[0][: op.max_depth] in found or not _is_listed(place[0], op)):
                    after = end_of(place[0]) if name == after else after
                    continue
                if (value := shelf.values.get(name)) is not None:
                    kept = decode(bytes_of(value.value))
                    labels = (kept.place or place or ((), ""))[0]
                    if not kept.is_over(now) and _is_listed(labels, op):
                        found.add(labels[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    def _put(self, shelf: Shelf, place: Place, op: PutOp, now: int) -> Kept | None:
        if op.value is None:
            return None
        before = self._read(shelf, place, now)
        if op.ttl is not None and not 0 < op.ttl <= LONGEST_TTL:
            raise CallError(f"a ttl is a number of minutes, more than 0 and at most {LONGEST_TTL}, or None")
        kept = Kept(told(dict(op.value))[1], now if before is None else before.kept.created, now, op.ttl)
        kept.name = name_of(*place) if place_in(key_in(*place)) is None else None
        return kept if op.ttl is None else _prolonged(kept, now)


_INSTEAD = "filter by fields, or keep embeddings in a vector store beside this one"


def _require_no_index(index: Any) -> None:
    """Raise `ArgumentValueError` for an index, which False and None ask for none of."""
    if index is not None and index is not False:
        raise ArgumentValueError(f"items have no index for a search by meaning: leave it out, {_INSTEAD}")


def _prolonged(kept: Kept, now: int) -> Kept:
    assert kept.ttl is not None
    kept.expires = now + round(kept.ttl * MINUTE)
    return kept


def _require_namespaces(op: Any) -> None:
    """Raise `ArgumentTypeError` for a namespace that is a str."""
    if isinstance(op, ListNamespacesOp):
        given = [condition.path for condition in op.match_conditions or ()]
    else:
        given = [getattr(op, "namespace", ()), getattr(op, "namespace_prefix", ())]
    for namespace in given:
        each(namespace, "a namespace is a tuple of str")


def _common_labels(op: ListNamespacesOp) -> Iterator[str]:
    """Return labels that all listed namespaces begin with."""
    paths = [condition.path for condition in op.match_conditions or () if condition.match_type == "prefix"]
    return takewhile(lambda label: label != "*", paths[0] if paths else ())


def _is_listed(namespace: tuple[str, ...], op: ListNamespacesOp) -> bool:
    return all(matches(namespace, condition) for condition in op.match_conditions or ())


def _fields(found: _Found) -> dict[str, Any]:
    (namespace, key), kept, _ = found
    value, created = value_of(parsed(kept.value)), time_of(kept.created)
    updated = created if kept.updated == kept.created else time_of(kept.updated)
    return {"namespace": namespace, "key": key, "value": value, "created_at": created, "updated_at": updated}
