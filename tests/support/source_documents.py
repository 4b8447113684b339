"""Documents put together from the source records that an import gives back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eventlog.importers.aider import PREFIXES
from eventlog.importers.common.message_lists import SINGLE
from eventlog.importers.common.message_shapes import ALONE
from eventlog.importers.common.remainder import SourceRecord


def document(sources: Iterable[SourceRecord]) -> Any:
    """Return the JSON document that the records came from: an array, or an object around it."""
    found = list(sources)
    around = next((source.record for source in reversed(found) if source.line == 0), None)
    messages = [source.record for source in found if source.line]
    if around is None:
        return messages
    member, value = around
    if member == ALONE:
        return messages[0]
    if member.endswith(SINGLE):
        return {**value, member.removesuffix(SINGLE): messages[0]}
    return {**value, member: messages}


def conversation_of(sources: Iterable[SourceRecord]) -> dict[str, Any]:
    """Return the conversation of an export that the records of a session came from."""
    found = list(sources)
    _, around = next(source.record for source in reversed(found) if source.line == 0)
    nodes = {source.record["id"]: source.record for source in found if source.line}
    mapping = {name: {**nodes[name], **own} for name, own in around["mapping"].items()}
    return {**around, "mapping": mapping}


def history_of(sources: Iterable[SourceRecord]) -> str:
    """Return the text that the records of a session came from."""
    return "".join(_raw(source.record) for source in sources)


def _raw(record: dict[str, Any]) -> str:
    prefix = PREFIXES.get(record["kind"], "")
    said = record["text"].split("\n") if prefix else [record["text"]]
    ends = record.get("ends") or [[prefix, "  \n" if prefix else "\n"]] * len(said)
    lines = (before + line + after for line, (before, after) in zip(said, ends, strict=True))
    return f"{record['before']}{''.join(lines)}"
