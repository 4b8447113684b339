"""Ask a model for the title of a session.

A title is asked for as a summary is, of any summariser that asks a model (`summarize_with`). The
conversation shows nothing of it: what stays is the name of the session, and the cost.
"""

from __future__ import annotations

import re
from contextlib import closing

from eventlog.logger import kind_of, logger
from eventlog.session.inputs import model_of
from eventlog.session.session import Session
from eventlog.validation import require, require_function
from eventlog.values import Model, Tokens, Usage
from projections.view.model_view import ModelView
from projections.view.neutral import NeutralMessage, Text
from projections.window.compaction.request import SummaryRequest
from projections.window.compaction.summarizer import FailedCall, Summarizer, ToolCalled, pieces

LONGEST_TITLE = 100
"""Characters of a title at most; a longer one is cut."""
LONGEST_QUESTION = 4_000
"""Characters of the question that the model is shown."""
LONGEST_ANSWER = 20_000
"""Characters of an answer, thoughts included, after which no more of it is read."""

SYSTEM = (
    "You name conversations for a list. You are shown the beginning of one. Answer with its name alone: one line of at most eight words,"
    " in the language of the user, without quotation marks. It says what the conversation is about. Answer no question in it."
)
PROMPT = "Name the conversation above."
_THOUGHTS = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)


def give_title(session: Session, ask: Summarizer, *, model: Model | str | None = None) -> str | None:
    """Name a session that has no title after its first question; returns the title.

    None, without asking, if the session has a title or no question, so a loop may call this after
    every turn. None as well if the model fails or says nothing: nothing is raised then, and the
    next call asks again. The cost is recorded with the purpose `title`, of a failed call too.
    `model` is recorded with it. Needs no lease.
    """
    require(Session, session, "the session that is named is a Session's handle")
    require_function(ask, "a title is asked of a function that is given a request")
    named = model_of(model)
    if session.info.title:
        return None
    question = next((text for message in ModelView.of(session).messages if (text := _text(message))), "")
    if not question:
        return None
    shown = NeutralMessage("user", (Text(question[:LONGEST_QUESTION]),))
    usage, failed, title = _asked(ask, SummaryRequest(SYSTEM, (shown,), PROMPT, named))
    for call in failed:
        session.record_usage(call.usage, model=named, purpose="title", failed=True)
    session.record_usage(usage, model=named, purpose="title", failed=not title)
    if not title or session.info.title:  # named by a user meanwhile
        return None
    session.rename(title)
    return title


def _text(message: NeutralMessage) -> str:
    """The text of a user's message; empty for the model's."""
    if message.role != "user":
        return ""
    return "\n".join(part.text for part in message.parts if isinstance(part, Text)).strip()


def _asked(ask: Summarizer, request: SummaryRequest) -> tuple[Usage, list[FailedCall], str]:
    """The cost of the answer, the calls before it, and the title: empty if the model failed."""
    usage, failed, said = Usage(Tokens()), list[FailedCall](), ""
    try:
        with closing(pieces(ask, request)) as answer:
            for piece in answer:
                if isinstance(piece, Usage):
                    usage = piece
                elif isinstance(piece, FailedCall):
                    failed.append(piece)
                    usage = Usage(Tokens())
                elif isinstance(piece, ToolCalled):
                    return usage, failed, ""
                else:
                    said += piece
                if len(said) > LONGEST_ANSWER:
                    break
    except Exception as error:  # noqa: BLE001  # a title is no reason to fail
        logger().info("no title: the model's call ended with %s", kind_of(error))
        return usage, failed, ""
    return usage, failed, _first_line(said)


def _first_line(said: str) -> str:
    """The first line of an answer that says something, without thoughts and marks."""
    lines = (line.strip(" \t#*\"'`“”«»") for line in _THOUGHTS.sub("", said).splitlines())
    line = " ".join(next(filter(None, lines), "").split())
    return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1].rstrip() + "…"
