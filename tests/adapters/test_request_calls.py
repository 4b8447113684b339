"""The calls on the page of requests, made with the packages of the providers."""

from __future__ import annotations

import json
import re
from typing import Any

import anthropic
import httpx2 as httpx
import openai
import pytest
from google import genai
from google.genai.types import HttpOptions

import eventlog
from projections.loop import CallModel, ContextWindow, task_tool
from projections.window.retrieval.tool_schemas import ToolForm
from tests.support.pages import PAGES

CALLS = dict(
    re.findall(r"^\| `([a-z-]+)` \| `(client\..+)` \|$", PAGES["projections/requests/README.md"], re.MULTILINE)
)
FORMS: dict[str, ToolForm] = {
    "openai-chat": "chat",
    "openai-responses": "responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def _client(form: str, http: httpx.Client) -> Any:
    if form == "anthropic":
        return anthropic.Anthropic(api_key="k", http_client=http)
    if form == "gemini":
        return genai.Client(api_key="k", http_options=HttpOptions(httpx_client=http))
    return openai.OpenAI(api_key="k", http_client=http)


@pytest.mark.parametrize("form", FORMS)
def test_the_package_sends_what_the_form_says(store: eventlog.Store, form: str) -> None:
    """A call of the page sends the whole body: prompt, tools, calls, results and media."""
    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={})

    schema: dict[str, Any] = task_tool(FORMS[form])
    session = store.create_session()
    session.set_system_prompt("You read.")
    session.user("look")
    with session.assistant("openai/gpt-5") as reply:
        shot = eventlog.Attachment("image/png", f"data:image/png;base64,{PNG}", "s.png")
        reply.tool("shot", call_id="c1", input={"path": "a"}).succeed("taken", attachments=[shot])
        reply.finish("tool-calls")
    session.user("and now?")
    offered = [{"functionDeclarations": [schema]}] if form == "gemini" else [schema]
    with (
        ContextWindow(session, model="openai/gpt-5", tools=offered) as window,
        httpx.Client(transport=httpx.MockTransport(answer)) as http,
    ):
        step = window.next_step()
        assert isinstance(step, CallModel)
        reply, request = window.begin(step, form=form)
        body = request.body
        names = {"client": _client(form, http), "model": "m", "body": body, "tools": json.loads(request.tools or "[]")}
        exec(CALLS[form], names)  # noqa: S102  # the page's own line
        reply.abort()
    (found,) = sent
    text = json.dumps(found)
    for said in ("You read.", "look", "and now?", "taken", "task_id", PNG):
        assert said in text
    if form != "gemini":  # whose package writes names and signatures in its own way
        assert {**found, **body} == found
