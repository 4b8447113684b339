"""Forms by name: options, bodies, digests, and versions that a changed body needs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from eventlog.errors import CallError
from projections.requests import forms
from projections.requests.ai_sdk import model_messages
from projections.requests.anthropic import anthropic_request
from projections.requests.forms import FORMS, RequestForm, digest, form_named, recorded_form
from projections.requests.gemini import gemini_request
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from projections.requests.servers import SERVERS
from projections.view.neutral import Call, File, NeutralMessage, Opaque, Reasoning, Result, Text
from tests.projections.view.test_model_view import view_of
from tests.support.history_strategies import histories
from tests.support.spans import Recording, Timed

pytestmark = pytest.mark.promise(10)

PICTURE = File("image/png", "data:image/png;base64,iVBORw0KGgo=", "a.png")
SYSTEM = ("You help.", " ", "In this folder. \ud800")


def served(call: str, tool: str, arguments: str, output: str, metadata: str) -> NeutralMessage:
    """An answer with a tool that its provider ran."""
    parts = Call(call, tool, arguments, True, metadata), Result(call, tool, output)
    return NeutralMessage("assistant", (Text("I search. "), *parts), f"of {tool}")


def every_part() -> list[NeutralMessage]:
    """Messages with every kind of part, also those that a provider's API has of its own."""
    files = (
        PICTURE,
        File("image/png", "https://example.com/b.png"),
        File("application/pdf", "data:application/pdf;base64,AA==", "c.pdf"),
        File("text/plain", "data:text/plain;base64,aGVsbG8=", "d.txt"),
        File("audio/wav", "data:audio/wav;base64,AA==", "e.wav"),
        File("image/svg+xml", "data:image/svg+xml;base64,AA==", "f.svg"),
    )
    thoughts = (
        Reasoning("signed", '{"anthropic":{"signature":"s"},"google":{"thoughtSignature":"t"}}'),
        Reasoning("", '{"anthropic":{"redactedData":"x"}}'),
        Reasoning("of another"),
    )
    own = '{"openai":{"itemId":"%s_1","reasoningEncryptedContent":"c","phase":"commentary"},"anthropic":{"citations":[{"n":1e30}]}}'
    calls = (
        Call("call:1", "docs.search", '{"q": 1.5, "a": [null, 12345678901234567890123]}'),
        Call("call:2", "x" * 130, "[1]", metadata='{"google":{"thoughtSignature":"t"}}'),
        Call("c3", "read", "no json"),
    )
    results = (
        Result("call:1", "docs.search", "found", files=(PICTURE, files[2])),
        Result("call:2", "x" * 130, ""),
        Result("c3", "read", " ", error=True),
    )
    search = '{"type":"search","query":"q"}'
    return [
        NeutralMessage("assistant", (Text("I begin"),), "m0"),
        NeutralMessage("user", (Text("Find it"), *files), "m1"),
        NeutralMessage("user", (Text("and \udfff中"),), "m2"),
        NeutralMessage("assistant", (*thoughts, Text("I look. "), *calls, Text("")), "m3"),
        NeutralMessage("tool", results, "m3"),
        NeutralMessage("assistant", (Reasoning("kept", own % "rs"), Text("Found. ", own % "msg")), "m4"),
        NeutralMessage("user", (Text("go on"),), "m5"),
        served("srvtoolu_1", "web_search", search, '[{"type":"web_search_result"}]', '{"openai":{"itemId":"ws_1"}}'),
        served("served", "code_execution", '{"code":"1"}', '{"outcome":"OUTCOME_OK"}', "{}"),
        NeutralMessage("assistant", (Reasoning("more", own % "rs"), PICTURE, calls[0]), "m6"),
        NeutralMessage("tool", results[:1], "m6"),
        NeutralMessage("assistant", (Text("so far "),), "m7"),
    ]


def compacted(kind: str) -> list[NeutralMessage]:
    """A view that begins with a provider's compaction."""
    data = '{"type":"compaction","id":"cmp_1","content":"All of it.","encrypted_content":"c"}'
    return [NeutralMessage("assistant", (Opaque(kind, data, "All of it."),), "m0"), *every_part()[1:3]]


def digests(name: str) -> str:
    """The digest of one form's bodies with all its options, for whole and broken-off views."""
    options: dict[str, list[dict[str, Any]]] = {
        "openai-chat": [{}, *({"server": server} for server in (*SERVERS, "another"))],
        "openai-responses": [{}, {"store": False}],
        "anthropic": [{}, {"cache": "none"}, {"cache": "prefix"}, {"prefill": False}],
        "gemini": [{}, {"ids": False}],
        "ai-sdk": [{}],
    }
    messages = every_part()
    views = [
        messages,
        messages[1:3],
        messages[:6],
        compacted("openai.compaction"),
        compacted("anthropic.compaction"),
        [NeutralMessage("user", (PICTURE,) * 101)],
        [],
    ]
    made = [RequestForm(name, **each).body(view, SYSTEM) for each in options[name] for view in views]
    return digest({"bodies": made}).hex()[:16]


PINNED = {
    "openai-chat/1": "8847ea2d8f15daaa",
    "openai-responses/1": "64b485078dd07b8c",
    "anthropic/1": "30a21aecbc4f1239",
    "gemini/1": "b4ec2fcef4aca4b9",
    "ai-sdk/1": "a4355407be3c20e3",
}


@pytest.mark.parametrize("name", FORMS)
def test_the_body_of_a_form_belongs_to_its_version(name: str) -> None:
    """Promise 10: a changed body, or another row of servers, needs a new version in `FORMS`."""
    version = RequestForm(name).version
    assert (version, digests(name)) == (version, PINNED.get(version))


def test_a_form_gives_what_its_function_gives() -> None:
    """The body has the members of the API, with the form's options."""
    view = every_part()
    for form, body in (
        (RequestForm("openai-chat", server="mistral"), {"messages": chat_messages(view, SYSTEM, server="mistral")}),
        (RequestForm("openai-responses", store=False), responses_request(view, SYSTEM, store=False)),
        (RequestForm("anthropic", cache="prefix", prefill=False), anthropic_request(view, SYSTEM, cache="prefix", prefill=False)),
        (RequestForm("gemini", ids=False), gemini_request(view, SYSTEM, ids=False)),
        (RequestForm("ai-sdk"), {"messages": model_messages(view, SYSTEM)}),
    ):  # fmt: skip
        assert form.body(view, SYSTEM) == body
        assert form_named(form) is form
        assert form_named(form.name) == RequestForm(form.name)


@pytest.mark.parametrize(
    ("given_name", "options", "words"),
    [
        ("openai", {}, "the forms are openai-chat, "),
        ("", {}, "there is no form ''"),
        (7, {}, "a form is named by a str, not an int"),
        ("anthropic", {"server": "openai"}, "has no option server; it has cache, prefill"),
        ("ai-sdk", {"ids": False}, "has no option ids; it has none"),
        ("anthropic", {"cache": "all"}, "the option cache of the form anthropic is 'all'"),
        ("gemini", {"ids": 1}, "is 1: Expected `bool`"),
    ],
)
def test_a_form_or_option_that_there_is_not_is_refused(given_name: Any, options: dict[str, Any], words: str) -> None:
    """The error says which forms, options and values there are."""
    with pytest.raises(CallError, match=words):
        RequestForm(given_name, **options)
    with pytest.raises(CallError, match="a form is a RequestForm, or the name of one, not None"):
        form_named(None)  # type: ignore[arg-type]


def test_a_record_of_a_form_is_read_by_its_version_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record has version, server and options; one of another version is not read."""
    form = RequestForm("anthropic", cache="prefix")
    assert form.record == '{"name":"anthropic/1","cache":"prefix"}'
    assert RequestForm("openai-chat").record == '{"name":"openai-chat/1","server":"openai-compatible"}'
    for name in FORMS:
        assert recorded_form(RequestForm(name).record) == RequestForm(name)
    assert recorded_form(form.record) == form
    for other in ("anthropic/2", "anthropic", "mine/1", ""):
        assert recorded_form(f'{{"name":"{other}"}}') is None
    for odd in ("[]", "{}", '{"name":3}', '{"name":"gemini/1","later":1}', '{"name":"ai-sdk/1","server":"x"}', "no"):
        assert recorded_form(odd) is None
    monkeypatch.setitem(forms.FORMS, "anthropic", FORMS["anthropic"]._replace(number=2))
    assert form.version == "anthropic/2"
    assert recorded_form('{"name":"anthropic/1"}') is None


@settings(max_examples=60, deadline=None)
@given(histories(max_size=60))
def test_any_view_has_a_digest_in_every_form(items: list[Timed]) -> None:
    """A body of any history can be hashed, and made again it has the same digest."""
    view = view_of(Recording(items))
    for name in FORMS:
        form = RequestForm(name)
        first, again = form.body(view, ["be brief", "\ud800"]), form.body(view, ["be brief", "\ud800"])
        assert digest(first) == digest(dict(reversed(again.items())))
        assert digest({**first, "more": 1}) != digest(first)
