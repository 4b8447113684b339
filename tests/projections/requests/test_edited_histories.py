"""Requests keep each provider's rules after any change of the history."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest

from eventlog import Session, Store
from eventlog.errors import EventlogError
from eventlog.values import File
from projections import ModelView, Transcript
from projections.requests.anthropic import anthropic_request
from projections.requests.gemini import gemini_request
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from tests.support.provider_forms import check

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
)


def about(item: str, **own: str) -> str:
    """Metadata of every provider."""
    signed = {"google": {"thoughtSignature": f"sig_{item}"}, "anthropic": {"signature": f"sig_{item}"}}
    return json.dumps({**signed, "openai": {"itemId": item, "reasoningEncryptedContent": f"enc_{item}", **own}})


def answer(session: Session, number: int, call: str = "call_1", tool: str = "ls") -> None:
    """A thought with its call, then a text: items of a provider with ids and signatures."""
    with session.assistant("openai/gpt-5") as reply:
        thought = reply.stream_reasoning(metadata=about(f"rs_{number}"))
        thought.append(f"thought {number}")
        thought.end()
        reply.tool(tool, call_id=call, metadata=about(f"fc_{number}"), input={"n": number}).succeed("out")
        reply.finish("tool-calls")
    with session.assistant("openai/gpt-5") as reply:
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


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_thought_takes_along_what_hangs_on_it(store: Store, change: str) -> None:
    """An edited, removed or redacted thought loses signature and cipher, and its call the id."""
    session = store.create_session()
    session.user("go")
    answer(session, 1)
    before = json.dumps(responses_request(ModelView.of(session).messages))
    assert all(word in before for word in ("rs_1", "enc_rs_1", "fc_1", "final_answer"))
    CHANGES[change](session, parts_of(session, "reasoning")[0])
    messages = ModelView.of(session).messages
    check(messages)
    forms = [responses_request(messages), anthropic_request(messages), gemini_request(messages)]
    made = json.dumps([*forms, chat_messages(messages)])
    assert not any(word in made for word in ("rs_1", '"fc_1"', "thought 1"))
    assert "final_answer" in made
    session.rollback(to=1)
    assert len(ModelView.of(session)) == 0


def test_a_name_of_a_tool_is_the_same_everywhere(store: Store) -> None:
    """A tool has one name in a request, and two long names stay different."""
    session = store.create_session()
    session.user("go")
    for number, tool in enumerate(("a.b", "n" * 70, "a.b", "n" * 71)):
        answer(session, number, tool=tool)
    calls = [
        call for message in chat_messages(ModelView.of(session).messages) for call in message.get("tool_calls", ())
    ]
    names = [call["function"]["name"] for call in calls]
    assert names[0] == names[2] == "a_b"
    assert len({*names}) == 3


def test_random_changes_keep_the_rules(store: Store) -> None:
    """Edits, removals, redactions, rollbacks and forks leave requests that all providers take."""
    done: set[str] = set()
    for seed in range(12):
        done |= changed(store, Random(seed))
    assert done == {"ask", "answer", "file", "fail", *CHANGES, "rollback", "fork"}


def changed(store: Store, random: Random) -> set[str]:
    """Change a session at random, check each view, and return the kinds of changes made."""
    session = store.create_session()
    session.set_system_prompt("header", "rest")
    done: set[str] = set()
    for number in range(40):
        what = random.choice(("ask", "ask", "answer", "answer", "answer", "file", "fail", *CHANGES, "rollback", "fork"))
        try:
            if what == "ask":
                session.user(random.choice(("and?", " ", "\ud800")))
            elif what == "answer":
                answer(session, number % 7, random.choice(CALLS), random.choice(TOOLS))
            elif what == "file":
                session.user("look", files=[random.choice(FILES)])
            elif what == "fail":
                with session.assistant("x/y") as reply:
                    reply.tool("bash", call_id="c", input={}).fail("")
            elif what == "rollback":
                session.rollback(to=max(3, session.version - random.randrange(1, 30)))
            elif what == "fork":
                session = session.fork()
            else:
                CHANGES[what](session, random.choice(parts_of(session, random.choice(("reasoning", "text", "tool")))))
        except (EventlogError, IndexError):
            continue
        done.add(what)
        view = ModelView.of(session)
        check(view.messages, view.system)
    return done
