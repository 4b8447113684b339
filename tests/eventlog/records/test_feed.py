"""Telling records to a session and reading them back."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import (
    CallError,
    ConflictError,
    Feed,
    NotFoundError,
    OpenAIChatMapping,
    RecordBuilder,
    RefusedError,
    RequestReusedError,
    Session,
    Store,
)
from eventlog import events as ev
from eventlog.codec.batch import entry_decoder
from eventlog.history.checkpoint_store import PREFIX
from eventlog.importers.common.json_lines import is_array, is_object
from eventlog.values import Model
from projections import ModelView
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places
from tests.support.toy_records import ToyMapping, shown

CALL = {
    "kind": "answer",
    "text": "I look at it",
    "calls": [{"id": "c1", "tool": "ls", "input": {"path": "/a/long/path"}}],
}
RESULT = {"kind": "result", "call": "c1", "output": "one two three four five"}
ASK = {"kind": "user", "text": "What is in the directory?"}

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None), max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None), max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def exact(value: Any) -> str:
    """A text that two values share only if they are deep-equal, types and key order included."""
    return json.dumps(value) + repr(value)


engine = places(*ENGINES, ENCRYPTED)


@pytest.fixture
def store(engine: Engine) -> Store:
    """A store on it."""
    return engine.open()


def feed_of(store: Store) -> Feed:
    """A feed of a new session."""
    return Feed(store.create_session(), ToyMapping())


@pytest.mark.promise(14)
def test_records_come_back_and_their_texts_are_stored_once(store: Store, engine: Engine) -> None:
    """Records come back deep-equal in another store, and no large text is stored twice."""
    feed = feed_of(store)
    told: list[Any] = [
        ASK,
        CALL,
        {**RESULT, "output": "many words " * 500},
        {"kind": "?", "blob": "x" * 5000},
        "text " * 9,
    ]
    numbers = feed.add(told)
    assert feed.read(numbers) == told
    again = Feed(engine.open().session(feed.session.id), ToyMapping())
    assert [exact(value) for value in again.read(again.path())] == [exact(value) for value in told]
    texts = [str(event.event) for event in feed.session.events()]
    assert sum("many words" in text or "x" * 99 in text for text in texts) == 0, "large texts are bodies"
    assert sum("I look at it" in text for text in texts) == 2, "short texts stay in the rest"
    assert sum("What is in the" in text for text in texts) == 1


@pytest.mark.promise(7)
@settings(max_examples=300, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=4), st.data())
def test_any_json_value_comes_back_deep_equal(values: list[Any], data: st.DataObject) -> None:
    """Key order, int or float, large numbers and lone surrogates are kept in all events."""

    class Moves:
        """Tells any texts and objects of the record, as a mapping might."""

        format = "any"

        def read(self, record: Any, to: RecordBuilder) -> None:
            """Tell what is in the record."""
            self.tell(record, to)

        def tell(self, value: Any, to: RecordBuilder) -> None:
            """Tell a value, and those inside it."""
            if isinstance(value, str):
                if data.draw(st.booleans()):
                    to.user(value)
                else:
                    to.answer()
                    to.text(value)
                    to.call("c", value, value or "{}")
                    to.result("c", value)
                    to.end()
            elif is_array(value):
                for one in value:
                    self.tell(one, to)
            elif is_object(value):
                to.answer()
                to.call("c", "t", value)
                to.end()
                for one in value.values():
                    self.tell(one, to)

    engine = Engine("memory")
    try:
        feed = Feed(engine.open().create_session(), Moves())
        numbers = feed.add(values)
        assert [exact(value) for value in feed.read(numbers)] == [exact(value) for value in values]
    finally:
        engine.close()


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1: 2}, (1,), b"x", object(), {"a": {"b": [float("-inf")]}}, 10**5000],
    ids=["nan", "inf", "key", "tuple", "bytes", "object", "deep", "digits"],
)
def test_what_is_no_json_is_refused(value: Any) -> None:
    """A value that would come back as something else is `CallError`, and nothing is written."""
    feed = feed_of(Engine("memory").open())
    with pytest.raises(CallError):
        feed.add([ASK, value])
    assert feed.session.version == 1


def test_nesting_without_end_is_refused() -> None:
    """A record nested too deeply, or inside itself, is `CallError`."""
    engine = Engine("memory")
    feed = feed_of(engine.open())
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CallError, match="nested"):
        feed.add([loop])


def test_a_repeated_request_gives_the_first_numbers(store: Store) -> None:
    """A repeated request gives the first numbers, and is refused with another content."""
    feed = feed_of(store)
    numbers = feed.add([ASK, CALL], request_id="r", expected=0)
    version = feed.session.version
    assert feed.add([ASK, CALL], request_id="r", expected=0) == numbers
    assert feed.session.version == version
    with pytest.raises(RequestReusedError):
        feed.add([ASK], request_id="r")


def test_an_open_reply_is_not_cut_off(store: Store) -> None:
    """Inside a reply, or with one left open under the lease, a feed is refused."""
    feed = feed_of(store)
    with feed.session.assistant() as reply:
        reply.add_text("native")
        with pytest.raises(RefusedError, match="open"):
            feed.add([ASK])
        reply.finish()
    feed.add([ASK])


def test_values_are_put_in_the_same_append(store: Store) -> None:
    """`keep` puts values of the session in the append of the records."""
    feed = feed_of(store)
    before = store.log.head(feed.session.id)
    feed.add([ASK], keep={"thread": "text", "blob": b"\x00\xff" * 5000})
    after = store.log.head(feed.session.id)
    assert before is not None
    assert after is not None
    assert after.appends == before.appends + 1
    found = {stored.key: stored.value for stored in feed.session.values.items()}
    assert found == {"thread": "text", "blob": b"\x00\xff" * 5000}
    with pytest.raises(CallError):
        feed.add([ASK], keep={"": "no key"})


@pytest.mark.promise(14)
def test_feeds_that_wait_all_get_in(engine: Engine) -> None:
    """A feed with `wait` waits also for an owner whose append came between lease and append."""
    session = engine.open().create_session()

    def write(name: int) -> None:
        feed = Feed(engine.open().session(session.id), ToyMapping())
        for number in range(8):
            feed.add([{"kind": "user", "text": f"{name} {number}"}], wait=60)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    feed = Feed(session, ToyMapping())
    said = [record["text"] for record in feed.read(feed.path())]
    assert len(said) == 24
    for name in range(3):
        assert [text for text in said if text.startswith(f"{name} ")] == [f"{name} {number}" for number in range(8)]


def test_the_newest_of_a_path(store: Store) -> None:
    """A path may be of the newest records only, also across rollbacks and at a version."""
    feed = feed_of(store)
    first = feed.add([ASK, ASK, ASK])
    second = feed.add([ASK, ASK], after=first[1])
    whole = [*first[:2], *second]
    assert [feed.path(newest=newest) for newest in range(6)] == [whole[4 - min(newest, 4) :] for newest in range(6)]
    assert feed.path(first[-1], newest=2) == first[1:]
    for wrong in (-1, True, "2"):
        with pytest.raises(CallError, match="newest"):
            feed.path(newest=wrong)  # type: ignore[arg-type]


def test_replace_tells_what_differs(store: Store) -> None:
    """Equal records at the beginning stay as they are; a shorter list is a rollback."""
    feed = feed_of(store)
    first = feed.replace([ASK, CALL, RESULT])
    second = feed.replace([ASK, CALL, {**RESULT, "output": "something else"}])
    assert second[:2] == first[:2]
    assert second[2] != first[2]
    assert feed.replace([ASK]) == first[:1] == feed.path()
    assert feed.replace([ASK]) == first[:1]
    assert feed.replace([{**ASK, "n": 1}]) != feed.replace([{**ASK, "n": 1.0}]), "1 is not 1.0"
    assert feed.replace([]) == [] == feed.path()
    with pytest.raises(ConflictError):
        feed.replace([ASK], expected=first[0])


def test_a_mapping_removes_and_summarizes(store: Store) -> None:
    """A record may take an earlier message out, or stand for all messages so far."""

    class Mapping(ToyMapping):
        def read(self, record: Any, to: RecordBuilder) -> None:
            if record["kind"] == "remove":
                assert to.remove(record["id"])
                assert not to.remove("none")
            elif record["kind"] == "user":
                to.user(record["text"], id=record.get("id", ""))
            else:
                super().read(record, to)

    feed = Feed(store.create_session(), Mapping())
    feed.add([{"kind": "user", "text": "a", "id": "m1"}, {"kind": "user", "text": "b", "id": "m2"}, CALL])
    feed.add([{"kind": "remove", "id": "m1"}])
    assert [text for role, text, _ in shown(feed.session) if role == "user"] == ["b"]
    feed.add([{"kind": "summary", "text": "all that was said"}, {"kind": "user", "text": "and now?", "id": "m2"}])
    assert [text for _, text, _ in shown(feed.session)][-2:] == ["all that was said", "and now?"]
    assert "b" not in [text for _, text, _ in shown(feed.session)]


def test_a_mapping_that_fails_leaves_nothing(store: Store) -> None:
    """An error of a mapping reaches the caller; the session and its lease are as before."""

    class Broken(ToyMapping):
        def read(self, record: Any, to: RecordBuilder) -> None:
            to.user(record["text"][:4])
            raise ZeroDivisionError

    feed = Feed(store.create_session(), Broken())
    with pytest.raises(ZeroDivisionError):
        feed.add([ASK])
    assert feed.session.version == 1
    assert Feed(feed.session, ToyMapping()).add([ASK])


def test_a_part_needs_an_answer(store: Store) -> None:
    """A text, call or file without an open answer is refused."""

    class Bare(ToyMapping):
        def read(self, record: Any, to: RecordBuilder) -> None:
            to.text(record["text"])

    with pytest.raises(RefusedError, match="answer"):
        Feed(store.create_session(), Bare()).add([ASK])


def test_few_records_of_a_large_append_are_read_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a few records of many decodes their own events, not all of the append."""
    feed = feed_of(store)
    told = [{"kind": "user", "text": f"told {place} " * 50} for place in range(500)]
    numbers = feed.add(told)
    decodes = Mock(wraps=entry_decoder())
    monkeypatch.setattr("eventlog.codec.decoded.entry_decoder", Mock(return_value=decodes))
    assert feed.read(numbers[-3:]) == told[-3:]
    assert 3 <= decodes.call_count < 20
    with pytest.raises(NotFoundError):
        feed.read([numbers[-1], numbers[-1] - 1])


def test_the_index_is_derived(engine: Engine) -> None:
    """Paths are the same with a writer's rows of the index, and with those deleted or damaged."""
    store = engine.open()
    feed = feed_of(store)
    for number in range(0, 700, 50):
        feed.add([{"kind": "user", "text": f"told {place}"} for place in range(number, number + 50)])
        if number % 200 == 0 and number:
            feed.add([ASK], after=feed.path()[number // 2])
    path = feed.path()
    name = feed.session.id

    def fresh() -> list[int]:
        return Feed(engine.open().session(name), ToyMapping()).path()

    own = store.log.of(name)

    def rows() -> dict[bytes, bytes | None]:
        return {key: own.get_derived(key) for key in own.derived_keys(PREFIX) if b"records" in key}

    left = rows()
    assert left, "complete windows are stored"
    assert fresh() == path
    own.put_derived([(key, b"x" * 40) for key in left])
    assert fresh() == path
    own.put_derived([(key, None) for key in left])
    assert fresh() == path
    assert rows() == left
    fork = Feed(feed.session.fork(feed.at(path[len(path) // 2])), ToyMapping())
    assert fork.path() == path[: len(path) // 2 + 1]


def test_system_prompts_and_models_of_chat_messages(store: Store) -> None:
    """Leading system messages are the prompt, also told alone; answers have models."""
    feed = Feed(store.create_session(), OpenAIChatMapping())
    feed.add([{"role": "system", "content": "Be brief."}])
    feed.add([{"role": "user", "content": "Hi"}])
    feed.add([{"role": "assistant", "content": "Hello", "model": "m"}, {"role": "system", "content": "Be long."}])
    view = ModelView.of(feed.session)
    assert [segment for segment in view.system if segment] == ["Be brief."]
    assert len(view.messages) == 3
    started = [found.event for found in feed.session.events() if isinstance(found.event, ev.AssistantMessageStarted)]
    assert started[0].model == Model("", "m")


class Interrupted(ToyMapping):
    """A mapping in the middle of which another owner runs the session."""

    def __init__(self, other: Session, times: int) -> None:
        self.other = other
        self.left = times

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what the record means, once the other owner has had the lease."""
        if self.left:
            self.left -= 1
            with self.other.lease():
                pass
        super().read(record, to)


@pytest.mark.promise(3)
@pytest.mark.parametrize("wait", [0.0, 5.0])
def test_an_owner_that_was_quicker_is_waited_for(wait: float) -> None:
    """A feed whose claim was beaten before its append takes the lease again, and tells once."""
    engine = Engine("memory")
    here, there = engine.open(), engine.open()
    session = here.create_session()
    session.user("hi")
    feed = Feed(session, Interrupted(there.session(session.id), 1))
    (number,) = feed.add([{"kind": "user", "text": "told"}], wait=wait)
    assert feed.path() == [number]
    assert not session.executor.holds_lease
    engine.close()


def test_wrong_arguments_are_refused_before_anything_is_written() -> None:
    """Values to keep, numbers and ids of calls that are none are a `CallError` or not found."""
    engine = Engine("memory")
    feed = Feed(engine.open().create_session(), ToyMapping())
    (number,) = feed.add([ASK])
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    version = feed.session.version
    for keep in (5, "ab", [["a", "b"]], deep):
        with pytest.raises(CallError):
            feed.add([ASK], keep=keep)  # type: ignore[arg-type]
    with pytest.raises(CallError):
        feed.replace([ASK], expected=deep)  # type: ignore[arg-type]
    mistaken: list[dict[str, Any]] = [
        {**ASK, "text": 5},
        {**RESULT, "call": []},
        {**CALL, "calls": [{"id": [], "tool": "ls", "input": {}}]},
    ]
    for wrong in mistaken:
        with pytest.raises(CallError):
            feed.add([wrong])
    for unknown in (1 << 70, -1, 0, number + 1):
        with pytest.raises(NotFoundError):
            feed.read([number, unknown])
    with pytest.raises(NotFoundError):
        feed.at(number + 1)
    assert feed.session.version == version
    engine.close()


def test_records_at_a_version_are_told_at_no_other(engine: Engine) -> None:
    """Records for a version, and their values, are refused at any other version."""
    session = engine.open().create_session()
    feed = Feed(session, ToyMapping())
    version = session.version
    feed.add([ASK], keep={"k": "1"}, version=version)
    with pytest.raises(ConflictError):
        feed.add([ASK], keep={"k": "2"}, version=version)
    now = session.version
    engine.open().session(session.id).values.put("other", "x")
    with pytest.raises(ConflictError):
        feed.add([], keep={"k": "2"}, version=now)
    found = session.values.get("k")
    assert found is not None
    assert found.value == "1"
    assert len(feed.path()) == 1
    assert len(feed.add([ASK], version=session.version)) == 1
