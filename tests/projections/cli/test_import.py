"""`eventlog import`: imported, skipped and reported records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eventlog.importers import FORMATS
from projections.cli.exits import Exit
from tests.eventlog.importers.test_claude_code import branched, write
from tests.support.cli_runner import STREAM, Cli, on_terminal, program, valid


def test_import(cli: Cli, stream: Path) -> None:
    """`import --json` reports what was imported, and importing again adds nothing."""
    first = cli("import", stream, "--json")
    valid("import", first.json)
    (entry,) = first.json["files"]
    assert (entry["path"], entry["format"], entry["messages"], entry["parts"]) == (str(stream), "anthropic_sse", 1, 1)
    assert entry["events"] > 0
    assert entry["skipped"] == []
    (session,) = entry["sessions"]
    deltas = [json.loads(line) for line in cli("events", session, "--json").out.splitlines()]
    assert [line["event"]["text"] for line in deltas if line["kind"] == "part-delta"] == ["Hello", " there"]
    again = cli("import", stream, "--json").json["files"][0]
    assert (again["sessions"], again["events"], again["messages"]) == ([session], 0, 1)
    assert "nothing new" in cli("import", stream).out


def test_import_reports_what_it_skips(cli: Cli, stream: Path) -> None:
    """A damaged line is listed with its number and reason; the others are imported."""
    lines = STREAM.splitlines(keepends=True)
    number = next(index for index, line in enumerate(lines) if '"Hello"' in line)
    lines[number] = lines[number].replace('"Hello"', '"Hel')
    stream.write_text("".join(lines))
    answer = cli("import", stream, "--json")
    assert answer.code == Exit.OK
    (entry,) = answer.json["files"]
    assert [skipped["line"] for skipped in entry["skipped"]] == [number + 1]
    assert entry["skipped"][0]["reason"]
    assert f"(line {number + 1})" in cli("import", stream).out


def test_import_of_several_files(cli: Cli, stream: Path, tmp_path: Path) -> None:
    """A file that cannot be imported stops no other; the exit code is of the first failure."""
    strange = tmp_path / "strange.txt"
    strange.write_text("nothing that is known\n")
    answer = cli("import", strange, tmp_path / "absent", stream, "--json")
    valid("import", answer.json)
    assert answer.code == Exit.USAGE
    assert ["error" in entry for entry in answer.json["files"]] == [True, True, False]
    assert len(answer.err.splitlines()) == 3
    assert answer.err.endswith("1 file imported, 0 files unchanged, 2 files refused\n")
    assert answer.json["files"][2]["messages"] == 1


def test_import_formats_in_the_help(cli: Cli) -> None:
    """The help lists every importable format."""
    shown = " ".join(cli("import", "--help").out.split())
    for name in FORMATS:
        assert name in shown


def test_import_of_nothing_makes_no_store(cli: Cli, tmp_path: Path) -> None:
    """Importing missing files creates no store."""
    assert cli("import", tmp_path / "absent").code == Exit.MISSING
    assert not (tmp_path / "store").exists()


def test_import_of_a_pipe_says_what_to_do(stream: Path, tmp_path: Path) -> None:
    """A pipe, which cannot be read twice, is refused in one line that says what to do."""
    done = program("--store", tmp_path / "store", "import", "/dev/stdin", input=stream.read_text())
    assert (done.returncode, done.stdout) == (Exit.USAGE, "")
    assert "save its content to a file first" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_import_shows_progress_on_a_terminal_only(stream: Path, tmp_path: Path) -> None:
    """A bar is drawn on a terminal; a pipe gets the report and no progress."""
    code, drawn = on_terminal("--store", tmp_path / "one", "import", stream)
    assert code == Exit.OK
    assert "answer.sse" in drawn
    assert "\x1b[" in drawn
    piped = program("--store", tmp_path / "two", "import", stream)
    assert (piped.returncode, piped.stderr) == (Exit.OK, "")
    assert "\x1b" not in piped.stdout


def test_import_errors_name_the_file(cli: Cli, tmp_path: Path) -> None:
    """The line of a failed import begins with the file."""
    bad = tmp_path / "bad.json"
    bad.write_text('{"info": []}')
    other = tmp_path / "other.json"
    other.write_text('{"messages": []}')
    for files in ([bad], [bad, other]):
        answer = cli("import", "--format", "opencode", *files)
        assert answer.code == Exit.USAGE
        lines = answer.err.splitlines()
        assert len(lines) == len(files) + (len(files) > 1)
        for line, file in zip(lines, files, strict=False):
            assert line.startswith(f"eventlog: {file}: ")


def test_import_of_a_directory(cli: Cli, stream: Path, tmp_path: Path) -> None:
    """Of a directory all files are tried; refused ones are grouped by reason, and counted."""
    place = tmp_path / "recordings"
    (place / "deeper").mkdir(parents=True)
    (place / ".hidden").write_text(STREAM)
    stream.rename(place / "deeper" / "answer.sse")
    for name in ("one.txt", "two.txt", "three.txt"):
        (place / name).write_text("nothing that is known\n")
    first = cli("import", place)
    assert first.code == Exit.OK, "files that were only found are no failure"
    assert len(first.out.splitlines()) == 1
    reason, counts = first.err.splitlines()
    assert reason.startswith("eventlog: 3 files: the format is not known")
    assert reason.endswith("(one.txt, three.txt, …)")
    assert counts == "1 file imported, 0 files unchanged, 3 files refused"
    again = cli("import", place, "--json")
    valid("import", again.json)
    assert [again.json[name] for name in ("imported", "unchanged", "refused")] == [0, 1, 3]
    assert cli("import", place).out == ""
    assert cli("import", place, place / "one.txt").code == Exit.OK, "a file is imported once"
    (tmp_path / "empty").mkdir()
    assert cli("import", tmp_path / "empty").code == Exit.MISSING


def test_import_by_a_pattern(cli: Cli, tmp_path: Path) -> None:
    """A pattern that the shell left alone stands for the files that fit it."""
    for number in range(3):
        (tmp_path / f"answer-{number}.sse").write_text(STREAM.replace("Hello", f"Hello {number}"))
    answer = cli("import", tmp_path / "answer-[01].sse")
    assert (answer.code, answer.err) == (Exit.OK, "2 files imported, 0 files unchanged, 0 files refused\n")
    assert len(cli("sessions", "--json").json["sessions"]) == 2
    assert cli("import", tmp_path / "nothing-*.sse").code == Exit.MISSING


def test_import_of_standard_input(tmp_path: Path) -> None:
    """`-` is standard input, which may be a pipe."""
    done = program("--store", tmp_path / "store", "import", "-", input=STREAM)
    assert (done.returncode, done.stdout.startswith("-: anthropic_sse, session ")) == (Exit.OK, True)
    refused = program("--store", tmp_path / "store", "import", "-", input="nothing that is known")
    assert (refused.returncode, refused.stderr.startswith("eventlog: -: the format is not known")) == (Exit.USAGE, True)


def test_the_command_line_gives_a_scope(cli: Cli, tmp_path: Path) -> None:
    """`import --scope` gives sessions their scope; another one is refused later."""
    path = write(tmp_path / "s.jsonl", branched())
    assert cli("import", path, "--scope", "acme").code == 0
    assert len(cli("sessions", "--scope", "acme", "--json").json["sessions"]) == 2
    refused = cli("import", path, "--scope", "other")
    assert (refused.code, "never changes" in refused.err) == (2, True)


def test_import_leaves_out_what_was_erased(cli: Cli, tmp_path: Path) -> None:
    """A file whose session was erased is counted and no failure, unless it is the one named."""
    folder = tmp_path / "chats"
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.json").write_text(json.dumps([{"role": "user", "content": name}]))
    (first, _) = [entry["sessions"][0] for entry in cli("import", folder, "--json").json["files"]]
    cli("erase", first, "--yes")
    again = cli("import", folder)
    last = "0 files imported, 1 file unchanged, 0 files refused, 1 file of erased sessions left out\n"
    assert (again.code, again.err) == (Exit.OK, last)
    counts = cli("import", folder, "--json")
    valid("import", counts.json)
    assert [counts.json[name] for name in ("unchanged", "refused", "erased")] == [1, 0, 1]
    assert cli("import", folder / "a.json").code == Exit.MISSING


def test_import_makes_the_index_of_lists(cli: Cli, stream: Path, monkeypatch: Any) -> None:
    """Programs that only read list the sessions without a look at each head."""
    cli("import", stream)
    monkeypatch.setattr("eventlog.log.embedded.partition.newest_of", None)
    assert len(cli("sessions", "--json").json["sessions"]) == 1
