"""Commands of a user to a window, sent twice: done once, with the first result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import eventlog
from eventlog import Opaque
from eventlog.errors import RequestReusedError
from eventlog.session.session import Session
from projections import ContextPolicy, ModelView, PrunePolicy
from projections.loop import AsyncContextWindow, ContextWindow
from projections.window import CompactionPolicy, SummaryRequest
from tests.support.before_lease import before_lease
from tests.support.engines import Engine
from tests.support.window_loop import LIMITS, MODEL, summarized, talk

POLICY = ContextPolicy(
    compaction=CompactionPolicy(preserve_recent_tokens=600), prune=PrunePolicy(minimum=100, protect=0, turns=1)
)


def refused(_request: SummaryRequest) -> Iterable[str]:
    """A summariser that fails in the middle."""
    yield "half a"
    raise ValueError("no more")


def window_of(session: Session, summarizer: Any = summarized) -> ContextWindow:
    """A window whose compactions and prunes are worth it."""
    return ContextWindow(session, POLICY, limits=LIMITS, summarizer=summarizer, environment={})


def pruned(session: Session) -> None:
    """Prune what calls returned, twice."""
    for number in range(2):
        called(session, number)
        assert window_of(session).prune() is not None


def called(session: Session, number: int = 0) -> None:
    """Add a long result of a call, and a turn behind it."""
    session.user(f"look {number}")
    with session.assistant(MODEL) as reply:
        reply.tool("look", call_id="c", input={}).succeed(f"line {number}\n" * 600)
        reply.finish()
    talk(session, 1, words=5)


def compacted(session: Session) -> None:
    """Compact twice, with the same window's policy."""
    for _ in range(2):
        talk(session, 3)
        assert window_of(session).compact().completed


def provided(session: Session) -> None:
    """Two compactions of the provider's."""
    for _ in range(2):
        talk(session, 1)
        with session.assistant(MODEL) as reply:
            content = {"type": "compaction", "encrypted_content": "x"}
            reply.part(Opaque("openai.compaction", json.dumps(content), f"{MODEL.provider}/{MODEL.name}"))
            reply.finish()


def rolled_back(session: Session) -> None:
    """Two rollbacks, behind a prune that must stay."""
    called(session)
    assert window_of(session).prune() is not None
    for _ in range(2):
        session.rollback(before=session.user("wrong"))


Do = Callable[[Session, str], object]
Way = tuple[Callable[[Session], None], Do]


def undo(session: Session, request: str) -> object:
    """Undo the newest change."""
    return window_of(session).undo(request_id=request)


def in_task(do: str, **given: Any) -> Do:
    """A command of the window in asyncio."""

    def run(session: Session, request: str) -> object:
        window = AsyncContextWindow(window_of(session))
        return asyncio.run(getattr(window, do)(request_id=request, **given))

    return run


def long(session: Session) -> None:
    """A conversation whose summary takes several requests."""
    talk(session, 20)


WAYS: dict[str, Way] = {
    "undo a prune": (pruned, undo),
    "undo a compaction": (compacted, undo),
    "undo a provider's compaction": (provided, undo),
    "undo a rollback": (rolled_back, undo),
    "undo in asyncio": (compacted, in_task("undo")),
    "compact": (long, lambda session, request: window_of(session).compact(request_id=request)),
    "compact a compacted one": (compacted, lambda session, request: window_of(session).compact(request_id=request)),
    "compact in asyncio": (long, in_task("compact")),
    "a compaction that fails": (
        long,
        lambda session, request: window_of(session, refused).compact(request_id=request),
    ),
    "nothing to compact": (
        lambda session: talk(session, 0),
        lambda session, request: window_of(session).compact(request_id=request),
    ),
    "prune": (called, lambda session, request: window_of(session).prune(request_id=request)),
    "prune in asyncio": (called, in_task("prune")),
}


@pytest.mark.promise(5)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_window_does_once_what_is_sent_twice(engine: Engine, way: Way) -> None:
    """Promise 5: sent again, also to another process and much later, it has its first result."""
    prepare, do = way
    store = engine.open()
    session = store.create_session(id="s")
    prepare(session)
    first = do(session, "r")
    assert first is not None
    version, view = session.version, ModelView.of(session).digest
    assert do(session, "r") == first
    other = engine.open()
    with session.lease():  # it needs no lease any more
        assert do(other.session("s"), "r") == first
    assert (session.version, ModelView.of(session).digest) == (version, view)
    store.close()
    other.close()
    with engine.open() as again:
        session = again.session("s")
        talk(session, 1, words=5)
        version = session.version
        assert do(session, "r") == first
        assert session.version == version
        with pytest.raises(RequestReusedError):
            session.user("r", request_id="r")
        session.user("something else", request_id="u")
        with pytest.raises(RequestReusedError):
            do(session, "u")


@pytest.mark.promise(5)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_of_two_processes_that_got_one_request_one_does_it(
    engine: Engine, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 5: the second finds what the first did while it waited for the lease."""
    prepare, do = way
    with engine.open() as store, engine.open() as other:
        session = store.create_session(id="s")
        prepare(session)
        found = before_lease(monkeypatch, session, lambda: do(other.session("s"), "r"))
        assert [do(session, "r")] == found


def test_a_compaction_that_was_only_asked_for_is_carried_out_by_the_same_request(store: eventlog.Store) -> None:
    """A process that died in between leaves it; rolled back, it has failed."""
    session = store.create_session()
    talk(session, 20)
    part = session.context.request_compaction(request_id="r")
    assert session.context.request_compaction(request_id="r") == part
    before = session.version
    result = window_of(session).compact(request_id="r")
    assert (result.part, result.completed) == (part, True)
    asked = session.context.request_compaction(request_id="r2")
    session.rollback(before)
    result = window_of(session).compact(request_id="r2")
    assert (result.part, result.reason) == (asked, "rolled back")


def test_a_prune_that_finds_nothing_is_not_remembered() -> None:
    """A request that gave None records nothing, and prunes when it is sent again behind more."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        talk(session, 1)
        version = session.version
        assert window_of(session).prune(request_id="r") is None
        assert session.version == version
        called(session)
        step = window_of(session).prune(request_id="r")
        assert step is not None
        called(session, 1)
        assert window_of(session).prune(request_id="r") == step
