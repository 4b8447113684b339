"""What changed between two views of a session: what came, what went and why, what shows otherwise; in tokens and in words (spec §11).

Not a diff of texts.  Looks at both states and at nothing in between, but for the reasons of what went (`view/explain.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from eventlog.session.session import Session
from projections.conversation.parts import CompactionPart, Message, Part, ToolPart
from projections.conversation.state import Conversation
from projections.replay.loop import state_at
from projections.reports.wording import counted
from projections.tokens import LogCountCache, TokenCounter
from projections.view.carryover_text import carried_text
from projections.view.explain import explain
from projections.view.message_rendering import MessageRenderer
from projections.view.model_view import PROJECTION
from projections.view.neutral import File, NeutralPart, Text
from projections.view.options import DEFAULT, RenderOptions
from projections.view.part_rendering import PartRendering
from projections.view.selection import carryover_of, shows_question, visible_messages
from projections.view.token_count import ViewCounter

__all__ = ["Change", "Difference", "Kind", "diff"]

Kind: TypeAlias = Literal[
    "added", "compacted", "rolled-back", "later", "removed", "pruned", "restored", "changed", "hidden"
]
"""Why a part of a view is not as it was in the other; "later": the second is the earlier version, and has it not yet."""


class Change(msgspec.Struct, frozen=True):
    """One part that differs."""

    kind: Kind
    message: str
    part: str
    what: str
    """"text", "reasoning", "file", the tool's name, "compaction" or "carried"."""
    before: int
    """Tokens that it had in the first view."""
    after: int
    """Tokens that it has in the second."""


class Difference(msgspec.Struct, frozen=True):
    """All that differs, in the order of the views."""

    session: str
    first: int
    second: int
    tokens_first: int
    """Tokens of what the first view shows, without system prompt, tools and frames."""
    tokens_second: int
    changes: tuple[Change, ...]

    def sentences(self) -> list[str]:
        """The changes summed up in words, a line for each kind."""
        lines: list[str] = []
        for kind, words in _WORDS.items():
            found = [change for change in self.changes if change.kind == kind]
            if found:
                tokens = sum(change.after - change.before for change in found)
                messages = len({change.message for change in found})
                lines.append(
                    f"{words}: {counted(len(found), 'part')} in {counted(messages, 'message')}, {tokens:+,} tokens"
                )
        return lines


_WORDS: dict[Kind, str] = {
    "added": "came",
    "compacted": "covered by a compaction",
    "rolled-back": "rolled back",
    "later": "not there yet",
    "removed": "removed",
    "hidden": "no longer shown",
    "pruned": "results cleared",
    "restored": "results restored",
    "changed": "shown otherwise",
}


class _Shown(NamedTuple):
    message: str
    what: str
    said: tuple[NeutralPart, ...]
    tokens: int
    pruned: bool


def diff(session: Session, first: int, second: int, options: RenderOptions = DEFAULT) -> Difference:
    """The difference between the views right after two versions, in whichever order; `NotFoundError` for an unknown one."""
    counter = ViewCounter(
        TokenCounter.for_model(options.model.name if options.model else ""),
        "",
        LogCountCache(session.store.log.of(session.id)),
    )
    before = _shown(session, first, options, counter)
    after = _shown(session, second, options, counter)
    changes: list[Change] = []
    for name, was in before.items():
        now = after.get(name)
        if now is None:
            kind = _why_gone(session, first, second, options, name)
            changes.append(Change(kind, was.message, name, was.what, was.tokens, 0))
        elif now.said != was.said:
            kind = "changed" if now.pruned == was.pruned else "pruned" if now.pruned else "restored"
            changes.append(Change(kind, now.message, name, now.what, was.tokens, now.tokens))
    for name, now in after.items():
        if name not in before:
            changes.append(Change("added", now.message, name, now.what, 0, now.tokens))
    return Difference(
        session.id,
        first,
        second,
        sum(shown.tokens for shown in before.values()),
        sum(shown.tokens for shown in after.values()),
        tuple(changes),
    )


def _shown(session: Session, version: int, options: RenderOptions, counter: ViewCounter) -> dict[str, _Shown]:
    """What the view shows, part by part, in its order."""
    state = state_at(session, PROJECTION, version).state
    found: dict[str, _Shown] = {}
    for message in visible_messages(state, options):
        for name, what, rendered, pruned in _parts(session, state, message, options):
            said = (*rendered.said, *rendered.results, *rendered.media)
            found[name] = _Shown(message.id, what, said, sum(counter.part(part) for part in said), pruned)
    return found


def _parts(
    session: Session, state: Conversation, message: Message, options: RenderOptions
) -> Iterator[tuple[str, str, PartRendering, bool]]:
    resolve = session.text
    draft = MessageRenderer(
        message, options, resolve, shows_question=message.user and shows_question(state, message, options)
    )
    if draft.is_left_out():
        return
    for part in message.parts:
        rendered = draft.rendered(part)
        if rendered.shown:
            yield part.id, _what(part, rendered), rendered, isinstance(part, ToolPart) and part.pruned
    carried = carryover_of(state, message) if options.carry else None
    if carried is not None:
        yield f"{message.id}/carried", "carried", PartRendering((Text(carried_text(carried, resolve)),)), False


def _what(part: Part, rendered: PartRendering) -> str:
    match part:
        case ToolPart():
            return part.tool
        case CompactionPart():
            return "compaction"
        case _:
            said = rendered.said[0] if rendered.said else None
            return "file" if isinstance(said, File) else type(said).__name__.lower()


def _why_gone(session: Session, first: int, second: int, options: RenderOptions, name: str) -> Kind:
    """Why a part of the first view is not in the second."""
    if name.endswith("/carried"):
        return "compacted" if first < second else "later"
    reason = explain(session, PROJECTION, second, options, name).reason
    kinds: dict[str, Kind] = {
        "covered": "compacted",
        "rolled-back": "rolled-back",
        "later": "later",
        "removed": "removed",
        "message-removed": "removed",
        "compaction-not-in-force": "compacted",
    }
    return kinds.get(reason, "hidden")
