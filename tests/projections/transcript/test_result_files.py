"""Files that a tool returned are named in every form of a transcript, and sent in none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import eventlog
from eventlog.values import Attachment
from projections.exports.html import html_pieces
from projections.exports.markdown import markdown_blocks
from projections.exports.sqlite import write_sqlite
from projections.transcript.transcript import Transcript
from tests.support.cli_runner import program

PNG = "data:image/png;base64,iVBORw0KGgo="
NAMED = ("image/png: screen.png", "application/pdf: file")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a call that returned two files and no text, and a redacted one."""
    path = tmp_path / "s"
    with eventlog.open(path) as store:
        session = store.create_session(id="s")
        session.user("look")
        with session.assistant("acme/one") as reply:
            files = [Attachment("image/png", PNG, "screen.png"), Attachment("application/pdf", "https://x/y.pdf")]
            reply.tool("shot", call_id="c", input={}).succeed("", attachments=files)
            hidden = reply.tool("shot", call_id="d", input={})
            hidden.succeed("", attachments=[Attachment("image/png", PNG, "private.png")])
            reply.finish("tool-calls")
        session.redact(hidden.id)
    return path


def test_files_of_results_are_named(path: Path, tmp_path: Path) -> None:
    """Each form names type and name, and no file of a redacted result."""
    with eventlog.open(path) as store:
        session = store.session("s")
        first, second = [part for message in Transcript(session).oldest_first() for part in message.parts[-2:]][-2:]
        assert (first.attachments, second.attachments) == (NAMED, ())
        write_sqlite([session], tmp_path / "a.db", inherited=True)
        with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
            said = [row[0] for row in connection.execute("SELECT attachments FROM calls")]
        assert said == ["\n".join(NAMED), ""]
        forms = ["".join(markdown_blocks(session)), "".join(html_pieces(session))]
    forms += [program("--store", path, "show", "s", *more).stdout for more in ((), ("--json",))]
    for form in forms:
        assert all(name in form for name in NAMED)
        assert "private.png" not in form
        assert "iVBOR" not in form
