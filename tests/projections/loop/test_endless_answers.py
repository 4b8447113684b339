"""Endless summaries are bounded; the old boundary stays in force."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import repeat

import pytest

import eventlog
from eventlog.errors import SummarizerRefusedError
from eventlog.values import Limits, Tokens, Usage
from projections import ModelView
from projections.loop import ContextWindow
from projections.window.compaction import summarizer
from projections.window.compaction.offline import summarize_offline
from projections.window.compaction.request import SummaryRequest
from projections.window.compaction.summarizer import Summarizer, pieces

REQUEST = SummaryRequest("Write notes.", (), "Now the notes.", None)


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
