"""The index of an exported tree: a page that links the pages of its sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias
from urllib.parse import quote

from eventlog.history.catalog import SessionInfo
from projections.exports.html import page_head
from projections.exports.html_text import plain_html
from projections.reports.wording import counted, moment

_Page: TypeAlias = tuple[SessionInfo, str]


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
    yield page_head(f"{counted(len(pages), 'session')}: {root.title or root.id}")
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
