"""Endless summaries and decompression bombs are bounded; the old boundary stays in force."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import repeat
from typing import Any

import pytest

import eventlog
from eventlog.errors import SummarizerError, SummarizerRefusedError
from eventlog.values import Limits, Tokens, Usage
from projections import ModelView
from projections.loop import ContextWindow
from projections.loop.streaming import chat_stream, http_summarizer
from projections.loop.streaming.http_summarizer import HttpSummarizer
from projections.window.compaction import summarizer
from projections.window.compaction.offline import summarize_offline
from projections.window.compaction.request import SummaryRequest
from projections.window.compaction.summarizer import Summarizer, pieces
from tests.support.openai_server import Answer, OpenAIServer

MEGABYTES = 1 << 20
REQUEST = SummaryRequest("Write notes.", (), "Now the notes.", None)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go to the local server, despite the machine's proxy settings."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def event(text: str) -> bytes:
    """A piece of a streamed answer."""
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


def bomb(megabytes: int, beginning: bytes = b"", **options: Any) -> Callable[[], Iterator[bytes]]:
    """That many megabytes of spaces behind a beginning, deflated."""

    def made() -> Iterator[bytes]:
        packer = zlib.compressobj(9, **options)
        yield packer.compress(beginning) + packer.flush(zlib.Z_SYNC_FLUSH)
        for _ in range(megabytes):
            piece = packer.compress(b" " * MEGABYTES)
            if piece:
                yield piece
        yield packer.flush()

    return made


ENDLESS: dict[str, tuple[Answer, str]] = {
    "text": (Answer(raw=lambda: repeat(event("word " * 2_000))), "more than 2000000 characters"),
    "empty text": (Answer(raw=lambda: repeat(event("") * 100)), "more than 20000 events"),
    "one line": (Answer(raw=lambda: repeat(b"data: " + b"x" * MEGABYTES)), "no stream of events"),
    "lines of one event": (Answer(raw=lambda: repeat((b"data:" + b" " * 200 + b"\n") * 5_000)), "no stream of events"),
    "comments": (
        Answer(raw=lambda: repeat((b": still here" + b"." * 2_000 + b"\n\n") * 500)),
        "more than 33554432 bytes",
    ),
    "a document": (
        Answer(raw=lambda: repeat(b" " * MEGABYTES), headers={"content-type": "application/json"}),
        "more than 16777216 bytes",
    ),
    "a packed stream": (
        Answer(raw=bomb(300, b": "), headers={"content-encoding": "deflate"}),
        "more than|no stream of events",
    ),
    "a packed document": (
        Answer(raw=bomb(300), headers={"content-encoding": "gzip", "content-type": "application/json"}),
        "more than 16777216 bytes",
    ),
    "a refusal": (
        Answer(raw=bomb(300), status=400, headers={"content-encoding": "deflate"}),
        r"refused \(HTTP 400\)",
    ),
    "packed otherwise": (Answer(raw=lambda: repeat(b"x"), headers={"content-encoding": "br"}), "did not ask for"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_answer_has_an_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless or compressed answer is refused at a stated size."""
    answer, said = ENDLESS[name]
    monkeypatch.setattr(chat_stream, "MOST_EVENTS", 20_000)
    monkeypatch.setattr(http_summarizer, "LARGEST_STREAM", 32 * MEGABYTES)
    with OpenAIServer(answer) as server:
        tracemalloc.start()
        with pytest.raises((SummarizerRefusedError, SummarizerError), match=said) as refused:
            list(pieces(HttpSummarizer(server.url, "m", sleep=lambda _: None, attempts=2), REQUEST))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 60 * MEGABYTES
        assert len(server.asked) == (1 if isinstance(refused.value, SummarizerRefusedError) else 2)


def test_a_connection_that_is_only_kept_open_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection with signs of life but no data is given up after a stated time."""
    monkeypatch.setattr(http_summarizer, "LONGEST_SILENCE", 0.2)
    with (
        OpenAIServer(Answer(raw=lambda: repeat(b": still here\n\n"))) as server,
        pytest.raises(SummarizerError, match=r"sent no data for 0\.2 seconds"),
    ):
        list(pieces(HttpSummarizer(server.url, "m", attempts=1), REQUEST))


@pytest.mark.parametrize("options", [{}, {"wbits": -15}, {"wbits": 31}], ids=["zlib", "bare", "gzip"])
def test_packed_answers_are_read(options: dict[str, Any]) -> None:
    """A packed answer is read, with a header or without."""
    packer = zlib.compressobj(9, **options)
    packed = packer.compress(event("Hel") + event("lo") + b"data: [DONE]\n\n") + packer.flush()
    encoding = "gzip" if options.get("wbits") == 31 else "deflate"
    answer = Answer(raw=lambda: iter([packed[:10], packed[10:]]), headers={"content-encoding": encoding})
    with OpenAIServer(answer) as server:
        assert list(pieces(HttpSummarizer(server.url, "m"), REQUEST)) == ["Hel", "lo"]


def words(_request: SummaryRequest) -> Iterator[str]:
    """Yield words without an end."""
    return repeat("word " * 1_000)


def nothing(_request: SummaryRequest) -> Iterator[str]:
    """Yield empty text without an end."""
    return repeat("")


def spending(_request: SummaryRequest) -> Iterator[Usage]:
    """Yield usage without an end."""
    return repeat(Usage(Tokens(1)))


async def later(_request: SummaryRequest) -> AsyncIterator[str]:
    """Yield words for ever, as an async generator."""
    while True:
        yield "word " * 1_000


@pytest.mark.parametrize("endless", [words, nothing, spending, later])
def test_a_summariser_of_ones_own_has_an_end(endless: Summarizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A summariser that yields for ever is closed at a stated length."""
    monkeypatch.setattr(summarizer, "MOST_PIECES", 10_000)

    with pytest.raises(SummarizerRefusedError, match="it may have no end"):
        for _ in pieces(endless, REQUEST):
            pass
    monkeypatch.setattr(summarizer, "LONGEST_SUMMARY", 50_000)
    monkeypatch.setattr(summarizer, "MOST_PIECES", 100)
    with pytest.raises(SummarizerRefusedError, match="it may have no end"):
        for _ in pieces(endless, REQUEST):
            pass


def test_a_compaction_without_an_end_changes_nothing(store: eventlog.Store) -> None:
    """A summary that does not end fails its compaction."""
    session = store.create_session(id="s")
    for turn in range(6):
        session.user(f"question {turn} " + "word " * 400)
        with session.assistant("p/m") as reply:
            reply.add_text("answer " * 400)
            reply.finish()
    for asks in (words, summarize_offline, words):
        before = ModelView.of(session).messages
        with ContextWindow(session, model="p/m", limits=Limits(60_000, output=8_000), summarizer=asks) as window:
            result = window.compact()
        after = ModelView.of(session).messages
        assert result.completed == (asks is summarize_offline)
        if asks is words:
            assert "SummarizerRefusedError" in result.reason or "no end" in result.reason
            assert list(after)[: len(before)] == list(before)
