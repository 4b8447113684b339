"""The planner "opencode": prunes as OpenCode 1.18 does, weaknesses included.

It differs from `recency` in the results that it walks over.  It takes all messages in the order of
their beginning, so the tail of a compaction, which began before the summary, is out of reach.
Every user message begins a turn, also a compaction's marker and the program's own.  A summary ends
the walk, also a failed one, and so does the first pruned result.  Results no larger than the marker
are cleared, too, and the marker does not lessen what counts as freed.  Arguments, thoughts and
media stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from projections.conversation.parts import ToolPart
from projections.window.prune.case import PruneCase, PrunePlan
from projections.window.prune.clearable import Clearable, is_result

__all__ = ["opencode"]


def opencode(case: PruneCase) -> PrunePlan | None:
    """Prune results beyond the newest `protect` tokens, before the newest turns."""
    return case.plan(case.beyond(_walk(case), named_last=False), "opencode", marker=0)


def _walk(case: PruneCase) -> Iterator[Clearable]:
    turns = 0
    for older, message in enumerate(reversed(case.state.messages.values())):
        if message.removed:
            continue
        turns += message.user
        if turns < case.policy.turns:
            continue
        if message.summary:
            return
        for place in range(len(message.parts) - 1, -1, -1):
            part = message.parts[place]
            if not isinstance(part, ToolPart) or not is_result(part) or part.tool in case.policy.protected_tools:
                continue
            if part.pruned:
                return
            yield Clearable(-older, place, part)
