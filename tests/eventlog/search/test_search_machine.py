"""Random programs of talk, rollback, fork and erasure, searched beside a plain model."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import NamedTuple, Never

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from eventlog import Text, Tool
from eventlog import events as ev
from eventlog.errors import LimitError
from eventlog.search.catch_up import Follower
from eventlog.store import Store
from tests.faults.tally import SLOW
from tests.support.engines import ENCRYPTED, ENGINES, Engine

WORDS = ["amber", "birch", "北京", "京都", "delta"]
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)
WHICH = st.integers(0, 1_000)


def raising(error: Exception) -> Callable[..., Never]:
    """Return a function that raises."""

    def fails(*_: object, **__: object) -> Never:
        raise error

    return fails


class Said(NamedTuple):
    """A text in the stream in which it was said."""

    stream: str
    version: int
    part: str
    kind: str
    words: frozenset[str]
    streamed: tuple[str, ...] = ()
    """The words that came with this version and the next ones, one with each."""

    def words_in(self, talk: Talk) -> frozenset[str]:
        """The words that a session has of it."""
        if not self.streamed:
            return self.words if talk.sees(self.stream, self.version) else frozenset()
        words = enumerate(self.streamed, self.version)
        return frozenset(word for version, word in words if talk.sees(self.stream, version))


class Talk:
    """The model of a session."""

    def __init__(self, id: str, base: int = 0, parent: Talk | None = None) -> None:
        self.id = id
        self.base = base
        self.parent = parent
        self.erased = False
        self.redacted: set[str] = set()
        self.removed: set[str] = set()

    def sees(self, stream: str, version: int) -> bool:
        """Whether a version of a stream is in this session's history."""
        if stream == self.id:
            return version > self.base
        return self.parent is not None and version <= self.base and self.parent.sees(stream, version)

    def hides(self, part: str) -> bool:
        """Whether a part is redacted here, or in a session that this one continues."""
        return part in self.redacted or (self.parent is not None and self.parent.hides(part))


class Searches(RuleBasedStateMachine):
    """Sessions of a store, and what may be found in them."""

    engine_name = "embedded"
    scope: str | None = None
    """The scope of all sessions, where searches name it."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(self.engine_name)
        self.talks: dict[str, Talk] = {}
        self.said: list[Said] = []
        self.count = 0

    @initialize()
    def open(self) -> None:
        """Open the store, and begin a session."""
        self.store: Store = self.engine.open(flush_interval=3600.0)
        self.begin()

    def teardown(self) -> None:
        """Close it."""
        self.engine.close()

    def living(self, which: int) -> Talk:
        """One of the sessions that are not erased."""
        alive = [talk for talk in self.talks.values() if not talk.erased]
        return alive[which % len(alive)]

    def name(self) -> str:
        """A name that no other thing has."""
        self.count += 1
        return f"n{self.count}"

    @rule()
    def begin(self) -> None:
        """Begin a session."""
        name = self.name()
        self.store.create_session(id=name)
        self.talks[name] = Talk(name)

    @rule(which=WHICH, words=TEXT)
    def ask(self, which: int, words: list[str]) -> None:
        """Say something as the user."""
        talk, part = self.living(which), self.name()
        session = self.store.session(talk.id)
        message = self.name()
        session.append(
            [
                (self.count * 1000, ev.UserMessageAdded(message)),
                (self.count * 1000, ev.PartStarted(message, part, Text(" ".join(words)))),
            ]
        )
        self.said.append(Said(talk.id, session.version, part, "user", frozenset(words)))

    @rule(which=WHICH, words=TEXT, result=TEXT, is_open=st.booleans())
    def answer(self, which: int, words: list[str], result: list[str], *, is_open: bool) -> None:
        """Answer with a streamed text and a call; the text may never end."""
        talk, text, message = self.living(which), self.name(), self.name()
        session = self.store.session(talk.id)
        with session.lease():
            time = self.count * 1000
            session.append([(time, ev.AssistantMessageStarted(message)), (time, ev.PartStarted(message, text, Text()))])
            first = session.version + 1
            for word in words:
                session.append([(time, ev.PartDelta(text, "text", f"{word} "))])
            self.said.append(Said(talk.id, first, text, "assistant", frozenset(words), tuple(words)))
            if is_open:
                session.flush()
                return
            session.append([(time, ev.PartEnded(text))])
            call, said = self.name(), " ".join(result)
            session.append(
                [
                    (time, ev.PartStarted(message, call, Tool("c", "tool"))),
                    (time, ev.ToolRunning(call, f'{{"q": "{said}"}}')),
                ]
            )
            self.said.append(Said(talk.id, session.version, call, "call", frozenset(result)))
            session.append([(time, ev.ToolCompleted(call, said)), (time, ev.MessageFinished(message))])
            self.said.append(Said(talk.id, session.version - 1, call, "result", frozenset(result)))

    @rule(which=WHICH, at=WHICH)
    def fork(self, which: int, at: int) -> None:
        """Fork a session somewhere."""
        parent, name = self.living(which), self.name()
        session = self.store.session(parent.id)
        version = 1 + at % session.version
        session.fork(version, id=name)
        self.talks[name] = Talk(name, version, parent)

    @rule(which=WHICH, at=WHICH)
    def roll_back(self, which: int, at: int) -> None:
        """Roll a session back somewhere."""
        session = self.store.session(self.living(which).id)
        with session.lease():
            if session.version > 1:
                session.append([(self.count * 1000, ev.RolledBack(1 + at % (session.version - 1)))])

    @precondition(lambda self: self.said)
    @rule(which=WHICH)
    def redact(self, which: int) -> None:
        """Redact a part as a session sees it; the family of its stream hides it."""
        said = self.said[which % len(self.said)]
        viewers = [talk for talk in self.talks.values() if not talk.erased and talk.sees(said.stream, said.version)]
        if viewers:
            viewer = viewers[which % len(viewers)]
            self.store.session(viewer.id).redact(said.part, search=False)
            owner = self.talks[said.stream]
            for talk in viewers if owner.erased else [owner]:
                talk.redacted.add(said.part)

    @precondition(lambda self: sum(not talk.erased for talk in self.talks.values()) > 1)
    @rule(which=WHICH)
    def erase(self, which: int) -> None:
        """Erase a session; its forks are kept."""
        talk = self.living(which)
        self.store.erase(talk.id, forks="keep")
        talk.erased = True

    @rule()
    def open_again(self) -> None:
        """Close the store and open it."""
        self.store.close()
        self.store = self.engine.open(flush_interval=3600.0)

    @rule()
    def lose_the_index(self) -> None:
        """Delete the index while it is used."""
        if self.store.log.derived_directory is not None:
            shutil.rmtree(self.store.log.derived_directory, ignore_errors=True)

    @precondition(lambda self: self.engine_name in {"embedded", ENCRYPTED})
    @rule(is_scrub=st.booleans())
    def maintain(self, *, is_scrub: bool) -> None:
        """Scrub or vacuum the store."""
        if is_scrub:
            self.store.scrub()
        else:
            self.store.vacuum()

    @rule(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=2), limit=st.integers(1, 9), ranked=st.booleans())
    def search(self, words: list[str], limit: int, *, ranked: bool) -> None:
        """Search all sessions: each text that one of them shows is found once, with its marks."""
        self.store.flush()
        wanted: dict[tuple[str, str], set[str]] = {}
        for said in self.said:
            found = {talk.id for talk in self.viewers(said) if said.words_in(talk).issuperset(words)}
            if found:
                wanted[said.part, said.kind] = found
        self.compare(words, wanted, limit, ranked=ranked, session=None)

    @rule(which=WHICH, words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=2), limit=st.integers(1, 9))
    def search_one(self, which: int, words: list[str], limit: int) -> None:
        """Search one session, with what it inherited."""
        self.store.flush()
        talk = self.living(which)
        wanted = {
            (said.part, said.kind): {talk.id}
            for said in self.said
            if not talk.hides(said.part) and said.words_in(talk).issuperset(words)
        }
        self.compare(words, wanted, limit, ranked=False, session=talk.id)

    def viewers(self, said: Said) -> list[Talk]:
        """Sessions in which a text is found: its own, or if that is erased those that kept it."""
        owner = self.talks[said.stream]
        heirs = [talk for talk in self.talks.values() if not talk.erased and talk.sees(said.stream, said.version)]
        found = heirs if owner.erased else [owner]
        return [] if any(talk.hides(said.part) for talk in found) else found

    def compare(
        self,
        words: list[str],
        wanted: dict[tuple[str, str], set[str]],
        limit: int,
        *,
        ranked: bool,
        session: str | None,
    ) -> None:
        """Read all pages, and compare them with what is wanted."""
        found: dict[tuple[str, str], str] = {}
        cursor = None
        while True:
            page = self.store.search(
                " ".join(words),
                session=session,
                scope=self.scope,
                ranked=ranked,
                cursor=cursor,
                limit=limit,
                wait=None,
            )
            assert not page.behind
            for hit in page.hits:
                assert (hit.part, hit.kind) not in found
                found[hit.part, hit.kind] = hit.session
                ranges = self.store.session(hit.session).reader.effective_ranges()
                assert hit.rolled_back == (not any(first <= hit.version <= last for first, last in ranges))
                assert all(hit.snippet[first:last].strip() in words for first, last in hit.found)
            cursor = page.next
            if cursor is None:
                break
            assert len(page.hits) == limit
        assert found.keys() == wanted.keys()
        assert all(found[key] in wanted[key] for key in found)


@pytest.mark.timeout(1800 if SLOW else 300)
@pytest.mark.parametrize("engine", [*ENGINES, ENCRYPTED])
@pytest.mark.parametrize("too_large", [False, True])
def test_random_programs_find_what_the_model_has(
    engine: str, monkeypatch: pytest.MonkeyPatch, *, too_large: bool
) -> None:
    """After any program each text is found once, also in a scope of a store that is too large."""
    machine = type(engine, (Searches,), {"engine_name": engine, "scope": "" if too_large else None})
    if too_large:
        monkeypatch.setattr(Follower, "catch_up", raising(LimitError("characters", 2, 1)))
    count = {"memory": 60, "partitioned": 40}.get(engine, 12)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=count * 15 if SLOW else count,
            stateful_step_count=50 if SLOW else 30,
            deadline=None,
            database=None,
            phases=[Phase.generate] if not SLOW else list(Phase),
        ),
    )
