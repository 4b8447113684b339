"""Difference of two views of a session, part by part, with reasons and tokens.

Compares the two states, not the texts and not the events in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from eventlog.events import Pruned
from eventlog.session.session import Session
from projections.conversation.parts import FilePart, Message, Part, ReasoningPart, ToolPart
from projections.conversation.state import Conversation
from projections.reports.wording import counted
from projections.view.carryover_text import carried_text
from projections.view.explain import reason_in, reason_outside
from projections.view.message_rendering import renderer_of
from projections.view.neutral import NeutralPart, Text
from projections.view.opening_words import words_of
from projections.view.options import DEFAULT
from projections.view.part_rendering import PartRendering, Resolver
from projections.view.selection import carryover_of, visible_messages
from projections.view.targets import state_for
from projections.view.token_count import ViewCounter, counter_of
from projections.window.sizing.breakdown import kind_of_part

Kind: TypeAlias = Literal[
    "added", "compacted", "rolled-back", "later", "removed", "pruned", "restored", "changed", "hidden"
]
"""Reason why a part differs.

"later": the second view is the earlier one, and does not have the part yet.
"""


class PartChange(msgspec.Struct, frozen=True):
    """One part that differs."""

    kind: Kind
    message: str
    part: str
    what: str
    """The kind of the part, such as "text", the tool's name, or "carried"."""
    before: int
    """Its tokens in the first view."""
    after: int
    """Its tokens in the second view."""
    words: str = ""
    """The first words of the part, as the view that has it shows it."""


class PruneRecord(msgspec.Struct, frozen=True):
    """A prune between two views, and the tokens that it recorded as freed.

    They are those of the provider, by an estimate of its policy; a difference counts the texts.
    """

    version: int
    policy: str
    freed: int


class ViewDiff(msgspec.Struct, frozen=True):
    """All parts that differ, in the order of the views."""

    session: str
    first: int
    second: int
    tokens_first: int
    """Tokens of the first view, without system prompt, tools and frames."""
    tokens_second: int
    changes: tuple[PartChange, ...]
    prunes: tuple[PruneRecord, ...] = ()
    """The prunes that cleared parts which both views have, the first one the earlier view."""

    def sentences(self, *, tokens: bool = True) -> list[str]:
        """Return a summary in words, a line for each kind of change, with its tokens or without."""
        lines: list[str] = []
        for kind, words in _WORDS.items():
            changes = [change for change in self.changes if change.kind == kind]
            if changes:
                difference = sum(change.after - change.before for change in changes)
                messages = len({change.message for change in changes})
                counts = f"{counted(len(changes), 'part')} in {counted(messages, 'message')}"
                lines.append(f"{words}: {counts}" + (f", {difference:+,} tokens" if tokens else ""))
        cleared = sum(change.before - change.after for change in self.changes if change.kind == "pruned")
        if tokens and cleared != sum(prune.freed for prune in self.prunes):
            lines += [
                f"the prune at version {prune.version} recorded {prune.freed:,} tokens freed: its policy's estimate of "
                "what the provider counts"
                for prune in self.prunes
            ]
        return lines


_WORDS: dict[Kind, str] = {
    "added": "came",
    "compacted": "covered by a compaction",
    "rolled-back": "rolled back",
    "later": "not there yet",
    "removed": "removed",
    "hidden": "no longer shown",
    "pruned": "cleared",
    "restored": "restored",
    "changed": "shown otherwise",
}


_GONE: dict[str, Kind] = {
    "covered": "compacted",
    "rolled-back": "rolled-back",
    "later": "later",
    "removed": "removed",
    "message-removed": "removed",
    "compaction-not-in-force": "compacted",
    "reasoning-cleared": "pruned",
}
"""Kinds of change by why a part is not in the second view; else it is hidden."""


class _ShownPart(NamedTuple):
    """A part as a view shows it."""

    message: str
    what: str
    content: tuple[NeutralPart, ...]
    tokens: int
    cleared: int
    """How many of its result, arguments, thought and file are cleared."""

    def change(self, kind: Kind, part: str, before: int, after: int) -> PartChange:
        """Return a change of this part."""
        return PartChange(kind, self.message, part, self.what, before, after, words_of(self.content))


def diff(
    session: Session,
    first: int,
    second: int,
    *,
    resolve: Resolver | None = None,
    states: Sequence[Conversation] = (),
) -> ViewDiff:
    """Return the difference between the views right after two versions, in either order.

    `resolve` reads large texts, by default all of each; `states` are those of the two versions, if
    they are at hand. Raises `NotFoundError` for an unknown version.
    """
    resolve = resolve or session.text
    counter = counter_of(session.id, session.store.log, None)
    states = states or [state_for(session, version, DEFAULT).state for version in (first, second)]
    before = _shown(states[0], counter, resolve, {})
    after = _shown(states[1], counter, resolve, before)
    changes: list[PartChange] = []
    kind: Kind
    for name, was in before.items():
        now = after.get(name)
        if now is None:
            if name.endswith("/carried"):
                kind = "compacted" if first < second else "later"
            else:
                reason = reason_in(states[1], DEFAULT, session.text, name)
                kind = _GONE.get(reason or reason_outside(session.reader, second, name), "hidden")
            changes.append(was.change(kind, name, was.tokens, 0))
        elif now.content != was.content:
            more = now.cleared - was.cleared
            kind = "pruned" if more > 0 else "restored" if more < 0 else "changed"
            changes.append(now.change(kind, name, was.tokens, now.tokens))
    for name, now in after.items():
        if name not in before:
            changes.append(now.change("added", name, 0, now.tokens))
    return ViewDiff(
        session.id,
        first,
        second,
        sum(shown.tokens for shown in before.values()),
        sum(shown.tokens for shown in after.values()),
        tuple(changes),
        tuple(_prunes(session, first, second, {change.part for change in changes if change.kind == "pruned"})),
    )


def _prunes(session: Session, first: int, second: int, parts: set[str]) -> Iterator[PruneRecord]:
    """Yield the prunes between two versions that cleared any of the parts."""
    for span in session.reader.spans(first, second) if parts and first < second else ():
        if isinstance(span.item, Pruned) and not parts.isdisjoint((*span.item.parts, *span.item.arguments)):
            yield PruneRecord(span.first, span.item.policy, span.item.freed)


def _shown(
    state: Conversation,
    counter: ViewCounter,
    resolve: Resolver,
    known: Mapping[str, _ShownPart],
) -> dict[str, _ShownPart]:
    """Return the shown parts of a view by id, in order; those that are `known` are counted."""
    shown: dict[str, _ShownPart] = {}
    for message in visible_messages(state, DEFAULT):
        for name, what, rendered, cleared in _parts(state, message, resolve):
            content = (*rendered.said, *rendered.results, *rendered.media)
            same = known.get(name)
            if same is not None and same.content == content:
                tokens = same.tokens
            else:
                tokens = sum(counter.part(part) for part in content)
            shown[name] = _ShownPart(message.id, what, content, tokens, cleared)
    return shown


def _parts(state: Conversation, message: Message, resolve: Resolver) -> Iterator[tuple[str, str, PartRendering, int]]:
    draft = renderer_of(state, message, DEFAULT, resolve)
    if draft.is_left_out():
        return
    for part in message.parts:
        rendered = draft.rendered(part)
        if rendered.shown:
            what = part.tool if isinstance(part, ToolPart) else kind_of_part(part)
            yield part.id, what, rendered, _cleared(part)
    carried = carryover_of(state, message)
    if carried is not None:
        yield f"{message.id}/carried", "carried", PartRendering((Text(carried_text(carried, resolve)),)), 0


def _cleared(part: Part) -> int:
    if isinstance(part, ToolPart):
        return part.pruned + part.arguments_pruned
    return isinstance(part, (ReasoningPart, FilePart)) and part.pruned
