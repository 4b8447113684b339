"""Every page tells the truth: examples run, and what a page names exists."""

from __future__ import annotations

import ast
import builtins
import posixpath
import re
import subprocess
import sys
import typing
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

import eventlog
from benchmarks.__main__ import argument_parser
from eventlog.importers import FORMATS
from projections.cli.app import PROGRAM
from projections.cli.exits import Exit
from projections.cli.exits import __doc__ as EXIT_CODES  # noqa: N812  # the text that lists them
from projections.cli.registry import COMMANDS, load
from projections.loop import ContextWindow
from tests.support.cli_runner import SCHEMAS
from tests.support.frameworks import needs_one
from tests.support.pages import (
    FILES,
    LOOP,
    PAGES,
    ROOT,
    Block,
    anchors,
    blocks,
    codes,
    command_lines,
    example,
    links,
    prose,
    python_examples,
)
from tests.support.postgres_server import Server

TOPS = ("eventlog", "projections", "tests", "benchmarks")
_ADDRESS = "DATABASE_URL"
FENCES = {"python", "pyi", "javascript", "sh", "sql", "console", "json", "text", ""}
PYTEST_OPTIONS = {"--timeout"}
BUDGETS = {"benchmarks/README.md": 1_200, "tests/README.md": 1_500, "eventlog/log/embedded/FORMAT.md": 3_000}
"""Words that a page may have."""
OTHERS_NAMES = {
    "BinaryContent", "BinaryImage", "ConversationConflict", "ConversationStore", "EncryptedSession", "EventSource", "EventStore", "MirrorErrorMessage", "OpenAIResponsesCompactionSession", "PermissionResultDeny", "RunState", "SQLiteSession", "SqliteSessionService",
    "SessionStore", "StaleSessionError", "StreamingResponse",
}  # fmt: skip
"""Classes of other libraries that pages name."""
OTHERS_FILES = {"tests/models/cassettes/test_anthropic/test_anthropic_mcp_servers_stream.yaml"}
"""Files of other repositories that pages name."""

every_page = pytest.mark.parametrize("page", PAGES)


def run(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a directory, with nothing but the packages of this tree."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "OPENAI_API_KEY": "none", **_server_for(code)},
        capture_output=True,
        text=True,
        check=False,
    )


def _server_for(code: str) -> dict[str, str]:
    """Return the variable that an example of a server reads: the address of an empty schema."""
    return {_ADDRESS: _server().new_schema()} if _ADDRESS in code else {}


@cache
def _server() -> Server:
    return Server(settings={"fsync": "on"})


EXAMPLES = [block for block in python_examples() if LOOP not in block.code]
"""Python blocks of the pages, but for the loop, whose tests bring a server."""


@pytest.mark.parametrize("block", [block for block in EXAMPLES if not needs_one(block.code)], ids=str)
def test_an_example_runs(block: Block, tmp_path: Path) -> None:
    """Every Python block of a page is a program that runs as it stands."""
    done = run(block.code, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@every_page
def test_code_is_in_a_language_that_is_tested(page: str) -> None:
    """Blocks have a known language, so that no Python example escapes its test."""
    assert {block.language for block in blocks(page)} <= FENCES


def test_the_quickstart_leaves_its_session(tmp_path: Path) -> None:
    """The quickstart has at most fifteen lines, prints its view, and leaves its store."""
    quickstart = blocks("README.md")
    code = next(block.code for block in quickstart if block.language == "python")
    assert len([line for line in code.splitlines() if line]) <= 15
    done = run(code, tmp_path)
    assert re.fullmatch(r"3 messages, \d+ tokens, version \d+\n", done.stdout)
    assert (tmp_path / "chats").is_dir()


def test_there_are_two_commands_and_ci_runs_them() -> None:
    """The README has exactly two commands to begin with, and `.ci/run` takes them from there."""
    commands = [line for block in blocks("README.md") if block.language == "sh" for line in block.code.splitlines()]
    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv .venv && .venv/bin/pip install -q ") for command in commands)
    assert commands[0].endswith("eventlog demo")
    assert "pytest" in commands[1].rpartition(" && ")[2]
    assert PAGES["README.md"].count("\npython3 -m venv ") == 2
    steps = re.findall(r'^step "?(.+?)"?$', (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert "grep '^python3 -m venv ' README.md" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "$tests" in steps
    assert not [step for step in steps if ".venv/bin/pip" in step], "CI installs what the README does, nothing else"


def test_the_readme_is_short() -> None:
    """The README is an overview: at most 160 lines."""
    assert len(PAGES["README.md"].splitlines()) <= 160


@pytest.mark.parametrize(("page", "most"), BUDGETS.items())
def test_a_long_page_keeps_its_budget(page: str, most: int) -> None:
    """The longest pages have at most so many words, as `tests.size` counts."""
    assert len(PAGES[page].split()) <= most


def test_numbers_of_the_readme_are_measured() -> None:
    """Every number in the README's table of numbers is a cell of the benchmarks' page."""
    table = PAGES["README.md"].partition("\n## Numbers\n")[2].partition("\n## ")[0]
    cells = {cell.strip() for line in PAGES["benchmarks/README.md"].splitlines() for cell in line.split("|")}
    numbers = re.findall(r"([\d.,]+) (?:ms|µs|MB)\b", table)
    assert len(numbers) > 10
    assert [number for number in numbers if number not in cells and f"{number} ms" not in cells] == []


@every_page
def test_links_lead_somewhere(page: str) -> None:
    """Links lead to files of the repository, and their anchors to headings."""
    wrong = [
        f"{path}#{anchor}"
        for path, anchor in links(page)
        if not (ROOT / path).exists() or (anchor and anchor not in anchors(path))
    ]
    assert wrong == []


@every_page
def test_named_files_exist(page: str) -> None:
    """Modules, pages and folders that a page names exist, by path or by its end."""
    wrong: list[str] = []
    for name in re.findall(r"(?<![\w/.:-])([\w./-]*\w\.(?:py|md))\b(?!\.)", prose(page)):
        end = re.sub(r"^(\.{0,2}/)+", "", name)
        if not any(file == end or file.endswith(f"/{end}") for file in FILES):
            wrong.append(name)
    for code in codes(page):
        is_path = re.fullmatch(rf"({'|'.join(TOPS)}|\.ci)/[\w./-]*", code) and code not in OTHERS_FILES
        if is_path and not (ROOT / code).exists():
            wrong.append(code)
    assert wrong == []


@every_page
def test_named_tests_exist(page: str) -> None:
    """Tests that a page names are in their files."""
    for path, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGES[page]):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        assert test in names, f"{path}::{test}"


@every_page
def test_started_modules_exist(page: str) -> None:
    """Every `python -m` of a page starts a module of the tree, or build, pytest, venv or pip."""
    for module in re.findall(r"python3? -m ([\w.]+)", PAGES[page]):
        place = module.replace(".", "/")
        known = {f"{place}.py", f"{place}/__main__.py"} & set(FILES)
        assert known or module in {"build", "pytest", "venv", "pip"}, module


def test_the_changelog_and_the_licence_are_there() -> None:
    """The changelog has a place for what comes next; the licence is the declared one."""
    assert "## [0.1.0]" in (ROOT / "CHANGELOG.md").read_text()
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")


@cache
def options() -> dict[str, frozenset[str]]:
    """The options of each command, and under "" those of the program itself."""
    commands: dict[str, click.Command] = {"": PROGRAM, **{name: load(name) for name in COMMANDS}}
    return {
        name: frozenset(option for each in command.params for option in (*each.opts, *each.secondary_opts))
        for name, command in commands.items()
    }


@every_page
def test_calls_of_the_command_line_are_right(page: str) -> None:
    """Commands and options in every call of `eventlog` exist."""
    everywhere = options()[""] | {"--help"}
    for call in command_lines(page):
        words = re.sub(r"(--store|--key-file)[ =]\S+", r"\1", call).split()[1:]
        name = next((word for word in words if not word.startswith(("-", "[", "<"))), "")
        command = "" if name.isupper() or not name else name
        assert command in options(), call
        for option in re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", call):
            assert option in options()[command] | everywhere, f"{option} in {call}"


@every_page
def test_named_options_exist(page: str) -> None:
    """Options that a page names belong to `eventlog`, the benchmarks or pytest."""
    benchmarks = {option for action in argument_parser()._actions for option in action.option_strings}
    known = benchmarks | PYTEST_OPTIONS | {"--help"}
    known.update(*options().values())
    for code in codes(page):
        if (option := re.match(r"--[a-z][\w-]*", code)) is not None:
            assert option[0] in known, code


def test_commands_formats_and_schemas_are_all_there() -> None:
    """Every command, every format that can be imported, and every schema is on some page."""
    named = {code for page in PAGES for code in codes(page)}
    calls = {word for code in named for word in code.removeprefix("eventlog ").split()[:1]}
    assert set(COMMANDS) <= calls
    assert set(FORMATS) <= named
    linked = {path for page in PAGES for path, _ in links(page)}
    assert {f"projections/schemas/{name}.json" for name in SCHEMAS} <= linked


def test_exit_codes_are_all_there() -> None:
    """A page has a row for each exit code, in the words of the program."""
    assert EXIT_CODES is not None
    wanted = re.findall(r"^ *(\d+)  (.+)$", EXIT_CODES, re.MULTILINE)
    assert [int(code) for code, _ in wanted] == [code.value for code in Exit]
    rows = {row for page in PAGES.values() for row in re.findall(r"^\| `?(\d+)`? \| (.+?) \|", page, re.MULTILINE)}
    assert set(wanted) <= rows


@every_page
def test_named_exit_codes_exist(page: str) -> None:
    """An exit code that a page names is one of the program's."""
    for code in re.findall(r"exit codes? `?(\d+)", PAGES[page], re.IGNORECASE):
        assert int(code) in {exit.value for exit in Exit}, code


@every_page
def test_named_variables_are_read(page: str) -> None:
    """Environment variables that a page names are read by some module."""
    for name in set(re.findall(r"\b(?:EVENTLOG|EVERDELTA)_[A-Z_]+\b", PAGES[page])):
        assert any(name in source for source in sources().values()), name


@cache
def sources() -> dict[str, str]:
    """The text of every module of the tree but this one."""
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in FILES
        if name.endswith(".py") and name.startswith(TOPS) and name != "tests/test_pages.py"
    }


@cache
def homes() -> dict[str, list[str]]:
    """The modules that define each class or alias at their top level."""
    found: dict[str, list[str]] = {}
    for module, source in sources().items():
        for node in ast.parse(source).body:
            targets = (
                [node.target]
                if isinstance(node, ast.AnnAssign)
                else node.targets
                if isinstance(node, ast.Assign)
                else []
            )
            names = [node.name] if isinstance(node, ast.ClassDef) else [ast.unparse(target) for target in targets]
            for name in names:
                found.setdefault(name, []).append(module)
    return found


@every_page
def test_named_classes_exist(page: str) -> None:
    """Classes that a page names exist in the tree or Python, with their attributes."""
    for code in codes(page):
        if (match := re.fullmatch(r"([A-Z][A-Za-z]*[a-z][A-Za-z]*)(?:\.(\w+))?(\(.*\)|\[.*\])?", code)) is None:
            continue
        name, attribute, _ = match.groups()
        if name in OTHERS_NAMES or hasattr(builtins, name) or hasattr(typing, name):
            continue
        assert name in homes(), code
        if attribute is not None:
            assert any(re.search(rf"\b{attribute}\b", sources()[home]) for home in homes()[name]), code


@every_page
def test_named_modules_and_functions_exist(page: str) -> None:
    """A dotted name that begins with a package of the tree can be imported."""
    for code in codes(page):
        if (match := re.match(rf"({'|'.join(TOPS)})((?:\.[A-Za-z_]\w*)+)(?![\w/-])", code)) is None:
            continue
        found: Any = import_module(match[1])
        path = match[1]
        for name in match[2][1:].split("."):
            path = f"{path}.{name}"
            found = getattr(found, name) if hasattr(found, name) else import_module(path)


@contextmanager
def handles() -> Generator[dict[str, Any]]:
    """The objects that pages call by these names."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        session.user("Hi")
        with session.assistant(model="openai/gpt-5") as reply:
            text = reply.stream_text()
            text.append("Hello")
            text.end()
            call = reply.tool("bash", call_id="c", input={})
            call.succeed("done")
            reply.finish()
        model, limits = eventlog.Model("openai", "gpt-5"), eventlog.Limits(context=400_000, output=128_000)
        with ContextWindow(session, model=model, limits=limits) as window:
            view = window.view()
            yield {
                "store": store, "session": session, "reply": reply, "text": text, "call": call, "window": window, "view": view,
            }  # fmt: skip


def test_named_methods_exist() -> None:
    """`session.user(…)` and its like on a page are attributes of these objects."""
    wrong: list[str] = []
    with handles() as known:
        for page in PAGES:
            for code in codes(page):
                match = re.search(rf"(?<![\w./])({'|'.join(known)})((?:\.[a-z]\w*)+)", code)
                if match is None or match[2] in {".py", ".md", ".json"} or code.startswith("await "):
                    continue
                found: Any = known[match[1]]
                for name in match[2][1:].split("."):
                    if not hasattr(found, name):
                        wrong.append(f"{page}: {code}")
                        break
                    found = getattr(found, name)
    assert wrong == []


def test_one_example_is_the_loop() -> None:
    """The loop is on one page; `tests/test_readme_loop.py` runs it."""
    assert "next_step" in example(LOOP).code


def test_the_index_names_every_page() -> None:
    """`eventlog/README.md` links every page, but for those of others' code and the front page."""
    linked = {
        str((Path("eventlog") / link).as_posix())
        for link in re.findall(r"\]\(([^)#]+\.md)\)", PAGES["eventlog/README.md"])
    }
    found = {posixpath.normpath(link) for link in linked}
    expected = {name for name in PAGES if "vendor" not in name} - {"README.md", "eventlog/README.md"}
    assert expected - found == set()
