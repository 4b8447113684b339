"""The share of recorded sessions that a prune frees: results alone, and with all else.

Each session is looked at in a window that it has filled. A switch of the policy adds one kind of
content. Files of unknown formats are passed over.

    python -m benchmarks.prune_recorded FOLDER [PLANNER]    prints the shares
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from msgspec.structs import replace

import eventlog
from eventlog.errors import EventlogError
from eventlog.importers import import_file
from eventlog.values import Limits
from projections.loop import ContextWindow
from projections.window import ContextPolicy, PrunePolicy

__all__ = ["KINDS", "freed", "shares"]

KINDS = ("results", "arguments", "reasoning", "media", "all")
SMALLEST = 2_000
"""Tokens of the smallest session that is looked at."""


def freed(session: eventlog.Session, planner: str) -> dict[str, int]:
    """Return the tokens that a prune frees with each kind switched on, and those of the view."""
    window = ContextWindow(session, ContextPolicy(), environment={})
    size = window.tokens
    off = PrunePolicy(policy=planner, arguments=False, reasoning=False, media=False)
    found = {"view": size}
    for kind in KINDS:
        on = dict.fromkeys(KINDS[1:4], True) if kind == "all" else {kind: True} if kind != "results" else {}
        limits = Limits(size + 1_000, 1_000)
        policy = ContextPolicy(prune=replace(off, **on))
        plan = ContextWindow(session, policy, limits=limits, environment={}).state.situation().prune_plan(inside=True)
        found[kind] = 0 if plan is None else plan.freed
    return found


def shares(folder: Path, planner: str = "recency") -> tuple[Counter[str], int]:
    """Return the sums over all recorded sessions in a folder, and their number."""
    sums, sessions = Counter[str](), 0
    with eventlog.open("memory:") as store:
        for path in sorted(folder.rglob("*")):
            try:
                if path.is_file():
                    import_file(store, path)
            except EventlogError:
                continue
        for info in store.sessions():
            found = freed(store.session(info.id), planner)
            if found["view"] >= SMALLEST:
                sums.update(found)
                sessions += 1
    return sums, sessions


def _main() -> None:
    sums, sessions = shares(Path(sys.argv[1]), *sys.argv[2:3])
    print(f"{sessions} sessions of {sums['view']:,} tokens in all")
    for kind in KINDS:
        print(f"  {kind:10}{sums[kind]:>10,} tokens freed, {sums[kind] / max(sums['view'], 1):6.1%}")


if __name__ == "__main__":
    _main()
