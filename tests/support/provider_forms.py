"""A view in every provider's form, with what its rules say about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from projections.requests.ai_sdk import model_messages
from projections.requests.anthropic import anthropic_request
from projections.requests.gemini import gemini_request
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from projections.requests.servers import SERVERS
from projections.view.neutral import NeutralMessage, Opaque
from tests.request_rules import ai_sdk, anthropic, gemini, openai_chat, openai_responses

Object = dict[str, Any]


class Request(NamedTuple):
    """A body for an API, and for Chat Completions the server that speaks it."""

    api: str
    server: str
    body: Object

    def broken(self, *, whole: bool = True) -> list[str]:
        """The rules that the body breaks; with `whole=False` nothing need be asked at its end."""
        if self.api == "chat":
            return openai_chat.broken(self.body, self.server, whole=whole)
        if self.api == "ai_sdk":
            return ai_sdk.broken(self.body)
        return RULES[self.api](self.body, whole=whole)


RULES = {"responses": openai_responses.broken, "anthropic": anthropic.broken, "gemini": gemini.broken}


def requests_of(messages: Sequence[NeutralMessage], system: Sequence[str] = ()) -> Iterator[Request]:
    """The bodies of a view in every form, as the README shows them, for every server.

    A view that begins with a cipher of OpenAI's has only the form that can send it.
    """
    for store in (True, False):
        body = {"model": "gpt-5", "store": store, **responses_request(messages, system, store=store)}
        yield Request("responses", "", body)
    if any(isinstance(part, Opaque) and not part.text for message in messages for part in message.parts):
        return
    for server in (*SERVERS, "another"):
        yield Request("chat", server, {"model": "m", "messages": chat_messages(messages, system, server=server)})
    for prefill in (True, False):
        form = anthropic_request(messages, system, prefill=prefill, cache="system" if prefill else "prefix")
        model = "claude-sonnet-4-5" if prefill else "claude-opus-4-6"
        yield Request("anthropic", "", {"model": model, "max_tokens": 9, **form})
    for ids in (True, False):
        model = "gemini-3-pro" if ids else "gemini-2.5-pro"
        yield Request("gemini", "", {"model": model, **gemini_request(messages, system, ids=ids)})
    yield Request("ai_sdk", "", {"messages": model_messages(messages, system)})


def check(messages: Sequence[NeutralMessage], system: Sequence[str] = ()) -> None:
    """Check that a view breaks no rule in any form."""
    for request in requests_of(messages, system):
        found = request.broken(whole=False)
        assert not found, (request.api, request.server, found)
