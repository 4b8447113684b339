"""The Gemini renderer gives back what the reader of Gemini's answers recorded."""

from __future__ import annotations

from typing import Any

import eventlog
from projections import ModelView
from projections.requests.gemini import OPENING, UNSIGNED, gemini_request
from projections.view.neutral import Call, File, NeutralMessage, NeutralPart, Reasoning, Result, Text
from projections.view.part_rendering import MEDIA_HEADING
from tests.request_rules.gemini import broken

PICTURE = File("image/png", "data:image/png;base64,AAAA", "a.png")


def assistant(*parts: NeutralPart) -> NeutralMessage:
    """An assistant message."""
    return NeutralMessage("assistant", parts, "a")


def test_an_answer_goes_back_as_it_came() -> None:
    """Texts, calls with ids, code that Gemini ran, and signatures are sent as they came."""
    parts: list[dict[str, Any]] = [
        {"text": "first this", "thought": True, "thoughtSignature": "s0"},
        {"text": "I look", "thoughtSignature": "s1"},
        {"executableCode": {"language": "PYTHON", "code": "1+1"}, "thoughtSignature": "s2"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        {"functionCall": {"name": "ls", "args": {"p": 1}, "id": "x1"}, "thoughtSignature": "s3"},
    ]
    chunk = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    with eventlog.open("memory:") as store:
        session = store.create_session()
        session.user("go")
        with session.assistant("google/gemini") as reply:
            (call,) = reply.fill([chunk]).calls
            call.start('{"p":1}')
            call.succeed("out")
        view = ModelView.of(session)
    request = gemini_request(view.messages, ("header", " ", "rest"))
    assert broken(request, whole=False) == []
    assert request["systemInstruction"] == {"parts": [{"text": "header"}, {"text": "rest"}]}
    assert request["contents"][1] == {"role": "model", "parts": parts}
    assert request["contents"][2]["parts"][0]["functionResponse"]["id"] == "x1"
    bare = gemini_request(view.messages, ids=False)
    assert "systemInstruction" not in bare
    assert bare["contents"][1]["parts"][-1]["functionCall"] == {"name": "ls", "args": {"p": 1}}


def test_responses_stand_alone_and_media_follow() -> None:
    """As many responses as calls are one content; media and the user's words come behind it."""
    messages = [
        assistant(Text("a"), Call("1", "l s", "[1]"), Call("2", "1st", "no JSON")),
        NeutralMessage("tool", (Result("1", "l s", "seen", files=(PICTURE,)), Result("2", "1st", "", error=True)), "a"),
        NeutralMessage("user", (Text("and?"), File("image/svg+xml", "data:image/svg+xml;base64,AAAA", "b.svg"))),
    ]
    request = gemini_request(messages, ids=False)
    assert broken(request, whole=False) == []
    opening, model, responses, rest = request["contents"]
    assert opening["parts"] == [{"text": OPENING}]
    assert [part["functionCall"] for part in model["parts"][1:]] == [
        {"name": "l_s", "args": {"value": [1]}},
        {"name": "_1st", "args": {}},
    ]
    assert [part["functionResponse"]["response"] for part in responses["parts"]] == [
        {"output": "seen"},
        {"error": "The tool failed."},
    ]
    assert rest["parts"] == [
        {"text": MEDIA_HEADING},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"text": "and?"},
        {"text": "[Attached image/svg+xml: b.svg]"},
    ]


def test_an_unsigned_thought_is_left_out() -> None:
    """A thought without a signature is not sent, nor is an answer of thoughts alone."""
    user = NeutralMessage("user", (Text("hi"), File("video/mp4", "gs://b/a.mp4")))
    said = [user, assistant(Reasoning("hm"), Text("so")), user, assistant(Reasoning("only"))]
    contents = gemini_request(said)["contents"]
    assert [content["parts"] for content in contents[1:2]] == [[{"text": "so"}]]
    assert contents[0]["parts"][1] == {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/a.mp4"}}
    assert [content["role"] for content in contents] == ["user", "model", "user"]


def test_a_call_that_gemini_has_not_signed_has_the_documented_signature() -> None:
    """The first call of an answer has it unless it is signed itself."""
    own = '{"google":{"thoughtSignature":"s"}}'
    results = (Result("1", "f", "x"), Result("2", "f", "y"))
    for calls, signatures in (
        ((Call("1", "f", "{}"), Call("2", "f", "{}")), [UNSIGNED, None]),
        ((Call("1", "f", "{}"), Call("2", "f", "{}", metadata=own)), [UNSIGNED, "s"]),
    ):
        contents = gemini_request([assistant(*calls), NeutralMessage("tool", results, "a")])["contents"]
        assert [part.get("thoughtSignature") for part in contents[1]["parts"]] == signatures
