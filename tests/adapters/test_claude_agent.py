"""Session store of the Claude Agent SDK: its own suite, and random transcripts."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from claude_agent_sdk import (
    ClaudeAgentOptions,
    InMemorySessionStore,
    SessionStore,
    delete_session_via_store,
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    list_subagents_from_store,
    rename_session_via_store,
    tag_session_via_store,
)
from claude_agent_sdk._internal.session_resume import materialize_resume_session
from claude_agent_sdk._internal.transcript_mirror_batcher import TranscriptMirrorBatcher
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import CallError, NotFoundError, import_file, session_store
from eventlog import events as ev
from eventlog.adapters.claude_agent import MAIN, EverdeltaSessionStore
from eventlog.adapters.claude_uuids import uuid_of
from eventlog.importers.common.remainder import emit
from eventlog.maintenance import erase
from eventlog.testing.file_search import files_with
from projections import ModelView
from tests.adapters.claude_entries import KEY, KINDS, SESSION, Talk, listed, said, viewed
from tests.support.engines import ENCRYPTED, ENGINES, Engine
from tests.support.shared import SHARED, shared_path

MODES = [*ENGINES, ENCRYPTED]
OPTIONAL = ("list_sessions", "list_session_summaries", "delete", "list_subkeys")
TABLE = Path(__file__).parents[1] / "golden" / "imports" / "recorded.json"
SUB: dict[str, Any] = {**KEY, "subpath": "subagents/agent-1"}
PROGRAMS = st.lists(st.tuples(KINDS, st.sampled_from(["all", "half", "again", "reopen"])), min_size=1, max_size=8)


def run_asyncio(command: Callable[..., Any], *args: Any) -> Any:
    """Run a coroutine function under asyncio, as `trio.run` does under trio."""
    return asyncio.run(command(*args))


RUNNERS: list[Callable[..., Any]] = [run_asyncio, trio.run]


def prompts(*texts: str) -> list[dict[str, Any]]:
    """Return prompts, each behind the one before."""
    entries: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        entries.append(said(hash(text) % 10**12, "user", text, entries[-1]["uuid"] if number else None))
    return entries


def texts_of(entries: list[Any] | None) -> list[str]:
    """Return the texts of prompts."""
    return [entry["message"]["content"] for entry in entries or []]


def shown(store: EverdeltaSessionStore, key: Any = KEY) -> list[tuple[str, ...]]:
    """Return what the model view shows."""
    return viewed(ModelView.of(store.session(key)).messages)


@pytest.mark.parametrize("engine_name", MODES)
@pytest.mark.parametrize("run", RUNNERS, ids=["asyncio", "trio"])
def test_conforms_to_the_sdks_suite(engine_name: str, run: Callable[..., Any]) -> None:
    """All fourteen contracts of the SDK hold, under asyncio and trio, and none is skipped."""
    engines: list[Engine] = []

    def make() -> EverdeltaSessionStore:
        engines.append(Engine(engine_name))
        return EverdeltaSessionStore(engines[-1].open())

    store: type[SessionStore] = EverdeltaSessionStore
    assert all(callable(getattr(store, name)) for name in OPTIONAL)
    try:
        run(run_session_store_conformance, make)
    finally:
        for engine in engines:
            engine.close()
    assert len(engines) == 15, "a probe, and one for each contract"


@pytest.mark.promise(7)
@pytest.mark.parametrize("engine_name", MODES)
def test_random_transcripts_agree_with_the_sdk_and_with_the_importer(engine_name: str) -> None:
    """After every append entries, summary and view are the SDK's, and in the end an import's."""

    @settings(max_examples=40 if engine_name == "memory" else 5)
    @given(PROGRAMS)
    def agree(program: list[tuple[list[tuple[str, int]], str]]) -> None:
        engine = Engine(engine_name)
        try:
            asyncio.run(play_program(engine, program))
        finally:
            engine.close()

    agree()


async def play_program(engine: Engine, program: list[tuple[list[tuple[str, int]], str]]) -> None:
    """Append random entries in random batches, and compare."""
    store, talk = EverdeltaSessionStore(engine.open()), Talk()
    theirs: Any = InMemorySessionStore()
    pending: list[Any] = []
    stored: list[Any] = []
    for kinds, how in [*program, ([], "all")]:
        pending += talk.more(kinds)
        if how == "reopen":
            store = EverdeltaSessionStore(engine.open())
        size = len(pending) // 2 if how == "half" else len(pending)
        batch, pending = pending[:size], pending[size:]
        repeated = [entry for entry in stored if "uuid" in entry] if how == "again" else []
        await store.append(KEY, [*repeated, *batch])
        await theirs.append(KEY, batch)
        stored += batch
        assert (await store.load(KEY) or []) == stored
        if not stored:
            continue
        assert [one["data"] for one in await store.list_session_summaries(KEY["project_key"])] == [
            one["data"] for one in await theirs.list_session_summaries(KEY["project_key"])
        ]
        messages = await get_session_messages_from_store(theirs, SESSION, "/work")
        assert shown(store) == listed(messages)
    check_import(store, stored)


def check_import(store: EverdeltaSessionStore, entries: list[Any]) -> None:
    """The file of these entries gives the same view, title and costs."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "file.jsonl"
        file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        report = import_file(store.store, file)
    imported, live = store.store.session(report.sessions[0]), store.session(KEY)
    assert ModelView.of(live).messages == ModelView.of(imported).messages
    assert (live.info.title, live.info.tokens) == (imported.info.title, imported.info.tokens)


@pytest.mark.promise(7)
@pytest.mark.parametrize("step", [1, 13, 1000])
def test_recorded_files_give_one_view_imported_and_live(step: int) -> None:
    """Every recorded session gives one view, imported or mirrored in batches of any size."""
    shared_path("data")
    names = [name for name, (format, _) in json.loads(TABLE.read_text()).items() if format == "claude_code"]
    found = [SHARED / "data" / name for name in names if (SHARED / "data" / name).exists()]
    assert found
    for path in found if step > 1 else sorted(found, key=lambda path: path.stat().st_size)[:10]:
        engine = Engine("memory")
        store = EverdeltaSessionStore(engine.open())
        for name in import_file(store.store, path).sessions:
            imported = store.store.session(name)
            records = [source.record for source in emit([imported], store.store.text)]
            named = [uuid for record in records if (uuid := uuid_of(record))]
            if imported.info.fork_of is not None or len(set(named)) < len(named):
                continue
            key = KEY | {"session_id": name} | ({} if imported.info.parent is None else {"subpath": "subagents/a"})
            for start in range(0, len(records), step):
                asyncio.run(store.append(key, records[start : start + step]))
            assert asyncio.run(store.load(key)) == records
            live = store.session(key)
            mine, theirs = ModelView.of(live).messages, ModelView.of(imported).messages
            assert [(one.role, one.parts) for one in mine] == [(one.role, one.parts) for one in theirs], path
            assert live.info.tokens == imported.info.tokens
            if imported.info.parent is None:
                assert live.info.title == imported.info.title
        engine.close()


async def test_an_entry_is_stored_once(engine: Engine) -> None:
    """A repeated uuid is ignored, also elsewhere; an entry without one is another one."""
    one, other = (EverdeltaSessionStore(engine.open()) for _ in range(2))
    entries, mark = prompts("a", "b", "c"), {"type": "mode", "mode": "plan"}
    await one.append(KEY, [*entries[:2], mark])
    await one.append(KEY, [*entries[:2], mark])
    await other.append(KEY, [entries[0], entries[2], entries[2]])
    assert await one.load(KEY) == [*entries[:2], mark, mark, entries[2]]
    assert [text for _, text in shown(one)] == ["a", "b", "c"]


@pytest.mark.parametrize("run", RUNNERS, ids=["asyncio", "trio"])
def test_a_cancelled_append_is_settled(
    engine: Engine, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled append ends once it is stored, as the SDK's time limit cancels it."""
    store = EverdeltaSessionStore(engine.open())
    entered, goes_on = threading.Event(), threading.Event()
    append = store._append

    def held(*args: Any) -> None:
        entered.set()
        assert goes_on.wait(10)
        append(*args)

    monkeypatch.setattr(store, "_append", held)

    async def with_asyncio() -> None:
        task = asyncio.create_task(store.append(KEY, prompts("a")))
        await asyncio.to_thread(entered.wait, 10)
        task.cancel()
        await asyncio.sleep(0.01)
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert texts_of(await store.load(KEY)) == ["a"]

    async def with_trio() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.append, KEY, prompts("a"))
            await trio.to_thread.run_sync(entered.wait, 10)
            nursery.cancel_scope.cancel()
            goes_on.set()
        assert texts_of(await store.load(KEY)) == ["a"]

    run(with_trio if run is trio.run else with_asyncio)


async def test_a_branch_at_an_old_message_is_found_by_a_new_process(engine: Engine) -> None:
    """A branch goes back behind any entry, also one of thousands of versions ago."""
    entries = prompts(*(f"prompt {number}" for number in range(900)))
    for start in range(0, 900, 300):
        await EverdeltaSessionStore(engine.open()).append(KEY, entries[start : start + 300])
    fresh = EverdeltaSessionStore(engine.open())
    await fresh.append(KEY, [said(7, "user", "edited", entries[2]["uuid"]), *entries[:20]])
    assert texts_of(await fresh.load(KEY)) == [*texts_of(entries), "edited"]
    assert [text for _, text in shown(fresh)] == ["prompt 0", "prompt 1", "prompt 2", "edited"]
    fresh.session(KEY).redo()
    assert len(shown(fresh)) == 900
    again = EverdeltaSessionStore(engine.open())  # from the stored rows of the index
    await again.append(KEY, [*entries[600:610], said(8, "user", "more", entries[-1]["uuid"])])
    assert len(await again.load(KEY) or []) == 902
    assert [text for _, text in shown(again)][-2:] == ["prompt 899", "more"]


async def test_sub_paths_are_sub_sessions(engine: Engine) -> None:
    """A transcript with a sub-path is a sub-session, whose view has its sidechain entries."""
    store = EverdeltaSessionStore(engine.open())
    side = [entry | {"isSidechain": True, "agentId": "1"} for entry in prompts("do it")]
    metadata = {"type": "agent_metadata", "agentType": "Explore", "description": "Look around"}
    await store.append(KEY, prompts("asked"))
    await store.append(SUB, [metadata, *side])
    await store.append({**KEY, "subpath": "subagents/workflows/1/agent-2"}, side)
    await store.append({**KEY, "session_id": "other", "subpath": "subagents/agent-1"}, side)
    assert await store.list_subkeys(KEY) == ["subagents/agent-1", "subagents/workflows/1/agent-2"]
    assert shown(store, SUB) == [("user", "do it")]
    assert store.session(SUB).info.title == "Look around"
    main = store.session(KEY).id
    assert sorted(info.id for info in store.store.sessions(parent=main)) == sorted(
        [store.session(SUB).id, store.session({**KEY, "subpath": "subagents/workflows/1/agent-2"}).id]
    )


async def test_keys_that_look_alike_are_others(engine: Engine) -> None:
    """Slashes and percent signs in keys, and long ones, never make two transcripts one."""
    store = EverdeltaSessionStore(engine.open())
    keys: list[dict[str, Any]] = [
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "a", "session_id": "b/c"},
        {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a%2Fb", "session_id": "c"},
        {"project_key": "a", "session_id": "b%2Fc"},
        {"project_key": "é" * 150, "session_id": "x" * 300},
    ]
    for number, key in enumerate(keys):
        await store.append(key, prompts(f"said {number}"))
    fresh = EverdeltaSessionStore(engine.open())
    for number, key in enumerate(keys):
        assert texts_of(await fresh.load(key)) == [f"said {number}"]
        assert await fresh.list_subkeys(key) == (["c"] if number == 0 else [])
    assert sorted(one["session_id"] for one in await fresh.list_sessions("a")) == ["b%2Fc", "b/c"]
    assert await fresh.list_subkeys({"project_key": "a", "session_id": "b"}) == ["c"]
    assert [one["session_id"] for one in await fresh.list_sessions("é" * 150)] == ["x" * 300]


@pytest.mark.parametrize("key", [None, {}, {"project_key": "a"}, {**KEY, "subpath": ""}, {**KEY, "session_id": 7}])
def test_what_is_no_key_is_refused(key: Any, engine: Engine) -> None:
    """A key that is none is an error that says what a key is; nothing begins."""
    store = EverdeltaSessionStore(engine.open())
    with pytest.raises(CallError):
        asyncio.run(store.append(key, prompts("a")))
    assert list(store.store.sessions()) == []


@pytest.mark.parametrize("key", [KEY, SUB], ids=["main", "sub"])
async def test_late_write_brings_no_transcript_back(engine: Engine, key: Any) -> None:
    """An append behind a deletion by another worker is refused until the transcript is loaded."""
    late, other = (EverdeltaSessionStore(engine.open()) for _ in range(2))
    await late.append(KEY, prompts("asked"))
    await late.append(key, prompts("before"))
    await other.delete(KEY)
    for _ in range(2):
        with pytest.raises(NotFoundError):
            await late.append(key, prompts("late"))
    with pytest.raises(NotFoundError):
        await late.append({**KEY, "subpath": "another"}, prompts("late"))
    assert await other.load(key) is None
    assert await other.list_sessions(KEY["project_key"]) == []
    assert await late.load(KEY) is None
    assert await late.load(key) is None
    await late.append(KEY, prompts("anew"))
    await late.append(key, prompts("anew"))
    assert texts_of(await other.load(key)) == ["anew"]


@pytest.mark.parametrize("begins", ["before", "after"])
def test_a_sub_path_that_begins_while_its_session_is_deleted_goes(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    """A sub-agent's first append that meets a deletion is deleted with the rest, or refused."""
    late, other = (EverdeltaSessionStore(engine.open()) for _ in range(2))
    asyncio.run(other.append(KEY, prompts("asked")))
    asyncio.run(late.append(KEY, prompts("asked")))
    module, name = (erase, "refuse_all_running") if begins == "before" else (session_store, "begin_session")
    original = getattr(module, name)

    def meanwhile(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(module, name, original)
        if begins == "before":  # between the deletion's look at what goes, and its tombstone
            found = original(*args, **options)
            asyncio.run(late.append(SUB, prompts("late")))
            return found
        asyncio.run(other.delete(KEY))
        return original(*args, **options)

    monkeypatch.setattr(module, name, meanwhile)
    if begins == "before":
        asyncio.run(other.delete(KEY))
    else:
        with pytest.raises(NotFoundError):
            asyncio.run(late.append(SUB, prompts("late")))
    assert list(engine.open().sessions()) == []
    with pytest.raises(NotFoundError):
        asyncio.run(late.append(SUB, prompts("late")))


def test_a_title_that_is_told_again_is_set_once(engine: Engine) -> None:
    """Also one with half an emoji, which lists show otherwise."""
    store = EverdeltaSessionStore(engine.open())

    async def play() -> None:
        await store.append(KEY, prompts("shared"))
        for _ in range(3):
            await store.append(KEY, [{"type": "custom-title", "customTitle": "half \ud83d", "sessionId": SESSION}])

    asyncio.run(play())
    events = [recorded.event for recorded in store.session(KEY).events()]
    assert [event.title for event in events if isinstance(event, ev.SessionRenamed)][1:] == ["half \ud83d"]


@pytest.mark.parametrize("mode", ["embedded", ENCRYPTED])
def test_deleted_transcripts_leave_no_byte(mode: str, tmp_path: Path) -> None:
    """After a deletion and a scrub no file has a text that no fork has, of any branch."""
    place = Engine(mode, tmp_path)
    store = EverdeltaSessionStore(place.open())

    async def play() -> str:
        entries = prompts("shared", "secret-large " * 3000, "secret-left")
        await store.append(KEY, entries)
        shown = next(number for number in range(3, 99) if ModelView.of(store.session(KEY), at=number).messages)
        fork = store.session(KEY).fork(at=shown + 2)  # behind its record: the part, the title of it, what is kept
        await store.append(KEY, [said(3, "user", "secret-branch", entries[0]["uuid"])])
        await store.append(SUB, prompts("secret-sub"))
        await store.append(KEY, [{"type": "custom-title", "customTitle": "secret-title", "sessionId": SESSION}])
        await store.delete(KEY)
        assert await store.load(SUB) is None
        await store.append(KEY, prompts("anew"))
        return fork.id

    fork = asyncio.run(play())
    store.store.scrub()
    for text in ("secret-large", "secret-left", "secret-branch", "secret-sub", "secret-title"):
        assert files_with(place.path, text) == [], text
    assert viewed(ModelView.of(store.store.session(fork)).messages) == [("user", "shared")]
    assert texts_of(asyncio.run(store.load(KEY))) == ["anew"]
    place.close()


def test_the_sdk_lists_forks_renames_and_deletes(engine: Engine) -> None:
    """The SDK's commands on sessions in a store give the results of its own store."""
    ours: Any = EverdeltaSessionStore(engine.open())
    theirs: Any = InMemorySessionStore()
    talk = Talk()
    talk.more([("calls", 1), ("results", 2), ("answer", 1), ("branch", 0), ("answer", 2), ("title", 0)])
    directory = "/work"

    async def play(store: Any) -> list[Any]:
        await store.append(KEY, talk.entries)
        await store.append(SUB, prompts("sub"))
        await rename_session_via_store(store, SESSION, "Renamed", directory)
        await tag_session_via_store(store, SESSION, "kept", directory)
        forked = await fork_session_via_store(store, SESSION, directory)
        found = [
            (one.summary, one.custom_title, one.tag, one.first_prompt, one.cwd)
            for one in await list_sessions_from_store(store, directory)
        ]
        messages = [
            [one.message for one in await get_session_messages_from_store(store, name, directory)]
            for name in (SESSION, forked.session_id)
        ]
        subagents = await list_subagents_from_store(store, SESSION, directory)
        if store is ours:
            key = {**KEY, "session_id": forked.session_id}
            assert shown(ours, key) == listed(
                await get_session_messages_from_store(store, forked.session_id, directory)
            )
            assert ours.session(KEY).info.title == "Renamed"
        await delete_session_via_store(store, SESSION, directory)
        left = [one.custom_title for one in await list_sessions_from_store(store, directory)]
        return [sorted(found, key=repr), messages, subagents, left, await store.list_subkeys(KEY)]

    assert asyncio.run(play(ours)) == asyncio.run(play(theirs))


@pytest.mark.parametrize("run", RUNNERS, ids=["asyncio", "trio"])
def test_a_mirrored_run_is_resumed(run: Callable[..., Any], engine: Engine, tmp_path: Path) -> None:
    """The next program resumes from the entries that the SDK mirrored while one ran."""
    store: Any = EverdeltaSessionStore(engine.open())
    talk = Talk()
    talk.more([("calls", 2), ("results", 2), ("answer", 0)])
    main = tmp_path / KEY["project_key"] / f"{SESSION}.jsonl"
    side = tmp_path / KEY["project_key"] / SESSION / "subagents" / "agent-1.jsonl"
    failed: list[Any] = []

    async def on_error(*told: Any) -> None:
        failed.append(told)

    async def play() -> None:
        batcher = TranscriptMirrorBatcher(store, str(tmp_path), on_error)
        for number, entry in enumerate(talk.entries):
            batcher.enqueue(str(main), [entry])  # type: ignore[list-item]
            if number % 3 == 0:
                await batcher.flush()
        batcher.enqueue(str(side), prompts("sub"))  # type: ignore[arg-type]
        await batcher.close()
        assert failed == []
        fresh: Any = EverdeltaSessionStore(engine.open())
        options = ClaudeAgentOptions(session_store=fresh, resume=SESSION, cwd="/work")
        resumed = await materialize_resume_session(options)
        assert resumed is not None
        found = {path.name: path.read_text() for path in resumed.config_dir.rglob("*.jsonl")}
        assert [json.loads(line) for line in found[main.name].splitlines()] == talk.entries
        assert texts_of([json.loads(line) for line in found[side.name].splitlines()]) == ["sub"]
        await resumed.cleanup()

    run(play)


async def test_a_sidechain_has_the_scope_of_its_session(engine: Engine) -> None:
    """A scope given before the first entry is that of sub-agents, too."""
    store = EverdeltaSessionStore(engine.open())
    store.store.open_session((MAIN, f"{KEY['project_key']}/{KEY['session_id']}"), scope="alice")
    for key in (KEY, SUB, {**KEY, "session_id": "other"}):
        await store.append(key, prompts("a"))
    scopes = [store.session(key).info.scope for key in (KEY, SUB, {**KEY, "session_id": "other"})]
    assert scopes == ["alice", "alice", KEY["project_key"]]
