"""Export a session as Markdown: a transcript for people.

Texts are Markdown as they are, reasoning is quoted, and calls and their output are in fences longer
than any in them. Marks show what is pruned, covered, removed, open or failed. The export is not
lossless. It streams in bounded memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from eventlog.session.session import Session
from projections.exports.readable import SILENT, backwards, description, facts, marks, own_messages, when
from projections.reports.session_tree import descendants
from projections.requests.text import sendable
from projections.transcript.message import TranscriptMessage, TranscriptPart

__all__ = ["markdown_blocks", "message_markdown"]

_FENCES = re.compile("`{3,}")


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
    base = 0 if inherited else session.version - session.info.events
    yield from _head(session)
    yield from backwards(message_markdown(message) for message in own_messages(session, base))


def _head(session: Session) -> Iterator[str]:
    yield f"# {_line(session.info.title) or _line(session.id)}\n\n"
    for name, value in facts(session).items():
        yield f"- {name}: `{_line(value).replace('`', chr(39))}`\n"
    yield "\n"


def message_markdown(message: TranscriptMessage) -> str:
    """Return one message as Markdown, its head included."""
    who = [message.role, message.agent, "" if message.model is None else str(message.model), when(message.created)]
    pieces = [f"## {_line(' · '.join(word for word in who if word))}{_marked(marks(message))}\n\n"]
    pieces += [text for part in message.parts if part.kind not in SILENT and (text := _part(part))]
    if message.error is not None:
        pieces.append(f"> **{_line(message.error.name)}**: {_line(message.error.message)}\n\n")
    return sendable("".join(pieces))


def _part(part: TranscriptPart) -> str:
    marked = _marked(part.marks)
    text = part.text.strip("\n")
    if part.kind == "text":
        return f"{text}{marked}\n\n" if text or marked else ""
    if part.kind == "reasoning":
        quoted = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
        return f"{quoted or '>'}\n>\n> *thought*{marked}\n\n" if text or marked else ""
    if part.kind == "tool":
        return _tool(part, marked)
    if part.kind == "compaction":
        return f"*compaction*{marked}\n\n"
    return f"*{part.kind}* {_line(description(part))}{marked}\n\n"


def _tool(part: TranscriptPart, marked: str) -> str:
    title = f" — {_line(part.title)}" if part.title else ""
    pieces = [f"**{_line(part.tool)}** ({part.status}){title}{marked}\n\n"]
    pieces += [_fenced(part.input, "json")] if part.input else []
    pieces += [f"> **error**: {_line(part.error)}\n\n"] if part.error else []
    pieces += [_fenced(part.text)] if part.text else []
    pieces += [f"*file* {_line(file)}\n\n" for file in part.attachments]
    return "".join(pieces)


def _fenced(text: str, kind: str = "") -> str:
    """Return the text between fences that are longer than any in it."""
    longest = max(map(len, _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    body = text.rstrip("\n")
    return f"{fence}{kind}\n{body}\n{fence}\n\n"


def _marked(names: list[str]) -> str:
    return f" *[{', '.join(names)}]*" if names else ""


def _line(text: str) -> str:
    return " ".join(sendable(text).split())
