"""`export`: write sessions as event JSONL, Markdown, HTML, SQLite or for OpenCode."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from click import Choice, option

from projections.cli import output
from projections.cli.exits import UsageFault
from projections.cli.options import OPTIONAL_SESSION
from projections.cli.part_file import part_file, write_file
from projections.cli.short_ids import session_of
from projections.cli.store_option import reading, reading_session
from projections.cli.words import PATH, Context, command, flag

if TYPE_CHECKING:
    from eventlog import Session, SessionInfo

Format: TypeAlias = Literal["opencode", "jsonl", "markdown", "html", "sqlite"]


@command
@OPTIONAL_SESSION
@option(
    "--format",
    type=Choice(get_args(Format)),
    required=True,
    help="jsonl is lossless and can be imported again; opencode is for `opencode import`; html is a page that "
    "needs nothing else; sqlite is a file to query, of one session or of all.",
)
@flag("--tree", help="Also write its forks and sub-sessions, and theirs.")
@option(
    "--output",
    "-o",
    "to",
    type=PATH,
    metavar="PATH",
    help="File to write; with --tree and --format opencode or html a directory, which gets a file for each "
    "session, and for html an index.html [default: standard output; sqlite needs a file].",
)
def run(context: Context, session: str | None, *, format: Format, tree: bool, to: Path | None) -> None:
    """Write a session to a file or to standard output.

    An existing file is replaced once the new one is complete. jsonl includes the history that the
    session inherited from the sessions it was forked from.
    """
    if format == "sqlite":
        _write_sqlite(context, session, to, tree=tree)
        return
    if session is None:
        raise UsageFault(f"--format {format} writes one session: name it; --format sqlite can write all")
    with reading_session(context, session) as handle:
        if format in {"opencode", "html"} and tree:
            if to is None:
                raise UsageFault(f"--format {format} --tree writes several files: name a directory with --output")
            _write_tree(handle, to, format)
        elif to is None:
            _print(_pieces(handle, format, tree=tree))
        else:
            write_file(to, _pieces(handle, format, tree=tree))


def _pieces(session: Session, format: Format, *, tree: bool) -> Iterator[bytes]:
    if format == "jsonl":
        from projections.exports.jsonl import jsonl_lines

        yield from jsonl_lines(session, tree=tree)
    elif format == "html":
        from projections.exports.html import html_pieces

        yield from (text.encode() for text in html_pieces(session))
    elif format == "markdown":
        from projections.exports.markdown import markdown_blocks

        yield from (text.encode() for text in markdown_blocks(session, tree=tree))
    else:
        from projections.exports.opencode import opencode_pieces

        yield from opencode_pieces(session)


def _print(pieces: Iterable[bytes]) -> None:
    """Write to standard output; on a terminal control characters are made visible."""
    if output.terminal():
        for piece in pieces:
            sys.stdout.write(output.safe(piece.decode()))
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _write_sqlite(context: Context, session: str | None, to: Path | None, *, tree: bool) -> None:
    """Write a session, its tree, or all sessions into an SQLite file."""
    from projections.exports.sqlite import write_sqlite
    from projections.reports.session_tree import descendants

    if to is None:
        raise UsageFault("--format sqlite writes a file: name it with --output")
    with reading(context) as store, part_file(to) as part:
        if session is None:
            chosen = [info for info in store.sessions() if not info.locked]
        else:
            root = session_of(store, session)
            chosen = descendants(store, root.id) if tree else [root.info]
        write_sqlite((store.session(info.id) for info in chosen), part, inherited=session is not None and not tree)


def _write_tree(session: Session, directory: Path, format: Format) -> None:
    """Write a file for each session of the tree, named by its id; for HTML an index as well."""
    from projections.reports.session_tree import descendants

    directory.mkdir(parents=True, exist_ok=True)
    taken = {"index"}
    pages: list[tuple[SessionInfo, str]] = []
    for info in descendants(session.store, session.id):
        name = base = re.sub(r"[^\w.-]", "_", info.id).lstrip(".")[:100] or "session"
        number = 1
        while name.lower() in taken:
            number += 1
            name = f"{base}-{number}"
        taken.add(name.lower())
        file = f"{name}.{'html' if format == 'html' else 'json'}"
        pages.append((info, file))
        write_file(directory / file, _pieces(session.store.session(info.id), format, tree=False))
    if format == "html":
        from projections.exports.html_index import html_index

        write_file(directory / "index.html", (text.encode() for text in html_index(pages)))
