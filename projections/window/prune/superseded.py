"""Pruning what a later result made stale, before anything else goes for its age.

A planner for `planners.py`.  A result is superseded

* by a later result of the same tool with an equal input, unless the later result is pruned;
* if it shows a file, by a later write of that file, or by a later result that shows the file again
  and is not pruned. Two reads that ask for different pieces of the file, such as ranges of lines,
  do not supersede each other.

The arguments of a call that wrote files are superseded by later calls that wrote all of them again.

What is superseded goes even if it is among the newest `protect` tokens, but never from protected
turns or steps; of the rest, what is beyond `protect` goes for its age. All of it together must have
more than `minimum` tokens. Files are the same if their paths are, as the calls give them
(`projections/conversation/file_access.py`) and as the records of changed files do (patch parts),
without their superfluous dots and slashes.
"""

from __future__ import annotations

from projections.window.prune.case import CLEARED_TOKENS, PruneCase, PrunePlan
from projections.window.prune.stale_results import stale_parts

__all__ = ["superseded"]


def superseded(case: PruneCase) -> PrunePlan | None:
    """Plan to clear all that is superseded, and what else is beyond `protect`."""
    all_of_them = [found for found in case.clearables() if case.is_prunable(found)]
    if case.calibrated(sum(case.size(found) - CLEARED_TOKENS for found in all_of_them)) <= case.minimum:
        return None  # all of them are too little: no input need be read
    stale = stale_parts(case)
    by_age = case.prunable() if case.policy.stop_at_pruned else all_of_them
    rest = (found for found in by_age if (found.part.id, found.kind) not in stale)
    gone = (found for found in all_of_them if (found.part.id, found.kind) in stale)
    return case.plan([*case.beyond(rest), *gone], "superseded")
