"""`ModelView.of` costs the events since the kept view, and is always right."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

import eventlog
from eventlog import Session, Store
from eventlog import events as ev
from eventlog.errors import ClosedError, ErasedError, KeyMissingError
from eventlog.importers import import_file
from eventlog.log.contract import Log
from eventlog.values import Text
from projections import ModelView, preset
from projections.exports.jsonl import jsonl_lines
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import replay
from projections.view.assembly import Assembly
from projections.view.digest import digest_of
from projections.view.followed_view import REPLAYED
from projections.view.model_view import models_of
from projections.view.neutral import Result
from projections.view.system_prompt import system_segments
from projections.view.targets import PROJECTION
from tests.adapters.claude_entries import Talk
from tests.support.compactions import compacted
from tests.support.encrypted_store import Service
from tests.support.engines import ENCRYPTED, Engine

SHOWN = 6
"""Messages behind a compaction."""


@pytest.fixture(params=["memory", "embedded", ENCRYPTED, "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A place for stores, on each kind of engine."""
    made = Engine(request.param, tmp_path)
    yield made
    made.close()


def exchange(session: Session, number: int) -> None:
    """A question, and an answer with a call."""
    session.user(f"question {number}")
    with session.assistant("p/m") as reply:
        reply.add_text(f"answer {number}")
        reply.tool("bash", call_id="c", input={"command": "ls"}).succeed(f"file{number} " * 400)
        reply.finish("tool-calls")


def compact(session: Session) -> None:
    """Let a summary stand for everything."""
    newest = [found.event.message for found in session.events() if isinstance(found.event, ev.AssistantMessageStarted)]
    compacted(session, through=newest[-1], kept=())


def from_scratch(session: Session) -> bytes:
    """The digest of the view that a replay of every event gives."""
    options, resolve = preset("default"), session.reader.text
    state, _ = replay(PROJECTION, session.reader)
    tools = None if state.tools is None else resolve(state.tools)
    shown = (state.target, state.in_force)
    return digest_of(Assembly(state, options, resolve).view(), system_segments(state, resolve), tools, shown=shown)


def stored(session: Session) -> list[int]:
    """The versions that have a checkpoint of the view."""
    return Checkpoints(session.store.log).versions(PROJECTION, session.reader)


@pytest.mark.promise(8)
def test_a_view_reads_what_is_new(place: Engine, events_read: Callable[[Log], list[int]]) -> None:
    """After a view, another store's events are read once, and nothing else is."""
    with place.open() as store, place.open() as other:
        session, beside = store.create_session(id="s"), other.session("s")
        for number in range(20):
            exchange(session, number)
        assert ModelView.of(beside).digest == from_scratch(session)
        read = events_read(other.log)
        for preset_name in ("default", "opencode-1.18", "default"):
            ModelView.of(beside, preset=preset_name)
        assert not read
        before = session.version
        exchange(session, 20)
        view = ModelView.of(beside)
        assert sum(read) == session.version - before == view.version - before
        assert view.digest == from_scratch(session)


def bare(store: Store, turns: int, path: Path) -> None:
    """Commands alone, and no view."""
    session = store.create_session(id="s")
    for number in range(turns):
        exchange(session, number)
    compact(session)
    del path


def forked(store: Store, turns: int, path: Path) -> None:
    """A fork of a session that was compacted."""
    parent = store.create_session(id="parent")
    for number in range(turns):
        exchange(parent, number)
    compact(parent)
    parent.fork(id="s")
    del path


def loaded(store: Store, turns: int, path: Path) -> None:
    """Another store's event JSONL."""
    with eventlog.open("memory:") as source:
        bare(source, turns, path)
        (path / "events.jsonl").write_bytes(b"".join(jsonl_lines(source.session("s"))))
    import_file(store, path / "events.jsonl")


def imported(store: Store, turns: int, path: Path) -> None:
    """A compacted transcript of Claude Code."""
    entries = Talk().more([*[("prompt", 0), ("answer", 0)] * turns, ("compact", 0)])
    (path / "s.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), encoding="utf-8")
    import_file(store, path / "s.jsonl")


@pytest.mark.promise(8)
@pytest.mark.parametrize("wrote", [bare, forked, loaded, imported])
def test_a_fresh_process_reads_what_the_view_shows(
    tmp_path: Path, events_read: Callable[[Log], list[int]], wrote: Callable[[Store, int, Path], None]
) -> None:
    """Promise 8: the first view of a compacted session reads as much at an eightfold history."""
    read: list[int] = []
    for turns in (25, 200):
        place = tmp_path / str(turns)
        place.mkdir()
        with eventlog.open(place / "store") as store:
            wrote(store, turns, place)
            name = next(info.id for info in store.sessions() if info.id != "parent")
        with eventlog.open(place / "store", read_only=True) as store:
            session = store.session(name)
            counts = events_read(store.log)
            view = ModelView.of(session)
            read.append(sum(counts))
            assert len(view) < SHOWN
            assert view.digest == from_scratch(session)
    assert read[0] == read[1] < 20


def test_a_program_without_projections_leaves_the_checkpoint_too(tmp_path: Path) -> None:
    """The package that writes is enough: its compaction leaves a checkpoint of the view."""
    script = """
import sys, eventlog
with eventlog.open(sys.argv[1]) as store, store.create_session(id="s").lease():
    session = store.session("s")
    message = session.user("a question")
    part = session.context.request_compaction()
    session.context.start_compaction(part, through=message, kept=())
    with session.assistant("p/m", summary=True) as reply:
        reply.add_text("well")
        reply.finish("stop")
    assert "projections" not in sys.modules
    session.context.complete_compaction(part, reply.id)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "s")], check=True)
    with eventlog.open(tmp_path / "s", read_only=True) as store:
        assert stored(store.session("s"))


def test_a_long_replay_leaves_a_checkpoint_where_it_may_be_stored(tmp_path: Path) -> None:
    """A reader that replays over 2,000 events stores a checkpoint if it may write."""
    with eventlog.open(tmp_path / "s") as store:
        session = store.create_session(id="s")
        session.append([(1, ev.SessionRenamed(str(number))) for number in range(REPLAYED - 1)])
        ModelView.of(session)
        assert not stored(session)  # not more than that
        session.user("one more")
    with eventlog.open(tmp_path / "s", read_only=True) as store:
        ModelView.of(store.session("s"))
        assert not stored(store.session("s"))
    with eventlog.open(tmp_path / "s") as store:
        session = store.session("s")
        head = session.head()
        ModelView.of(session)
        assert stored(session) == [session.version]
        assert session.head() == head
        assert not session.executor.holds_lease


def test_a_small_view_of_many_events_leaves_checkpoints_as_it_goes(store: Store) -> None:
    """A long-lived reader stores one, too, where the view is small beside its events."""
    session = store.create_session(id="s")
    ModelView.of(session)
    for _ in range(3):
        session.append([(1, ev.SessionRenamed(str(number))) for number in range(REPLAYED + 1)])
        ModelView.of(session)
        assert stored(session)[-1] == session.version


def test_a_view_once_given_never_changes(place: Engine) -> None:
    """Streams, late results, prunes, rollbacks and compactions change no earlier view."""
    with place.open() as store:
        session = store.create_session(id="s")
        given: list[tuple[ModelView, list[object]]] = []

        def look() -> None:
            view = ModelView.of(session)
            given.append((view, list(view.messages)))
            assert view.digest == from_scratch(session)

        for number in range(12):
            exchange(session, number)
            look()
        with session.assistant("p/m") as reply:
            text = reply.stream_text()
            for _ in range(3):
                text.append("piece ")
                look()
            call = reply.tool("bash", call_id="late", input={})
            look()
            excluded = ModelView.of(session, excluding=reply.id)
            assert reply.id not in {message.source for message in excluded.messages}
            look()
            call.succeed("late")
            reply.finish("tool-calls")
        look()
        called = [found.event.part for found in session.events() if isinstance(found.event, ev.ToolCompleted)]
        session.context.prune(called[:3])
        look()
        session.rollback(given[5][0].version)
        look()
        session.redo()
        look()
        compact(session)
        look()
        session.context.undo_compaction()
        look()
        for view, messages in given:
            assert list(view.messages) == messages
            assert view.digest == ModelView.of(session, at=view.version).digest


def test_options_and_hooks_share_what_is_kept(store: Store, events_read: Callable[[Log], list[int]]) -> None:
    """Views by other options, or with a hook, read no event again; a hook may take views."""
    session = store.create_session(id="s")
    session.set_system_prompt("header")
    for number in range(5):
        exchange(session, number)
    exact, now = preset("opencode-1.18"), session.version
    expected = ModelView.of(session, at=now, options=exact).digest
    ModelView.of(session)
    read = events_read(store.log)
    seen: list[int] = []

    def hook(segments: tuple[str, ...]) -> list[str]:
        other = Thread(target=lambda: seen.append(ModelView.of(session).version))
        other.start()
        other.join(20)
        return [*segments, "hooked"]

    assert ModelView.of(session, options=exact).digest == expected
    assert ModelView.of(session, hook=hook).system == ("header", "hooked")
    assert ModelView.of(session).system == ("header",)
    assert seen == [now]
    assert [str(model) for model in models_of(session)] == ["p/m"]
    assert not read
    assert ModelView.of(session, at=3).version == 3
    assert ModelView.of(session).version == now


def test_a_removal_is_in_the_view_when_its_call_returns(place: Engine) -> None:
    """A redaction by any program is in the next view; memory has nothing older."""
    with place.open() as store, place.open() as other:
        session = store.create_session(id="s")
        exchange(session, 0)
        fork = session.fork(id="f")
        part = next(found.event.part for found in session.events() if isinstance(found.event, ev.ToolCompleted))
        ours, theirs = (session, fork), (other.session("s"), other.session("f"))
        for each in (*ours, *theirs):
            assert "file0" in _outputs(each)
        session.redact(part)
        assert not len(store.host.kept)
        for each in (*ours, *theirs):
            assert "file0" not in _outputs(each)
            assert ModelView.of(each).digest == ModelView.of(each, at=each.version).digest


def _outputs(session: Session) -> str:
    return "".join(
        part.output for message in ModelView.of(session).messages for part in message.parts if isinstance(part, Result)
    )


def test_an_erased_session_is_kept_nowhere(place: Engine) -> None:
    """An erasure drops the view before it returns; another program's is seen at the next view."""
    with place.open() as store, place.open() as other:
        session = store.create_session(id="s")
        exchange(session, 0)
        beside = other.session("s")
        for each in (session, beside):
            ModelView.of(each)
        store.erase("s")
        assert not len(store.host.kept)
        for each in (session, beside):
            with pytest.raises(ErasedError):
                ModelView.of(each)
        assert not len(other.host.kept)
        assert not stored_keys(store.log)


def stored_keys(log: Log) -> list[bytes]:
    """The keys of all checkpoints of views."""
    return log.derived_keys(b"checkpoint\0model-view")


def test_without_its_key_a_kept_session_is_not_shown(tmp_path: Path) -> None:
    """Once a key is destroyed by another program, the next view says so, and nothing is kept."""
    service = Service()
    with eventlog.open(tmp_path / "s", keys=service) as store:
        exchange(store.create_session(id="s"), 0)
    with eventlog.open(tmp_path / "s", keys=service) as store, eventlog.open(tmp_path / "s", keys=service) as other:
        session = store.session("s")
        ModelView.of(session)
        other.erase("s")
        with pytest.raises((ErasedError, KeyMissingError)):
            ModelView.of(session)
        assert not len(store.host.kept)


def test_what_is_kept_is_bounded(store: Store) -> None:
    """The least recently used views go first, by number and by size."""
    kept = store.host.kept
    kept.most_sessions = 3
    names = [store.create_session(id=str(number)).id for number in range(5)]
    for name in names:
        exchange(store.session(name), 0)
        ModelView.of(store.session(name))
    ModelView.of(store.session("2"))
    ModelView.of(store.session("0"))
    assert [name for name in names if kept.find(name) is not None] == ["0", "2", "4"]
    kept.most_bytes = 100_000
    large = store.create_session(id="large")
    large.user([Text("x" * 200_000)])
    assert len(ModelView.of(large)) == 1
    assert not len(kept)
    assert ModelView.of(large).digest == from_scratch(large)


def test_a_closed_store_gives_no_view(tmp_path: Path) -> None:
    """A view that was kept is not given after the store is closed, and the store is let go."""
    store = eventlog.open(tmp_path / "s")
    session = store.create_session(id="s")
    exchange(session, 0)
    ModelView.of(session)
    store.close()
    assert not len(store.host.kept)
    with pytest.raises(ClosedError):
        ModelView.of(session)


def test_a_store_with_views_is_let_go(tmp_path: Path) -> None:
    """A kept view does not keep its store alive: unused, the store is collected."""
    import weakref

    store = eventlog.open(tmp_path / "s")
    session = store.create_session(id="s")
    ModelView.of(session)
    gone = weakref.ref(store)
    store.flush()
    del store, session
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("engine_name", ["memory", "embedded", "postgres"])
def test_a_thousand_callers_see_what_was_committed(engine_name: str, tmp_path: Path) -> None:
    """1,000 callers beside writers and rollbacks each get the view of their version."""
    place = Engine(engine_name, tmp_path)
    try:
        with place.open() as store, place.open() as other:
            session = store.create_session(id="s")
            exchange(session, 0)
            handles = [session, other.session("s")]
            calls = 1_000 if engine_name != "postgres" else 200
            with ThreadPoolExecutor(16) as pool:
                views = [pool.submit(ModelView.of, handles[number % 2]) for number in range(calls)]
                for number in range(1, 8):
                    handles[number % 2].user(f"beside {number}")
                    exchange(session, number)
                    if number % 3 == 0:
                        session.rollback(session.version - 4)
                found = {view.result().version: view.result().digest for view in views}
            for version, digest in found.items():
                assert digest == ModelView.of(session, at=version).digest
            assert {ModelView.of(handle).digest for handle in handles} == {from_scratch(session)}
    finally:
        place.close()
