"""The README's lines for a server, as they stand there: a turn in asyncio, and a page that follows it and comes back (spec §12, §16)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from eventlog import events as ev
from eventlog.store import Store

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
TOKENS = ["Let me", " look", "."]


def server() -> SimpleNamespace:
    """What the program in the README's section "In a server" defines."""
    section = README.partition("\n## In a server\n")[2].partition("\n## ")[0]
    (program,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, "README.md", "exec"), names)  # noqa: S102  # the README's own lines
    return SimpleNamespace(**names)


async def read(page: AsyncGenerator[str], until: str) -> list[tuple[int, dict[str, Any]]]:
    """The events of a page with their cursors (0: none), up to the first committed one of a kind."""
    found: list[tuple[int, dict[str, Any]]] = []
    async for text in page:
        fields = dict(line.split(": ", 1) for line in text.strip().splitlines())
        found.append((int(fields.get("id", 0)), json.loads(fields["data"])))
        if found[-1][0] and found[-1][1]["kind"] == until:
            break
    await page.aclose()
    return found


def test_a_turn_is_told_as_it_streams_and_a_page_comes_back(tmp_path: Path) -> None:
    """Spec §12: the README's page is told deltas before they are committed, has each version once in the end, and goes on from its cursor."""
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
            if "id: " not in text and TOKENS[-1] in json.loads(text.partition("data: ")[2])["text"]:
                streamed.set()
                return

    async def run() -> None:
        async with here.opened(tmp_path / "store") as store:
            store.flush_interval = 3_600.0
            store.create_session(id="s")
            watching = asyncio.create_task(early(store))
            page = asyncio.create_task(read(here.live(store, "s"), "MessageFinished"))
            await here.answer(store, "s", "Fix the tests", "r1", ask)
            await watching
            seen = await page
            assert asked == [[{"role": "user", "content": "Fix the tests"}]]
            committed = [(cursor, event) for cursor, event in seen if cursor]
            kept = {event["version"]: event for _, event in seen}
            assert list(kept.values()) == [event for _, event in committed]
            assert "".join(e["text"] for e in kept.values() if e["kind"] == "PartDelta") == "".join(TOKENS)
            versions = [recorded.version for recorded in store.session("s").events()]
            assert [event["version"] for _, event in committed] == versions
            middle = len(committed) // 2
            assert await read(here.live(store, "s", committed[middle - 1][0]), "MessageFinished") == committed[middle:]
            questions = [r for r in store.session("s").events() if isinstance(r.event, ev.UserMessageAdded)]
            assert len(questions) == 1
        assert store.closed

    asyncio.run(run())
