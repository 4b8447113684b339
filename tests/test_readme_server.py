"""The documented server: it answers each question once, and a page follows a session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eventlog import events as ev
from eventlog.store import Store
from tests.support.pages import example

TOKENS = ["Let me", " look", "."]


def server() -> SimpleNamespace:
    """Return what the documented server defines."""
    names: dict[str, Any] = {}
    exec(compile(example("async def live(").code, "README.md", "exec"), names)  # noqa: S102  # the page's own lines
    return SimpleNamespace(**names)


def fields(text: str) -> tuple[str, dict[str, Any]]:
    """Return cursor ("": not committed) and event of one message of the page's stream."""
    lines = dict(line.split(": ", 1) for line in text.strip().splitlines())
    return lines.get("id", ""), json.loads(lines["data"])


async def read(page: AsyncGenerator[str], until: str) -> list[tuple[str, dict[str, Any]]]:
    """Read events with their cursors, up to the first committed event of a kind."""
    found: list[tuple[str, dict[str, Any]]] = []
    async for text in page:
        found.append(fields(text))
        if found[-1][0] and found[-1][1]["kind"] == until:
            break
    await page.aclose()
    return found


def kept(seen: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return what a page shows that drops uncommitted events at each committed one."""
    shown: list[tuple[str, dict[str, Any]]] = []
    for cursor, event in seen:
        if cursor:
            shown = [one for one in shown if one[0]]
        shown.append((cursor, event))
    return [event for _, event in shown]


def text_of(events: list[dict[str, Any]]) -> str:
    """The text of the deltas among the events."""
    return "".join(event["event"]["text"] for event in events if event["kind"] == "part-delta")


def test_a_turn_streams_to_a_page_and_the_page_comes_back(tmp_path: Path) -> None:
    """A page gets deltas early, each committed event once, and goes on from its cursor."""
    here = server()
    asked: list[Any] = []
    streamed = asyncio.Event()

    async def ask(messages: list[Any]) -> AsyncIterator[str]:
        asked.append(messages)
        for token in TOKENS:
            yield token
        await asyncio.wait_for(streamed.wait(), 60)

    async def early(store: Store) -> None:
        async for text in here.live(store, "s"):
            cursor, event = fields(text)
            if not cursor and TOKENS[-1] in text_of([event]):
                streamed.set()
                return

    async def run() -> None:
        async with here.opened(tmp_path / "store") as store:
            store.flush_interval = 3_600.0
            store.create_session(id="s")
            watching = asyncio.create_task(early(store))
            page = asyncio.create_task(read(here.live(store, "s"), "message-finished"))
            assert await here.answer(store, "s", "Fix the tests", "r1", ask) == "".join(TOKENS)
            await watching
            seen = await page
            assert asked == [[{"role": "user", "content": "Fix the tests"}]]
            committed = [(cursor, event) for cursor, event in seen if cursor]
            assert kept(seen) == [event for _, event in committed]
            assert text_of(kept(seen)) == "".join(TOKENS)
            parts = {event["event"]["part"] for event in kept(seen) if event["kind"] == "part-delta"}
            begun = [event["event"] for event in kept(seen) if event["kind"] == "part-started"]
            assert [one["kind"]["text"] for one in begun] == ["Fix the tests", ""]
            assert parts == {begun[1]["part"]}
            versions = [recorded.version for recorded in store.session("s").events()]
            assert [event["version"] for _, event in committed] == versions
            middle = len(committed) // 2
            again = await read(here.live(store, "s", committed[middle - 1][0]), "message-finished")
            assert again == committed[middle:]
        assert store.closed

    asyncio.run(run())


def test_a_repeated_request_is_answered_once(tmp_path: Path) -> None:
    """A request that is sent again asks the model only if its answer is missing."""
    here = server()
    asked: list[Any] = []

    async def ask(messages: list[Any]) -> AsyncIterator[str]:
        asked.append(messages)
        yield "Let me"
        await asyncio.sleep(0)
        if len(asked) == 1:
            raise ConnectionError
        yield f" look, {len(asked)}."

    async def run() -> None:
        async with here.opened(tmp_path / "store") as store:
            store.create_session(id="s")
            with pytest.raises(ConnectionError):
                await here.answer(store, "s", "Fix the tests", "r1", ask)
            together = [here.answer(store, "s", "Fix the tests", "r1", ask) for _ in range(4)]
            assert await asyncio.gather(*together) == ["Let me look, 2."] * 4
            assert await here.answer(store, "s", "And the docs", "r2", ask) == "Let me look, 3."
            assert await here.answer(store, "s", "Fix the tests", "r1", ask) == "Let me look, 2."
            questions = [r for r in store.session("s").events() if isinstance(r.event, ev.UserMessageAdded)]
            assert (len(asked), len(questions)) == (3, 2)

    asyncio.run(run())
