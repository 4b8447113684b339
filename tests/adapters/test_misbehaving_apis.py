"""The documented loop against an endpoint of each API that misbehaves in every way."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from google.genai import errors as google

import eventlog
from eventlog.errors import StreamError, UnknownStreamError
from eventlog.session.session import Session
from eventlog.values import File, Text
from projections import ModelView
from projections.loop import ModelRequest
from projections.reports.audit import audit
from projections.view.neutral import Call, NeutralMessage, Result
from projections.view.neutral import File as SentFile
from projections.view.neutral import Text as SentText
from tests.support.misbehaving_apis import APIS, REFUSALS, Answer, Refused
from tests.support.pages import LOOP, example

PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
WAYS = {
    "well": 12, "slow": 4, "wrong order": 6, "same ids": 8, "cut": 5, "empty": 2, "error": 5, "too large": 2, "429": 4, "long 429": 1,
    "500": 4, "401": 2, "media": 6, "opaque-state": 6, "overflow": 2, "unknown": 1,
}  # fmt: skip
"""Each way to answer, and how often."""
WHOLE = re.compile(r"Question \d+: I write\.|Answer to Question \d+\.")
"""The texts that the model says as a whole."""
LIVES = 40


class Endpoint:
    """Answers as an agent does, if it feels like it: a file for each question, then a text."""

    def __init__(self, api: str, seed: int) -> None:
        self._api, self._chance = APIS[api], random.Random(seed)
        self.did: Counter[str] = Counter()
        self.faults: list[str] = []
        self.ahead = 0
        """Milliseconds that the clock of the program is ahead: a long wait is over at once."""
        self._asked = 0

    def __call__(self, request: ModelRequest) -> Iterator[Any]:
        """Answer a request, or do something else."""
        body = self._api.body(request)
        self._check(request, body)
        self._asked += 1
        sent = json.dumps(body)
        may = {
            "media": any(isinstance(part, SentFile) for message in request.messages for part in message.parts),
            "opaque-state": bool(self._api.state) and self._api.state in sent,
            "overflow": sent.count("Question ") > 6,
        }
        may["too large"] = may["overflow"]
        ways = {way: weight for way, weight in WAYS.items() if may.get(way, True)}
        how = self._chance.choices([*ways], [*ways.values()])[0]
        self.did[how] += 1
        refused = self._api.refusals.get(how) or {
            "429": Refused(429, "", "slow down"),
            "long 429": Refused(429, "", "slow down"),
            "500": Refused(500, "", "the server had an error"),
            "401": Refused(401, "", "no such key"),
            "unknown": Refused(400, "", "Unsupported value"),
        }.get(how)
        if refused is not None:
            headers = {"429": {"retry-after-ms": "5"}, "long 429": {"retry-after": "3600"}}.get(how, {})
            self.ahead += 3_700_000 * (how == "long 429")
            yield from self._refuse(refused, headers)
            return
        chunks = self._api.chunks(self._answer(request.messages, same_ids=how == "same ids"))
        yield from self._played(how, chunks)

    # -- answers -----------------------------------------------------------------------------------

    def _answer(self, messages: Any, *, same_ids: bool) -> Answer:
        """Return the next call for the newest question, or the answer to it."""
        said = [part for message in messages for part in message.parts]
        asked = [part.text[9:] for part in said if isinstance(part, SentText) and part.text.startswith("Question ")]
        number = next(text for text in reversed(asked) if text.isdigit())
        calls = {part.call for part in said if isinstance(part, Call) and f'"{number}a.txt"' in part.input}
        is_written = any(isinstance(part, Result) and part.call in calls and not part.error for part in said)
        if is_written or any(f"- {number}a.txt (written)" in part.text for part in said if isinstance(part, SentText)):
            return Answer(self._asked, f"Answer to Question {number}.")
        arguments = [json.dumps({"path": f"{number}{name}.txt", "text": number}) for name in "ab"]
        ids = ["call_1", "call_1"] if same_ids else [f"call_{self._asked}{name}" for name in "ab"]
        made = tuple((id, "write_file", given) for id, given in zip(ids, arguments, strict=True))
        return Answer(self._asked, f"Question {number}: I write.", made)

    def _played(self, how: str, chunks: list[dict[str, Any]]) -> Iterator[Any]:
        half = len(chunks) // 2
        if how == "wrong order":
            late = chunks.pop(self._api.first)
            chunks.insert(0 if self._api.first < 0 else min(self._api.first + 1, len(chunks)), late)
        elif how == "empty":
            chunks = []
        elif how in {"error", "too large"}:
            chunks = [*chunks[:half], self._api.error if how == "error" else self._api.too_large]
        pieces = self._pieces(chunks[:half] if how == "cut" else chunks, cut=how == "cut", slow=how == "slow")
        if self._api.ask is None:
            yield from pieces
            return
        content = (f"event: {one.get('type', 'x')}\ndata: {json.dumps(one)}\n\n".encode() for one in pieces)
        headers = {"content-type": "text/event-stream"}
        yield from self._client(httpx.Response(200, headers=headers, content=content))

    @staticmethod
    def _pieces(chunks: list[dict[str, Any]], *, cut: bool, slow: bool) -> Iterator[dict[str, Any]]:
        for chunk in chunks:
            time.sleep(0.003 * slow)
            yield chunk
        if cut:
            raise httpx.ReadError("the connection broke")

    def _refuse(self, refused: Refused, headers: dict[str, str]) -> Iterator[Any]:
        status, code, text = refused
        if self._api.ask is None:
            details = [{"retryDelay": f"{headers['retry-after']}s"}] if "retry-after" in headers else []
            raise google.ClientError(
                status, {"error": {"code": status, "status": code, "message": text, "details": details}}
            )
        kind = "type" if self._api is APIS["anthropic"] else "code"
        said = {"type": "error", "error": {kind: code, "message": text}}
        yield from self._client(httpx.Response(status, headers=headers, json=said))

    def _client(self, response: httpx.Response) -> Iterator[Any]:
        assert self._api.ask is not None
        with httpx.Client(transport=httpx.MockTransport(lambda _request: response)) as http:
            yield from self._api.ask(http)()

    def _check(self, request: ModelRequest, body: dict[str, Any]) -> None:
        """Note what no request may have."""
        self.faults += self._api.faults(body)
        said = [text for message in request.messages if message.role == "assistant" for text in texts(message)]
        self.faults += [
            f"half a text: {text}" for text in said if WHOLE.fullmatch(text) is None and not text.startswith("## ")
        ]
        self.faults += [f"twice: {text}" for text, count in Counter(said).items() if count > 1]


def texts(message: NeutralMessage) -> list[str]:
    """The texts of a message."""
    return [part.text for part in message.parts if isinstance(part, SentText) and part.text]


def program(endpoint: Endpoint) -> dict[str, Any]:
    """The functions of the documented loop, which ask this endpoint."""
    code = example(LOOP).code.partition("\nwith eventlog.open(")[0]
    for there, here in (
        ("lambda: ask(request))", "lambda: ask(request), first_wait=0.001, longest_wait=0.01)"),
        ("openai.APIStatusError,", "*REFUSALS,"),
        ("client = openai.OpenAI", "client = lambda **options: None and openai.OpenAI"),
    ):
        assert there in code
        code = code.replace(there, here)
    names: dict[str, Any] = {"REFUSALS": REFUSALS}
    exec(compile(code, "loop.py", "exec"), names)  # noqa: S102  # the page's own program
    names["ask"] = endpoint
    return names


def answered(session: Session, names: dict[str, Any], number: int) -> int:
    """Start the program until a question is answered; returns how often it was started."""
    asked: Any = f"Question {number}" if number % 2 else [Text(f"Question {number}"), File("image/png", PNG, "a.png")]
    for life in range(1, LIVES):
        try:
            said = names["answer"](session, asked, f"r{number}")
        except (RuntimeError, StreamError, UnknownStreamError, ConnectionError, httpx.TransportError):
            continue
        except REFUSALS:
            continue
        assert said == f"Answer to Question {number}."
        return life
    raise AssertionError(f"question {number} ended the conversation")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("api", APIS)
def test_no_request_is_invalid_and_no_conversation_ends(
    api: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question is answered once, by valid requests, also by an endpoint that fails."""
    monkeypatch.chdir(tmp_path)
    endpoint = Endpoint(api, seed)
    names = program(endpoint)
    with eventlog.open("store", clock=lambda: int(time.time() * 1_000) + endpoint.ahead) as store:
        session = store.create_session()
        for number in range(10):
            answered(session, names, number)
        assert endpoint.faults == []
        assert store.unfinished() == []
        assert {step.verdict for step in audit(session)} == {"match"}
        said = [
            text for message in ModelView.of(session).messages if message.role == "assistant" for text in texts(message)
        ]
        assert max(Counter(said).values()) == 1
    assert {path.name for path in tmp_path.glob("*.txt")} == {f"{n}{name}.txt" for n in range(10) for name in "ab"}
    assert len(endpoint.did) > 8, endpoint.did
