"""The decision of the loop: a pure function from a situation to the next step.

The order: tools of an open message, calls that a person allowed, calls that wait for one, a pending
subtask, tasks that a crash broke off, a provider that asked to wait, a pending compaction, refused
media, overflow, prune, the model, a queued message, stop.  Tools come first: a message that waits
for results cannot be covered, and nothing else can be said before the results are there.
"""

from __future__ import annotations

from itertools import takewhile

from msgspec.structs import replace

from eventlog.session.failure import CRASHED, is_crash
from eventlog.streams.refusals import MEDIA
from projections.conversation.parts import Message, SubtaskPart, ToolPart
from projections.loop.decision.calls import asked_call, pending_call
from projections.loop.decision.exchange import (
    answers,
    newest_question,
    open_answer,
    queued_message,
    said_place,
    turn_answers,
)
