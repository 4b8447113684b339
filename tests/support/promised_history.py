"""Write a history, say what was acknowledged, and die: `… ADDRESS KEYS PHASE`.

Phase 1 makes sessions of every kind and closes the store; phase 2 goes on, prints what the caller
has to find afterwards as one line of JSON, and kills itself with everything open.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import eventlog
from eventlog import Limits, Session, Store
from projections import ModelView, summarize_offline
from projections.loop import ContextWindow

SECRET = "the name of the king is Rumpelstiltskin"
SHORT, LONG = 6, 60
"""Turns of the two compacted sessions."""


def answered(session: Session, question: str, answer: str) -> None:
    """Add a question, and an answer whose step records its view."""
    session.user(question)
    view = ModelView.of(session)
    with session.assistant("a/b", view=view) as reply:
        reply.step(view_version=view.version, view_digest=view.digest, render='{"renderer":"neutral/1"}')
        text = reply.stream_text()
        for word in answer.split():
            text.append(f"{word} ")
        reply.finish()


def first(store: Store) -> None:
    """Make a session that was compacted early, one that was late, and one with a secret."""
    for name, turns in (("short", SHORT), ("undone", SHORT), ("long", LONG)):
        session = store.create_session(id=name)
        for turn in range(turns):
            answered(session, f"question {turn} " + "word " * 100, "answer " * 50)
        session.values.put("whole", ModelView.of(session).digest.hex())
        with ContextWindow(session, model="a/b", limits=Limits(8_000, 2_000), summarizer=summarize_offline) as window:
            window.compact()
    secret = store.create_session(id="secret")
    secret.user(SECRET)
    gone = store.create_session(id="gone", title=SECRET)
    answered(gone, "who?", SECRET)


def second(store: Store) -> dict[str, Any]:
    """Go on; return what was acknowledged."""
    session = store.create_session(id="talk")
    said: list[str] = []
    for turn in range(5):
        answered(session, f"q{turn}", f"answer {turn}")
        with session.pipeline():
            said += [session.user(f"together {turn} {number}") for number in range(3)]
    whole = ModelView.of(session)
    rolled = said[6]
    session.rollback(before=rolled)
    return {
        "said": said,
        "version": session.version,
        "whole": whole.digest.hex(),
        "rolled": ModelView.of(session).digest.hex(),
        "repeated": store.session("secret").user("again", request_id="again"),
        "head": store.head().text(),
    }


def main(address: str, keys: str, phase: str) -> None:
    """Run a phase."""
    store = eventlog.open(address, keys=keys or None)
    if phase == "1":
        first(store)
        store.close()
        return
    print(json.dumps(second(store)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
