"""Asyncio subscriptions: the events of `Store.subscribe` without holding thread or loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from eventlog import events as ev
from eventlog import subscription
from eventlog.aio import AsyncSession, AsyncSubscription
from eventlog.aio.subscription import PIECE
from eventlog.codec.decoded import Mark, Recorded, events_of
from eventlog.errors import CallError, ClosedError, DamagedError
from eventlog.log.commit import Commit
from eventlog.store import Store
from tests.support.engines import Engine


async def taken(following: AsyncIterator[Recorded], count: int) -> list[Recorded]:
    """The next events, of this number."""
    return [await anext(following) for _ in range(count)]


def by_session(events: list[Recorded]) -> dict[str, list[Recorded]]:
    """Events by session, each in the order given."""
    return {name: [each for each in events if each.session == name] for name in {each.session for each in events}}


def told(store: Store) -> list[Recorded]:
    """All committed events, by the blocking subscription."""
    return list(store.subscribe(timeout=0))


def test_history_then_live_is_what_the_blocking_one_tells(engine: Engine) -> None:
    """A follower that starts mid-write gets each event exactly once, in order."""
    store = engine.open()

    async def follow() -> list[Recorded]:
        seen: list[Recorded] = []
        archived = 0
        async for recorded in AsyncSubscription(store, timeout=60):
            seen.append(recorded)
            archived += isinstance(recorded.event, ev.SessionArchived)
            if archived == 2:
                break
        return seen

    async def write(chat: AsyncSession) -> None:
        for number in range(10):
            await chat.user(f"question {number}")
            async with chat.assistant("p/m") as reply:
                text = reply.stream_text()
                for piece in range(2 * PIECE):
                    text.append(f"{number} {piece} ")
                await reply.finish()

    async def both() -> list[Recorded]:
        chats = [AsyncSession(store.create_session(id=name)) for name in "ab"]
        await chats[0].user("before")
        follower = asyncio.create_task(follow())
        await asyncio.gather(*map(write, chats))
        for chat in chats:
            await chat.do(chat.sync.archive)
        return await follower

    seen = asyncio.run(both())
    assert by_session(seen) == by_session(told(store))
    assert len(seen) > 20 * 2 * PIECE


def test_a_cancelled_wait_loses_nothing(engine: Engine) -> None:
    """A follower whose waits are cancelled repeatedly gets each event exactly once, in order."""
    store = engine.open()
    random = Random(1)

    async def follow() -> list[Recorded]:
        session = store.create_session(id="s")
        following = AsyncSubscription(store)
        seen: list[Recorded] = []
        cancelled = 0
        while cancelled < 50 or len(seen) < session.version:
            if cancelled < 50:
                session.user("more " * random.randrange(1_000))
            try:
                async with asyncio.timeout(random.choice((0.0, 1e-5, 1e-3))):
                    while True:
                        seen.append(await anext(following))
            except TimeoutError:
                cancelled += 1
        return seen

    assert asyncio.run(follow()) == told(store)


def test_waiting_holds_no_thread(engine: Engine) -> None:
    """Forty waiting followers share one thread, and hold no worker thread."""
    store = engine.open()
    session = store.create_session(id="s")
    session.user("before")
    before = set(threading.enumerate())

    async def follow() -> list[list[Recorded]]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        followers = [AsyncSubscription(store) for _ in range(40)]
        await asyncio.gather(*(taken(follower, session.version) for follower in followers))
        waiting = [asyncio.ensure_future(anext(follower)) for follower in followers]
        await asyncio.sleep(0.01)
        assert not any(future.done() for future in waiting)
        await asyncio.to_thread(session.rename, "Named")
        return [[await future] for future in waiting]

    for found in asyncio.run(follow()):
        assert [recorded.event for recorded in found] == [ev.SessionRenamed("Named")]
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert left == {"eventlog-follow"}  # one for all of them, and one where the log is on a server


@pytest.mark.promise(12)
def test_a_closed_store_and_wrong_calls_are_typed(engine: Engine) -> None:
    """Promise 12: a closed store and wrong calls raise typed errors, not the end of iteration."""
    store = engine.open()
    store.create_session(id="s")
    wrong: list[dict[str, object]] = [{"kinds": ["delta"]}, {"kinds": ev.PartDelta}, {"kinds": [int]}, {"after": "1"}]
    for given in wrong:
        for subscribe in (AsyncSubscription, Store.subscribe):
            with pytest.raises(CallError):
                subscribe(store, **given)  # type: ignore[arg-type]  # which is what is tested

    async def follow() -> None:
        following = AsyncSubscription(store)
        await anext(following)
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        await asyncio.to_thread(store.close)
        with pytest.raises(ClosedError):
            await waiting

    if engine.name == "embedded":  # the other engine's log stays open after its store's close
        asyncio.run(follow())
    store.close()
    with pytest.raises(ClosedError):
        AsyncSubscription(store)


@pytest.mark.promise(12)
def test_damage_is_raised_behind_what_came_before_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 12: a follower gets all before a damaged commit, then its error at every step."""
    session = store.create_session(id="s")
    session.user("sound")
    last = session.version
    session.user("damaged")

    def damaged(commit: Commit, after: int, *, mark: Mark) -> Iterator[Recorded]:
        if commit.first > last:
            raise DamagedError("a commit", session=commit.session, version=commit.first)
        return iter(events_of(commit, after, mark=mark))

    async def follow() -> None:
        following = AsyncSubscription(store, timeout=60)
        assert await taken(following, last) == told_before
        for _ in range(2):
            with pytest.raises(DamagedError) as raised:
                await anext(following)
            assert raised.value.version == last + 1

    told_before = told(store)[:last]
    monkeypatch.setattr(subscription, "events_of", damaged)
    asyncio.run(follow())
