"""Searches find what was said, in order, by page and by filter, in every engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import eventlog
from eventlog import events
from eventlog.codec.batch import encode
from eventlog.errors import CallError, CursorError, LimitError, NotFoundError
from eventlog.log.commit import Append
from eventlog.search import catch_up, commit_rows, results
from eventlog.session.session import Session
from eventlog.store import Store
from tests.support.engines import ENCRYPTED, ENGINES, Engine

PLACES = (*ENGINES, ENCRYPTED)


class Clock:
    """A clock that the test moves."""

    now = 1_700_000_000_000

    def __call__(self) -> int:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The clock of the store."""
    return Clock()


@pytest.fixture(params=PLACES)
def store(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Store]:
    """A store of each engine."""
    engine = Engine(request.param)
    yield engine.open(clock=clock)
    engine.close()


@pytest.fixture
def memory() -> Iterator[Store]:
    """A store in memory, for what is the same in every engine."""
    engine = Engine("memory")
    yield engine.open()
    engine.close()


def talk(store: Store, **options: Any) -> Session:
    """Make a session with a text of each kind; all say "ferry"."""
    session = store.create_session(**options)
    session.user("When does the ferry leave for Qikiqtaaluk?", id="question")
    with session.assistant("p/m", id="answer") as reply:
        thought = reply.stream_reasoning()
        for word in ("The fer", "ry table ", "is in a file."):
            thought.append(word)
        thought.end()
        call = reply.tool("grep", call_id="c1", input={"pattern": "ferry\nboat", "paths": ["a/b.txt"]})
        call.succeed("07:15 ferry from pier 4")
        text = reply.stream_text()
        text.append("The fer")
        text.append("ry leaves at 07:15.")
        text.end()
        reply.finish("stop")
    return session


def kinds(page: eventlog.SearchPage) -> list[str]:
    """Return the kinds of the hits, in order."""
    return [hit.kind for hit in page.hits]


def test_every_kind_of_text_is_found(store: Store) -> None:
    """User text, answer, reasoning, arguments and results are found, with their place."""
    session = talk(store)
    page = store.search("ferry")
    assert sorted(kinds(page)) == ["assistant", "call", "reasoning", "result", "user"]
    assert page.next is None
    assert not page.behind
    for hit in page.hits:
        assert hit.session == session.id
        assert [hit.snippet[first:last] for first, last in hit.found] == ["ferry"]
        assert hit.message == ("question" if hit.kind == "user" else "answer")
        assert hit.tool == ("grep" if hit.kind in {"call", "result"} else "")
        assert not hit.rolled_back
        assert not hit.removed


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("FERRY leaves", ["assistant"]),
        ('"ferry leaves at"', ["assistant"]),
        ('"leaves ferry"', []),
        ("ferry boat", ["call"]),
        ("a/b.txt", ["call"]),
        ("grep", ["call"]),
        ("07:15", ["assistant", "result"]),
        ("qikiqtaaluk", ["user"]),
        ("fer", []),
        ('ferry "pier 4" !!', ["result"]),
    ],
)
def test_words_and_phrases(memory: Store, words: str, found: list[str]) -> None:
    """All words count, in any case; phrases in their order; signs do not."""
    talk(memory)
    assert sorted(kinds(memory.search(words))) == found


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("明天我们去北京玩", "北京", "北京"),
        ("明天我们去北京玩", "我们去北京", "我们去北京"),
        ("明天我们去北京玩", "玩", "玩"),
        ("明天我们去北京玩", "京北", None),
        ("东京タワーへ行く", "タワー", "タワー"),
        ("내일 서울에 갑니다", "서울", "서울"),
        ("พรุ่งนี้ไปกรุงเทพ", "กรุงเทพ", "กรุงเทพ"),
        ("कल दिल्ली जाना है", "दिल्ली", "दिल्ली"),
        ("Café crème à la carte", "creme", "crème"),
        ("ГОРОД Москва", "город", "ГОРОД"),
        ("see RFC9110节 for it", "RFC9110节", "RFC9110节"),
        ("\x1b[1;31mError\x1b[0m: no", "error", "Error"),
        ("x \ud83d ferry \0 \x01 y", "ferry", "ferry"),
    ],
)
def test_any_language(memory: Store, text: str, words: str, found: str | None) -> None:
    """Words of scripts with and without spaces are found, two-character ones included."""
    memory.create_session().user(text)
    hits = memory.search(words).hits
    if found is None:
        assert not hits
    else:
        assert [hits[0].snippet[first:last] for first, last in hits[0].found] == [found]


def test_a_text_that_streams_is_found(store: Store) -> None:
    """Text of an open part is found once it is flushed, and once only when it ends."""
    session = store.create_session()
    session.user("go")
    with session.assistant("p/m") as reply:
        text = reply.stream_text()
        for word in ("silver ", "moon "):
            text.append(word)
            session.flush()
            assert len(store.search("silver").hits) == 1
        assert kinds(store.search("silver moon")) == ["assistant"]
        assert kinds(store.search("silver moon", ranked=True, kinds=["assistant"])) == ["assistant"]
        assert not store.search("silver", kinds=["user"]).hits
        call = reply.tool("cat", call_id="c")
        call.stream_input('{"path": "silver')
        session.flush()
        assert kinds(store.search("silver", tool="cat")) == ["call"]
        call.fail("never ran")
    assert sorted(kinds(store.search("silver"))) == ["assistant", "call"]


def test_newest_first_is_by_time(store: Store, clock: Clock) -> None:
    """Hits come by the time at which they were said, not in the order of the log."""
    times = [5_000, 1_000, 9_000, 3_000, 0, 1 << 42]
    for number, time in enumerate(times):
        clock.now = time
        store.create_session(id=f"s{number}").user("oak")
        store.search("oak")
    found = [hit.time for hit in store.search("oak").hits]
    assert found == sorted(times, reverse=True)
    assert [hit.time for hit in store.search("oak", since=1_000, until=5_000).hits] == [3_000, 1_000]


def test_many_texts_of_one_second_keep_their_order(store: Store, clock: Clock) -> None:
    """Texts without times, as in a recording, keep the order in which they were written."""
    clock.now = 0
    session = store.create_session()
    for number in range(70):
        session.user("elm", id=f"m{number}")
        if number % 9 == 0:
            store.search("elm")
    assert [hit.message for hit in store.search("elm", limit=100).hits] == [
        f"m{number}" for number in range(69, -1, -1)
    ]
    assert len(store.search("elm", until=1, limit=100).hits) == 70
    assert not store.search("elm", since=1).hits


def test_ranked_puts_the_best_first(store: Store) -> None:
    """Of two texts the one that says the word more often, in fewer words, is first."""
    session = store.create_session()
    session.user("pine pine pine")
    session.user("there is one pine among many other words in this long text")
    assert [hit.snippet[:9] for hit in store.search("pine", ranked=True).hits] == ["pine pine", "there is "]
    assert [hit.snippet[:9] for hit in store.search("pine").hits] == ["there is ", "pine pine"]


def test_ranked_weighs_a_bounded_number_of_texts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very common words only the newest texts are weighed, so a ranked search is bounded."""
    monkeypatch.setattr(results, "RANKED", 3)
    session = store.create_session()
    for number in range(6):
        session.user("pine " * (6 - number))
    assert [len(hit.found) for hit in store.search("pine", ranked=True).hits] == [3, 2, 1]


def test_filters(store: Store) -> None:
    """Scope, session, kind and tool choose among the hits."""
    first = talk(store, scope="alice")
    second = talk(store, scope="bob")
    assert {hit.session for hit in store.search("ferry", scope="bob").hits} == {second.id}
    assert {hit.session for hit in store.search("ferry", session=first.id).hits} == {first.id}
    assert sorted(kinds(store.search("ferry", kinds=["user", "result"], scope="alice"))) == ["result", "user"]
    assert sorted(kinds(store.search("ferry", tool="grep", scope="alice"))) == ["call", "result"]
    nothing: list[dict[str, Any]] = [{"scope": "carol"}, {"tool": "sed"}, {"session": first.id, "scope": "bob"}]
    assert not any(store.search("ferry", **filters).hits for filters in nothing)


def test_rolled_back_and_removed_texts_are_marked(store: Store) -> None:
    """Texts that a rollback hides are found with a mark, in the session that rolled back."""
    session = talk(store)
    fork = session.fork()
    session.rollback(before="answer")
    assert {hit.kind: hit.rolled_back for hit in store.search("ferry").hits} == {
        "user": False, "assistant": True, "reasoning": True, "call": True, "result": True,
    }  # fmt: skip
    assert kinds(store.search("ferry", rolled_back=False)) == ["user"]
    assert len(store.search("ferry", rolled_back=True).hits) == 4
    assert not store.search("ferry", session=fork.id, rolled_back=True).hits
    session.redo()
    assert not store.search("ferry", rolled_back=True).hits
    session.remove_message("question")
    assert [hit.kind for hit in store.search("ferry").hits if hit.removed] == ["user"]
    session.rollback(session.version - 1)
    assert not any(hit.removed for hit in store.search("ferry").hits)


def test_text_before_and_after_a_rollback_in_its_middle(store: Store) -> None:
    """A reply that is rolled back to its middle and goes on is found as two texts."""
    session = store.create_session()
    with session.lease():
        session.append(
            [
                (1, events.AssistantMessageStarted("a")),
                (2, events.PartStarted("a", "p", eventlog.Text())),
                (3, events.PartDelta("p", "text", "red ")),
                (4, events.PartDelta("p", "text", "green")),
            ]
        )
        store.search("red")
        session.append([(5, events.RolledBack(session.version - 1)), (6, events.PartDelta("p", "text", "blue sky"))])
        assert [hit.snippet for hit in store.search("blue").hits] == ["blue sky"]
        session.append([(7, events.PartEnded("p")), (8, events.MessageFinished("a"))])
    assert [hit.snippet for hit in store.search("green").hits] == ["red green"]
    assert [(hit.snippet, hit.part) for hit in store.search("blue").hits] == [("blue sky", "p")]


def test_an_edited_part_is_found_by_both_texts(store: Store) -> None:
    """The text before an edit is found, and the text after it, each once."""
    session = talk(store)
    text = next(hit.part for hit in store.search("leaves at 07").hits)
    session.edit_part(text, "The ferry sails at noon")
    assert [hit.snippet for hit in store.search("ferry", kinds=["assistant"]).hits] == ["The ferry sails at noon"]
    assert [hit.part for hit in store.search("leaves at").hits] == [text]


def test_late_results_and_results_in_a_fork(store: Store) -> None:
    """The result of a call that was open at a fork is found in the fork, with the tool's name."""
    session = store.create_session()
    session.user("go")
    with session.assistant("p/m", id="a") as reply:
        call = reply.tool("probe", call_id="c", input={})
        session.flush()
        fork = session.fork()
        call.succeed("basalt")
        reply.finish("tool-calls")
    with fork.lease():
        pass
    fork.late_result("a", "c", "granite")
    assert [(hit.session, hit.tool) for hit in store.search("granite", tool="probe").hits] == [(fork.id, "probe")]
    assert [(hit.session, hit.tool) for hit in store.search("basalt").hits] == [(session.id, "probe")]


@pytest.mark.parametrize("ranked", [False, True])
def test_a_fork_has_of_a_streamed_text_what_came_before_it(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, ranked: bool
) -> None:
    """Also once the session is erased in which the rest was said, edited, taken in as pieces."""
    monkeypatch.setattr(commit_rows, "PIECE", 400)
    monkeypatch.setattr(commit_rows, "_LOOK_BACK", 50)
    monkeypatch.setattr(commit_rows, "_OVERLAP", 20)
    session = store.create_session()
    with session.assistant("p/m") as reply:
        text = reply.stream_text()
        text.append("basalt granite " + "filler " * 100)
        session.flush()
        early = session.fork()
        text.append("marble granite " + "filler " * 100)
        session.flush()
        late = session.fork()
        text.append("slate granite " + "filler " * 100)
        reply.finish("stop")
    (whole,) = (hit.part for hit in store.search("slate").hits)
    session.edit_part(whole, "filler gneiss granite")
    for fork, there in ((early, ["basalt"]), (late, ["basalt", "marble"])):
        for word in ("basalt", "marble", "slate", "gneiss"):
            hits = store.search(word, session=fork.id, ranked=ranked).hits
            assert [hit.session for hit in hits] == [fork.id] * (word in there)
        (hit,) = store.search("granite", session=fork.id, ranked=ranked).hits
        assert "slate" not in hit.snippet
    store.erase(session.id, forks="keep")
    for word, shown in (("basalt", 1), ("marble", 1), ("slate", 0), ("gneiss", 0), ("granite", 1)):
        assert [hit.session for hit in store.search(word, ranked=ranked).hits] == [late.id] * shown
    store.erase(late.id)
    for word, shown in (("basalt", 1), ("marble", 0), ("slate", 0), ("gneiss", 0), ("granite", 1)):
        assert [hit.session for hit in store.search(word, ranked=ranked).hits] == [early.id] * shown


def test_long_texts_are_one_hit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is taken in as pieces is one hit, on one page; so are its last words."""
    monkeypatch.setattr(commit_rows, "PIECE", 2_000)
    monkeypatch.setattr(commit_rows, "_LOOK_BACK", 200)
    words = "".join(f"word{number} maple \n" for number in range(3_000))
    session = store.create_session()
    session.user(f"{words} the end")
    with session.assistant("p/m") as reply:
        text = reply.stream_text()
        for start in range(0, len(words), 777):
            text.append(words[start : start + 777])
            if start % 5 == 0:
                session.flush()
                store.search("word1", limit=1)
        text.append("the end")
        reply.finish("stop")
    assert len(store.search("maple", limit=1).hits) == 1
    first = store.search("maple", limit=1)
    second = store.search("maple", limit=1, cursor=first.next)
    assert sorted(kinds(first) + kinds(second)) == ["assistant", "user"]
    assert second.next is None
    for number in (0, 1, 77, 1500, 2_999):
        assert len(store.search(f'"word{number} maple"').hits) == 2, number
    assert len(store.search("ranked maple end", ranked=True).hits) == 0
    assert len(store.search("maple end", ranked=True).hits) == 2


def test_snippets_show_where_the_words_are(store: Store) -> None:
    """A snippet is a short piece of the text with the words in it, and says if it was cut."""
    filler = "lorem ipsum " * 200
    session = store.create_session()
    session.user(f"{filler}the Larch stands alone {filler}")
    session.user("larch")
    short, long = store.search("larch").hits
    assert (short.snippet, short.before, short.after) == ("larch", False, False)
    assert long.before
    assert long.after
    assert len(long.snippet) < 300
    assert [long.snippet[first:last] for first, last in long.found] == ["Larch"]
    assert long.snippet in f"{filler}the Larch stands alone {filler}"


@pytest.mark.parametrize(
    ("words", "options", "error"),
    [
        ("", {}, CallError),
        ('" " -- !', {}, CallError),
        (7, {}, CallError),
        ("x " * 3_000, {}, LimitError),
        (" ".join(f"w{number}" for number in range(65)), {}, LimitError),
        ("a", {"kinds": ["users"]}, CallError),
        ("a", {"kinds": "user"}, CallError),
        ("a", {"kinds": []}, CallError),
        ("a", {"limit": 0}, CallError),
        ("a", {"limit": "1"}, CallError),
        ("a", {"since": "1"}, CallError),
        ("a", {"since": True}, CallError),
        ("a", {"scope": 1}, CallError),
        ("a", {"rolled_back": 1}, CallError),
        ("a", {"ranked": None}, CallError),
        ("a", {"wait": "1"}, CallError),
        ("a", {"session": "none"}, NotFoundError),
        ("a", {"cursor": "zzz"}, CursorError),
    ],
)
def test_wrong_arguments_are_refused(memory: Store, words: Any, options: Any, error: type[Exception]) -> None:
    """A wrong argument is a typed error before anything is looked for."""
    with pytest.raises(error):
        memory.search(words, **options)


def test_a_cursor_is_of_its_search(store: Store) -> None:
    """A cursor of a list, of another search or of another store is refused."""
    talk(store)
    cursor = store.search("ferry", limit=1).next
    assert cursor is not None
    others: list[tuple[str, dict[str, Any]]] = [("boat", {}), ("ferry", {"ranked": True}), ("ferry", {"scope": "a"})]
    for words, options in others:
        with pytest.raises(CursorError):
            store.search(words, cursor=cursor, **options)
    with pytest.raises(CursorError):
        store.search("ferry", cursor=store.cursor())
    with pytest.raises(CursorError):
        list(store.subscribe(cursor, timeout=0))
    with pytest.raises(CursorError):
        store.newest_sessions(cursor=cursor)
    other = Engine("memory")
    with pytest.raises(CursorError):
        other.open().search("ferry", cursor=cursor)
    other.close()


def test_a_hostile_query_is_words(store: Store) -> None:
    """Operators of the index's language are words like others."""
    store.create_session().user('NEAR AND tags : k0 OR x* ^ { } ( ) " - NOT')
    assert len(store.search("NEAR AND").hits) == 1
    assert len(store.search("tags : k0").hits) == 1
    for words in ("NEAR(", "x*", "a^b", '{text}: "', "tags:(k0)", "'; DROP TABLE words; --"):
        store.search(words)


def test_a_text_that_never_ends_is_taken_in(store: Store, clock: Clock) -> None:
    """Text that a dead program left open is found, before and after it is taken in."""
    session = store.create_session()
    with session.lease():
        session.append(
            [
                (clock.now, events.AssistantMessageStarted("a")),
                (clock.now, events.PartStarted("a", "p", eventlog.Text())),
                (clock.now, events.PartDelta("p", "text", "cobalt sea")),
            ]
        )
        for passed in (0, catch_up.IDLE // 2, 2 * catch_up.IDLE, 4 * catch_up.IDLE):
            clock.now += passed
            assert [hit.snippet for hit in store.search("cobalt sea").hits] == ["cobalt sea"]
        session.append([(clock.now, events.PartDelta("p", "text", " and sky"))])
        assert len(store.search("sky").hits) == 1
        session.append([(clock.now, events.PartEnded("p")), (clock.now, events.MessageFinished("a"))])
    assert [hit.part for hit in store.search("sky").hits] == [hit.part for hit in store.search("cobalt").hits] == ["p"]


def test_session_that_begins_twice_ends_no_search(memory: Store) -> None:
    """An event that only a forger appends costs no other session its place in the index."""
    talk(memory, id="sound")
    memory.create_session(id="twice")
    payload = encode([(0, events.SessionStarted("again"))], 0)
    memory.log.submit(Append(session="twice", payload=payload, count=1, time=0)).wait()
    memory.session("sound").user("The ferry again")
    assert {hit.session for hit in memory.search("ferry").hits} == {"sound"}
