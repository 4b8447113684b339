"""Items of LangGraph's store: how they lie on a shelf, and which of them a search finds.

A key is the labels of the namespace, each with a full stop, one more, and the item's key. What is
too long for a key ends in its hash, and its value says where it is. A thread removes the items
whose time is over, again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from datetime import UTC, datetime
from hashlib import sha256
from operator import ge, gt, le, lt
from threading import Event, Thread
from typing import Any

import msgspec
from langgraph.store.base import MatchCondition

from eventlog.errors import ArgumentValueError, ClosedError, EventlogError
from eventlog.importers.common.json_lines import is_array, is_object
from eventlog.logger import kind_of, logger

LONGEST = 240
"""Bytes of a key that is no hash."""
CUT = 180
"""Bytes of a longer one that are not its hash, so that a prefix finds it."""

Place = tuple[tuple[str, ...], str]
"""Namespace and key of an item."""


class Kept(msgspec.Struct, array_like=True):
    """An item as it lies on the shelf; times are UTC milliseconds."""

    value: str
    created: int
    updated: int
    ttl: float | None = None
    """Minutes that it is kept after it was put or read."""
    expires: int | None = None
    name: bytes | None = None
    """Its whole key, if that on the shelf is cut; lone surrogates included."""

    @property
    def place(self) -> Place | None:
        """Where it is, if its key on the shelf does not say."""
        return None if self.name is None else _place_of(self.name.decode("utf-8", "surrogatepass"))

    def is_over(self, now: int) -> bool:
        """Whether its time is over."""
        return self.expires is not None and self.expires <= now


encode: Callable[[Any], bytes] = msgspec.msgpack.encode
decode: Callable[[bytes], Kept] = msgspec.msgpack.Decoder(Kept).decode


def time_of(milliseconds: int) -> datetime:
    """Return a time of an item."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def prefix_of(namespace: Iterable[str]) -> str:
    """Return how the keys of a namespace, and of those below it, begin."""
    return _cut("".join(f"{label}." for label in namespace))


def end_of(namespace: Iterable[str]) -> str:
    """Return a text between the keys of a namespace and those of the next one."""
    return "".join(f"{label}." for label in namespace) + "/"


def name_of(namespace: tuple[str, ...], key: str) -> bytes:
    """Return the whole key of an item."""
    return ("".join(f"{label}." for label in namespace) + "." + key).encode("utf-8", "surrogatepass")


def key_in(namespace: tuple[str, ...], key: str) -> str:
    """Return the key of an item on the shelf."""
    data = name_of(namespace, key)
    name = data.decode("utf-8", "surrogatepass")
    return name if len(data) <= LONGEST else f"{_cut(name)}\0{sha256(data).hexdigest()}"


def place_in(name: str) -> Place | None:
    """Return the place of an item by its key on the shelf, None if the key does not say."""
    is_cut = len(name) > LONGEST or not (name.isascii() or len(name.encode("utf-8", "surrogatepass")) <= LONGEST)
    return None if is_cut else _place_of(name)


def _place_of(name: str) -> Place:
    labels, _, key = name.partition("..")
    return tuple(labels.split(".")), key


def _cut(name: str) -> str:
    """Return the characters whole within `CUT` bytes, lone surrogates included."""
    data = name.encode("utf-8", "surrogatepass")
    return name if len(data) <= CUT else name[: sum(byte & 0xC0 != 0x80 for byte in data[1 : CUT + 1])]


def is_found(value: Any, wanted: Any) -> bool:
    """Whether a field's value is what a filter wants: equal, or as its operators say."""
    if is_object(wanted):
        if any(name.startswith("$") for name in wanted):
            return all(_compares(value, name, other) for name, other in wanted.items())
        return is_object(value) and all(is_found(value.get(name), other) for name, other in wanted.items())
    if is_array(wanted):
        return is_array(value) and len(value) == len(wanted) and all(map(is_found, value, wanted))
    return bool(value == wanted)


def _compares(value: Any, name: str, other: Any) -> bool:
    if name in {"$eq", "$ne"}:
        return bool(value == other) is (name == "$eq")
    if name not in _ORDERS:
        raise ArgumentValueError(f"an operator of a filter is $eq, $ne, $gt, $gte, $lt or $lte, not {name!r:.40}")
    try:
        return _ORDERS[name](float(value), float(other))
    except (TypeError, ValueError):
        return False


_ORDERS: dict[str, Callable[[float, float], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}


def matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends as a condition says; `*` is any label."""
    path = tuple(condition.path)
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return len(namespace) >= len(path) and all(one in {"*", label} for one, label in zip(path, part, strict=True))


MINUTES = 5.0
"""Minutes between two sweeps, where no setting says so."""


class TtlSweeper:
    """Sweeps until it is stopped, or the store is closed."""

    def __init__(self, sweep: Callable[[], object], minutes: float) -> None:
        self._sweep = sweep
        self._seconds = minutes * 60
        self._stopped = Event()
        self.ended: Future[None] = Future()
        """Done once no more is swept; cancelling it stops the thread."""
        Thread(target=self._run, name="eventlog-ttl", daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds) and not self.ended.cancelled():
            try:
                self._sweep()
            except ClosedError:
                break
            except EventlogError as error:
                logger().warning("items whose time is over stay until the next sweep: %s", kind_of(error))
        if not self.ended.done():
            self.ended.set_result(None)

    def stop(self, timeout: float | None) -> bool:
        """Let it end; return whether it has within `timeout` seconds."""
        self._stopped.set()
        try:
            self.ended.exception(timeout)
        except TimeoutError:
            return False
        return True
