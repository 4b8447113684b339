"""The commands of the command line, each on a store that is not open elsewhere."""

from __future__ import annotations

import io
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import eventlog
from projections.cli.app import run
from projections.cli.exits import Exit
from projections.loop import ContextWindow
from tests.growth.operation import Operation, Table, constant, history, output
from tests.growth.place import POLICY, Place
from tests.support.window_loop import sections

_ALL = "gives every event"
_EACH = "looks at a small record of every session"
_EVERY = "reads every event"
_TOUCHED = "what lies in the files is read and written anew"
_VIEW = "reads the view, which is the history here"
TALK = '{{"model":"m","messages":[{{"role":"user","content":"{0}"}},{{"role":"assistant","content":"yes"}}]}}'


def run_command(at: Place, *arguments: object) -> int:
    """Run a command; returns the number of bytes that it printed."""
    buffer, errors = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(buffer, "utf-8")
    with redirect_stdout(out), redirect_stderr(errors):
        code = run(["--store", str(at.path), *map(str, arguments)])
    assert code in {Exit.OK, Exit.FAULTS}, (arguments, errors.getvalue())
    out.flush()
    return len(buffer.getvalue())


def _read(*arguments: object) -> Operation:
    return constant(lambda at, _: run_command(at.closed, *arguments))


def _all(why: str, *arguments: object, copied: bool = False) -> Operation:
    return history(lambda at, _: run_command(at if copied else at.closed, *arguments), why, copied=copied)


@contextmanager
def _file(at: Place) -> Generator[Path]:
    """A small recording that is not imported yet."""
    path = at.directory / f"{at.name('talk')}.json"
    path.write_text(TALK.format(path.stem))
    yield path


@contextmanager
def _new(at: Place) -> Generator[str]:
    """A new small session in a closed store."""
    with eventlog.open(at.closed.path) as store:
        session = store.create_session(id=at.name("new"))
        session.user("a question", id=f"{session.id}m")
        with session.assistant() as reply:
            reply.add_text("an answer")
            reply.finish()
        name = session.id
    yield name


@contextmanager
def _searched(at: Place) -> Generator[None]:
    """Make the index, as the first search has to."""
    run_command(at.closed, "search", "answer", "--limit", "1")
    yield


@contextmanager
def _said(at: Place) -> Generator[None]:
    """Add turns to the session with the small view."""
    with eventlog.open(at.closed.path) as store:
        session = store.session("long")
        for _ in range(8):
            session.user("a question")
            with session.assistant() as reply:
                reply.add_text("an answer " * 300)
                reply.finish()
    yield


@contextmanager
def _part(at: Place) -> Generator[str]:
    """The part of a message just added to the long session."""
    with eventlog.open(at.closed.path) as store:
        session = store.session("long")
        message = session.user("a question", id=at.name("m"))
        part = session.reader.state().messages[message].parts
        name = next(iter(part))
    yield name


@contextmanager
def _version(at: Place) -> Generator[int]:
    """The version before the newest message of the long session."""
    with eventlog.open(at.closed.path) as store:
        session = store.session("long")
        version = session.version
        session.user("not meant")
    yield version


@contextmanager
def _backup(at: Place) -> Generator[Path]:
    run_command(at, "backup", at.directory / "backup")
    yield at.directory / "backup"


@contextmanager
def _undoable(at: Place) -> Generator[None]:
    """A compaction in force, of a small session that a fork of the long one is not."""
    with eventlog.open(at.closed.path) as store:
        session = store.session("long")
        with ContextWindow(session, POLICY, summarizer=lambda _: sections(), environment={}) as window:
            session.user("a question")
            window.compact()
    yield


COMMANDS: Table = {
    # first: others append until the newest step lies far back, and up to 8,192 events are read
    "eventlog window": _read("window", "long"),
    "eventlog audit": _all(_EVERY, "audit", "wide"),
    "eventlog backup": history(lambda at, _: run_command(at, "backup", at.directory / "backup"), _TOUCHED, copied=True),
    "eventlog compact": constant(lambda at, _: run_command(at.closed, "compact", "long"), _said),
    "eventlog compact, a long one": _all(_VIEW, "compact", "wide", copied=True),
    "eventlog demo": constant(lambda at, _: run_command(at.closed, "demo")),
    "eventlog completion": constant(lambda at, _: run_command(at.closed, "completion", "bash")),
    "eventlog diff": _all(_VIEW, "diff", "wide", "100", "200"),
    "eventlog erase": history(
        lambda at, name: run_command(at.closed, "erase", name, "--yes"), f"for forks and sub-sessions it {_EACH}", _new
    ),
    "eventlog explain": history(lambda at, part: run_command(at.closed, "explain", "long", part), _EVERY, _part),
    "eventlog events, 50 of them": _read("events", "long", "--from", "100", "--to", "150"),
    "eventlog events": _all(_ALL, "events", "long"),
    "eventlog export, jsonl": _all(_ALL, "export", "long", "--format", "jsonl"),
    "eventlog export, markdown": _all(_ALL, "export", "long", "--format", "markdown"),
    "eventlog export, opencode": _all(_ALL, "export", "long", "--format", "opencode"),
    "eventlog fork": constant(lambda at, _: run_command(at.closed, "fork", "long")),
    "eventlog head": _all(_EACH, "head"),
    "eventlog import": constant(lambda at, file: run_command(at.closed, "import", file), _file),
    "eventlog prove": _all("a proof is made of the hashes of every append", "prove", "long", "--version", "100"),
    "eventlog prune": constant(lambda at, _: run_command(at.closed, "prune", "long", "--dry-run")),
    "eventlog recall": constant(lambda at, part: run_command(at.closed, "recall", "long", part), _part),
    "eventlog redact": history(
        lambda at, part: run_command(at.closed, "redact", "long", part, "--yes"),
        "looks for the same text everywhere",
        _part,
    ),
    "eventlog repair": history(
        lambda at, _: run_command(at, "repair", "--into", at.directory / "repaired"), _TOUCHED, copied=True
    ),
    "eventlog restore": history(
        lambda at, backup: run_command(at, "restore", backup, "--into", at.directory / "restored"),
        _TOUCHED,
        _backup,
        copied=True,
    ),
    "eventlog expire": _all(_EACH, "expire", "--count", "1000000"),
    "eventlog rollback": constant(
        lambda at, version: run_command(at.closed, "rollback", "long", "--to", version), _version
    ),
    "eventlog scrub": _all(_TOUCHED, "scrub", copied=True),
    "eventlog search": constant(
        lambda at, _: run_command(at.closed, "search", "answer", "should", "--json"), _searched
    ),
    "eventlog sessions": _all("orders the sessions that are not folded yet", "sessions", "--limit", "20"),
    "eventlog sessions, all": output(lambda at, _: run_command(at.closed, "sessions", "--limit", "0", "--json")),
    "eventlog show, a page": _read("show", "long", "--limit", "20"),
    "eventlog show": _all(_ALL, "show", "long"),
    "eventlog stats": _all(_EVERY, "stats", "long"),
    "eventlog stats, of the store": _all(_EACH, "stats"),
    "eventlog tail": _read("tail", "long"),
    "eventlog timeline": _all(_EVERY, "timeline", "long"),
    "eventlog undo": constant(lambda at, _: run_command(at.closed, "undo", "long"), _undoable),
    "eventlog upgrade": _read("upgrade"),
    "eventlog vacuum": _all(_TOUCHED, "vacuum", copied=True),
    "eventlog verify": _all(_EVERY, "verify"),
    "eventlog verify, one session": _all(_EVERY, "verify", "long"),
    "eventlog view": _read("view", "long"),
    "eventlog view, wide": output(lambda at, _: run_command(at.closed, "view", "wide")),
    "eventlog window, wide": _all(_VIEW, "window", "wide"),
}
