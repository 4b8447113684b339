"""Pruning what a later result made stale, before anything else goes for its age.

A planner for `planner.py`.  A result is superseded

* by a later result of the same tool with an equal input, unless the later result is pruned;
* if it shows a file, by a later write of that file, or by a later result that shows the file again
  and is not pruned. Two reads that ask for different pieces of the file, such as ranges of lines,
  do not supersede each other.

What is superseded goes even if it is among the newest `protect` tokens, but never from protected
turns or steps; of the rest, what is beyond `protect` goes for its age. All of it together must have
more than `minimum` tokens. Files are the same if their paths are, as the calls give them
(`projections/conversation/file_access.py`) and as the records of changed files do (patch parts),
without their superfluous dots and slashes.
"""

from __future__ import annotations

from projections.window.prune.case import PruneCase, PrunePlan
from projections.window.prune.stale import StaleResults

__all__ = ["superseded"]


def superseded(case: PruneCase) -> PrunePlan | None:
    """Plan to clear every superseded result, and other results beyond `protect`."""
    candidates = case.candidates
    count = candidates.before(case.unprotected)
    if case.calibrated(candidates.freed(count)) <= case.minimum:
        return None  # all of them are too little: no input need be read
    stale = candidates.kept(StaleResults)
    stale.look()
    if case.policy.stop_at_pruned:
        rest = (found for found in case.prunable() if found.part.id not in stale)
        gone = [found for found in candidates.oldest(count) if found.part.id in stale]
        return case.plan([*gone, *case.beyond(rest)], "superseded")
    aged = stale.beyond(count, case.room)
    if case.calibrated(stale.freed(aged, count)) <= case.minimum:
        return None  # found without a look at each of them
    chosen = candidates.oldest(count)
    return case.plan([*chosen[:aged], *(found for found in chosen[aged:] if found.part.id in stale)], "superseded")
