"""Programs of the pages, with a second question within 20 ms: none stays unseen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest

import eventlog
from tests.support.openai_server import Answer, Asked, OpenAIServer
from tests.support.pages import LOOP, example

WITHIN = 0.02
"""Seconds after the first question in which the second comes."""
SERVED = 300
"""Sessions of the documented server."""
LOOPS, OLD = 40, 300
"""Sessions of the documented loop, and the messages that each has by then."""


def said_in(messages: list[dict[str, Any]]) -> str:
    """All texts of a request."""
    return " ".join(str(message["content"]) for message in messages)


def test_the_documented_server_answers_a_question_that_comes_meanwhile(tmp_path: Path) -> None:
    """Of 300 second questions none is done without a request that had it; each has its answer."""
    names: dict[str, Any] = {}
    exec(compile(example("async def live(").code, "README.md", "exec"), names)  # noqa: S102  # the page's own lines
    pick = random.Random(1)
    sent: dict[str, list[str]] = {}

    async def both(store: eventlog.Store, name: str) -> list[tuple[str, str]]:
        requests = sent[name] = []

        async def ask(messages: list[dict[str, Any]]) -> AsyncGenerator[str]:
            requests.append(said_in(messages))
            for word in f"so {[text['content'] for text in messages if text['role'] == 'user']} it is".split(" "):
                yield word + " "
                await asyncio.sleep(0.001)

        async def second() -> str:
            await asyncio.sleep(pick.random() * WITHIN)
            return str(await names["answer"](store, name, f"second of {name}", "r2", ask))

        first: Awaitable[str] = names["answer"](store, name, f"first of {name}", "r1", ask)
        answers: tuple[str, str] = await asyncio.gather(first, second())
        return [*zip(("first", "second"), answers, strict=True)]

    async def main() -> list[list[tuple[str, str]]]:
        async with names["opened"](str(tmp_path / "store")) as store:
            for number in range(SERVED):
                store.create_session(id=f"s{number}")
            told: list[list[tuple[str, str]]] = []
            for start in range(0, SERVED, 10):
                told += await asyncio.gather(*(both(store, f"s{number}") for number in range(start, start + 10)))
            assert store.unfinished() == []
            return told

    told = asyncio.run(main())
    unseen = [name for name, requests in sent.items() if not any(f"second of {name}" in text for text in requests)]
    assert unseen == []
    for number, answers in enumerate(told):
        assert all(f"{which} of s{number}" in text for which, text in answers)


def test_the_documented_loop_answers_a_question_that_comes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 300 old messages no question is done unseen; each caller is told its own answer."""
    pick = random.Random(2)

    def model(asked: Asked) -> Answer:
        questions = [str(message["content"]) for message in asked.messages if message["role"] == "user"]
        sent.append(said_in(asked.messages))
        return Answer(["so", f" {questions[-2:]}", " it is"])

    sent: list[str] = []
    with OpenAIServer(by=model) as server, eventlog.open(tmp_path / "store") as store:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        names: dict[str, Any] = {}
        program = example(LOOP).code.partition('with eventlog.open("chats")')[0]
        exec(compile(program, "README.md", "exec"), names)  # noqa: S102  # the page's own lines
        for number in range(LOOPS):
            session = store.create_session(id=f"s{number}")
            with session.pipeline():
                for old in range(OLD // 2):
                    session.user(f"old {old} " + "word " * 100)
                    with session.assistant("openai/gpt-5") as reply:
                        reply.add_text("an answer " * 50)
                        reply.finish()
            sent.clear()
            told: dict[str, str] = {}

            def ask(which: str, wait: float, name: str = f"s{number}", told: dict[str, str] = told) -> None:
                sleep(wait)
                told[which] = names["answer"](store.session(name), f"{which} of {name}", which)

            others = [
                Thread(target=ask, args=("first", 0)),
                Thread(target=ask, args=("second", pick.random() * WITHIN)),
            ]
            for thread in others:
                thread.start()
            for thread in others:
                thread.join()
            assert any(f"second of s{number}" in text for text in sent)
            assert all(f"{which} of s{number}" in text for which, text in told.items())
            assert set(told) == {"first", "second"}
        assert store.unfinished() == []
