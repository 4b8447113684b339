"""Redact a part in the session that made it, and search for its text elsewhere.

A title that quotes the part goes with it: an importer's, of the first prompt, and any other; that
of a fork; and that of a sub-session, which quotes the input of the call.
All forks of that session see the redaction: every view of every version shows a marker instead of
the part. The bytes stay until `Store.scrub` (`maintenance/scrub.py`). The search looks for the
whole texts and for their longer lines; it does not find a summary in other words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.large_texts import BYTES
from eventlog.codec.payload import is_encrypted, is_foreign
from eventlog.codec.redaction import contents, part_of
from eventlog.errors import ConflictError, DataError, ErasedError, NotFoundError
from eventlog.history.ancestry import stream_spans
from eventlog.history.catalog import TITLES, entry_of
from eventlog.history.relatives import heirs_of, recorders_of, subsessions_of
from eventlog.state.facts import versions_of
from eventlog.validation import json_value
from eventlog.values import Body, Subtask, Text

if TYPE_CHECKING:
    from eventlog.session.executor import Executor
    from eventlog.session.registry import SessionRegistry

SHORTEST = 8
"""Characters under which a text is not searched for: it would be found everywhere."""
SHORTEST_LINE = 24
MOST_LINES = 200


class Occurrence(msgspec.Struct, frozen=True):
    """A place outside the part that has the same text, or a line of it."""

    session: str
    version: int
    kind: str
    """Kind of the event."""
    part: str | None
    """The part it belongs to: redact that one, too."""


class RedactionResult(msgspec.Struct, frozen=True):
    """The part, the session in which its redaction is recorded, and other occurrences."""

    part: str
    session: str
    """Where it is recorded: the session in which the part was made, if that is still there."""
    occurrences: tuple[Occurrence, ...]


class _Needles(NamedTuple):
    texts: tuple[str, ...]
    digests: frozenset[bytes]


def redact(
    session: Executor, registry: SessionRegistry, part: str, reason: str = "", *, search: bool = True
) -> RedactionResult:
    """Redact a part of a session; `NotFoundError` if it has none of this id.

    Redacting a part again is harmless.
    """
    with session.reader.deciding() as state:
        if not state.has_part(part):
            raise NotFoundError("part", part, session=session.id)
    owner = _owner(session, part)
    _redact_titles(session, registry, owner, part)
    recorded = [name for name in recorders_of(registry.log, owner, session.id) if _record(registry, name, part, reason)]
    occurrences = tuple(_occurrences(registry, owner, part)) if search else ()
    return RedactionResult(part, recorded[0] if recorded else session.id, occurrences)


def _owner(session: Executor, part: str) -> str:
    """The session whose own stream has the part's first event."""
    begun = session.reader.find(part)
    return next(
        (stream.session for stream in session.reader.ancestry() if stream.first <= begun <= stream.last), session.id
    )


def _record(registry: SessionRegistry, session: str, part: str, reason: str) -> bool:
    executor = registry.get(session)
    try:
        with executor.reader.deciding() as state:
            if not state.has_part(part):
                return False
        executor.command([ev.PartRedacted(part, reason)])
        executor.host.kept.forget(session)
    except ErasedError:
        return False
    return True


def _redact_titles(session: Executor, registry: SessionRegistry, owner: str, part: str) -> None:
    """Redact the titles that quote the part: of the session, its forks and their sub-sessions."""
    said, asked = _quotable(session, registry, part)
    family = [owner, *heirs_of(registry.log, owner)]
    for name in family if said else ():
        _redact_title(registry, name, said)
    for name in family if asked else ():
        for head in subsessions_of(registry.log, name):
            _redact_title(registry, head.session, asked)


def _redact_title(registry: SessionRegistry, session: str, said: list[str]) -> None:
    """Redact a session's titles if one that is not redacted quotes a text."""
    while (head := registry.log.head(session)) and not (entry_of(head).erased or is_encrypted(head.entry)):
        with suppress(ConflictError, ErasedError):  # meanwhile: look at what is new
            executor = registry.get(session)
            with executor.reader.deciding() as state:
                version, entries = state.version, [*state.titles.newest_entries()]
            titles = list[str]()
            for at, _ in entries:
                (found,) = executor.reader.events(at - 1, at)
                titles.append(getattr(found.event, "title", ""))
                if at <= head.base + 1 or getattr(found.event, "part", None) == TITLES:
                    break
            if any(_quotes(title, said) for title in titles):
                kept = "" if _quotes(titles[0], said) else titles[0]
                executor.commit([ev.SessionRenamed(kept, TITLES)], expected=version)
            return


def _quotes(title: str, said: list[str]) -> bool:
    """Whether a title begins a text, is a longer piece of one, or has a remark behind one."""
    title = title.removesuffix("…")
    return bool(title) and any(
        text.startswith(title) or (len(title) >= SHORTEST and title in text) or title.startswith(f"{text} (")
        for text in said
    )


def _quotable(session: Executor, registry: SessionRegistry, part: str) -> tuple[list[str], list[str]]:
    """The texts that titles may quote of a part, and those that a sub-session's may."""
    with session.reader.deciding() as state:
        ran = versions_of(state.parts[part].changes, "running") if part in state.parts else ()
    found = (next(session.reader.events(at - 1, at)).event for at in (session.reader.find(part), *ran))
    said: list[str] = []
    asked: list[str] = []
    for event in found:
        match event:
            case ev.PartStarted(kind=Text(text=text)):
                said.append(_readable(registry, session.id, text).lstrip())
            case ev.PartStarted(kind=Subtask(prompt=prompt, description=description)):
                asked += [_readable(registry, session.id, prompt), description]
            case ev.ToolRunning(input=given):
                with suppress(ValueError):  # damaged, or scrubbed
                    arguments = json_value(_readable(registry, session.id, given))
                    values = cast("dict[str, object]", arguments).values() if isinstance(arguments, dict) else ()
                    asked += (value.lstrip() for value in values if isinstance(value, str))
            case _:
                pass
    return [text for text in said if text], [text for text in asked if text]


def _occurrences(registry: SessionRegistry, owner: str, part: str) -> Iterator[Occurrence]:
    """Find the part's text in every session of the store, rolled-back history included."""
    family = {owner, *heirs_of(registry.log, owner)}
    needles = _needles(registry, family, part)
    if not needles.texts and not needles.digests:
        return
    searched: dict[bytes, bool] = {}
    for head in registry.log.heads():
        if is_foreign(head) or head.gone or entry_of(head).erased or is_encrypted(head.entry):
            continue  # erased, or its key is gone
        grown: dict[str, str] = {}
        for span in stream_spans(registry.log, head.session):
            if isinstance(span.item, DeltaRun):
                for (name, _), text in span.item.joined().items():
                    before = grown.get(name, "")
                    grown[name] = before + text
                    if not (name == part and head.session in family) and _new_in(needles, before, grown[name]):
                        yield Occurrence(head.session, span.first, "PartDelta", name)
                continue
            about: str | None = part_of(span.item) or getattr(span.item, "part", None)
            if about == part and head.session in family:
                continue
            found = [*contents(span.item), *_inline_data(span.item)]
            if any(_has_needle(registry, head.session, needles, content, searched) for content in found):
                yield Occurrence(head.session, span.first, type(span.item).__name__, about)


def _needles(registry: SessionRegistry, family: set[str], part: str) -> _Needles:
    """The texts and digests to look for: the contents of the part, without ids and names."""
    texts: dict[str, None] = {}
    digests: set[bytes] = set()
    ids = {part, *family}
    for session in sorted(family):
        grown: dict[str, str] = {}
        for span in stream_spans(registry.log, session):
            item = span.item
            if isinstance(item, DeltaRun):
                for (name, field), text in item.joined().items():
                    if name == part:
                        grown[field] = grown.get(field, "") + text
                continue
            if part_of(item) != part:
                continue
            if isinstance(item, ev.PartStarted):
                ids |= {item.message, str(item.kind.__struct_config__.tag)}
                ids |= {str(getattr(item.kind, name, "")) for name in ("call", "tool", "mime")}
            for content in contents(item):
                if isinstance(content, Body):
                    digests.add(content.digest)
                text = _readable(registry, session, content)
                if text != part and len(text.strip()) >= SHORTEST:
                    texts[text.strip()] = None
        texts.update(dict.fromkeys(text.strip() for text in grown.values() if len(text.strip()) >= SHORTEST))
    whole = [text for text in texts if text not in ids]
    lines = {line.strip(): None for text in whole for line in text.splitlines() if len(line.strip()) >= SHORTEST_LINE}
    chosen = [*whole, *sorted(lines, key=len, reverse=True)[:MOST_LINES]]
    quoted = [json.dumps(text, ensure_ascii=False)[1:-1] for text in chosen]
    return _Needles(tuple(dict.fromkeys([*chosen, *quoted])), frozenset(digests))


def _new_in(needles: _Needles, before: str, now: str) -> bool:
    return any(text in now and text not in before for text in needles.texts)


def _has_needle(
    registry: SessionRegistry, session: str, needles: _Needles, content: str | Body, searched: dict[bytes, bool]
) -> bool:
    if isinstance(content, str):
        return any(text in content for text in needles.texts)
    if content.digest in needles.digests:
        return True
    if content.digest not in searched:
        text = _readable(registry, session, content)
        searched[content.digest] = any(needle in text for needle in needles.texts)
    return searched[content.digest]


def _inline_data(event: ev.Event) -> list[str]:
    """The bytes of a value that are inside its event, as far as they are text."""
    if isinstance(event, ev.ValuePut) and isinstance(event.data, bytes):
        return [event.data.decode(errors="replace")]
    return []


def _readable(registry: SessionRegistry, session: str, content: str | Body) -> str:
    try:
        if isinstance(content, Body) and content.characters == BYTES:
            return registry.host.data(content, session).decode(errors="replace")
        return registry.host.text(content, session)
    except DataError:  # damaged, or scrubbed
        return ""
