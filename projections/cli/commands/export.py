"""`export`: write sessions as event JSONL, Markdown, HTML, SQLite or for OpenCode."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from click import Choice, option

from projections.cli import output
from projections.cli.exits import Fault
from projections.cli.screen import is_terminal, safe
from projections.cli.short_ids import session_of
from projections.cli.store_option import Context, reading, reading_session
from projections.cli.words import OPTIONAL_SESSION, PATH, command, flag
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Session, SessionInfo
    from eventlog.session.session import Sessions

_Format: TypeAlias = Literal["opencode", "jsonl", "markdown", "html", "sqlite"]
_ENDINGS = {"opencode": "json", "jsonl": "jsonl", "markdown": "md", "html": "html"}


@command(json=False)
@OPTIONAL_SESSION
@option(
    "--format",
    type=Choice(get_args(_Format)),
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
    help="File to write; without SESSION, and with --tree of opencode and html, a directory, which gets a file for "
    "each session, and for html an index.html [default: standard output; sqlite needs a file].",
)
def export(context: Context, session: str | None, *, format: _Format, tree: bool, to: Path | None) -> None:
    """Write a session to a file or to standard output.

    Without SESSION each session of the store is written, into a directory. An existing file is
    replaced once the new one is complete. jsonl includes the history that the session inherited
    from the sessions it was forked from; `eventlog import` takes a directory of them. A session
    that is damaged, or whose key is not there, is left out of all, with a warning.
    """
    if format == "sqlite":
        _write_sqlite(context, session, to, tree=tree)
        return
    if session is None:
        if to is None:
            raise Fault(f"--format {format} writes a file for each session: name one, or a directory with --output")
        with reading(context) as store:
            _write_each(store, store.sessions(), to, format)
        return
    with reading_session(context, session) as handle:
        if format in {"opencode", "html"} and tree:
            from projections.reports.session_tree import descendants

            if to is None:
                raise Fault(f"--format {format} --tree writes several files: name a directory with --output")
            _write_each(handle.store, descendants(handle.store, handle.id), to, format)
        elif to is None:
            _print(_pieces(handle, format, tree=tree))
        else:
            _write_file(to, _pieces(handle, format, tree=tree))


def _pieces(session: Session, format: _Format, *, tree: bool) -> Iterator[bytes]:
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
    if is_terminal():
        for piece in pieces:
            sys.stdout.write(safe(piece.decode()))
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _write_sqlite(context: Context, session: str | None, to: Path | None, *, tree: bool) -> None:
    """Write a session, its tree, or all sessions into an SQLite file."""
    from projections.exports.sqlite import write_sqlite
    from projections.reports.session_tree import descendants

    if to is None:
        raise Fault("--format sqlite writes a file: name it with --output")
    with reading(context) as store, _part_file(to) as part:
        if session is None:
            chosen = [info for info in store.sessions() if not info.locked]
        else:
            root = session_of(store, session)
            chosen = descendants(store, root.id) if tree else [root.info]
        write_sqlite((store.session(info.id) for info in chosen), part, inherited=session is not None and not tree)


def _write_each(store: Sessions, sessions: Iterable[SessionInfo], directory: Path, format: _Format) -> None:
    """Write a file for each session, named by its id; for HTML an index as well."""
    from eventlog.errors import DataError

    directory.mkdir(parents=True, exist_ok=True)
    taken = {"index"}
    pages: list[tuple[SessionInfo, str]] = []
    for info in sessions:
        name = base = re.sub(r"[^\w.-]", "_", info.id).lstrip(".")[:100] or "session"
        number = 1
        while name.lower() in taken:
            number += 1
            name = f"{base}-{number}"
        taken.add(name.lower())
        file = f"{name}.{_ENDINGS[format]}"
        try:
            _write_file(directory / file, _pieces(store.session(info.id), format, tree=False))
            pages.append((info, file))
        except DataError as error:
            output.note(f"session {info.id} is left out: {error}")
    if format == "html":
        from projections.exports.html import html_index

        _write_file(directory / "index.html", (text.encode() for text in html_index(pages)))


# -- files under a temporary name, renamed once they are whole -------------------------------------


def _write_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file that is never incomplete; a pipe or device is written to directly.

    Raises `Fault` for a file of a store or a key file.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        _refuse_store_and_keys(path.resolve())
        with path.open("wb") as pipe:
            pipe.writelines(pieces)
        return
    with _part_file(path) as part, part.open("wb") as file:
        file.writelines(pieces)


@contextmanager
def _part_file(path: Path) -> Generator[Path]:
    """Give the temporary name of a file; when the block ends the file gets its own name.

    Raises `Fault` for a file of a store or a key file.
    """
    path = path.resolve()  # a link's target is replaced, not the link
    _refuse_store_and_keys(path)
    part = path.with_name(path.name + ".part")
    try:
        part.unlink(missing_ok=True)
        yield part
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    output.note(f"{path}: {counted(path.stat().st_size, 'byte')}")


def _refuse_store_and_keys(path: Path) -> None:
    from eventlog.encryption.key_file import is_key_file
    from eventlog.errors import CallError
    from eventlog.log.embedded.directory import refuse_inside_store

    try:
        refuse_inside_store(path)
    except CallError as error:
        raise Fault(str(error)) from None
    if is_key_file(path):
        raise Fault(f"{path} is a key file: name another place")
