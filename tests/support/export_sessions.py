"""Sessions to export, and short ways in and out of a store."""

from __future__ import annotations

import io
from typing import Any

from eventlog import Session, Store
from eventlog import events as ev
from eventlog.codec.batch import encode
from eventlog.importers import Report, import_file
from eventlog.importers.common.importer import ImportBatch
from eventlog.integrity.fork_anchor import portable
from eventlog.session_store import begin_session
from eventlog.values import File, Source, Todo, Tokens, Usage
from projections.exports.jsonl import jsonl_lines
from tests.support.spans import Timed

Record = dict[str, Any]


def jsonl(session: Session, *, tree: bool = False) -> bytes:
    """The file of a session."""
    return b"".join(jsonl_lines(session, tree=tree))


def read(store: Store, data: bytes) -> Report:
    """Import a file that is in memory."""
    return import_file(store, io.BytesIO(data))


def canonical(session: Session) -> list[tuple[int, bytes]]:
    """Version, canonical bytes and time of every event, without store-local fields."""
    return [(found.version, encode([(found.time, portable(found.event))], found.time)) for found in session.events()]


def stored(store: Store, items: list[Timed], name: str = "ses_x") -> Session:
    """A session of these events, from its start on."""
    session = store.create_session(id=name, title="t", time=items[0][0])
    if len(items) > 1:
        session.append(items[1:])
    return session


def put(store: Store, batch: ImportBatch) -> Session:
    """A session of an importer's events."""
    time, first = batch.items[0]
    assert isinstance(first, ev.SessionStarted)
    session = begin_session(store, first, id=batch.session, time=time)  # whether its parent is there or not
    session.append(batch.items[1:], bodies=batch.bodies)
    return session


def talk(store: Store, name: str | None = None) -> Session:
    """A native session with every kind of content."""
    session = store.create_session(id=name, title="Fix `it`", directory="/w", scope="me", agent="build", model="p/m")
    session.set_system_prompt("be brief", "x" * 3000)
    session.set_tools("[]")
    session.set_todos([Todo("one")])
    session.user(
        "please\ud800fix",
        files=[
            File(
                "image/png",
                "data:image/png;base64," + "A" * 4000,
                "a.png",
                Source("file", "a.png", 0, 3, "@a"),
            )
        ],
        model="p/m",
        system="y" * 2000,
        tools='{"bash":true}',
    )
    with session.assistant(model="p/m", agent="build", cwd="/w", root="/") as reply:
        thought = reply.stream_reasoning()
        for token in ("I ", "think"):
            thought.append(token)
        text = reply.stream_text()
        for token in ("so ", "it ", "is ``` 中", "\udc00"):
            text.append(token)
        call = reply.tool("bash", call_id="c1", input={"command": "ls"})
        call.succeed("z" * 5000)
        call = reply.tool("bash", call_id="c2", input={"command": "rm"})
        call.fail("not allowed")
        reply.finish("tool-calls", usage=Usage(Tokens(10, 20, 5, 3, 2, 40)))
    session.pin("remember")
    session.rename("Fixed")
    return session
