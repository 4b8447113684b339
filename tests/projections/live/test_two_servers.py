"""The documented chat server in two processes, killed and interrupted while people chat."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import aclosing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.store import Store
from projections.transcript.transcript import Transcript
from tests.faults.tally import SLOW
from tests.support.http_client import ask, events
from tests.support.live_page import LivePage, shown
from tests.support.pages import ROOT, example

CLIENTS, QUESTIONS, TOKENS, PACE, FAULTS = (200, 5, 40, 0.25, 12) if SLOW else (16, 2, 12, 0.05, 3)
"""Clients, questions of each, tokens of an answer, seconds between them, faults."""
REPEATED = 0.05
"""Share of the requests that are sent twice at once."""
STOPPED = 0.1
"""Share of the questions that a user of the server with a model stops."""
PATIENCE = 600.0 if SLOW else 90.0

PACED = """
PATH = {path!r}

async def ask(messages):
    question = messages[-1]["content"]
    for number in range({tokens}):
        await asyncio.sleep({pace})
        yield f"{{question}} {{number}} 😀 "
"""


FILLED = """
                await afill_retrying(reply, lambda: ask(chat_messages(view.messages, view.system)), first_wait=0.01)
"""
"""The lines of the page that fill a reply from words, written for a model."""
MODEL = """
import random
from projections.loop import afill_retrying

async def model(messages):
    async for words in words_of(messages):
        yield {"choices": [{"delta": {"content": words}}]}
        if random.random() < 0.01:
            raise ConnectionError
    yield {"choices": [{"delta": {}, "finish_reason": "stop"}]}

words_of, ask = ask, model

async def stop(request):
    session = await asyncio.to_thread(app.state.store.open_session, ("chat", request.path_params["name"]))
    await asyncio.to_thread(session.interrupt)
    return JSONResponse({})

app.router.routes.insert(0, Route("/chats/{name}/stop", stop, methods=["POST"]))
"""


def with_model(code: str) -> str:
    """Return the documented server with a model that breaks off, and a button that stops it."""
    begin, end = (
        code.index("                text = reply.stream_text()"),
        code.index("                await reply.finish()"),
    )
    return code[:begin] + FILLED.lstrip("\n") + code[end:].partition("\n")[2] + MODEL


def answer_to(question: str) -> str:
    """Return the whole answer to a question."""
    return "".join(f"{question} {number} 😀 " for number in range(TOKENS))


class Server:
    """One process of the chat server, on a port of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Start the process."""
        command = [sys.executable, "-m", "uvicorn", "chat:app", "--port", str(self.port), "--log-level", "critical"]
        command += ["--timeout-graceful-shutdown", "1"]
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.directory), str(ROOT)])}
        with (self.directory / "errors").open("ab") as errors:
            self.process = subprocess.Popen(command, cwd=self.directory, env=paths, stderr=errors)

    async def fail(self, sign: signal.Signals) -> None:
        """End the process by a signal, and start it again."""
        self.process.send_signal(sign)
        await asyncio.to_thread(self.process.wait, 60)
        self.start()

    def stop(self) -> None:
        """End the process for good."""
        self.process.kill()
        self.process.wait()


class Person:
    """A client: it asks one question after the other, and watches the page."""

    def __init__(self, name: str, servers: list[Server], random: Random, *, stops: float = 0.0) -> None:
        self.name = name
        self.page = LivePage()
        self.session = ""
        self.questions = [f"{name} asks {number}" for number in range(QUESTIONS)]
        self.connections = 0
        self.stopped: set[str] = set()
        self._stops = stops
        self._servers = servers
        self._random = random
        self._watching: asyncio.Task[None] | None = None

    async def chat(self) -> None:
        """Ask every question until it is answered."""
        self.session = (await self._until_answered("GET", None))["session"]
        self._watching = asyncio.create_task(self._watch())
        for number, question in enumerate(self.questions):
            request = {"id": f"request {number}", "text": question}
            asking = [self._until_answered("POST", request)]
            if self._random.random() < REPEATED:
                asking.append(self._until_answered("POST", request))
            if self._random.random() < self._stops:
                asking.append(self._stop())
            for answer in await asyncio.gather(*asking):
                assert answer["state"] in {"done", "stopped"}
                if answer["state"] == "stopped":
                    self.stopped.add(question)

    async def _stop(self) -> Any:
        """Press the button "stop" while an answer streams; it may come too late."""
        await asyncio.sleep(self._random.uniform(0, TOKENS * PACE))
        await self._until_answered("POST", None, "/stop")
        return {"state": "done"}

    async def _until_answered(self, method: str, value: object, of: str = "") -> Any:
        """Send a request to either server, again and again, until the answer is there."""
        while True:
            try:
                status, answer = await ask(self._port(), method, f"/chats/{self.name}{of}", value)
            except ConnectionError:
                status, answer = 0, None
            if status == 200:
                return answer
            await asyncio.sleep(0.2)

    async def _watch(self) -> None:
        """Follow the session, from either server; go on where the page is."""
        while True:
            self.connections += 1
            after = self.page.cursor
            path = f"/sessions/{self.session}/live?user=alice"
            async with aclosing(events(self._port(), path, after)) as updates:
                async for cursor, data in updates:
                    self.page.take(cursor, data)
            await asyncio.sleep(0.1)

    def _port(self) -> int:
        return self._random.choice(self._servers).port

    async def see(self, expected: list[Any]) -> None:
        """Wait until the page shows what it should."""
        deadline = time.monotonic() + 30
        while list(self.page.messages.values()) != expected:
            assert time.monotonic() < deadline, (list(self.page.messages.values()), expected)
            await asyncio.sleep(0.05)

    async def leave(self) -> None:
        """Close the page."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])


async def disturb(servers: list[Server], random: Random) -> None:
    """Kill and interrupt servers while people chat."""
    for number in range(FAULTS):
        await asyncio.sleep((QUESTIONS * TOKENS * PACE) / FAULTS * random.uniform(0.3, 1.2) + 0.5)
        sign = (signal.SIGKILL, signal.SIGINT)[number % 2]
        await random.choice(servers).fail(sign)


def answered_once(store: Store, person: Person) -> None:
    """Compare the questions and answers of a session with what was asked."""
    transcript = Transcript(store.session(person.session)).oldest_first()
    asked = ["".join(part.text for part in each.parts) for each in transcript if each.role == "user"]
    assert asked == person.questions
    told = [
        "".join(part.text for part in each.parts if part.kind == "text" and not part.removed)
        for each in transcript
        if each.role == "assistant" and each.reason == "stop"
    ]
    assert told == [answer_to(question) for question in person.questions if question not in person.stopped]


async def everyone(servers: list[Server], store: Store, random: Random, stops: float) -> None:
    """Let people chat while the servers fail, and compare what they see at the end."""
    people = [Person(f"p{number}", servers, random, stops=stops) for number in range(CLIENTS)]
    disturbing = asyncio.create_task(disturb(servers, random))
    await asyncio.wait_for(asyncio.gather(*(person.chat() for person in people)), PATIENCE)
    await disturbing
    for person in people:
        answered_once(store, person)
        await person.see(shown(store.session(person.session))[-50:])
    assert sum(person.connections for person in people) > len(people)
    await asyncio.gather(*(person.leave() for person in people))


@pytest.mark.promise(5)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["plain", "encrypted", "model"])
def test_each_question_is_answered_once_and_each_page_is_right(tmp_path: Path, kind: str) -> None:
    """Promise 5: servers that die answer each question once, and pages equal the transcript."""
    encrypted = kind == "encrypted"
    path = str(tmp_path / "store")
    code = example("live_app(app.state.store").code + PACED.format(path=path, tokens=TOKENS, pace=PACE)
    if encrypted:
        code = code.replace("eventlog.open, PATH", "eventlog.open, PATH, keys=True")
    if kind == "model":
        code = with_model(code)
    (tmp_path / "chat.py").write_text(code)
    with eventlog.open(path, keys=True if encrypted else None) as store:
        servers = [Server(tmp_path) for _ in range(2)]
        try:
            asyncio.run(everyone(servers, store, Random(7), STOPPED if kind == "model" else 0.0))
        finally:
            for server in servers:
                server.stop()


async def told_behind_a_kill(server: Server, store: Store) -> str:
    """Kill the server while it answers; return what a page is told that comes back."""
    message = {"id": "q1", "role": "user", "parts": [{"type": "text", "text": " ".join(["word"] * 100)}]}
    while not any(isinstance(recorded.event, ev.PartDelta) for recorded in store.subscribe(timeout=0.1)):
        with suppress(ConnectionError, TimeoutError):
            await asyncio.wait_for(ask(server.port, "POST", "/chat", {"id": "k", "messages": [message]}), 1)
    await server.fail(signal.SIGKILL)
    chunks: list[str] = []
    while not chunks:  # it does not listen yet
        await asyncio.sleep(0.05)
        chunks = [data async for _, data in events(server.port, "/chat/k/stream", None)]
    assert chunks[-1] == "[DONE]"
    return "".join(json.loads(chunk).get("delta", "") for chunk in chunks[:-1] if "text-delta" in chunk)


def test_a_page_that_comes_back_to_killed_servers_has_the_whole_answer(tmp_path: Path) -> None:
    """The documented server of chat interfaces goes on with what it was answering, unasked."""
    path = tmp_path / "store"
    (tmp_path / "chat.py").write_text(f"{example('answer_response(').code}\nPATH = {str(path)!r}\n")
    with eventlog.open(path) as store:
        server = Server(tmp_path)
        try:
            told = asyncio.run(asyncio.wait_for(told_behind_a_kill(server, store), 60))
        finally:
            server.stop()
    assert told.endswith("You said: " + "word " * 100)
