"""Check linearizability: many writers' view of a session must be possible in sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

NEVER = 1 << 62
"""The return time of a call that never returned."""


class Operation(msgspec.Struct, frozen=True):
    """One call on one session: its times (nanoseconds of one clock), its caller, its outcome."""

    name: str
    """A unique name, which the call's append contains."""
    writer: str
    session: str
    kind: Literal["append", "lease", "read"]
    called: int
    returned: int = NEVER
    expected: int | None = None
    epoch: int = 0
    takes: bool = False
    count: int = 1
    outcome: Literal["done", "conflict", "fenced", "lost", "unknown"] = "unknown"
    first: int = 0


class Entry(msgspec.Struct, frozen=True):
    """An append in the log: its name, its versions `first .. last`, and its epoch."""

    name: str
    first: int
    last: int
    epoch: int


def faults(session: str, operations: Iterable[Operation], log: Sequence[Entry]) -> list[str]:
    """List every way in which a session's history is not sequential; empty if it is sound."""
    own = [operation for operation in operations if operation.session == session]
    by_name = {operation.name: operation for operation in own}
    found = [f"the name {name} was used twice" for name, times in Counter(one.name for one in own).items() if times > 1]
    found += _contents(own, by_name, log)
    return found or [*_versions(own, by_name, log), *_epochs(own, by_name, log)]


def _contents(own: Sequence[Operation], by_name: dict[str, Operation], log: Sequence[Entry]) -> list[str]:
    """Check that versions were given once, without a gap, and only to acknowledged appends."""
    found: list[str] = []
    version = 0
    for entry in log:
        if entry.first != version + 1 or entry.last < entry.first:
            found.append(f"versions {entry.first}..{entry.last} of {entry.name} do not follow {version}")
        version = entry.last
        operation = by_name.get(entry.name)
        if operation is None or operation.kind != "append":
            found.append(f"nobody appended {entry.name}")
        elif operation.outcome not in {"done", "unknown"}:
            found.append(f"{entry.name} is there, and its outcome was {operation.outcome}")
        elif (entry.last - entry.first + 1, entry.epoch) != (operation.count, operation.epoch):
            found.append(f"{entry.name} is not what was appended")
        elif operation.outcome == "done" and operation.first != entry.first:
            found.append(f"{entry.name} was told version {operation.first}, and has {entry.first}")
        elif operation.expected is not None and operation.expected != entry.first - 1:
            found.append(f"{entry.name} expected version {operation.expected}, and went in at {entry.first}")
    held = Counter(entry.name for entry in log)
    found += [f"{name} is there {times} times" for name, times in held.items() if times > 1]
    found += [
        f"{one.name} is gone" for one in own if one.kind == "append" and one.outcome == "done" and not held[one.name]
    ]
    return found


def _order(what: str, ordered: Iterable[tuple[int, Operation]]) -> list[str]:
    """Check that no call took effect before another that had returned earlier."""
    found: list[str] = []
    before: Operation | None = None
    latest: Operation | None = None
    """The latest call at earlier places, and the latest up to this one."""
    last = 0
    for place, operation in sorted(ordered, key=lambda one: one[0]):
        if place != last:
            before, last = latest, place
        if before is not None and operation.returned < before.called:
            found.append(f"{operation} had come back when a call was made that has an earlier {what}: {before}")
        if latest is None or operation.called > latest.called:
            latest = operation
    return found


def _versions(own: Sequence[Operation], by_name: dict[str, Operation], log: Sequence[Entry]) -> list[str]:
    """Check that appends took effect in version order and that seen versions were true."""
    found: list[str] = []
    places = [(2 * entry.last, by_name[entry.name]) for entry in log]
    known = {0, *(entry.last for entry in log)}
    for one in own:
        if one.outcome == "conflict" and one.expected in {None, one.first}:
            found.append(f"{one.name} was refused for the very version that it expected")
        if one.outcome == "conflict" or (one.kind == "read" and one.outcome == "done"):
            places.append((2 * one.first + 1, one))
            if one.first not in known:
                found.append(f"{one.name} saw version {one.first}, which the session never had")
    return found + _order("version", places)


def _epochs(own: Sequence[Operation], by_name: dict[str, Operation], log: Sequence[Entry]) -> list[str]:
    """Check that each epoch was won once and its appends lie between it and the next."""
    written = [(entry.epoch, by_name[entry.name]) for entry in log if entry.epoch]
    won = [one for one in own if one.kind == "lease" and one.outcome == "done"]
    won += [operation for _, operation in written if operation.takes]
    times = Counter(one.epoch for one in won)
    found = [f"epoch {epoch} was won {count} times" for epoch, count in times.items() if count > 1]
    asked = {one.epoch for one in own if (one.kind == "lease" or one.takes) and one.outcome in {"done", "unknown"}}
    for (earlier, _), (later, operation) in pairwise(written):
        if later < earlier + operation.takes:
            found.append(f"{operation.name} was written under epoch {later}, after one of epoch {earlier}")
    highest = max([0, *asked & set(times), *(epoch for epoch, _ in written)])
    found += [f"nobody can have taken epoch {epoch}" for epoch in range(1, highest + 1) if epoch not in asked]
    taken = [(2 * one.epoch, one) for one in won]
    under = [(2 * epoch + 1, operation) for epoch, operation in written]
    fenced = [one for one in own if one.outcome == "fenced"]
    found += [f"{one.name} was fenced by its own epoch" for one in fenced if one.first == one.epoch and not one.takes]
    found += [f"{one.name} was fenced by an epoch that nobody took" for one in fenced if one.first not in {0, *asked}]
    return found + _order("epoch", [*taken, *under, *((2 * one.first + 1, one) for one in fenced)])
