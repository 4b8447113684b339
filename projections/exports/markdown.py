"""Export a session as Markdown: a transcript for people.

Texts are Markdown as they are, reasoning is quoted, and calls and their output are in fences longer
than any in them. Marks show what is pruned, covered, removed, open or failed. The export is not
lossless. It streams in bounded memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from eventlog.history.catalog import SessionInfo
from eventlog.session.session import Session
from projections.exports.in_order import backwards, own_messages
from projections.reports.session_tree import descendants
from projections.reports.wording import moment
from projections.requests.text import sendable
from projections.transcript.message import TranscriptMessage, TranscriptPart

__all__ = ["markdown_blocks", "markdown_of", "message_markdown"]

SILENT = {"step-start", "step-finish", "snapshot"}
"""Kinds of parts that are omitted."""
_FENCES = re.compile("`{3,}")


def markdown_of(session: Session, *, tree: bool = False) -> str:
    """Return the whole transcript as one text.

    With `tree` the sub-sessions follow.
    """
    return "".join(markdown_blocks(session, tree=tree))


def markdown_blocks(session: Session, *, tree: bool = False) -> Iterator[str]:
    """Yield the transcript piece by piece; `tree` appends those of its forks and sub-sessions.

    The transcript of a fork then begins with its own messages: its parent's has the inherited ones.
    """
    store = session.store
    if not tree:
        yield from _session(session, inherited=True)
        return
    for number, info in enumerate(descendants(store, session.id)):
        if number:
            yield "\n---\n\n"
        yield from _session(store.session(info.id), inherited=number == 0)


def _session(session: Session, *, inherited: bool) -> Iterator[str]:
    info = session.info
    base = 0 if inherited else session.version - info.events
    yield from _head(info)
    yield from backwards(message_markdown(message) for message in own_messages(session, base))


def _head(info: SessionInfo) -> Iterator[str]:
    facts = {
        "session": info.id,
        "title": info.title,
        "scope": info.scope,
        "directory": info.directory,
        "agent": info.agent,
        "sub-session of": info.parent or "",
        "fork of": f"{info.fork_of} at version {info.forked_at}" if info.fork_of else "",
        "imported from": f"{info.origin.format} {info.origin.foreign_id}" if info.origin else "",
        "created": _moment(info.created),
        "updated": _moment(info.updated),
        "archived": "yes" if info.archived else "",
    }
    yield f"# {_line(info.title) or _line(info.id)}\n\n"
    for name, value in facts.items():
        if value and name != "title":
            yield f"- {name}: `{_line(value).replace('`', chr(39))}`\n"
    yield "\n"


def message_markdown(message: TranscriptMessage) -> str:
    """Return one message as Markdown, its head included."""
    marks = [name for name in ("synthetic", "removed") if getattr(message, name)]
    marks += ["summary"] if message.summary else []
    marks += ["covered by a compaction"] if message.covered else []
    marks += ["unfinished"] if message.role == "assistant" and message.finished is None else []
    who = [message.role, message.agent, "" if message.model is None else str(message.model), _moment(message.created)]
    pieces = [f"## {_line(' · '.join(word for word in who if word))}{_marked(marks)}\n\n"]
    pieces += [text for part in message.parts if part.kind not in SILENT and (text := _part(part))]
    if message.error is not None:
        pieces.append(f"> **{_line(message.error.name)}**: {_line(message.error.message)}\n\n")
    return sendable("".join(pieces))


def _part(part: TranscriptPart) -> str:
    marks = _marked(part.marks)
    text = part.text.strip("\n")
    if part.kind == "text":
        return f"{text}{marks}\n\n" if text or marks else ""
    if part.kind == "reasoning":
        quoted = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
        return f"{quoted or '>'}\n>\n> *thought*{marks}\n\n" if text or marks else ""
    if part.kind == "tool":
        return _tool(part, marks)
    if part.kind == "compaction":
        return f"*compaction*{marks}\n\n"
    description = " ".join(word for word in (part.title, part.mime, part.filename or "", part.text) if word)
    return f"*{part.kind}* {_line(description)}{marks}\n\n"


def _tool(part: TranscriptPart, marks: str) -> str:
    title = f" — {_line(part.title)}" if part.title else ""
    pieces = [f"**{_line(part.tool)}** ({part.status}){title}{marks}\n\n"]
    pieces += [_fenced(part.input, "json")] if part.input else []
    pieces += [f"> **error**: {_line(part.error)}\n\n"] if part.error else []
    pieces += [_fenced(part.text)] if part.text else []
    return "".join(pieces)


def _fenced(text: str, kind: str = "") -> str:
    """Return the text between fences that are longer than any in it."""
    longest = max(map(len, _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    body = text.rstrip("\n")
    return f"{fence}{kind}\n{body}\n{fence}\n\n"


def _marked(marks: list[str]) -> str:
    return f" *[{', '.join(marks)}]*" if marks else ""


def _line(text: str) -> str:
    return " ".join(sendable(text).split())


def _moment(milliseconds: int) -> str:
    return moment(milliseconds, zone=" UTC", unknown="")
