"""The documented loop against an endpoint of each API that misbehaves in every way."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import httpx2 as httpx
import openai
import pytest
from google.genai import errors as google

import eventlog
from eventlog import events as ev
from eventlog.errors import StreamError, UnknownStreamError
from eventlog.session.session import Session
from eventlog.values import File, Text
from projections import ModelView, cache_uses
from projections.loop import ModelRequest, PendingCall
from projections.reports.audit import audit
from projections.view.neutral import Call, NeutralMessage, Result
from projections.view.neutral import File as SentFile
from projections.view.neutral import Text as SentText
from projections.window import ContextPolicy, PrunePolicy
from projections.window.compaction.offline import summarize_offline
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
BROKEN = (httpx.TransportError, openai.APIConnectionError, anthropic.APIConnectionError)
PAD = "line after line of a file " * 60
QUESTIONS = 90
BACKGROUND = (
    "policy=POLICY, limits=LIMITS, summarizer=lambda request: summarize_offline(request), background=True, recall=True"
)
ALL_ON = (
    ("recall=True", BACKGROUND),
    (
        "window.run(call, lambda given: run_tool(call.tool, given))",
        "reply.call(call.part).ask('it writes') if is_risky(call) else window.run(call, partial(run_tool, call.tool))",
    ),
)
"""Also in the loop: calls for a person, summaries in the background, a small window."""


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
            "overflow": sent.count("Question ") > 6 and "## Goal" not in sent,
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


class Writing(Endpoint):
    """Writes large files, whose text is in the arguments of the calls, and reports its usage."""

    def _check(self, request: ModelRequest, body: dict[str, Any]) -> None:
        super()._check(request, body)
        self._tokens = len(json.dumps(body)) // 4

    def _played(self, how: str, chunks: list[dict[str, Any]]) -> Iterator[Any]:
        told = re.sub(
            r'("(?:prompt_tokens|input_tokens|promptTokenCount)": )9', rf"\g<1>{self._tokens}", json.dumps(chunks)
        )
        yield from super()._played(how, json.loads(told))

    def _answer(self, messages: Any, *, same_ids: bool) -> Answer:
        answer = super()._answer(messages, same_ids=same_ids)
        return answer._replace(
            calls=tuple(
                (id, name, given.replace('"text": "', f'"text": "{self._asked} {PAD}'))
                for id, name, given in answer.calls
            )
        )


def program(endpoint: Endpoint, *more: tuple[str, str], **names: Any) -> dict[str, Any]:
    """The functions of the documented loop, which ask this endpoint."""
    code = example(LOOP).code.partition("\nwith eventlog.open(")[0]
    for there, here in (
        *more,
        ("lambda: ask(request))", "lambda: ask(request), first_wait=0.001, longest_wait=0.01)"),
        ("openai.APIStatusError,", "*REFUSALS,"),
        ("client = openai.OpenAI", "client = lambda **options: None and openai.OpenAI"),
    ):
        assert there in code
        code = code.replace(there, here)
    names["REFUSALS"] = REFUSALS
    exec(compile(code, "loop.py", "exec"), names)  # noqa: S102  # the page's own program
    names["ask"] = endpoint
    return names


def answered(session: Session, names: dict[str, Any], number: int, between: Callable[[], object] = lambda: None) -> int:
    """Start the program until a question is answered; returns how often it was started.

    `between` is called where the program has ended without an answer.
    """
    asked: Any = f"Question {number}" if number % 2 else [Text(f"Question {number}"), File("image/png", PNG, "a.png")]
    for life in range(1, LIVES):
        try:
            said = names["answer"](session, asked, f"r{number}")
        except (RuntimeError, StreamError, UnknownStreamError, ConnectionError, *BROKEN, *REFUSALS):
            between()
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


def is_risky(call: PendingCall) -> bool:
    """Return whether a person is asked, which is so of every third part id."""
    return not call.allowed and sum(call.part.encode()) % 3 == 0


@pytest.mark.parametrize("api", APIS)
def test_two_hundred_steps_with_all_of_it_on(api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Approvals, background summaries and prunes of arguments make no request invalid."""
    monkeypatch.chdir(tmp_path)
    endpoint, chance, verdicts = Writing(api, 7), random.Random(api), Counter[str]()
    names = program(
        endpoint,
        *ALL_ON,
        POLICY=ContextPolicy(prune=PrunePolicy(policy="recency", trigger=0.3, protect=1_000, minimum=500)),
        LIMITS=eventlog.Limits(12_000, 2_000),
        summarize_offline=summarize_offline,
        partial=partial,
        is_risky=is_risky,
    )
    with eventlog.open("store", clock=lambda: int(time.time() * 1_000) + endpoint.ahead) as store:
        session = store.create_session()

        def decide() -> None:
            for asked in session.asked_calls():
                edited: dict[str, object] = {**json.loads(asked.arguments), "text": "less"}
                answers: list[Any] = [eventlog.Allow(), eventlog.Edit(edited), eventlog.Deny("not now")]
                given = chance.choice(answers)
                session.answer_call(asked.message, asked.call, given, by="ann")
                verdicts[type(given).__name__] += 1

        for number in range(QUESTIONS):
            answered(session, names, number, decide)
        found = Counter(type(recorded.event).__name__ for recorded in session.events())
        cleared = [r.event for r in session.events() if isinstance(r.event, ev.Pruned) and r.event.arguments]
        again = [fault for fault in endpoint.faults if fault.endswith(": I write.")]  # of a denied call
        assert [fault for fault in endpoint.faults if fault not in again] == []
        assert store.unfinished() == []
        assert session.asked_calls() == []
        assert {step.verdict for step in audit(session)} == {"match"}
        assert found["StepStarted"] >= 200
        assert found["CompactionCompleted"] >= 2
        assert any(info.title == "Summaries" for info in store.sessions())
        assert cleared
        assert set(verdicts) == {"Allow", "Edit", "Deny"}
        assert len([*cache_uses(session)]) > 100
