"""Export a session as one HTML file that needs nothing else: a transcript for people.

The file has no script and loads nothing, which its policy also forbids. Stored text is never markup
(`html_text.py`). Of a long part only the beginning is shown. The export streams in bounded memory.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from importlib.resources import files

from eventlog.session.session import Session
from eventlog.session.status import state_of
from projections.exports.html_text import Shown, import_html, markdown_html, plain_html, shown, visible
from projections.exports.in_order import backwards, own_messages
from projections.exports.markdown import SILENT
from projections.reports.usage import cost_words, own_total
from projections.reports.wording import counted, moment
from projections.transcript.message import TranscriptMessage, TranscriptPart

__all__ = ["html_pieces", "page_head"]

_HINT = 100
"""Characters of a call that are seen while it is folded: its title, or its arguments."""


def html_pieces(session: Session) -> Iterator[str]:
    """Yield the page of a session piece by piece."""
    import_html()
    yield page_head(session.info.title or session.id)
    yield "<dl>\n"
    for name, value in _facts(session):
        if value:
            yield f"<div><dt>{name}</dt><dd dir=auto>{plain_html(' '.join(value.split()))}</dd></div>\n"
    yield "</dl>\n</header>\n"
    empty = True
    for text in backwards(_message(message) for message in own_messages(session, 0)):
        empty = False
        yield text
    if empty:
        yield "<p class=empty>There is no message in this session.</p>\n"
    yield "</main>\n</body>\n</html>\n"


def page_head(title: str) -> str:
    """Return a page up to its title, with style and policy; its header is left open."""
    style = files("projections.exports").joinpath("html.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = plain_html(" ".join(title.split()))
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name=referrer content=no-referrer>\n<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f'<meta name=color-scheme content="light dark">\n<title>{title}</title>\n<style>{style}</style>\n</head>\n'
        f"<body>\n<main>\n<header>\n<h1 dir=auto>{title}</h1>\n"
    )


def _facts(session: Session) -> Iterator[tuple[str, str]]:
    info = session.info
    yield "session", info.id
    yield "scope", info.scope
    yield "directory", info.directory
    yield "agent", info.agent
    yield "sub-session of", info.parent or ""
    yield "fork of", f"{info.fork_of} at version {info.forked_at}" if info.fork_of else ""
    yield "imported from", f"{info.origin.format} {info.origin.foreign_id}" if info.origin else ""
    yield "begun", _moment(info.created)
    yield "last activity", _moment(info.updated)
    yield "size", f"{counted(info.messages, 'message')}, {counted(info.events, 'event')}"
    yield "tokens", f"{info.tokens:,}" if info.tokens else ""
    yield "cost", _cost(session)
    head = session.store.log.head(session.id)
    state = "" if head is None else state_of(session.store.registry, head, info)
    yield "state", state if state in {"running", "unfinished", "asked"} else ""


def _cost(session: Session) -> str:
    """Return what was spent; its events are read where a call has no recorded cost."""
    info = session.info
    if info.unpriced:
        return cost_words(own_total(session), session.store.host.models.date)
    return f"${info.spent}" if info.spent is not None else ""


def _message(message: TranscriptMessage) -> str:
    marks = [name for name in ("synthetic", "removed") if getattr(message, name)]
    marks += ["summary"] if message.summary else []
    marks += ["covered by a compaction"] if message.covered else []
    marks += ["unfinished"] if message.role == "assistant" and message.finished is None else []
    facts = [message.agent, "" if message.model is None else str(message.model), _moment(message.created)]
    said = [plain_html(" ".join(fact.split())) for fact in facts if fact]
    gone = " gone" if message.removed or message.covered else ""
    about = "".join(f"<span>{fact}</span>" for fact in [*said, f"version {message.version}"])
    label = f"{message.role}, version {message.version}"
    pieces = [f'<article class="{message.role}{gone}" aria-label="{label}">\n']
    pieces.append(f"<h2>{message.role}<small>{about}</small>{_badges(marks)}</h2>\n")
    pieces += [_part(part) for part in message.parts if part.kind not in SILENT]
    if message.error is not None:
        pieces.append(_error(f"{message.error.name}: {message.error.message}"))
    pieces.append("</article>\n")
    return "".join(pieces)


def _part(part: TranscriptPart) -> str:
    badges = _badges(["cleared" if mark == "pruned" else mark for mark in part.marks])
    if part.kind == "text":
        if not part.text and not badges:
            return ""
        text, note = _capped(part.text)
        return f"<div class=text dir=auto>{markdown_html(text)}</div>{note}{badges}\n"
    if part.kind == "reasoning":
        text, note = _capped(part.text)
        inside = f"<div class=text dir=auto>{markdown_html(text)}</div>{note}"
        return (
            f"<details class=reasoning><summary>reasoning{badges}</summary>{inside}</details>\n"
            if text or badges
            else ""
        )
    if part.kind == "tool":
        return _tool(part, badges)
    description = " ".join(word for word in (part.title, part.mime, part.filename or "", part.text) if word)
    text, note = _capped(description)
    return f"<p class=note dir=auto><b>{part.kind}</b> {plain_html(text)}{badges}</p>{note}\n"


def _tool(part: TranscriptPart, badges: str) -> str:
    hint = " ".join((part.title or part.input[: _HINT * 4]).split())
    hint = f" <span dir=auto>{plain_html(hint if len(hint) <= _HINT else f'{hint[:_HINT]}…')}</span>" if hint else ""
    state = "" if part.status == "completed" else f" <em>{plain_html(part.status)}</em>"
    pieces = [
        f"<details class=tool><summary><b>{plain_html(part.tool)}</b>{hint}{state}{badges}</summary>\n",
        _block("arguments", part.input) if part.input else "",
        _block("result", part.text) if part.text else "",
        "</details>\n",
    ]
    return "".join(pieces) + (_error(part.error) if part.error else "")


def _block(label: str, text: str) -> str:
    beginning, note = _capped(text)
    return f'<pre tabindex=0 aria-label="{label}" dir=auto>{plain_html(beginning)}</pre>{note}\n'


def _error(text: str) -> str:
    beginning, note = _capped(text)
    return f"<p class=error dir=auto><b>error</b> {plain_html(beginning)}</p>{note}\n"


def _capped(text: str) -> tuple[str, str]:
    """Return the text that is shown, and a note if that is not all."""
    cut: Shown = shown(text)
    if not cut.left_out:
        return cut.text, ""
    note = f"{cut.left_out:,} more characters are not shown; `eventlog recall` prints a part in full."
    return cut.text, f"<p class=cut>{escape(visible(note))}</p>"


def _badges(marks: list[str]) -> str:
    return "".join(f" <mark>{mark}</mark>" for mark in marks)


def _moment(milliseconds: int) -> str:
    return moment(milliseconds, zone=" UTC", unknown="")
