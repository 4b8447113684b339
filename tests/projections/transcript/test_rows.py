"""Rows: derived values that make a transcript quick, and that nothing depends on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

import eventlog
from eventlog import events as ev
from eventlog.errors import KeyMissingError
from eventlog.history.checkpoint_store import name_in_keys
from eventlog.testing.file_search import files_with
from eventlog.values import Body, Model
from projections.conversation.parts import Message, TextPart
from projections.replay.loop import state_at
from projections.transcript import backward
from projections.transcript.coverage import PlacedEvent
from projections.transcript.message import LargeText, TranscriptMessage, TranscriptPart, transcript_message
from projections.transcript.row_block import RowBlock
from projections.transcript.row_store import KIND
from projections.transcript.transcript import Transcript, TranscriptProjection
from tests.support.compactions import compacted
from tests.support.engines import ENGINES, Engine
from tests.support.sample_sessions import read_by, started
from tests.support.verifying import report_of

ROWS = b"checkpoint\0rows 3\0"
SECRET = "the name is Rumpelstiltskin"
GOLDEN = Path(__file__).parents[2] / "golden" / "rows-3.msgpack"


@pytest.fixture(autouse=True)
def _short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backward, "WINDOW", 8)
    monkeypatch.setattr(backward, "WINDOWS", 3)


def talk(session: eventlog.Session, turns: int = 12) -> list[str]:
    """Take turns with a question, an answer and a tool; return the ids of the tool parts."""
    tools: list[str] = []
    for number in range(turns):
        session.user(f"question {number}", id=f"q{session.version}")
        with session.assistant() as reply:
            reply.add_text(f"answer {number}")
            call = reply.tool("bash", call_id=f"c{number}", input={"command": "ls"})
            call.succeed(f"{number} " * (2_000 if number % 3 else 20))
            tools.append(call.id)
            reply.finish("tool-calls")
    return tools


def replayed(session: eventlog.Session, at: int | None = None) -> list[TranscriptMessage]:
    """Return the transcript by a replay of all events."""
    state, _ = state_at(session, TranscriptProjection(), at)
    return [transcript_message(message, session.text) for message in state.messages.values()]


def rows_of(store: eventlog.Store, session: str = "") -> list[bytes]:
    """Return the keys of the stored rows, of one session or of all."""
    return store.log.derived_keys(ROWS + (name_in_keys(session) if session else b""))


def nothing(session: eventlog.Session, tools: list[str]) -> None:
    """Leave it at that."""
    del session, tools


def prune(session: eventlog.Session, tools: list[str]) -> None:
    """Prune three calls and restore one."""
    session.context.prune(tools[:3])
    session.context.unprune(tools[1:2])


def redact(session: eventlog.Session, tools: list[str]) -> None:
    """Redact a large output and a question."""
    session.redact(tools[1])
    session.redact(replayed(session)[2].parts[0].id)
    session.context.prune(tools[1:3])


def remove(session: eventlog.Session, tools: list[str]) -> None:
    """Remove a message and a part."""
    session.remove_message(replayed(session)[4].id)
    session.remove_part(tools[0])


def compact(session: eventlog.Session, tools: list[str]) -> None:
    """Cover all but the newest turns."""
    del tools
    compacted(session, tail=replayed(session)[-8].id, kept=())


def undo(session: eventlog.Session, tools: list[str]) -> None:
    """Undo a compaction."""
    compact(session, tools)
    assert Transcript(session).oldest_first()[0].covered
    session.context.undo_compaction()


MARKS = [nothing, prune, redact, remove, compact, undo]


@pytest.mark.promise(8)
@pytest.mark.parametrize("work", MARKS, ids=lambda work: work.__name__)
def test_a_mark_on_old_messages_needs_none_of_their_events(store: eventlog.Store, work: Callable[..., None]) -> None:
    """A transcript of rows reads the events since them, also where those mark the rows."""
    session = store.create_session()
    tools = talk(session)
    assert Transcript(session).oldest_first() == replayed(session)
    before = session.version
    work(session, tools)
    assert Transcript(session).oldest_first() == replayed(session)
    assert rows_of(store)
    read = read_by(session, lambda: Transcript(session).oldest_first())
    assert min(read, default=before) >= min(before, session.version - backward.WINDOW)


@pytest.mark.promise(8)
@pytest.mark.parametrize("engine_name", ENGINES)
def test_an_edit_of_an_old_message_is_seen(engine_name: str, tmp_path: Path) -> None:
    """An edited part and a promoted message are read from their events again."""
    engine = Engine(engine_name, tmp_path)
    session = engine.open().create_session()
    queued = session.user("later", delivery="queue")
    tools = talk(session)
    assert Transcript(session).oldest_first() == replayed(session)
    session.edit_part(tools[1], "another output")
    with session.lease():
        session.context.promote(queued)
    compact(session, tools)
    told = Transcript(session).oldest_first()
    assert told == replayed(session)
    assert "another output" in str(told)
    assert told[0].covered is None
    assert told[1].covered
    engine.close()


@pytest.mark.promise(8)
def test_forks_read_the_rows_of_their_parents(store: eventlog.Store) -> None:
    """A fork has no rows of its own for what it inherits whole, and is right at any version."""
    session = store.create_session()
    talk(session)
    whole = replayed(session)
    Transcript(session).oldest_first()
    made = rows_of(store)
    child = session.fork(at=session.version - session.version % 24, id="child")
    assert Transcript(child).oldest_first() == replayed(child)
    assert rows_of(store) == made
    talk(child, 5)
    grandchild = child.fork(at=child.version - 3, id="grandchild")
    for one in (child, grandchild):
        assert Transcript(one).oldest_first() == replayed(one)
        for at in range(1, one.version, 7):
            assert Transcript(one, at).oldest_first() == replayed(one, at)
    session.rollback(before=whole[6].id)
    talk(session, 8)
    for one in (session, child, grandchild, session):
        assert Transcript(one).oldest_first() == replayed(one)
    assert Transcript(session, 100).oldest_first() == replayed(session, 100)


@pytest.mark.promise(8)
@pytest.mark.parametrize("engine_name", ENGINES)
def test_nothing_depends_on_rows(engine_name: str, tmp_path: Path) -> None:
    """Deleted, damaged or foreign rows change no transcript, and are made again."""
    engine = Engine(engine_name, tmp_path)
    store = engine.open()
    session = store.create_session()
    talk(session)
    told = Transcript(session).oldest_first()
    keys = rows_of(store)
    values = dict(store.log.scan_derived(ROWS))
    if values:
        store.log.put_derived([(key, values[other]) for key, other in zip(keys, reversed(keys), strict=True)])
        assert Transcript(session).oldest_first() == told
    for spoilt in (None, b"", b"\0", b"\0\x97", b"\1[]", b"\0" * 40):
        store.log.put_derived([(key, spoilt) for key in keys])
        assert Transcript(session).oldest_first() == told
        assert Transcript(session).page(3) == told[:-4:-1]
        assert rows_of(store) == keys
    engine.close()


def test_a_deep_check_finds_wrong_rows(store: eventlog.Store) -> None:
    """`verify --deep` compares the rows with a replay, and makes none."""
    session = store.create_session()
    talk(session)
    assert report_of(store, session.id, deep=True).sound
    assert not rows_of(store)
    Transcript(session).oldest_first()
    assert report_of(store, session.id, deep=True).sound
    key = rows_of(store)[0]
    block = RowBlock.decode(store.log.get_derived(key) or b"")
    wrong = block.rows[1]
    block.rows[1] = replace(wrong, reason="another")
    store.log.put_derived([(key, block.encode())])
    problems = report_of(store, session.id, deep=True).problems
    assert [problem.version for problem in problems] == [wrong.version]
    assert problems[0].problem == "transcript: the rows differ from a replay"


@pytest.mark.promise(12)
def test_a_scrub_leaves_no_row_with_what_was_redacted(tmp_path: Path) -> None:
    """Rows of three forks that hold a redacted text are in no file after a scrub."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="a")
        session.user(f"say {SECRET}")
        talk(session)
        forks = [session.fork(at=session.version - number, id=f"f{number}") for number in range(3)]
        for one in (session, *forks):
            talk(one, 4)
            assert SECRET in str(Transcript(one).oldest_first())
    assert any("lmdb" in str(path) for path in files_with(tmp_path / "s", SECRET))
    with eventlog.open(tmp_path / "s") as store:
        assert rows_of(store, "a")
        assert all(rows_of(store, one) for one in ("f0", "f1", "f2"))
        store.session("f1").redact(Transcript(store.session("a")).oldest_first()[0].parts[0].id)
        for name in ("a", "f0", "f1", "f2"):
            assert SECRET not in str(Transcript(store.session(name)).oldest_first())
        store.scrub()
        assert not files_with(tmp_path / "s", SECRET)
        for name in ("a", "f0", "f1", "f2"):
            assert Transcript(store.session(name)).oldest_first() == replayed(store.session(name))
    assert not files_with(tmp_path / "s", SECRET)


@pytest.mark.promise(12)
def test_rows_made_after_a_redaction_do_not_hold_it(store: eventlog.Store) -> None:
    """Rows are made without the texts that are redacted by then, also those of a parent."""
    session = store.create_session(id="a")
    session.user(f"say {SECRET}")
    talk(session)
    child = session.fork(id="f")
    talk(child, 4)
    session.redact(replayed(session)[0].parts[0].id)
    for one in (session, child):
        assert SECRET not in str(Transcript(one).oldest_first())
    assert rows_of(store)
    assert not [value for _, value in store.log.scan_derived(ROWS) if SECRET.encode() in value]


def test_a_reader_from_before_a_scrub_stores_no_row_of_what_was_redacted(tmp_path: Path) -> None:
    """Neither in the rows, nor in changes that wait for older ones."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="a")
        asked = [session.user(f"say {text}") for text in (SECRET, "nothing")]
        talk(session)
        parts = started(session, asked)
        session.edit_part(parts[1], f"say {SECRET}")
        talk(session, 4)
        reader = Transcript(session).newest_first()
        assert next(message for message in reader if message.version < session.version - 16)
        for part in parts:
            session.redact(part)
        store.scrub()
        assert list(reader)
        assert not [value for _, value in store.log.scan_derived(ROWS) if SECRET.encode() in value]


def test_a_fork_that_redacts_alone_hides_nothing_from_its_parent(store: eventlog.Store) -> None:
    """A fork's own redaction is in no row that its parent reads."""
    parent = store.create_session()
    talk(parent, 4)
    fork = parent.fork()
    forks_fork = fork.fork()
    part = replayed(parent)[0].parts[0].id
    fork.append([(0, ev.PartRedacted(part))])
    for session in (fork, forks_fork, parent):
        assert Transcript(session).oldest_first() == replayed(session)
    assert Transcript(parent).oldest_first()[0].parts[0].text == "question 0"


@pytest.mark.promise(12)
def test_erasure_and_a_vacuum_take_the_rows_along(tmp_path: Path) -> None:
    """An erased session leaves no rows after a vacuum; a fork keeps what it inherited."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="a")
        talk(session)
        child = session.fork(id="f")
        session.user(f"say {SECRET}")
        talk(session)
        told = Transcript(child).oldest_first()
        Transcript(session).oldest_first()
    with eventlog.open(tmp_path / "s") as store:
        store.erase("a", forks="keep")
        assert Transcript(store.session("f")).oldest_first() == told
        store.vacuum()
        assert not rows_of(store, "a")
        assert Transcript(store.session("f")).oldest_first() == told
    assert not files_with(tmp_path / "s", SECRET)


@pytest.mark.promise(12)
def test_rows_name_where_large_texts_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows name the places of texts once they are folded; a rewriting moves them."""

    def looked_up() -> int:
        """Return how many texts a load looks up by their hash."""
        own = store.session("a").store.log
        looks = Mock(wraps=own.bodies_of)
        with monkeypatch.context() as patched:
            patched.setattr(own, "bodies_of", looks)
            assert Transcript(store.session("a")).oldest_first() == told
        return sum(len(call.args[0]) for call in looks.call_args_list)

    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="a")
        talk(session)
        told = Transcript(session).oldest_first()
        assert told == replayed(session)
        assert looked_up() == 8, "all are in the journal"
    with eventlog.open(tmp_path / "s") as store:
        looked_up()
        assert looked_up() <= 3, "of messages at the ends of stretches"
        newest_first = Transcript(store.session("a")).newest_first()
        read = [next(newest_first)]
        store.create_session(id="b").user("gone")
        store.erase("b")
        store.vacuum()
        assert [*read, *newest_first][::-1] == told, "the places are of the edition before"
        looked_up()
        assert looked_up() <= 3


@pytest.mark.promise(12)
def test_rows_of_an_encrypted_store_are_encrypted(tmp_path: Path) -> None:
    """Rows lie under the family's key: no file shows their text, and no reader without it."""
    with eventlog.open(tmp_path / "s", keys=True) as store:
        session = store.create_session(id="a")
        session.user(f"say {SECRET}")
        talk(session)
        told = Transcript(session).oldest_first()
    assert not files_with(tmp_path / "s", SECRET)
    with eventlog.open(tmp_path / "s", keys=True) as store:
        assert rows_of(store, "a")
        session = store.session("a")
        assert Transcript(session).oldest_first() == told == replayed(session)
        assert min(read_by(session, lambda: Transcript(session).oldest_first())) > backward.WINDOW
    with eventlog.open(tmp_path / "s") as store, pytest.raises(KeyMissingError):
        Transcript(store.session("a")).oldest_first()


def test_a_store_for_reading_only_gets_no_rows(tmp_path: Path) -> None:
    """A reader who may not write reads the events, or rows that are there."""
    with eventlog.open(tmp_path / "s") as store:
        talk(store.create_session(id="a"))
    with eventlog.open(tmp_path / "s", read_only=True) as store:
        session = store.session("a")
        assert Transcript(session).oldest_first() == replayed(session)
        assert not rows_of(store)


_KILLED = """
import os, sys
import eventlog
from projections.transcript import backward
from projections.transcript.transcript import Transcript
from tests.projections.transcript.test_rows import talk
backward.WINDOW = 8
with eventlog.open(sys.argv[1]) as store:
    session = store.session("a")
    while True:
        talk(session, 2)
        Transcript(session).oldest_first()
        store.log.engine.put_derived([(os.urandom(8), bytes(1 << 19))])
        print(session.version, flush=True)
"""


@pytest.mark.promise(2, 8)
def test_a_kill_while_rows_are_folded_leaves_a_right_transcript(tmp_path: Path) -> None:
    """Rows that a killed process had made are whole or absent."""
    path = tmp_path / "s"
    with eventlog.open(path) as store:
        talk(store.create_session(id="a"))
    for lines in (1, 3, 8, 14):
        command = [sys.executable, "-c", _KILLED, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as process:
            assert process.stdout is not None
            acknowledged = [int(process.stdout.readline()) for _ in range(lines)][-1]
            os.kill(process.pid, signal.SIGKILL)
        with eventlog.open(path) as store:
            session = store.session("a")
            assert session.version >= acknowledged
            assert Transcript(session).oldest_first() == replayed(session)
            assert rows_of(store)


def golden_block() -> RowBlock:
    """Return the block of the golden file: every field is used."""
    body = Body(bytes(range(32)), 5_000, 4_900)
    rows = [
        TranscriptMessage("m1", "user", 1, 1_000, (TranscriptPart("p1", "text", "asked"),)),
        TranscriptMessage(
            "m2",
            "assistant",
            3,
            2_000,
            (
                TranscriptPart("p2", "text", "said", removed=True),
                TranscriptPart(
                    "p3",
                    "tool",
                    tool="bash",
                    call="c",
                    input="{}",
                    status="completed",
                    pruned=True,
                    arguments_pruned=True,
                    attachments=("image/png: a.png",),
                    interrupted=True,
                ),
            ),
            2_500,
            model=Model("a", "b"),
            reason="stop",
            covered=None,
        ),
        TranscriptMessage("m3", "user", 60, 3_000, (TranscriptPart("p4", "text", "queued"),)),
    ]
    waiting = Message("m3", True, 60, 3_000, [TextPart("p4", pieces=["queued"], ended=True)], delivery="queue")
    return RowBlock(
        0,
        [(1, 20), (31, 64)],
        rows,
        [1, 3, 0],
        [LargeText(1, 0, "text", ("begins ", body)), LargeText(1, 1, "text", (body,), (1, 2, 3, 5_001))],
        [(2, waiting)],
        [PlacedEvent(ev.PartRedacted("p0", "why"), 40, 4_000), PlacedEvent(ev.PartDelta("p9", "text", "x"), 50, 0)],
        [PlacedEvent(ev.CompactionUndone("p8"), 41, 4_001)],
        b"edition",
    )


def test_the_bytes_of_rows_stay_what_they_are() -> None:
    """Rows that an earlier program stored are read as what they were."""
    data = GOLDEN.read_bytes()
    assert RowBlock.decode(data) == golden_block()
    assert golden_block().encode() == data
    assert KIND == "rows 3"
