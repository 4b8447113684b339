"""The event that broke a request's beginning: it differs there from the request before.

A provider's cache keeps the beginning of a request. Two requests are compared in the order in
which they are sent: tools, output format, system prompt, messages. The first difference is named
by the event that made it, among those between the two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.values import Opaque
from projections.view.messages import Messages

if TYPE_CHECKING:
    from eventlog.codec.decoded import Span
    from projections.reports.step_requests import RecordedStep, StepRequest
    from projections.view.neutral import NeutralMessage

Cause: TypeAlias = Literal[
    "model",
    "tools",
    "format",
    "system",
    "prune",
    "restore",
    "media",
    "compaction",
    "rollback",
    "edit",
    "removal",
    "redaction",
    "forgetting",
    "question",
    "reply",
    "reminder",
    "options",
    "hook",
    "expired",
    "not known",
    "",
]
"""Why tokens were read anew; "" if none were."""

HEAD = -1
"""Place of a difference in front of the messages."""


class PrefixBreak(NamedTuple):
    """The first difference between two requests."""

    cause: Cause
    event: int | None
    """Version of the event that made it, if one did."""
    place: int
    """Messages in front of it, or `HEAD`."""


class _Change(NamedTuple):
    """An event that may have changed what was sent."""

    version: int
    cause: Cause
    messages: frozenset[str] = frozenset()
    """Messages that it touches."""
    since: int = 0
    """Of a rollback: the version that it goes back to."""


_LATE = frozenset(("question", "reply"))
"""Causes that are named last: most such events only add to the end."""


_PARTS = frozenset(("prune", "restore", "media", "edit", "removal"))
"""Causes that name parts, whose messages are not known if they began before the log."""
_LASTING = frozenset(("redaction", "forgetting"))
"""Causes that no rollback takes back."""


class ChangeLog:
    """The changes of a history in order."""

    def __init__(self) -> None:
        self.began: dict[str, int] = {}
        """Versions at which messages began."""
        self._messages: dict[str, str] = {}
        """By part its message."""
        self._changes: list[_Change] = []

    def add(self, span: Span) -> None:
        """Take in the events of a span."""
        item, version = span.item, span.first
        match item:
            case DeltaRun():
                return
            case ev.UserMessageAdded():
                self.began[item.message] = version
                self._note(version, "question", item.message)
            case ev.AssistantMessageStarted():
                self.began[item.message] = version
            case ev.PartStarted():
                self._messages[item.part] = item.message
                if isinstance(item.kind, Opaque):
                    self._note(version, "compaction", item.message)
            case ev.MessagePromoted():
                self._note(version, "question", item.message)
            case ev.MessageFinished():
                self._note(version, "reply", item.message)
            case ev.ToolCompleted() | ev.ToolFailed():
                self._note_parts(version, "reply", item.part)
            case ev.ToolsSet():
                self._note(version, "tools")
            case ev.SystemPromptSet():
                self._note(version, "system")
            case ev.Pruned():
                self._note_parts(version, "prune", *item.parts, *item.arguments)
            case ev.Restored():
                self._note_parts(version, "restore", *item.parts, *item.arguments)
            case ev.MediaReplaced() | ev.MediaRestored():
                self._note_parts(version, "media", item.part)
            case ev.CompactionRequested():
                self._messages[item.part] = item.message
            case ev.CompactionCompleted() | ev.CompactionFailed() | ev.CompactionUndone():
                self._note_parts(version, "compaction", item.part)
            case ev.RolledBack():
                self._note(version, "rollback", since=item.to)
            case ev.PartEdited():
                self._note_parts(version, "edit", item.part)
            case ev.PartRemoved():
                self._note_parts(version, "removal", item.part)
            case ev.MessageRemoved():
                self._note(version, "removal", item.message)
            case ev.PartRedacted():
                self._note_parts(version, "redaction", item.part)
            case ev.RecordForgotten():
                first = min((first for first, _ in item.ranges), default=version)
                self._note(version, "forgetting", since=first - 1)
            case _:
                pass

    def first_break(
        self, before: StepRequest, after: StepRequest, steps: tuple[RecordedStep, RecordedStep]
    ) -> PrefixBreak | None:
        """Return the first difference; None if the later request begins with the earlier."""
        changes = self._between(*(step.event.view_version or step.version for step in steps))
        heads: tuple[tuple[Cause, bool], ...] = (
            ("tools", before.tools != after.tools),
            ("format", before.format != after.format),
            ("system", before.system != after.system),
        )
        for head, differs in heads:
            if differs:
                return _head_break(head, changes, steps)
        one, two = sequence(before.messages), sequence(after.messages)
        place, whole = one.common(two), len(one)
        hidden = self._hidden(one, changes)
        if hidden is not None and hidden.place < place:
            return hidden
        if place == whole:
            return None
        cause, event = self._cause(one[place], two[place] if place < len(two) else None, changes)
        if cause == "not known":
            cause, event = _without_event(before, after, place, steps)
        return PrefixBreak(cause, event, place)

    # -- helpers -------------------------------------------------------------------------------

    def _note(self, version: int, cause: Cause, *messages: str, since: int = 0) -> None:
        self._changes.append(_Change(version, cause, frozenset(messages), since))

    def _note_parts(self, version: int, cause: Cause, *parts: str) -> None:
        self._note(version, cause, *{self._messages[part] for part in parts if part in self._messages})

    def _between(self, after: int, upto: int) -> list[_Change]:
        """The changes of versions `after + 1 .. upto` that no rollback took, the newest first."""
        found, taken = list[_Change](), upto + 1
        first, end = (bisect_right(self._changes, at, key=attrgetter("version")) for at in (after, upto))
        for change in self._changes[first:end][::-1]:
            if change.version < taken or change.cause in _LASTING:
                found.append(change)
            if change.cause == "rollback" and change.version < taken:
                taken = change.since + 1
        return found

    def _hidden(self, messages: Messages, changes: Sequence[_Change]) -> PrefixBreak | None:
        """The first place at which something is missing by now in both requests."""
        places: list[PrefixBreak] = []
        for change in changes:
            if change.cause in {"redaction", "forgetting"}:
                since = change.since or None
                places += [
                    PrefixBreak(change.cause, change.version, place)
                    for place, message in enumerate(messages)
                    if message.source in change.messages
                    or (since is not None and self.began.get(message.source, 0) > since)
                ][:1]
        return min(places, key=lambda found: found.place, default=None)

    def _cause(
        self, was: NeutralMessage, now: NeutralMessage | None, changes: Sequence[_Change]
    ) -> tuple[Cause, int | None]:
        """The event that put one message in the place of another, or changed it."""
        began = self.began.get(was.source, 0)
        old = [change for change in changes if was.source in change.messages]
        new = [change for change in changes if now is not None and now.source in change.messages]
        large = [change for change in changes if change.cause in {"compaction", "rollback"}]
        is_same = now is not None and now.source == was.source
        for found in (
            [change for change in large if change.cause == "rollback" and began > change.since],
            [change for change in old if change.cause not in _LATE],
            [change for change in new if change.cause not in _LATE],
            [change for change in changes if change.cause in _PARTS and not change.messages],
            large,
            [change for change in (*old, *new) if change.cause == "reply" or not is_same],
        ):
            if found:
                return found[0].cause, found[0].version
        return "not known", None


def sequence(messages: Sequence[NeutralMessage]) -> Messages:
    """Return messages as those of a view."""
    return messages if isinstance(messages, Messages) else Messages([*messages])


def _head_break(cause: Cause, changes: Sequence[_Change], steps: tuple[RecordedStep, RecordedStep]) -> PrefixBreak:
    """Tell which event changed the tools, the format or the system prompt."""
    for kinds in ({cause}, {"rollback"}, {"question"}):
        for change in changes:
            if change.cause in kinds:
                return PrefixBreak(change.cause if change.cause == "rollback" else cause, change.version, HEAD)
    is_patched = any(step.event.patch is not None for step in steps)
    return PrefixBreak("hook" if is_patched else cause, None, HEAD)


def _without_event(
    before: StepRequest, after: StepRequest, place: int, steps: tuple[RecordedStep, RecordedStep]
) -> tuple[Cause, int | None]:
    """Tell why a message is sent in another way, though no event changed it."""
    was = before.messages[place]
    now = after.messages[place] if place < len(after.messages) else None
    is_same = now is not None and was.role == now.role == "user" and was.source == now.source
    if is_same and before.options.reminder and after.options.reminder:
        return "reminder", steps[1].version
    if any(step.event.patch is not None for step in steps):
        return "hook", steps[1].version
    if before.options != after.options or not was.source:
        return "options", steps[1].version
    return "not known", None
