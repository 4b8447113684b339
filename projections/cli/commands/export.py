"""`export`: write a session as event JSONL, Markdown, or OpenCode's export JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from projections.cli import output
from projections.cli.exits import UsageFault
from projections.cli.grammar import Context, Option
from projections.cli.options import SESSION
from projections.cli.store_option import reading_session
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Session

__all__ = ["run"]

Format: TypeAlias = Literal["opencode", "jsonl", "markdown"]


def run(
    context: Context,
    session: SESSION,
    *,
    format: Annotated[
        Format,
        Option("--format", help="jsonl is lossless and can be imported again; opencode is for `opencode import`."),
    ],
    tree: Annotated[bool, Option("--tree", help="Also write its forks and sub-sessions, and theirs.")] = False,
    to: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="PATH",
            help="File to write; with --format opencode --tree a directory, which gets a file for each session "
            "[default: standard output].",
        ),
    ] = None,
) -> None:
    """Write a session to a file or to standard output.

    An existing file is replaced once the new one is complete. jsonl includes the history that the
    session inherited from the sessions it was forked from.
    """
    with reading_session(context, session) as handle:
        if format == "opencode" and tree:
            if to is None:
                raise UsageFault("--format opencode --tree writes several files: name a directory with --output")
            _write_tree(handle, to)
        elif to is None:
            _print(_pieces(handle, format, tree=tree))
        else:
            _write(to, _pieces(handle, format, tree=tree))


def _pieces(session: Session, format: Format, *, tree: bool) -> Iterator[bytes]:
    if format == "jsonl":
        from projections.exports.jsonl import jsonl_lines

        yield from jsonl_lines(session, tree=tree)
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


def _write_tree(session: Session, directory: Path) -> None:
    """Write a file for each session of the tree, named by its id."""
    from projections.exports.opencode import opencode_pieces
    from projections.reports.session_tree import descendants

    directory.mkdir(parents=True, exist_ok=True)
    taken: set[str] = set()
    for info in descendants(session.store, session.id):
        name = base = re.sub(r"[^\w.-]", "_", info.id).lstrip(".")[:100] or "session"
        number = 1
        while name.lower() in taken:
            number += 1
            name = f"{base}-{number}"
        taken.add(name.lower())
        _write(directory / f"{name}.json", opencode_pieces(session.store.session(info.id)))


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file under a temporary name, then rename it, so that it is never incomplete.

    Raises `UsageFault` for a file of a store or a key file. A pipe or device is written to
    directly.
    """
    path = path.resolve()  # a link's target is replaced, not the link
    _refuse_store_and_keys(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as pipe:
            pipe.writelines(pieces)
        return
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.writelines(pieces)
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
        raise UsageFault(str(error)) from None
    if is_key_file(path):
        raise UsageFault(f"{path} is a key file: name another place")
