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


class Chat:
    """The messages of a page of AI SDK's `useChat`, which it posts as that does."""

    def __init__(self, post: Post) -> None:
        self.messages: list[dict[str, Any]] = []
        self._post = post

    async def send(self, id: str, text: str, **more: object) -> str:
        """Ask, or edit the question with this id; returns the id of the answer."""
        cut = [message["id"] for message in self.messages].index(id) if "messageId" in more else len(self.messages)
        asked = {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}
        return await self._make([*self.messages[:cut], asked], trigger="submit-message", **more)

    async def regenerate(self, answer: str) -> str:
        """Ask for another answer in the place of one; returns its id."""
        cut = [message["id"] for message in self.messages].index(answer)
        return await self._make(self.messages[:cut], trigger="regenerate-message", messageId=answer)

    async def _make(self, messages: list[dict[str, Any]], **more: object) -> str:
        chunks = await self._post("", "", messages=messages, **more)
        if chunks[-1]["type"] != "finish":
            return ""
        self.messages = [*messages, {"id": chunks[0]["messageId"], "role": "assistant", "parts": []}]
        return str(chunks[0]["messageId"])


async def test_a_question_is_answered_again(tmp_path: Path) -> None:
    """`regenerate` of AI SDK posts the answered question: another answer replaces the first."""
    async with served(tmp_path / "store", 5) as (post, store):
        first = await post("q1", "hello")
        assert (await post("q1", "hello"))[0] == first[0]  # a repeated request
        chat = Chat(post)
        answer = await chat.send("q1", "hello")
        again = await chat.regenerate(answer)
        assert again not in {answer, ""}
        assert said(store) == ["hello", "You said: hello"]
        await chat.send("q2", "more")
        assert said(store)[2:] == ["more", "You said: more"]
        await chat.regenerate(again)
        assert said(store) == ["hello", "You said: hello"]


async def test_an_edited_question_replaces_what_was_said_from_it_on(tmp_path: Path) -> None:
    """`sendMessage` with a `messageId` edits: the old question goes, and all behind it."""
    async with served(tmp_path / "store", 5) as (post, store):
        chat = Chat(post)
        for id, text in (("q1", "one"), ("q2", "two"), ("q3", "three")):
            await chat.send(id, text)
        for text in ("2", "two", "2"):  # to and fro
            answer = await chat.send("q2", text, messageId="q2")
            assert said(store) == ["one", "You said: one", text, f"You said: {text}"]
        assert await chat.regenerate(answer) != answer
        await chat.send("q4", "four")
        assert said(store)[2:] == ["2", "You said: 2", "four", "You said: four"]
        session = store.open_session(("chat", "one"))  # a page that is opened again has the ids of the store
        chat.messages = [
            {"id": message.id, "role": message.role, "parts": []} for message in Transcript(session).oldest_first()
        ]
        asked = chat.messages[0]["id"]
        await chat.send(asked, "1", messageId=asked)
        assert said(store) == ["1", "You said: 1"]


async def test_a_question_is_edited_while_it_is_answered(tmp_path: Path) -> None:
    """The answer to the old words is stopped, and does not keep the new one waiting."""
    async with served(tmp_path / "store", 5) as (post, store):
        chat, words = Chat(post), " ".join(f"word{number}" for number in range(200))
        first = asyncio.ensure_future(chat.send("q1", words))
        await asyncio.sleep(0.5)
        chat.messages = [{"id": "q1", "role": "user", "parts": []}]
        await asyncio.wait_for(chat.send("q1", "short", messageId="q1"), 5)
        assert await first == ""
        assert said(store) == ["short", "You said: short"]
        assert store.unfinished() == []


async def test_a_question_that_never_came_is_sent_again(tmp_path: Path) -> None:
    """`regenerate` after a failed request is the first that the server hears of the question."""
    async with served(tmp_path / "store", 5) as (post, store):
        chat = Chat(post)
        await chat.send("q1", "one")
        lost = {"id": "q2", "role": "user", "parts": [{"type": "text", "text": "two"}]}
        await chat._make([*chat.messages, lost], trigger="regenerate-message")
        assert said(store) == ["one", "You said: one", "two", "You said: two"]


async def test_a_stopped_question_is_answered_again(tmp_path: Path) -> None:
    """`regenerate` after "stop" gives a whole answer, also where none had begun, and again."""
    async with served(tmp_path / "store", 5) as (post, store):
        chat, words = Chat(post), " ".join(f"word{number}" for number in range(20))
        session = store.open_session(("chat", "one"))
        session.user(words, request_id="q1")
        session.interrupt()
        question = {"id": "q1", "role": "user", "parts": [{"type": "text", "text": words}]}
        assert await chat._make([question], trigger="submit-message") == ""  # the same request: still stopped
        for _ in range(2):
            again = asyncio.ensure_future(chat._make([question], trigger="regenerate-message"))
            await asyncio.sleep(0.4)
            session.interrupt()
            assert await again == ""
            assert said(store)[-1] not in {words, f"You said: {words}"}
        cut = Transcript(session).page(1)[0].id
        chat.messages = [question, {"id": cut, "role": "assistant", "parts": []}]
        await chat.regenerate(cut)
        assert said(store) == [words, f"You said: {words}"]
        await chat.send("q2", "more")
        assert said(store)[2:] == ["more", "You said: more"]
        assert store.unfinished() == []
