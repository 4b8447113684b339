"""`export`, and `view` in the forms of providers, print what the library makes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

import eventlog
from eventlog.importers import import_file
from projections.cli.exits import Exit
from projections.exports.jsonl import jsonl_lines
from projections.exports.markdown import markdown_blocks
from projections.exports.opencode import opencode_export
from projections.requests.forms import FORMS, RequestForm
from projections.view.model_view import ModelView
from tests.request_rules import anthropic
from tests.support.cli_runner import Cli, on_terminal, program, valid
from tests.support.opencode_schema import document_faults


def test_export_to_standard_output(store: Path) -> None:
    """Each format goes to standard output with the library's bytes."""
    with eventlog.open(store, read_only=True) as opened:
        session = opened.session("ses_a1")
        lines, text, document = (
            b"".join(jsonl_lines(session)),
            "".join(markdown_blocks(session)),
            opencode_export(session),
        )
    made = {
        form: program("export", "ses_a1", "--format", form, "--store", store)
        for form in ("jsonl", "markdown", "opencode")
    }
    assert all(done.returncode == Exit.OK and not done.stderr for done in made.values())
    assert made["jsonl"].stdout == lines.decode()
    assert made["markdown"].stdout == text
    assert json.loads(made["opencode"].stdout) == document
    assert document_faults(document) == []


def test_export_to_a_file_can_be_imported(cli: Cli, store: Path, tmp_path: Path) -> None:
    """An exported tree can be imported elsewhere; an existing file is replaced whole."""
    with eventlog.open(store) as opened:
        opened.session("ses_a1").fork(id="ses_fork").user("on")
    target = tmp_path / "out.jsonl"
    target.write_text("before")
    answer = cli("export", "ses_a1", "--format", "jsonl", "--tree", "--output", target)
    assert answer.code == Exit.OK
    assert answer.out == ""
    assert str(target) in answer.err
    assert [*tmp_path.glob("*.part")] == []
    with eventlog.open("memory:") as other, eventlog.open(store, read_only=True) as opened:
        report = import_file(other, target)
        assert report.skipped == []
        assert report.sessions == ["ses_a1", "ses_fork"]
        for name in report.sessions:
            assert other.session(name).version == opened.session(name).version


def test_a_tree_of_documents_is_a_directory(cli: Cli, store: Path, tmp_path: Path) -> None:
    """An OpenCode tree needs a directory for its files; session ids never lead out of it."""
    with eventlog.open(store) as opened:
        opened.session("ses_a1").subsession(id="../../evil").user("hi")
        opened.session("ses_a1").subsession(id=".. /../evil").user("hi")
    folder = tmp_path / "out" / "documents"
    assert cli("export", "ses_a1", "--format", "opencode", "--tree").code == Exit.USAGE
    assert cli("export", "ses_a1", "--format", "opencode", "--tree", "-o", folder).code == Exit.OK
    files = sorted(path.name for path in folder.iterdir())
    assert len(files) == 3
    assert "ses_a1.json" in files
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["documents"]
    assert not any(document_faults(json.loads((folder / name).read_text())) for name in files)


@pytest.mark.parametrize(
    ("format", "ending"), [("jsonl", "jsonl"), ("markdown", "md"), ("html", "html"), ("opencode", "json")]
)
def test_a_whole_store_is_a_directory(cli: Cli, store: Path, tmp_path: Path, format: str, ending: str) -> None:
    """Without a session each has a file; those of JSONL make the same store again."""
    with eventlog.open(store) as opened:
        opened.session("ses_a1").fork(id="a fork").user("on")
        opened.session("ses_a1").subsession(id="sub").user("hi")
        wanted = {info.id: info.version for info in opened.sessions()}
    folder = tmp_path / "out"
    assert cli("export", "--format", format).code == Exit.USAGE
    assert cli("export", "--format", format, "-o", folder).code == Exit.OK
    found = {path.name for path in folder.iterdir()} - {"index.html"}
    assert found == {f"{name.replace(' ', '_')}.{ending}" for name in wanted}
    if format == "jsonl":
        assert cli("import", folder, "--store", tmp_path / "other").code == Exit.OK
        with eventlog.open(tmp_path / "other") as other, eventlog.open(store, read_only=True) as opened:
            assert {info.id: info.version for info in other.sessions()} == wanted
            for name in wanted:
                assert b"".join(jsonl_lines(other.session(name))) == b"".join(jsonl_lines(opened.session(name)))


def test_a_whole_store_is_written_but_for_sessions_without_a_key(cli: Cli, tmp_path: Path) -> None:
    """A session that cannot be read is left out, and named."""
    with eventlog.open(tmp_path / "encrypted", keys=tmp_path / "keys") as opened:
        opened.create_session(id="locked").user("hi")
    answer = cli("export", "--format", "jsonl", "-o", tmp_path / "out", "--store", tmp_path / "encrypted")
    assert (answer.code, [*(tmp_path / "out").iterdir()]) == (Exit.OK, [])
    assert "session locked is left out" in answer.err


def test_a_tree_of_pages_has_an_index(cli: Cli, store: Path, tmp_path: Path) -> None:
    """The index links each session's page once, below its origin, in safe words."""
    with eventlog.open(store) as opened:
        root = opened.session("ses_a1")
        inner = root.subsession(id="a b/ü&", title="<script>alert(1)</script>")
        inner.subsession(id="index", title="Deeper").user("hi")
        root.fork(id="fork", title="Another way")
    folder = tmp_path / "pages"
    assert cli("export", "ses_a1", "--format", "html", "--tree", "-o", folder).code == Exit.OK
    page = (folder / "index.html").read_text()
    links: list[str] = [unquote(link) for link in re.findall(r'href="([^"]*)"', page)]
    assert sorted([*links, "index.html"]) == sorted(path.name for path in folder.iterdir())
    assert len(links) == 4
    assert "<script>" not in page
    depths = [
        len(re.findall("<ul>", page[: found.start()])) - len(re.findall("</ul>", page[: found.start()]))
        for found in re.finditer("<li>", page)
    ]
    assert depths in ([1, 2, 3, 2], [1, 2, 2, 3])
    assert "sub-session, " in page
    assert "fork at version" in page


def test_export_says_what_is_wrong(cli: Cli, store: Path, tmp_path: Path) -> None:
    """A wrong format, session or file ends with its exit code and leaves nothing behind."""
    del store
    assert cli("export", "ses_a1").code == Exit.USAGE
    assert cli("export", "nobody", "--format", "jsonl").code == Exit.MISSING
    assert cli("export", "ses_a1", "--format", "jsonl", "-o", tmp_path / "no" / "file").code == Exit.MISSING
    assert cli("export", "ses_a1", "--format", "markdown", "-o", tmp_path).code == Exit.USAGE
    assert not any(path.name.endswith(".part") for path in tmp_path.parent.iterdir())


def test_markdown_on_a_terminal_is_harmless(store: Path) -> None:
    """Escape sequences in Markdown output do not reach a terminal."""
    with eventlog.open(store) as opened:
        opened.session("ses_a1").user("\x1b]0;owned\x07 \x9b31m")
    code, out = on_terminal("--store", store, "export", "ses_a1", "--format", "markdown")
    assert code == Exit.OK
    assert "owned" in out
    assert "\x1b]" not in out
    assert "\x9b" not in out


@pytest.mark.parametrize("form", FORMS)
def test_view_in_a_providers_form(cli: Cli, store: Path, form: str) -> None:
    """`view --format` prints the request in each form, alone or in the JSON document."""
    with eventlog.open(store, read_only=True) as opened:
        view = ModelView.of(opened.session("ses_a1"))
        expected = RequestForm(form).body(view.messages, view.system)
        known = {"session": "ses_a1", "version": view.version, "tokens": view.tokens}
    answer = cli("view", "ses_a1", "--format", form, "--json")
    valid("view", answer.json)
    assert answer.json == {**known, **expected}
    printed = cli("view", "ses_a1", "--format", form).json
    assert printed == (expected["messages"] if form in {"openai-chat", "ai-sdk"} else expected)
    if form == "anthropic":
        assert anthropic.broken(printed) == []


def test_stats_tell_the_tree(cli: Cli, store: Path) -> None:
    """`stats` has the usage of the session, of its ancestors, and of its whole tree."""
    with eventlog.open(store) as opened:
        opened.session("ses_a1").fork(id="ses_fork")
    usage = cli("stats", "ses_fork", "--json").json["session"]["usage"]
    assert usage["own"] == []
    assert usage["inherited"] == usage["tree"] != []
    lines = cli("stats", "ses_fork").out.splitlines()
    assert any(line.startswith("spent\tmodel") for line in lines)
    assert any(line.startswith("tree\t") for line in lines)


def test_export_harms_no_store_and_no_keys(cli: Cli, store: Path, tmp_path: Path) -> None:
    """An export writes over no file of a store and no key file, through a link either."""
    keys = tmp_path / "chats.keys"
    with eventlog.open(tmp_path / "locked", keys=keys) as other:
        other.create_session(id="kept").user("hi")
    (tmp_path / "link").symlink_to(store / "1" / "lmdb" / "data.mdb")
    (tmp_path / "keys").symlink_to(keys)
    before = {
        path: path.read_bytes() for path in [*store.rglob("*"), keys] if path.is_file() and path.name != "lock.mdb"
    }
    places = [
        store / "1" / "lmdb" / "data.mdb",
        store / "format",
        store / "1" / "journal" / "new",
        tmp_path / "link",
        keys,
    ]
    for place in [*places, tmp_path / "keys", tmp_path / "locked" / "x"]:
        answer = cli("export", "ses_a1", "--format", "jsonl", "-o", place)
        assert (answer.code, "name another place" in answer.err) == (Exit.USAGE, True), place
    answer = cli("export", "ses_a1", "--format", "opencode", "--tree", "-o", store / "1" / "journal")
    assert (answer.code, "name another place" in answer.err) == (Exit.USAGE, True)
    for command in (["backup", tmp_path / "locked" / "b"], ["repair", "--into", tmp_path / "locked" / "b"]):
        answer = cli(*command)
        assert (answer.code, "name another place" in answer.err) == (Exit.USAGE, True), command
    answer = cli("restore", store, "--into", tmp_path / "locked" / "b")
    assert (answer.code, "name another place" in answer.err) == (Exit.USAGE, True)
    for path, data in before.items():
        assert path.read_bytes() == data, path
    (tmp_path / "other").symlink_to(tmp_path / "real")
    assert cli("export", "ses_a1", "--format", "jsonl", "-o", tmp_path / "other").code == Exit.OK
    assert (tmp_path / "other").is_symlink()


def test_export_into_a_pipe_with_a_name(cli: Cli, store: Path, tmp_path: Path) -> None:
    """A pipe or a device is written to, and never replaced by a file."""
    del store
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert cli("export", "ses_a1", "--format", "jsonl", "-o", pipe).code == Exit.OK
    assert os.read(reader, 1 << 16).startswith(b"{")
    os.close(reader)
    assert pipe.is_fifo()
