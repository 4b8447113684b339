"""Why a part or message is, or is not, in a view, and the event that decided it.

`view/explain.py` finds the reason in the state; here one pass over the history finds what brought
it about: the prune, compaction, rollback, redaction or removal.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.session.session import Session
from eventlog.values import Opaque
from projections.reports.first_words import FirstWords
from projections.view.explain import Explanation, Reason
from projections.view.model_view import ModelView
from projections.view.opening_words import arguments, opening

if TYPE_CHECKING:
    from eventlog.codec.decoded import Span

Kind: TypeAlias = Literal["prune", "compaction", "rollback", "redaction", "removal", "media"]


class Cause(msgspec.Struct, frozen=True):
    """The event that decided it."""

    kind: Kind
    version: int
    time: int
    """UTC milliseconds."""
    number: int
    """Its number among those of its kind in this session, from 1."""
    what: str = ""
    """The policy of a prune, the summary of a compaction, the version of a rollback, a reason."""


class Visibility(msgspec.Struct, frozen=True):
    """A part or message, and why a view shows it, or does not."""

    session: str
    version: int
    """The version of the view."""
    id: str
    message: str
    """The message that it is, or belongs to."""
    kind: str
    """"user", "assistant", or the kind of a part."""
    added: int
    """The version that added it."""
    shown: bool
    reason: Reason
    sentence: str
    cause: Cause | None = None
    tool: str = ""
    words: str = ""
    """The arguments of a call, else the first words of its message."""


_CAUSES: dict[Reason, str] = {
    "cleared": "prune",
    "arguments-cleared": "prune",
    "call-cleared": "prune",
    "media-cleared": "prune",
    "reasoning-cleared": "prune",
    "reasoning-emptied": "prune",
    "media-replaced": "media",
    "covered": "compaction",
    "rolled-back": "rollback",
    "redacted": "redaction",
    "removed": "removal",
    "message-removed": "removal",
}


def explain_part(session: Session, name: str, at: int | None = None) -> Visibility:
    """Return why the part or message `name` is in the view right after a version, or is not.

    `NotFoundError` if the session has none of this name.
    """
    view = ModelView.of(session, at)
    return _Search(view.explain(name), view.boundary).visibility(session, view.version)


class _Search:
    """The pass over the history that looks for one name."""

    def __init__(self, explanation: Explanation, boundary: str | None) -> None:
        self._explained = explanation
        self._boundary = boundary
        """Part of the compaction that the view begins with."""
        self._numbers: Counter[str] = Counter()
        self._words = FirstWords()
        self._message = ""
        self._message_added = 0
        self._kind = ""
        self._tool = ""
        self._input = ""
        self._added = 0
        self._causes: list[Cause] = []

    def visibility(self, session: Session, version: int) -> Visibility:
        """Read the history up to the newest event and return what it says of the name."""
        added: dict[str, tuple[int, str]] = {}
        for span in session.reader.spans(upto=session.version):
            item = span.item
            if isinstance(item, DeltaRun):
                self._words.deltas(item)
                continue
            self._words.event(item, span.first)
            if isinstance(item, (ev.UserMessageAdded, ev.AssistantMessageStarted)):
                added[item.message] = span.first, "user" if isinstance(item, ev.UserMessageAdded) else "assistant"
            self._find(item, span.first, added)
            if isinstance(item, ev.ToolRunning) and item.part == self._explained.id:
                self._input = session.text(item.input)
            if span.first <= version:
                self._note(item, span)
        wanted = _CAUSES.get(self._explained.reason)
        cause = next((each for each in reversed(self._causes) if each.kind == wanted), None)
        said = self._words.by_version(session)
        return Visibility(
            session.id,
            version,
            self._explained.id,
            self._message,
            self._kind,
            self._added,
            self._explained.shown,
            self._explained.reason,
            self._explained.sentence,
            cause,
            self._tool,
            opening(arguments(self._input)) or said.get(self._message_added, ""),
        )

    def _find(self, event: ev.Event, version: int, added: dict[str, tuple[int, str]]) -> None:
        """Note the event that adds the name."""
        name = self._explained.id
        match event:
            case ev.UserMessageAdded() | ev.AssistantMessageStarted() if event.message == name:
                self._message, (self._added, self._kind) = name, added[name]
            case ev.PartStarted() if event.part == name:
                self._message, self._added = event.message, version
                self._kind = type(event.kind).__name__.lower()
                self._tool = getattr(event.kind, "tool", "")
            case ev.CompactionRequested() if event.part == name:
                self._message, self._added, self._kind = event.message, version, "compaction"
            case _:
                return
        self._message_added = added.get(self._message, (0, ""))[0]

    def _note(self, event: ev.Event, span: Span) -> None:
        """Note an event that may have taken the name out of the view."""
        if isinstance(event, ev.CompactionUndone):
            compactions = [each for each in self._causes if each.kind == "compaction"]
            if compactions:
                self._causes.remove(compactions[-1])
        elif (found := self._cause(event)) is not None:
            kind, what, concerns = found
            self._numbers[kind] += 1
            if concerns:
                self._causes.append(Cause(kind, span.first, span.time, self._numbers[kind], what))

    def _cause(self, event: ev.Event) -> tuple[Kind, str, bool] | None:
        """Return what an event does, its words, and whether that concerns the name."""
        name = self._explained.id
        match event:
            case ev.Pruned():
                return "prune", event.policy, name in (*event.parts, *event.arguments)
            case ev.PartStarted(kind=Opaque()):
                return "compaction", "", bool(self._added) and event.part == self._boundary
            case ev.CompactionCompleted():
                return "compaction", event.summary, bool(self._added)
            case ev.RolledBack():
                return "rollback", str(event.to), event.to < self._added
            case ev.MediaReplaced():
                return "media", event.reason, event.part == name
            case ev.PartRedacted():
                return "redaction", event.reason, event.part == name
            case ev.PartRemoved():
                return "removal", "", event.part == name
            case ev.MessageRemoved():
                return "removal", "", event.message == self._message
            case _:
                return None
