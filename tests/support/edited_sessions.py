"""Sessions changed at random: edits, prunes, compactions, rollbacks, forks, other models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random

from eventlog import Session
from eventlog.errors import EventlogError
from eventlog.values import File
from projections import Transcript
from tests.support.compactions import compacted

CALLS = ("call_1", "list_dir:0", "toolu_vrtx_" + "y" * 40, "é")
TOOLS = ("ls", "docs.search/v2", "n" * 70, "1st")
FILES = (
    File("image/svg+xml", "data:image/svg+xml;base64,PHN2Zy8+", "a.svg"),
    File("image/png", "https://x.org/a.png"),
    File("image/png", "data:image/png;base64,AAAA"),
    File("image/png", "data:image/png;base64,/9j/AAAA"),
    File("audio/wav", "data:audio/wav;base64,AAAA"),
    File("application/pdf", "https://x.org/a.pdf"),
    File("text/csv", "data:text/csv,a%2Cb"),
    File("image/svg+xml", "https://x.org/a.svg"),
    File("image/*", "https://x.org/b.svg"),
    File("image/*", "https://x.org/c"),
    File("image/jpg", "https://x.org/d"),
    File("image/png", "https://x.org/a b.png"),
    File("image/png", "data:image/png;base64,cut [trimmed]"),
)
MODELS = ("openai/gpt-5", "anthropic/claude", "google/gemini-3-pro", "deepseek/deepseek-chat")


def about(item: str, **own: str) -> str:
    """Metadata of every provider."""
    signed = {"google": {"thoughtSignature": f"sig_{item}"}, "anthropic": {"signature": f"sig_{item}"}}
    return json.dumps({**signed, "openai": {"itemId": item, "reasoningEncryptedContent": f"enc_{item}", **own}})


def answer(session: Session, number: int, call: str = "call_1", tool: str = "ls", model: str = "openai/gpt-5") -> None:
    """A thought with its call, then a text: items of a provider with ids and signatures."""
    with session.assistant(model) as reply:
        thought = reply.stream_reasoning(metadata=about(f"rs_{number}"))
        thought.append(f"thought {number}")
        thought.end()
        reply.tool(
            tool,
            call_id=call,
            metadata=about(f"fc_{number}"),
            input={"n": number, "content": "word " * 90 * (number % 3)},
        ).succeed("out")
        reply.finish("tool-calls")
    with session.assistant(model) as reply:
        text = reply.stream_text(metadata=about(f"msg_{number}", phase="final_answer"))
        text.append(f"answer {number}")
        text.end()
        reply.finish()


def parts_of(session: Session, kind: str) -> list[str]:
    """The ids of the parts of a kind."""
    return [part.id for message in Transcript(session).oldest_first() for part in message.parts if part.kind == kind]


CHANGES: dict[str, Callable[[Session, str], object]] = {
    "redacted": lambda session, part: session.redact(part),
    "removed": lambda session, part: session.remove_part(part),
    "edited": lambda session, part: session.edit_part(part, "another thought"),
}
KINDS = ("ask", "answer", "file", "fail", *CHANGES, "prune", "clear", "compact", "rollback", "fork")
"""Kinds of changes that `edited` makes."""


def edited(session: Session, random: Random, steps: int) -> Iterator[tuple[str, Session]]:
    """Change a session `steps` times at random; yield the kind of each change and the session."""
    for number in range(steps):
        what = random.choice((*KINDS, "ask", "answer", "answer"))
        try:
            session = _change(session, random, what, number)
        except (EventlogError, IndexError):
            continue
        yield what, session


def _change(session: Session, random: Random, what: str, number: int) -> Session:
    if what == "ask":
        session.user(random.choice(("and?", " ", "\ud800")))
    elif what == "answer":
        answer(session, number % 7, random.choice(CALLS), random.choice(TOOLS), random.choice(MODELS))
    elif what == "file":
        session.user("look", files=[random.choice(FILES)])
    elif what == "fail":
        with session.assistant("x/y") as reply:
            reply.tool("bash", call_id="c", input={}).fail("")
    elif what == "prune":
        kind = random.choice(("tool", "reasoning", "file"))
        session.context.prune([random.choice(parts_of(session, kind))])
    elif what == "clear":
        session.context.prune([], arguments=[random.choice(parts_of(session, "tool"))])
    elif what == "compact":
        compacted(session)
    elif what == "rollback":
        session.rollback(to=max(3, session.version - random.randrange(1, 30)))
    elif what == "fork":
        session = session.fork()
    else:
        CHANGES[what](session, random.choice(parts_of(session, random.choice(("reasoning", "text", "tool")))))
    return session
