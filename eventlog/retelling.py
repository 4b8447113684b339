"""What a restore to an earlier position says of parts that were redacted behind it, and are scrubbed: that they are redacted.

Their content is gone from the backup, so the store cannot be what it was then; without such an event a view would show an empty text, and
`verify` an append that lost its content for no reason.  The event is appended to each session that has such an append.  Of what is
encrypted nothing can be said: a restore has no keys.

Imported by `backup.py` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog import events as ev
from eventlog.blanking import blank, part_of
from eventlog.card import card_of, evolve_card
from eventlog.codec import encode, pack, spans_of
from eventlog.copying import commits_behind
from eventlog.deltas import DeltaRun
from eventlog.foreign import is_foreign
from eventlog.log.base import Append
from eventlog.log.rules import commit_of
from eventlog.log.tree import SALT_BYTES
from eventlog.reader import ancestry
from eventlog.sealed import is_sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from eventlog.codec import Span
    from eventlog.log.base import Commit, Log
    from eventlog.log.copying import Copy

__all__ = ["retell"]

REASON = "redacted and scrubbed after what was restored"


def retell(log: Log, copy: Copy, upto: int, time: int, random: Callable[[int], bytes]) -> None:
    """Record in a copy of what `log` had at position `upto` which of its parts are redacted, and gone, today."""
    found: dict[str, dict[str, None]] = {}
    redacted = _redacted(log)
    for commit in commits_behind(copy, 0, upto):
        if commit.emptied and commit.payload and not is_sealed(commit.payload) and not is_foreign(commit):
            found.setdefault(commit.session, {}).update(
                dict.fromkeys(_gone(commit, redacted.get(commit.session, set())))
            )
    for session in sorted(found):
        head = copy.head(session)
        if head is None or card_of(head).erased:
            continue
        streams = [copy.head(stream.session) for stream in ancestry(copy, session)]
        known = {part for above in streams if above is not None for part in card_of(above).redacted}
        events = [ev.PartRedacted(part, REASON) for part in found[session] if part not in known]
        if events:
            card = card_of(head)
            for event in events:
                card = evolve_card(card, event)
            payload = encode([(time, event) for event in events], time)
            append = Append(session=session, payload=payload, count=len(events), time=time, card=pack(card))
            commit, head = commit_of(head, append, copy.position + 1, random(SALT_BYTES))
            copy.add([commit], {session: head}, {}, {}, position=copy.position + len(events))


def _redacted(log: Log) -> dict[str, set[str]]:
    """The parts that each session, those it was forked from, and those that were forked from it have redacted."""
    found: dict[str, set[str]] = {}
    for head in log.heads():
        if is_foreign(head) or is_sealed(head.card):
            continue
        card = card_of(head)
        found.setdefault(head.session, set()).update(card.redacted)
        if not card.erased:
            for stream in ancestry(log, head.session):
                above = log.head(stream.session)
                found[head.session].update(() if above is None else card_of(above).redacted)
                found.setdefault(stream.session, set()).update(card.redacted)
    return found


def _gone(commit: Commit, parts: set[str]) -> Iterator[str]:
    """Those of these parts that an append speaks of, and has nothing of any more."""
    spans = spans_of(commit)
    for part in dict.fromkeys(part for span in spans for part in _parts(span)):
        if part in parts and all(blank(span.item, (part,), digests=False) == span.item for span in spans):
            yield part


def _parts(span: Span) -> list[str]:
    if isinstance(span.item, DeltaRun):
        return [part for part, _ in span.item.keys]
    part = part_of(span.item)
    return [] if part is None else [part]
