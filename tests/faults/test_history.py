"""The linearizability check accepts possible histories and finds every planted fault."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from tests.support.faults.linearizability import NEVER, Entry, Operation, faults

Planted = tuple[list[Operation], list[Entry]]


def happened(seed: int, calls: int = 120) -> Planted:
    """A sound history: overlapping calls of some writers, each effective at a random moment."""
    chance = random.Random(seed)
    drafts: list[tuple[int, int, int, str]] = []
    for writer in range(4):
        now = 0
        for number in range(calls // 4):
            called = now + chance.randrange(1, 20)
            effect = called + chance.randrange(1, 60)
            now = effect + chance.randrange(1, 60)
            drafts.append((effect * 4 + writer, called * 4 + writer, now * 4 + writer, f"{writer}-{number}"))
    operations: list[Operation] = []
    log: list[Entry] = []
    version = epoch = 0
    for _, called, returned, name in sorted(drafts):
        one = Operation(name, name.split("-", maxsplit=1)[0], "s", "append", called, returned)
        match chance.randrange(7):
            case 0:
                operations.append(replace(one, kind="read", outcome="done", first=version))
                continue
            case 1:
                epoch += 1
                operations.append(replace(one, kind="lease", epoch=epoch, outcome="done"))
                continue
            case 2:
                expected = max(version - chance.randrange(2), 0)
                one = replace(one, expected=expected)
                if expected != version:
                    operations.append(replace(one, outcome="conflict", first=version))
                    continue
            case 3 if epoch:
                one = replace(one, epoch=epoch - chance.randrange(2) or epoch)
                if one.epoch != epoch:
                    operations.append(replace(one, outcome="fenced", first=epoch))
                    continue
            case 4:
                one = replace(one, count=3)
            case 5:
                one = replace(one, epoch=max(epoch + chance.randrange(2), 1), takes=True)
                if one.epoch == epoch:
                    operations.append(replace(one, outcome="fenced", first=epoch))
                    continue
            case _:
                pass
        if chance.random() < 0.1:  # the caller was killed before its call returned
            operations.append(replace(one, returned=NEVER))
            if chance.random() < 0.5:
                continue
        else:
            operations.append(replace(one, outcome="done", first=version + 1))
        log.append(Entry(name, version + 1, version + one.count, one.epoch))
        version += one.count
        epoch = max(epoch, one.epoch)
    return operations, log


@pytest.mark.parametrize("seed", range(40))
def test_what_happened_can_have_happened(seed: int) -> None:
    """A history made by sequential effects is found sound."""
    operations, log = happened(seed)
    assert {one.outcome for one in operations} >= {"done", "conflict", "unknown"}
    assert faults("s", operations, log) == []


def pick(operations: Sequence[Operation], chance: random.Random, **wanted: object) -> int:
    """One of the operations with these fields."""
    return chance.choice(
        [n for n, one in enumerate(operations) if all(getattr(one, k) == v for k, v in wanted.items())]
    )


def lost(operations: list[Operation], log: list[Entry], chance: random.Random) -> Planted:
    """Leave out an append that was acknowledged."""
    name = operations[pick(operations, chance, kind="append", outcome="done")].name
    return operations, [entry for entry in log if entry.name != name]


def doubled(operations: list[Operation], log: list[Entry], chance: random.Random) -> Planted:
    """Write an append twice."""
    last = log[-1].last
    return operations, [*log, replace(chance.choice(log), first=last + 1, last=last + 1)]


def swapped(operations: list[Operation], log: list[Entry], chance: random.Random) -> Planted:
    """Exchange two appends that were far apart in time."""
    singles = [n for n, entry in enumerate(log) if entry.first == entry.last and not entry.epoch]
    one, other = singles[chance.randrange(len(singles) // 4)], singles[-1 - chance.randrange(len(singles) // 4)]
    names = log[one].name, log[other].name
    log[one], log[other] = replace(log[one], name=names[1]), replace(log[other], name=names[0])
    firsts = {names[0]: log[other].first, names[1]: log[one].first}
    changed = [
        replace(o, first=firsts[o.name], expected=None) if o.name in firsts and o.outcome == "done" else o
        for o in operations
    ]
    return changed, log


def refused_and_written(operations: list[Operation], log: list[Entry], chance: random.Random) -> Planted:
    """Report a conflict for an append that is in the log."""
    place = pick(operations, chance, kind="append", outcome="done", expected=None)
    operations[place] = replace(operations[place], outcome="conflict", expected=0, first=1)
    return operations, log


def needless(operations: list[Operation], log: list[Entry], chance: random.Random) -> Planted:
    """Refuse an append for a version that was outdated long before."""
    late = max(n for n, one in enumerate(operations) if one.outcome == "conflict")
    operations[late] = replace(operations[late], expected=chance.randrange(40, 60), first=log[0].last)
    return operations, log


def stale(operations: list[Operation], log: list[Entry], chance: random.Random) -> Planted:
    """Read an old version after a newer one had been read."""
    del chance
    late = max(n for n, one in enumerate(operations) if one.kind == "read")
    operations[late] = replace(operations[late], first=log[0].last)
    return operations, log


def fenced_writer(operations: list[Operation], log: list[Entry], chance: random.Random) -> Planted:
    """Accept an append under an ended epoch."""
    late = log.index(next(e for e in reversed(log) if not e.epoch and e.first == e.last))
    del chance
    log[late] = replace(log[late], epoch=1)
    name = log[late].name
    return [replace(one, epoch=1) if one.name == name else one for one in operations], log


def won_twice(operations: list[Operation], log: list[Entry], chance: random.Random) -> Planted:
    """Let two writers win one epoch."""
    place = pick(operations, chance, kind="lease")
    return [*operations, replace(operations[place], name="again")], log


def taken_late(operations: list[Operation], log: list[Entry], chance: random.Random) -> Planted:
    """Let an append take a lease under which another append was written before."""
    epoch, last = max(entry.epoch for entry in log), log[-1].last + 1
    late = Operation("late", "late", "s", "append", NEVER - 2, NEVER - 1, epoch=epoch, takes=True, outcome="done")
    del chance
    return [*operations, replace(late, first=last)], [*log, Entry("late", last, last, epoch)]


def forged(operations: list[Operation], log: list[Entry], chance: random.Random) -> Planted:
    """Add an append to the log that no writer made."""
    del chance
    return operations, [*log, Entry("nobody's", log[-1].last + 1, log[-1].last + 1, 0)]


def gap(operations: list[Operation], log: list[Entry], chance: random.Random) -> Planted:
    """Leave a version out."""
    del chance
    return operations, [*log[:-1], replace(log[-1], first=log[-1].first + 1, last=log[-1].last + 1)]


@pytest.mark.parametrize(
    "plant",
    [lost, doubled, swapped, refused_and_written, needless, stale, fenced_writer, won_twice, taken_late, forged, gap],
)
def test_every_planted_fault_is_found(plant: Callable[[list[Operation], list[Entry], random.Random], Planted]) -> None:
    """Every planted fault in a sound history is found."""
    for seed in range(20):
        operations, log = happened(seed, 200)
        assert faults("s", *plant(operations, log, random.Random(seed))), seed
