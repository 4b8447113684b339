"""The endpoint of live pages: who may read, what is sent, what a slow client costs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog.errors import BusyError, CallError
from eventlog.session.session import Session
from eventlog.store import Store
from projections.live.live_session import LiveSession
from projections.live.patches import Update
from projections.server import live_pages
from projections.server.live_pages import live_app
from tests.support.asgi import Call
from tests.support.live_page import LivePage, shown

WORDS = ["Let me", " look 😀", "."]


def allowed(_: object, __: str) -> bool:
    """Let every request through."""
    return True


def answered(session: Session, store: Store | None = None) -> None:
    """Stream an answer."""
    with session.assistant("acme/one") as reply:
        text = reply.stream_text()
        for word in WORDS:
            text.append(word)
            if store is not None:
                store.flush()
        reply.finish()


async def caught_up(call: Call, page: LivePage, session: Session) -> None:
    """Read until the page shows the transcript."""
    async for cursor, data in call.events():
        page.take(cursor, data)
        if list(page.messages.values()) == shown(session):
            return


async def test_a_page_follows_and_goes_on_in_another_process(tmp_path: Path) -> None:
    """A page gets messages, deltas and the end of a reply, and goes on behind its cursor."""
    with eventlog.open(tmp_path) as store, eventlog.open(tmp_path) as other:
        session = store.create_session(id="a/b")
        session.user("Fix the tests")
        page = LivePage()
        async with Call(live_app(store, authorize=allowed), "/a/b/live") as call:
            assert call.status == 200
            await caught_up(call, page, session)
            await asyncio.to_thread(answered, session, store)
            await caught_up(call, page, session)
        session.user("And the docs")
        answered(session)
        headers = {"Last-Event-ID": page.cursor or ""}
        async with Call(live_app(other, authorize=allowed), "/a/b/live", headers=headers) as call:
            await caught_up(call, page, session)
        assert [message["role"] for message in page.messages.values()] == ["user", "assistant"] * 2


async def test_older_messages_come_by_page(store: Store) -> None:
    """A page of the newest messages grows by older ones until it has all."""
    session = store.create_session(id="s")
    for number in range(9):
        session.user(f"{number}")
    app = live_app(store, authorize=allowed)
    page = LivePage()
    async with Call(app, "/s/live", "limit=4") as call:
        async for cursor, data in call.events():
            page.take(cursor, data)
            break
    assert len(page.messages) == 4
    while page.next is not None:
        async with Call(app, "/s/messages", f"limit=2&before={page.next}") as call:
            page.add_older(json.loads(await call.body()))
    assert list(page.messages.values()) == shown(session)


def test_an_app_needs_to_be_told_who_may_read(store: Store) -> None:
    """An app without `authorize` is refused; a request that it refuses reads nothing."""

    async def never(_: object, __: str) -> bool:
        return False

    def nothing(_: object, __: str) -> Any:
        return None

    async def run(store: Store) -> None:
        for authorize in (never, nothing):
            for path in ("/s/live", "/s/messages", "/s/parts/p", "/unknown/live"):
                async with Call(live_app(store, authorize=authorize), path) as call:
                    assert call.status == 403
                    assert b"secret" not in await call.body()
        for path in ("/unknown/live", "/unknown/messages", "/s/parts/p"):
            async with Call(live_app(store, authorize=allowed), path) as call:
                assert call.status == 404

    store.create_session(id="s").user("secret")
    with pytest.raises(TypeError):
        live_app(store)  # type: ignore[call-arg]
    with pytest.raises(CallError):
        live_app(store, authorize=None)  # type: ignore[arg-type]
    asyncio.run(run(store))


async def test_a_stream_ends_when_it_may_not_be_read_any_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before an open stream is sent something it is asked again; what is refused is not sent."""
    monkeypatch.setattr(live_pages, "ASK_AGAIN", 0.0)
    still, asked = True, 0

    async def authorize(_: object, __: str) -> bool:
        nonlocal asked
        asked += 1
        return still

    session = store.create_session(id="s")
    page = LivePage()
    async with Call(live_app(store, authorize=authorize), "/s/live") as call:
        await caught_up(call, page, session)
        session.user("for all")
        await caught_up(call, page, session)
        assert asked > 1
        still = False
        session.user("secret")
        assert b"secret" not in await call.body()  # it ends
    async with Call(live_app(store, authorize=authorize), "/s/live") as call:
        assert call.status == 403


async def test_a_slow_client_is_reset_and_costs_little(store: Store) -> None:
    """A client that takes nothing is kept no patches; when it does, it gets the newest page."""
    session = store.create_session(id="s")
    page = LivePage()
    async with Call(live_app(store, authorize=allowed), "/s/live", "limit=3") as call:
        await caught_up(call, page, session)
        call.writable.clear()
        with session.pipeline():
            for number in range(1_100):
                session.user(f"more {number}")
        call.writable.set()
        taken = 0
        async for cursor, data in call.events():
            taken += len(json.loads(data))
            page.take(cursor, data)
            if page.next is not None and [*page.messages.values()] == shown(session)[-3:]:
                break
        assert taken < 100


async def test_a_disconnected_client_leaves_nothing_behind(store: Store) -> None:
    """A client that leaves, waiting or slow, is followed no more."""
    session = store.create_session(id="s")
    app = live_app(store, authorize=allowed)
    tasks = asyncio.all_tasks()
    for slow in (False, True):
        async with Call(app, "/s/live") as call:
            await caught_up(call, LivePage(), session)
            assert len(store.host.follower._of(["s"])) == 1
            if slow:
                call.writable.clear()
                session.user("not taken")
                await asyncio.sleep(0.1)
        assert not store.host.follower._of(["s"])
    assert len(asyncio.all_tasks() - tasks) <= 1  # the library's watch for the end of the server


async def test_a_page_with_wrong_numbers_is_refused(store: Store) -> None:
    """A limit or version that is no number is a wrong request, and nothing is read."""
    store.create_session(id="s").user("hello")
    app = live_app(store, authorize=allowed)
    for query in ("limit=0", "limit=-1", "limit=x", "limit=1001", "limit=²", "limit=" + "9" * 5_000):
        for path in ("/s/live", "/s/messages"):
            async with Call(app, path, query) as call:
                assert call.status == 400


async def test_a_part_has_its_whole_text(store: Store) -> None:
    """A text that is cut on the page is whole at an address of its own."""
    session = store.create_session(id="s")
    session.user("long " * 50_000)
    app = live_app(store, authorize=allowed)
    async with Call(app, "/s/messages") as call:
        (message,) = json.loads(await call.body())["messages"]
    (part,) = message["parts"]
    assert (part["text"], part["cut"]) == ("long " * 40_000, True)
    async with Call(app, f"/s/parts/{part['id']}") as call:
        assert json.loads(await call.body())["text"] == "long " * 50_000


async def test_an_erased_session_ends_the_stream(store: Store) -> None:
    """A page whose session is erased is told so, and the connection ends."""
    session = store.create_session(id="s")
    session.user("secret")
    page = LivePage()
    async with Call(live_app(store, authorize=allowed), "/s/live") as call:
        await caught_up(call, page, session)
        await asyncio.to_thread(store.erase, "s")
        async for cursor, data in call.events():
            page.take(cursor, data)
    assert page.gone


async def test_who_looks_at_a_session_may_find_none(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """`authorize` may ask the store whose a session is: 404, or `gone`."""

    def owns(_: object, session: str) -> bool:
        return store.info(session).scope == "alice"

    monkeypatch.setattr(live_pages, "ASK_AGAIN", 0.0)
    session = store.create_session(id="s", scope="alice")
    session.user("hello")
    app, page = live_app(store, authorize=owns), LivePage()
    for path in ("/nothing/messages", "/nothing/live", "/nothing/parts/p"):
        async with Call(app, path) as call:
            assert call.status == 404
    async with Call(app, "/s/live") as call:
        await caught_up(call, page, session)
        await asyncio.to_thread(store.erase, "s")
        async for cursor, data in call.events():
            page.take(cursor, data)
    assert page.gone
    async with Call(app, "/s/messages") as call:
        assert call.status == 404


def test_a_page_ends_when_the_server_stops(tmp_path: Path) -> None:
    """The answer of a page that is open when the server stops has an end."""
    from sse_starlette.sse import AppStatus

    async def run() -> None:
        with eventlog.open(tmp_path) as store:
            session = store.create_session(id="s")
            session.user("hello")
            async with Call(live_app(store, authorize=allowed), "/s/live") as call:
                await caught_up(call, LivePage(), session)
                AppStatus.should_exit = True  # as uvicorn sets it
                assert [piece async for piece in call.pieces()] == [b""]

    try:
        asyncio.run(run())
    finally:
        AppStatus.should_exit = False


async def test_a_store_that_is_closed_is_no_fault_of_the_request(tmp_path: Path) -> None:
    """A request that comes while the server stops is told to come again."""
    with eventlog.open(tmp_path) as store:
        store.create_session(id="s").user("hello")
        app = live_app(store, authorize=allowed)
    for path in ("/s/live", "/s/messages"):
        async with Call(app, path) as call:
            assert (call.status, call.headers["retry-after"]) == (503, "1")


async def test_an_up_to_date_page_is_answered_at_once(store: Store) -> None:
    """A page that comes back up to date is answered at once, and may leave."""
    session = store.create_session(id="s")
    session.user("idle")
    app, page = live_app(store, authorize=allowed), LivePage()
    async with Call(app, "/s/live") as call:
        await caught_up(call, page, session)
    for hears in (True, False):
        async with (
            asyncio.timeout(20),
            Call(app, "/s/live", headers={"Last-Event-ID": page.cursor or ""}) as call,
        ):
            assert call.status == 200
            if hears:
                await asyncio.to_thread(session.user, "at last")
                await caught_up(call, page, session)
        assert not store.host.follower._of(["s"])


async def test_maintenance_ends_a_page_that_comes_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewrite of the store ends open pages, which come back; new ones are told when."""
    session = store.create_session(id="s")
    app, page = live_app(store, authorize=allowed), LivePage()
    async with asyncio.timeout(20), Call(app, "/s/live") as call:
        await caught_up(call, page, session)

        def busy(*_: object) -> Update | None:
            raise BusyError("the store is being rewritten")

        with monkeypatch.context() as patch:
            patch.setattr(LiveSession, "advance", busy)
            patch.setattr(live_pages, "page_of", busy)
            await asyncio.to_thread(session.user, "meanwhile")
            assert [data async for _, data in call.events()] == []
            for path in ("/s/live", "/s/messages"):
                async with Call(app, path) as refused:
                    assert refused.status == 503
                    assert refused.headers["retry-after"] == "1"
    async with Call(app, "/s/live", headers={"Last-Event-ID": page.cursor or ""}) as call:
        await caught_up(call, page, session)
