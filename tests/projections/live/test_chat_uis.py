"""The documented chat server, read by AI SDK and AG-UI, from npm, in a browser."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import eventlog
from projections.transcript.transcript import Transcript
from tests.support.inspector_server import browser
from tests.support.missing import missing, tool
from tests.support.pages import example

if TYPE_CHECKING:
    from playwright.sync_api import Page

PACKAGES = ("ai@^7", "@ag-ui/client@^1", "esbuild@^0.28")
DRIVER = """
import { DefaultChatTransport, readUIMessageStream } from "ai";
import { HttpAgent } from "@ag-ui/client";

const transport = new DefaultChatTransport({ api: "/chat" });
const shown = async (stream, most = Infinity) => {
  const seen = [];
  for await (const message of readUIMessageStream({ stream, onError: (error) => seen.push(`${error}`) })) {
    seen.push(JSON.parse(JSON.stringify(message)));
    if (seen.length >= most) break;
  }
  return seen;
};
window.chat = {
  async send(chatId, id, text, most) {
    const messages = [{ id, role: "user", parts: [{ type: "text", text }] }];
    const stop = new AbortController();
    const stream = await transport.sendMessages({ chatId, messages, trigger: "submit-message", abortSignal: stop.signal });
    const seen = await shown(stream, most);
    if (most) stop.abort();
    return seen;
  },
  async resume(chatId) {
    const stream = await transport.reconnectToStream({ chatId });
    return stream && await shown(stream);
  },
  async run(threadId, id, content) {
    const agent = new HttpAgent({ url: "/chat", threadId, initialMessages: [{ id, role: "user", content }] });
    const kinds = [];
    await agent.runAgent({}, { onEvent: ({ event }) => { kinds.push(event.type); } });
    return { kinds, messages: agent.messages };
  },
};
"""
SERVED = """
PATH = {path!r}

async def page(request):
    return Response("<!doctype html><title>chat</title><script src=driver.js></script>", media_type="text/html")

async def driver(request):
    with open({driver!r}, "rb") as file:
        return Response(file.read(), media_type="text/javascript")

app.router.routes += [Route("/", page), Route("/driver.js", driver)]
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script that reads answers with both packages."""
    folder = tmp_path_factory.mktemp("npm")
    folder.joinpath("package.json").write_text('{"private": true, "type": "module"}')
    folder.joinpath("driver.js").write_text(DRIVER)
    install = [tool("npm"), "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", *PACKAGES]
    if subprocess.run(install, check=False, cwd=folder, capture_output=True).returncode:
        missing("npm cannot install the packages of chat interfaces")
    bundle = [tool("npx"), "esbuild", "driver.js", "--bundle", "--format=iife", "--outfile=bundle.js"]
    subprocess.run(bundle, check=True, cwd=folder, capture_output=True)
    return folder / "bundle.js"


@pytest.fixture(scope="module")
def page(driver: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Path]]:
    """A page of the documented server, and the path of its store."""
    folder = tmp_path_factory.mktemp("served")
    code = example("answer_response(").code
    folder.joinpath("chat.py").write_text(code + SERVED.format(path=str(folder / "store"), driver=str(driver)))
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "chat:app", "--port", str(port), "--log-level", "warning"]
    server = subprocess.Popen([*command, "--app-dir", str(folder)])
    try:
        for _ in range(600):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        with browser() as started:
            opened = started.new_page()
            opened.goto(f"http://127.0.0.1:{port}/")
            yield opened, folder / "store"
    finally:
        server.terminate()
        server.wait(30)


def call(page: Page, name: str, *arguments: object) -> Any:
    """Call a function of the driver."""
    return page.evaluate(f"(given) => chat.{name}(...given)", list(arguments))


def text_of(message: dict[str, Any]) -> str:
    """The text of a UI message."""
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def test_an_answer_streams_into_both_interfaces(page: tuple[Page, Path]) -> None:
    """The text grows in AI SDK's message and AG-UI's, each named as the store names it."""
    seen = call(page[0], "send", "first", "q1", "how are you 😀?")
    assert len({text_of(message) for message in seen}) > 3
    assert text_of(seen[-1]) == "You said: how are you 😀? "
    found = call(page[0], "run", "first", "q2", "again")
    assert found["kinds"][0] == "RUN_STARTED"
    assert found["kinds"][-1] == "RUN_FINISHED"
    assert found["messages"][-1]["content"] == "You said: again "
    with eventlog.open(page[1], read_only=True) as store:
        said = Transcript(store.open_session(("chat", "first"))).oldest_first()
        replies = [message.id for message in said if message.role == "assistant"]
        assert seen[-1]["id"] == replies[0]
        assert len(replies) == 2


def test_a_reader_that_goes_ends_nothing_and_comes_back_to_all(page: tuple[Page, Path]) -> None:
    """A page that breaks off and resumes has the whole answer; when all is said it gets 204."""
    words = " ".join(f"word{number}" for number in range(20))
    begun = call(page[0], "send", "second", "q1", words, 3)
    assert "word19" not in text_of(begun[-1])
    again = call(page[0], "resume", "second")
    assert text_of(again[-1]) == f"You said: {words} "
    assert again[-1]["id"] == begun[-1]["id"]
    assert call(page[0], "resume", "second") is None


def test_a_stop_ends_the_stream(page: tuple[Page, Path]) -> None:
    """A stop that another request asks for ends the answer, and its stream."""
    words = " ".join(f"word{number}" for number in range(100))
    call(page[0], "send", "third", "q1", words, 2)
    page[0].evaluate("() => fetch('/chat/third/stop', { method: 'POST' })")
    rest = call(page[0], "resume", "third")
    assert rest is None or "word99" not in text_of(rest[-1])
    assert call(page[0], "resume", "third") is None
