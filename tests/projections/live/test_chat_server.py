"""The documented server of chat interfaces, asked as their pages ask, without a browser."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from eventlog.store import Store
from projections.transcript.transcript import Transcript
from tests.support.asgi import Call
from tests.support.pages import example

Post = Callable[..., Awaitable[list[dict[str, Any]]]]


@asynccontextmanager
async def served(path: Path, wait: float) -> AsyncGenerator[tuple[Post, Store]]:
    """The page's program on a store, with another `wait`; a posted question gives its chunks."""
    names: dict[str, Any] = {}
    exec(example("answer_response(").code.replace("wait=60", f"wait={wait}"), names)  # noqa: S102  # of a page
    names["PATH"] = str(path)
    app = names["app"]
    async with app.router.lifespan_context(app):

        async def post(id: str, text: str, **more: object) -> list[dict[str, Any]]:
            asked = {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}
            sent = json.dumps({"id": "one", "messages": [asked], **more}).encode()
            async with Call(app, "/chat", sent=sent) as answer:
                assert answer.status == 200
                text = (await answer.body()).decode()
            lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
            return [json.loads(line) for line in lines if line.startswith("{")]

        yield post, app.state.store


def said(store: Store) -> list[str]:
    """The texts of the chat."""
    session = store.open_session(("chat", "one"))
    messages = Transcript(session).oldest_first()
    return [part.text.strip() for message in messages for part in message.parts if part.kind == "text"]


async def test_a_question_of_a_second_page_is_answered_however_long_the_first_takes(tmp_path: Path) -> None:
    """A question whose own task has given up waiting is taken by the task before it."""
    words = " ".join(f"word{number}" for number in range(40))
    async with served(tmp_path / "store", 0.2) as (post, store):
        first = asyncio.ensure_future(post("q1", words))
        await asyncio.sleep(0.8)
        chunks = await asyncio.wait_for(post("q2", "and you?"), 30)
        assert chunks[-1]["type"] == "finish"
        assert (await first)[-1]["type"] == "finish"
        assert said(store) == [words, f"You said: {words}", "and you?", "You said: and you?"]
        assert store.unfinished() == []


async def test_a_question_is_answered_again(tmp_path: Path) -> None:
    """`regenerate` of AI SDK posts the answered question: another answer replaces the first."""
    async with served(tmp_path / "store", 5) as (post, store):
        first = await post("q1", "hello")
        assert (await post("q1", "hello"))[0] == first[0]  # a repeated request
        again = await post("q1", "hello", trigger="regenerate-message")
        assert again[0]["messageId"] != first[0]["messageId"]
        assert said(store) == ["hello", "You said: hello"]
        await post("q2", "more")
        assert said(store)[2:] == ["more", "You said: more"]
