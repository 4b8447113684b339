"""All cases, in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import (
    encryption,
    event_files,
    groups,
    listing,
    prune_cost,
    records,
    sessions,
    slow_disk,
    streaming,
    turns,
    turns_on_end,
    window,
)
from benchmarks.figures import Case, Sizes
from benchmarks.scenarios import (
    checkpointers,
    churn,
    cold_cache,
    following,
    frameworks,
    fresh_process,
    long_history,
    many_sessions,
    two_processes,
    while_folding,
    written,
)
from benchmarks.targets import (
    beside_peers,
    command_line,
    inspecting,
    lists,
    memory,
    opening,
    replaying,
    searching,
    space,
    starting,
    transcripts,
    values,
    viewing,
)
from benchmarks.targets import groups as target_groups
from benchmarks.targets import streaming as target_streaming
from benchmarks.targets import turns as target_turns

__all__ = ["CASES", "FULL", "SHORT", "chosen"]

CASES: tuple[Case, ...] = (
    *target_streaming.CASES,
    *beside_peers.CASES,
    *target_turns.CASES,
    *target_groups.CASES,
    *space.CASES,
    *opening.CASES,
    *replaying.CASES,
    *viewing.CASES,
    *transcripts.CASES,
    *inspecting.CASES,
    *lists.CASES,
    *searching.CASES,
    *values.CASES,
    *memory.CASES,
    *starting.CASES,
    *command_line.CASES,
    *streaming.CASES,
    *turns.CASES,
    *turns_on_end.CASES,
    *groups.CASES,
    *slow_disk.CASES,
    *sessions.CASES,
    *event_files.CASES,
    *listing.CASES,
    *records.CASES,
    *window.CASES,
    *prune_cost.CASES,
    *encryption.CASES,
    *frameworks.CASES,
    *fresh_process.CASES,
    *long_history.CASES,
    *cold_cache.CASES,
    *two_processes.CASES,
    *while_folding.CASES,
    *many_sessions.CASES,
    *churn.CASES,
    *written.CASES,
    *following.CASES,
    *checkpointers.CASES,
)

SHORT = Sizes(
    rounds=3,
    deltas=50_000,
    turns=200,
    counted=500,
    sustained=1_000,
    history=5_000,
    callers=64,
    appends=20,
    pending=10_000,
    flushes=200,
    generated=200,
    sessions=2_000,
    lengths=(100, 1_000, 5_000, 20_000),
    peer_lengths=(100, 1_000, 5_000),
    patient=False,
    peer_turns=3,
    events=(1_000, 10_000, 100_000),
    hurry=10,
    day=0.02,
    import_bytes=20_000_000,
)
"""A few minutes in all."""
FULL = Sizes(
    rounds=25,
    deltas=200_000,
    turns=2_000,
    counted=4_000,
    sustained=4_000,
    history=50_000,
    callers=64,
    appends=100,
    pending=10_000,
    flushes=2_000,
    generated=4_000,
    sessions=10_000,
    lengths=(100, 1_000, 5_000, 20_000, 100_000),
    peer_lengths=(100, 1_000, 5_000),
    patient=True,
    peer_turns=30,
    events=(1_000, 10_000, 100_000, 1_000_000),
    hurry=1,
    day=1.0,
    import_bytes=500_000_000,
)


def chosen(names: Sequence[str]) -> list[Case]:
    """Return the named cases; all if none is named.

    A name is that of a case, of a figure, or the part of one before a dot. `KeyError` for any other
    name.
    """
    wanted: list[Case] = []
    for name in names:
        matching = [case for case in CASES if any(_means(name, candidate) for candidate in _names(case))]
        if not matching:
            raise KeyError(name)
        wanted += [case for case in matching if case not in wanted]
    return sorted(wanted, key=CASES.index) if names else list(CASES)


def _names(case: Case) -> list[str]:
    return [case.id, *(figure.id for figure in case.figures)]


def _means(name: str, candidate: str) -> bool:
    return candidate == name or candidate.startswith(f"{name}.")
