"""Every command on a PostgreSQL store: the same output as in a directory, or a refusal."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import eventlog
from eventlog.open_log import shown
from eventlog.values import Limits
from projections import ModelView
from projections.cli.exits import Exit
from projections.cli.registry import COMMANDS
from tests.support.cli_runner import STREAM, Answer, Cli
from tests.support.cli_sessions import talk
from tests.support.inspector_server import serving
from tests.support.postgres_server import give_back, new_place

SAME = """\
import answer.sse
export talk --format jsonl
export talk --format markdown
export talk --format html
export talk --format opencode
export talk --format sqlite -o out
sessions
sessions --json
search turn
search thing --json
show talk
show talk --json
view talk
view talk --at 12 --json
events talk
asked
asked --json
answer wait prt_c --allow --by ann
rollback talk --before u4
fork talk --at 9
window talk
window talk --json
prune talk --context 9000 --output 1000
prune talk --dry-run --json
compact talk
undo talk
recall talk p00
stats
stats talk
verify
verify --deep
verify talk --json
head
head --json
prove talk --version 3
audit talk
diff talk 5 30
timeline talk
timeline talk --json
backup copy
vacuum
erase other --yes
erase --scope alice --yes --json
erase --scope bob --yes
expire --count 1 --yes
redact talk p00 --yes
scrub
explain talk p00
tail talk -n 2
completion bash
""".splitlines()
"""Calls that print the same on both engines."""
REFUSED = {
    "restore --cursor 1-2 backup --into STORE": "a restore to or from a server takes everything",
    "backup STORE": "a directory of this machine is wanted, and postgresql:// is the address of a server",
    "backup copy --keys file": "the copy of a store on a server is as that is",
    "repair --into STORE": "store 'in the schema of this address' exists already",
    "erase talk": "this needs a yes",
}
"""Calls that are refused there, and why."""
CHANGING = re.compile(
    r"cursor [\w.-]+|[0-9,]+ bytes?\b|bytes\t[0-9,]+|[0-9,]+ after|(?s:out of reach are:.*)|(ses|msg|prt|cmp)_\w+|[\w]+-[0-9a-f]{26}"
)
"""Cursors, sizes and new ids, which are of one store."""
WARNING = re.compile("eventlog: postgresql: an acknowledged commit may be lost .*\n")
"""The warning that the server of the tests does not sync."""
FIELDS = {"cursor", "next", "bytes", "bytes_before", "bytes_after", "position", "path", "to", "out_of_reach"}
"""Fields of documents that are."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in a directory: a long session, one that was asked, one that was compacted."""
    path = tmp_path_factory.mktemp("history") / "store"
    talk(path, limits=Limits(9_000, 1_000))
    with eventlog.open(path) as store:
        store.create_session(id="other", title="Other", scope="alice").user("hello")
        waiting = store.create_session(id="wait")
        waiting.user("drop it")
        with waiting.assistant("a/b", view=ModelView.of(waiting)) as reply:
            reply.tool("drop", call_id="c1", id="prt_c").ask("no undo", input={"name": "x"})
        store.session("talk").rollback(before="u5")
    return path


@pytest.fixture
def places(history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The history in a directory, and on a server."""
    monkeypatch.chdir(tmp_path)
    Path("answer.sse").write_text(STREAM, encoding="utf-8")
    shutil.copytree(history, tmp_path / "store")
    address = new_place()
    eventlog.restore(history, address)
    yield str(tmp_path / "store"), address
    give_back(address)


def plain(answer: Answer, place: str) -> tuple[int, object, str]:
    """Return an answer without what is of one store."""
    out, err = (CHANGING.sub("*", WARNING.sub("", text.replace(shown(place), "STORE"))) for text in answer[1:])
    try:
        return answer.code, without_own(json.loads(answer.out)), err
    except ValueError:
        return answer.code, out, err


def without_own(value: Any) -> Any:
    """Return a document without the fields that are of one store."""
    match value:
        case {**fields}:
            return {name: without_own(inner) for name, inner in fields.items() if name not in FIELDS}
        case [*items]:
            return [without_own(inner) for inner in items]
        case _:
            return value


@pytest.mark.parametrize("call", SAME)
def test_a_command_says_the_same_on_a_server(cli: Cli, places: tuple[str, str], call: str) -> None:
    """Exit code, output and errors of a command are equal in a directory and on a server."""
    said: list[tuple[int, object, str]] = []
    for place in places:
        for left in ("copy", "out"):
            if Path(left).is_dir():
                shutil.rmtree(left)
        said.append(plain(cli("--store", place, *call.split()), place))
    assert said[0] == said[1]
    assert said[0][0] == Exit.OK


@pytest.mark.parametrize(("call", "words"), REFUSED.items())
def test_a_refusal_says_why(cli: Cli, places: tuple[str, str], call: str, words: str) -> None:
    """A refusal on a server is one line that names its reason."""
    _, address = places
    answer = cli("--store", address, *(address if word == "STORE" else word for word in call.split()))
    assert answer.code == Exit.USAGE
    assert words in answer.err.splitlines()[-1]
    assert answer.out == ""


def test_a_store_goes_to_a_server_and_back(cli: Cli, places: tuple[str, str], tmp_path: Path) -> None:
    """Heads are equal after `backup`, `restore` and `repair` from and to an address."""
    directory, address = places
    onto = new_place()
    try:
        assert cli("--store", address, "backup", tmp_path / "copy").code == Exit.OK
        assert cli("restore", tmp_path / "copy", "--into", onto).code == Exit.OK
        assert cli("--store", onto, "repair", "--into", tmp_path / "repaired").code == Exit.OK
        heads = [cli("--store", place, "head").out for place in (directory, onto, tmp_path / "repaired")]
    finally:
        give_back(onto)
    assert heads[0] == heads[1] == heads[2] != ""


def test_the_demo_and_the_format_name_the_address_without_more(cli: Cli, places: tuple[str, str]) -> None:
    """`demo` fills a store on a server and names it; `upgrade` says its format."""
    _, address = places
    assert shown(address) in cli("--store", address, "demo").out
    assert cli("--store", address, "upgrade").out.startswith(f"{shown(address)} is of format 1, the newest")


def test_sessions_of_a_server_are_served(places: tuple[str, str]) -> None:
    """`serve` shows the sessions of a server, their transcripts, and what happens, live."""
    _, address = places
    with serving(address) as page:
        for path, words in (
            ("api/sessions", b"A long talk"),
            ("api/messages?session=talk", b"xyzzy-plugh"),
            ("api/search?words=thing", b"talk"),
        ):
            with urlopen(page + path) as answer:  # noqa: S310  # our own server
                assert words in answer.read(), path
        with urlopen(f"{page}live/talk/live?limit=2") as stream:  # noqa: S310  # our own server
            lines = iter(stream.readline, b"")
            assert any(b"xyzzy-plugh" in line for line in lines)
            with eventlog.open(address) as store:
                store.session("talk").user("and now?")
            assert any(b"and now?" in line for line in lines)


def test_every_command_is_called() -> None:
    """No command is left out."""
    apart = {"restore", "repair", "demo", "upgrade", "serve"}
    assert {call.split()[0] for call in SAME} | apart == set(COMMANDS)
