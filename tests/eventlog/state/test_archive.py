"""Archived facts about finished messages answer as unarchived ones, in less memory."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventlog
from eventlog import events as ev
from eventlog.errors import AlreadyExistsError, CallError
from eventlog.ids import new_id
from eventlog.state.archive import FactArchive
from eventlog.state.evolve import evolve
from eventlog.state.facts import MessageFacts, PartFacts
from eventlog.state.loader import apply_spans
from eventlog.state.rules import check
from eventlog.state.settling import closing
from eventlog.state.state import State
from eventlog.state.stored import canonical
from eventlog.state.stored_facts import FACTS
from eventlog.values import Text, Tool
from tests.support.history_strategies import histories
from tests.support.sample_sessions import begin, derived_reads
from tests.support.stored_rows import DictRows


@contextmanager
def packing(warm: int, chunk: int) -> Generator[None]:
    """Archive after `warm + chunk` messages already, `chunk` at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eventlog.state.fact_store.HOT", warm)
        patch.setattr("eventlog.state.fact_store.AT_ONCE", chunk)
        patch.setattr("eventlog.state.stored_facts.BLOCK_MESSAGES", 2)
        patch.setattr("eventlog.state.run.BUCKET_IDS", 3)
        patch.setattr("eventlog.state.version_log.RECENT", 4)
        yield


def answers(state: State) -> list[object]:
    """All answers that a state gives to commands."""
    return [
        state.version,
        state.open_messages(),
        state.last_user(),
        state.last_message,
        state.open_compaction(),
        state.running_compaction(),
        closing(state, "x"),
        sorted(state.messages.items()),
        sorted(state.parts.items()),
        [state.answered(message) for message in sorted(state.messages)],
    ]


def reopened(packed: FactArchive) -> FactArchive:
    """The archive as stored and opened again."""
    state, rows = State(), DictRows()
    state.facts.archive = packed
    state.version = 1_000
    rows.save(state)
    return rows.load().facts.archive


def kept(state: State) -> State:
    """The state as opened from its checkpoint."""
    rows = DictRows()
    rows.save(state)
    return rows.load()


def outcome(state: State, event: ev.Event) -> type[Exception] | None:
    """The state's decision about an event: an error type, or None."""
    try:
        check(state, event)
    except CallError as error:
        return type(error)
    return None


@pytest.mark.promise(7, 8)
@settings(max_examples=40, deadline=None)
@given(histories(), st.integers(1, 3), st.integers(1, 4), st.integers(0, 3))
def test_what_is_packed_answers_as_before(
    grown: list[tuple[int, ev.Event]], warm: int, chunk: int, behind: int
) -> None:
    """Promises 7 and 8: a state with archived facts answers and refuses as one without."""
    plain, events = State(), [event for _, event in grown]
    with packing(warm, chunk):
        packed = State()
        for event in events:
            assert outcome(packed, event) is outcome(plain, event) is None
            evolve(plain, event)
            evolve(packed, event)
            packed.commit_to(packed.version - behind)
            assert packed.open_messages() == plain.open_messages()
            assert packed.last_user() == plain.last_user()
        assert answers(packed) == answers(plain)
        again = kept(packed)
        for event in events:
            assert outcome(again, event) is outcome(plain, event)
        assert answers(again) == answers(plain)


@pytest.mark.promise(4)
@settings(max_examples=40, deadline=None)
@given(histories(), st.integers(0, 100), st.integers(0, 100))
def test_what_is_taken_back_leaves_no_trace_in_what_is_packed(
    grown: list[tuple[int, ev.Event]], first: int, second: int
) -> None:
    """Promise 4: uncommitted facts are not archived, so retracting restores the state."""
    events = [event for _, event in grown]
    low, high = sorted((first % len(events), second % len(events)))
    plain = State()
    for event in events[:low]:
        evolve(plain, event)
    with packing(1, 1):
        state = State()
        for event in events[:high]:
            evolve(state, event)
            state.commit_to(min(low, state.version))
        state.retract(low)
        assert answers(state) == answers(plain)
        for event in events[low:]:
            check(state, event)
            evolve(state, event)
            evolve(plain, event)
        assert answers(state) == answers(plain)


def turn(number: int) -> list[ev.Event]:
    """A question, and an answer with a text and a call."""
    user, reply = f"u{number}", f"a{number}"
    return [
        ev.UserMessageAdded(user),
        ev.PartStarted(user, f"{user}:text", Text("hi")),
        ev.AssistantMessageStarted(reply, user),
        ev.PartStarted(reply, f"{reply}:text", Text()),
        ev.PartEnded(f"{reply}:text"),
        ev.PartStarted(reply, f"{reply}:call", Tool(f"call{number}", "bash")),
        ev.ToolRunning(f"{reply}:call", "{}"),
        ev.ToolCompleted(f"{reply}:call", "out"),
        ev.MessageFinished(reply, "stop"),
    ]


def long_state(turns: int) -> State:
    """The state of a session of many turns, all committed."""
    state = State()
    evolve(state, ev.SessionStarted())
    for number in range(turns):
        for event in turn(number):
            check(state, event)
            evolve(state, event)
        state.commit_to(state.version)
    return state


def reachable(state: State) -> int:
    """Count the objects reachable from a state, without shared classes and modules."""
    seen: dict[int, object] = {}
    found: list[object] = [state]
    while found:
        thing = found.pop()
        if id(thing) not in seen and not isinstance(thing, (type, ModuleType, FunctionType, BuiltinFunctionType)):
            seen[id(thing)] = thing
            found += gc.get_referents(thing)
    return len(seen)


@pytest.mark.promise(8)
def test_an_old_message_is_bytes() -> None:
    """Promise 8: an archived message is bytes in memory, and none once a checkpoint has it."""
    short, long = long_state(500), long_state(2_500)
    parts = 3 * 2_000
    assert reachable(short) > 3 * 50  # the newest are objects: the count does see them
    assert reachable(long) - reachable(short) < 1.3 * parts  # an id each, and the bytes of their messages
    sizes = list[int]()
    for state in (short, long):
        rows = DictRows()
        rows.save(state)
        sizes.append(rows.size())
    assert sizes[1] - sizes[0] < 40 * parts
    assert reachable(long) - reachable(short) < 100  # what is stored is not in memory


def messages(count: int) -> list[tuple[str, MessageFacts]]:
    """Messages of one part each."""
    return [
        (f"m{n}", MessageFacts(n, True, False, {f"p{n}": PartFacts(n, f"m{n}", "text", "", "ended")}))
        for n in range(count)
    ]


def test_ids_of_one_hash_are_told_apart() -> None:
    """Ids with equal hashes are told apart, and the newest facts of an id count."""
    packed = FactArchive()
    packed._modulus = 1  # now every id has the same hash
    found = messages(100)
    packed.add(found)
    newer = (
        "m5",
        MessageFacts(
            5,
            True,
            False,
            {"p5": PartFacts(5, "m5", "text", "", "ended"), "q": PartFacts(500, "m5", "text", "", "ended")},
        ),
    )
    packed.add([newer])
    for again in (packed, reopened(packed)):
        assert [again.find(name) for name, _ in found if name != "m5"] == [row for row in found if row[0] != "m5"]
        assert again.find("m5") == again.find("p5") == again.find("q") == newer
        assert again.find("m100") is again.find("") is again.find("\ud800") is None
        assert sorted(again) == sorted([*(row for row in found if row[0] != "m5"), newer])


def test_an_id_that_grows_is_new_beside_ids_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id greater than all of its length is new without a look, also below a shorter one."""
    state = State()
    state.version = 1_000
    state.facts.archive.add([*messages(10), *((f"a-{n}", MessageFacts(n, True, False, {})) for n in range(10, 20))])
    opened = kept(state)
    with monkeypatch.context() as patch:
        patch.setattr(FactArchive, "find", None)
        assert not any(one.has_message("a-20") or one.has_part("a-20:0") for one in (state, opened))
    assert all(one.has_message("a-15") and one.has_part("p9") and one.has_message("m9") for one in (state, opened))
    assert not any(one.has_message("a-05") for one in (state, opened))


def test_call_ids_may_be_any_text() -> None:
    """A call id with lone surrogates is archived exactly and found again."""
    packed = FactArchive()
    odd = ("m", MessageFacts(1, False, False, {"p": PartFacts(2, "m", "tool", "\ud800", "pending", (100,))}))
    packed.add([odd, *messages(3)])
    for again in (packed, reopened(packed)):
        assert again.find("p") == odd
        assert again.find("m2") == messages(3)[2]


def test_readers_need_no_lock() -> None:
    """While one thread extends a session, readers without a lock find every part."""
    missing: list[str] = []
    with eventlog.open("memory:") as store:
        session = store.create_session()
        known = [
            session.user(f"{number}", id=new_id("m_")) and session.reader.state().last_message for number in range(40)
        ]
        done = False

        def read() -> None:
            while not done:
                state = session.reader.state()
                missing.extend(name for name in known if state.messages.get(name) is None)

        readers = [begin(read) for _ in range(2)]
        try:
            for number in range(400):
                session.user(f"{number}")
        finally:
            done = True
        for reader in readers:
            reader.result(60)
    assert not missing


@pytest.mark.promise(8)
@pytest.mark.parametrize("lost", ["nothing", "a block", "all of it", "its soundness"])
def test_stored_facts_are_read_when_they_are_asked_for(tmp_path: Path, lost: str) -> None:
    """Promise 8: stored facts are read only for an old id, or made again from the log if lost."""
    events = [(0, event) for number in range(300) for event in turn(number)]
    with eventlog.open(tmp_path, checkpoint_events=2_000) as store:
        session = store.create_session(id="s")
        session.append(events)
        session.executor.acquire()
        session.executor.release()
        keys = store.log.derived_keys(b"checkpoint\0" + FACTS.encode())
        values = {key: store.log.get_derived(key) or b"" for key in keys}
        assert len(values) >= 4
        if lost == "a block":
            store.log.put_derived([(min(values, key=lambda key: key[-3:]), None)])
        elif lost == "all of it":
            store.log.put_derived([(key, None) for key in values])
        elif lost == "its soundness":
            store.log.put_derived([(key, value[:-1] + bytes([value[-1] ^ 1])) for key, value in values.items()])
    with eventlog.open(tmp_path) as store:
        wanted = derived_reads(store.log)
        session = store.session("s")
        session.executor.command([ev.UserMessageAdded("x")])  # alone: ids of parts do not sort behind those above
        assert not values.keys() & set(wanted)
        assert session.reader.state().last_user() == "x"
        facts = session.reader.state().part("a3:call")
        assert (facts.kind, facts.call, facts.message) == ("tool", "call3", "a3")
        assert 1 <= len(values.keys() & set(wanted)) <= 3
        with pytest.raises(AlreadyExistsError):
            session.user("again", id="u3")
        version = session.version
        session.rollback(before="a3")
        assert session.reader.state().last_user() == "u3"
        session.rollback(version)
        assert session.reader.state().last_user() == "x"
        whole = State()
        apply_spans(store.log, session.reader.ancestry(), whole, session.version)
        assert canonical(session.reader.state()) == canonical(whole)


@pytest.mark.promise(7, 8)
@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(1, 3), st.integers(1, 4), st.integers(1, 40), st.data())
def test_a_checkpoint_gives_the_state_of_earlier_versions(
    grown: list[tuple[int, ev.Event]], warm: int, chunk: int, every: int, data: st.DataObject
) -> None:
    """Promises 7 and 8: a checkpoint cut at an earlier version is the state of that version."""
    state, rows = State(), DictRows()
    with packing(warm, chunk):
        for number, (_, event) in enumerate(grown):
            evolve(state, event)
            state.commit_to(state.version)
            if number % every == every - 1:
                rows.save(state)
        rows.save(state)
        at = data.draw(st.integers(1, len(grown)))
        plain = State()
        for _, event in grown[:at]:
            evolve(plain, event)
        cut = rows.load(at)
        assert answers(cut) == answers(plain)
        assert canonical(cut) == canonical(plain)
        for _, event in grown[at:]:
            assert outcome(cut, event) is None
            evolve(cut, event)
            cut.commit_to(cut.version)
            evolve(plain, event)
        assert answers(cut) == answers(plain)
