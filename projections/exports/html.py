"""Export a session as one HTML file that needs nothing else: a transcript for people.

The file has no script and loads nothing, which its policy also forbids. Stored text is never markup
(`html_text.py`). Of a long part only the beginning is shown. The export streams in bounded memory.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TypeAlias
from urllib.parse import quote

from eventlog.history.catalog import SessionInfo
from eventlog.session.session import Session
from projections.exports.html_text import import_html, markdown_html, plain_html
from projections.exports.readable import SILENT, backwards, description, facts, marks, own_messages, when
from projections.reports.wording import counted, moment
from projections.transcript.message import TranscriptMessage, TranscriptPart

__all__ = ["html_index", "html_pieces"]

LONGEST = 200_000
"""Characters of a text that are shown."""
_Page: TypeAlias = tuple[SessionInfo, str]
_HINT = 100
"""Characters of a call that are seen while it is folded: its title, or its arguments."""


def html_pieces(session: Session) -> Iterator[str]:
    """Yield the page of a session piece by piece."""
    import_html()
    yield _page_head(session.info.title or session.id)
    yield "<dl>\n"
    for name, value in facts(session).items():
        yield f"<div><dt>{name}</dt><dd dir=auto>{plain_html(' '.join(value.split()))}</dd></div>\n"
    yield "</dl>\n</header>\n"
    empty = True
    for text in backwards(_message(message) for message in own_messages(session, 0)):
        empty = False
        yield text
    if empty:
        yield "<p class=empty>There is no message in this session.</p>\n"
    yield "</main>\n</body>\n</html>\n"


def _page_head(title: str) -> str:
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


def html_index(pages: Sequence[_Page]) -> Iterator[str]:
    """Yield the page piece by piece; `pages` are sessions, the root first, and names of files.

    Forks and sub-sessions stand below the session that they come from.
    """
    root = pages[0][0]
    ids = {info.id for info, _ in pages}
    below: dict[str, list[_Page]] = {}
    for page in pages[1:]:
        info = page[0]
        origin = info.fork_of if info.fork_of in ids else info.parent
        below.setdefault(origin or root.id, []).append(page)
    yield _page_head(f"{counted(len(pages), 'session')}: {root.title or root.id}")
    yield "</header>\n<ul>\n"
    waiting: list[_Page | str] = [pages[0]]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
            continue
        info, name = item
        kind = "sub-session, " if info.parent in ids else f"fork at version {info.forked_at}, " if info.fork_of else ""
        facts = f"{kind}{counted(info.messages, 'message')}, {moment(info.updated)}"
        title = plain_html(" ".join((info.title or info.id).split()))
        yield f'<li><a href="{quote(name)}" dir=auto>{title}</a> <small>{plain_html(facts)}</small>\n'
        waiting.append("</li>\n")
        if info.id in below:
            waiting += ["</ul>\n", *reversed(below[info.id]), "<ul>\n"]
    yield "</ul>\n</main>\n</body>\n</html>\n"


def _message(message: TranscriptMessage) -> str:
    told = [message.agent, "" if message.model is None else str(message.model), when(message.created)]
    said = [plain_html(" ".join(fact.split())) for fact in told if fact]
    gone = " gone" if message.removed or message.covered else ""
    about = "".join(f"<span>{fact}</span>" for fact in [*said, f"version {message.version}"])
    label = f"{message.role}, version {message.version}"
    pieces = [f'<article class="{message.role}{gone}" aria-label="{label}">\n']
    pieces.append(f"<h2>{message.role}<small>{about}</small>{_badges(marks(message))}</h2>\n")
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
    text, note = _capped(description(part))
    return f"<p class=note dir=auto><b>{part.kind}</b> {plain_html(text)}{badges}</p>{note}\n"


def _tool(part: TranscriptPart, badges: str) -> str:
    hint = " ".join((part.title or part.input[: _HINT * 4]).split())
    hint = f" <span dir=ltr>{plain_html(hint if len(hint) <= _HINT else f'{hint[:_HINT]}…')}</span>" if hint else ""
    state = "" if part.status == "completed" else f" <em>{plain_html(part.status)}</em>"
    pieces = [
        f"<details class=tool><summary><b>{plain_html(part.tool)}</b>{hint}{state}{badges}</summary>\n",
        _block("arguments", part.input) if part.input else "",
        _block("result", part.text) if part.text else "",
        *(f"<p class=note dir=auto><b>file</b> {plain_html(file)}</p>\n" for file in part.attachments),
        "</details>\n",
    ]
    return "".join(pieces) + (_error(part.error) if part.error else "")


def _block(label: str, text: str) -> str:
    beginning, note = _capped(text)
    return f'<pre tabindex=0 aria-label="{label}" dir=ltr>{plain_html(beginning)}</pre>{note}\n'


def _error(text: str) -> str:
    beginning, note = _capped(text)
    return f"<p class=error dir=ltr><b>error</b> {plain_html(beginning)}</p>{note}\n"


def _capped(text: str) -> tuple[str, str]:
    """Return the text that is shown, and a note if that is not all."""
    if len(text) <= LONGEST:
        return text, ""
    left = f"{len(text) - LONGEST:,} more characters are not shown"
    return text[:LONGEST], f"<p class=cut>{left}; `eventlog recall` prints a part in full.</p>"


def _badges(names: list[str]) -> str:
    return "".join(f" <mark>{name}</mark>" for name in names)
