"""Summaries in the background whose writers wait until a test lets them go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from eventlog import events as ev
from eventlog.session.session import Session
from eventlog.session.status import is_run
from eventlog.values import Limits, Tokens, Usage
from projections import ModelView
from projections.loop import CallModel, ContextWindow
from projections.loop.context.summary_attempt import summaries_id
from projections.view.neutral import Text
from projections.window import CompactionPolicy, ContextPolicy, PrunePolicy, SummaryRequest
from tests.support.window_loop import MODEL, sections

LIMITS = Limits(context=5_000, output=1_000)
"""4,000 usable tokens."""
EAGER = ContextPolicy(
    compaction=CompactionPolicy(preserve_recent_tokens=60, background_share=0.0),
    prune=PrunePolicy(enabled=False),
)
"""A summary is begun as soon as there is something to cover."""
PATIENCE = 60
"""Seconds after which a test is taken to hang."""


class Writer:
    """A summariser that waits for `go`, or until a loop waits; it raises `error` once."""

    def __init__(self, error: Exception | None = None) -> None:
        self.go = threading.Event()
        self.error = error
        self.requests: list[SummaryRequest] = []
        self.windows: list[ContextWindow] = []

    def __call__(self, request: SummaryRequest) -> Iterator[str | Usage]:
        """Answer in pieces, with a cost."""
        self.requests.append(request)
        number = len(self.requests)
        end = time.monotonic() + PATIENCE
        while not self.go.wait(0.002) and not (self.windows and self.windows[-1].waits) and time.monotonic() < end:
            yield " "  # a piece is where the writer looks for a stop
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        yield f"summary {number}\n"
        yield sections()
        yield Usage(Tokens(100, 10))

    @property
    def waits(self) -> int:
        """Steps that have waited for it."""
        return sum(window.waits for window in self.windows)

    def window(self, session: Session, policy: ContextPolicy = EAGER, **options: Any) -> ContextWindow:
        """Return a window with this summariser."""
        options = {"environment": {}, "limits": LIMITS, "background": True, **options}
        window = ContextWindow(session, policy, model=MODEL, summarizer=self, **options)
        self.windows.append(window)
        return window


def subsession(session: Session) -> Session:
    """The sub-session that writes the summaries."""
    return session.store.session(summaries_id(session.id))


def is_writing(session: Session) -> bool:
    """Whether a summary is on its way."""
    head = session.store.log.head(summaries_id(session.id))
    return head is not None and is_run(session.store.registry, head)


def until_written(session: Session) -> None:
    """Wait until no summary is on its way."""
    end = time.monotonic() + PATIENCE
    while is_writing(session):
        assert time.monotonic() < end, "the summary is not finished"
        time.sleep(0.002)


def until_asked(writer: Writer, times: int = 1) -> None:
    """Wait until the summariser was asked."""
    end = time.monotonic() + PATIENCE
    while len(writer.requests) < times:
        assert time.monotonic() < end, "no summary was asked for"
        time.sleep(0.002)


def answer(window: ContextWindow, text: str, most: int = 20) -> list[str]:
    """Run the loop to its end, with `text` for every answer; return the steps' names."""
    steps: list[str] = []
    while step := window.next_step():
        steps.append(type(step).__name__)
        assert len(steps) < most, steps
        if isinstance(step, CallModel):
            reply, _ = window.begin(step)
            reply.add_text(text)
            reply.end_step("stop")
            reply.finish("stop")
        else:
            window.perform(step)
    return steps


def turn(session: Session, number: int, window: Callable[[], ContextWindow], size: int) -> list[str]:
    """Ask and answer one question, `size` characters each, in a window of its own."""
    filler = "word " * size
    with session.turn(f"question{number} {filler}"[:size], f"turn {number}"), window() as opened:
        return answer(opened, f"answer{number} {filler}"[:size])


def talk(session: Session, first: int, last: int) -> None:
    """Questions and answers `first .. last - 1`, each with a word of its own."""
    for number in range(first, last):
        session.user(f"question{number} " + "about a long matter " * 8)
        with session.assistant(MODEL) as reply:
            reply.add_text(f"answer{number} " + "which is long, too " * 8)
            reply.finish("stop")


def begun(session: Session, writer: Writer, policy: ContextPolicy = EAGER) -> None:
    """Let a window begin a summary of a few turns, and answer the newest question."""
    talk(session, 0, 4)
    session.user("question4 which is newest")
    with writer.window(session, policy) as window:
        answer(window, "answer4 is short")
    until_asked(writer)


def shown(session: Session) -> str:
    """All texts of the view."""
    texts = [
        part.text for message in ModelView.of(session).messages for part in message.parts if isinstance(part, Text)
    ]
    return "\n".join(texts)


def told(request: SummaryRequest) -> str:
    """All texts that a summary was asked for."""
    return "\n".join(part.text for message in request.messages for part in message.parts if isinstance(part, Text))


def outcomes(session: Session) -> list[str]:
    """How the compactions of a session ended, in order: "" for a completed one."""
    ends = (span.item for span in session.reader.spans())
    return [
        "" if isinstance(item, ev.CompactionCompleted) else item.reason
        for item in ends
        if isinstance(item, (ev.CompactionCompleted, ev.CompactionFailed))
    ]
