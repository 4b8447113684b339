"""The record of a summary request, and the request built again from it.

The events before the request, this record and the compaction's own event say all that shaped it.
The words of the template belong to the renderer's name, `summary/1`, and change only with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eventlog.errors import DamagedError
from eventlog.events import CompactionStarted
from projections.conversation.parts import Message
from projections.conversation.state import Conversation
from projections.view.neutral import NeutralMessage
from projections.view.options import RenderOptions
from projections.view.part_rendering import Resolver
from projections.window.compaction.request import SummaryJob, SummaryRequest
from projections.window.compaction.selection import Selection, previous_summary, summarisable
from projections.window.policy.hooks import apply_patch
from projections.window.policy.policy import CompactionPolicy

SUMMARY_RENDERER = "summary/1"
"""Name and version of the form of these requests, the template's words included."""
SUMMARY_FORM = "neutral/1"
"""Form that the digests of these requests name, however views are rendered by now."""


class Begun(msgspec.Struct, frozen=True, omit_defaults=True):
    """The compaction of a summary in a sub-session, fixed when the summary began."""

    session: str
    version: int
    """The summary tells of the session right after this version."""
    part: str
    """The compaction's part, once the session has it."""
    bound: int
    """Messages whose place is behind this version are not covered."""
    through: str
    tail: str | None = None
    kept: tuple[str, ...] = ()
    """As in `CompactionStarted`."""
    previous: str | None = None
    """The compaction in force."""
    tokens_before: int = 0
    prompt_digest: bytes | None = None


class SummaryRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of `StepStarted.render` for a summary request."""

    renderer: str
    """`SUMMARY_RENDERER`, as it was then."""
    options: RenderOptions = RenderOptions()
    """Of the view; what a summary changes of them follows from the rest."""
    tool_output_limit: int = CompactionPolicy().tool_output_limit
    without: tuple[str, ...] = ()
    """Covered messages that are neither kept nor summarised: the one that is said again."""
    after: int = 0
    """Units that earlier requests of the same compaction have summarised."""
    upto: int = 0
    covered: int = 0
    """Messages that the compaction covers."""
    previous: str | None = None
    """The part with the summary of those; None: the summary in force."""
    context: tuple[str, ...] = ()
    """Text that a hook added to the prompt."""
    prompt: str | None = None
    """Prompt that a hook returned instead."""
    begun: Begun | None = None
    """The compaction of a summary that was written while the session went on."""

    def encode(self) -> str:
        """The record as JSON."""
        return msgspec.json.encode(self, order="deterministic").decode()


def without(state: Conversation, options: RenderOptions, marker: str | None, selection: Selection) -> tuple[str, ...]:
    """The messages that a selection covers without telling them."""
    told = {message.id for message in selection.head} | {*selection.kept}
    covered = _upto(state, options, marker, selection.through)
    return tuple(message.id for message in covered if message.id not in told)


def request_again(
    state: Conversation,
    started: CompactionStarted,
    marker: str | None,
    record: SummaryRecord,
    resolve: Resolver,
    *,
    previous: str | None = None,
    patch: str | None = None,
) -> SummaryRequest:
    """The request as it was sent; `state` is that right before the compaction started.

    `marker` is the message that asked for it, None if that was added later.
    `previous` is the text of the record's part, if it names one. `DamagedError` if they do not fit
    each other.
    """
    left_out = {*started.kept, *record.without}
    if started.through is None:
        raise DamagedError(f"compaction {started.part} does not say what it covers")
    head = [found for found in _upto(state, record.options, marker, started.through) if found.id not in left_out]

    def patched(rendered: list[NeutralMessage]) -> Sequence[NeutralMessage]:
        return rendered if patch is None else apply_patch(rendered, (), patch)[0]

    job = SummaryJob(
        head,
        CompactionPolicy(tool_output_limit=record.tool_output_limit),
        resolve,
        _uncounted,
        kept=[state.messages[name] for name in started.kept if name in state.messages],
        model=started.model,
        options=record.options,
        context=record.context,
        prompt=record.prompt,
        transform=patched,
    )
    if not 0 <= record.after <= record.upto <= len(job):
        raise DamagedError(f"compaction {started.part} covers other messages than its request")
    anchor = previous if record.previous is not None else previous_summary(state, resolve)
    return job.request(record.after, anchor, upto=record.upto)


def _upto(state: Conversation, options: RenderOptions, marker: str | None, through: str) -> list[Message]:
    """Return the messages that a compaction may cover up to message `through`, in order."""
    shown = summarisable(state, options, marker)
    last = next((message.place for message in shown if message.id == through), None)
    return shown if last is None else [message for message in shown if message.place <= last]


def _uncounted(_messages: Sequence[NeutralMessage], _system: Sequence[str]) -> int:
    """How many units a request had is recorded, so nothing need be counted."""
    return 0
