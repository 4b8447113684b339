"""A file that grows after something was done to its session here.

What leaves the conversation as it was, a rename, a note, a redaction, makes no fork; redacted
content never comes back; usage counts once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import eventlog
from eventlog import Limits, Session, Store, Todo, Tokens, Usage
from eventlog.codec.large_texts import INLINE, to_content
from eventlog.codec.redaction import contents
from eventlog.errors import DamagedError
from eventlog.importers import Report, import_file
from eventlog.importers.common.remainder import SourceRecord, emit
from projections import ModelView, Transcript
from tests.eventlog.importers import test_follow as following
from tests.eventlog.importers import test_histories as histories
from tests.eventlog.importers import test_opencode as opencode
from tests.eventlog.importers.test_follow import Following
from tests.eventlog.importers.test_histories import export, lines
from tests.eventlog.importers.test_reconcile import said, talk
from tests.support.export_sessions import jsonl

no_time = following.no_time

SECRET = "the secret word of the user is xylophone"
"""Text of a message that is redacted."""
LARGE = f"{SECRET} " * INLINE
"""Text that is stored as a body."""
ASKED = {"role": "user", "content": SECRET}
ANSWERED = {"role": "assistant", "content": "I keep the word to myself."}
MORE = {"role": "user", "content": "Then go on with the work, please."}
USAGE = {"input_tokens": 7, "output_tokens": 5}


def item(kind: str, **payload: Any) -> dict[str, Any]:
    """Make a line of Codex."""
    return {"timestamp": "2026-05-01T10:00:00.000Z", "type": kind, "payload": payload}


def codex(role: str, text: str) -> dict[str, Any]:
    """Make a message of Codex."""
    kind = "output_text" if role == "assistant" else "input_text"
    return item("response_item", type="message", role=role, content=[{"type": kind, "text": text}])


def document(count: int) -> bytes:
    """Make a session of Gemini CLI with some messages, written anew as it grows."""
    messages = [histories.GEMINI_MESSAGES[0] | {"content": SECRET}, *histories.GEMINI_MESSAGES[1:]]
    messages.append({"id": "4", "timestamp": "2026-05-01T10:00:09Z", "type": "gemini", "content": "It says little."})
    updated = f"2026-05-01T10:00:0{count}Z"
    return json.dumps({**histories.GEMINI, "lastUpdated": updated, "messages": messages[:count]}).encode()


def claude(text: str) -> list[dict[str, Any]]:
    """Make a session of Claude Code with usage, in which a user wrote the text."""
    records = talk(text, "I keep the word to myself.", "Then go on.", "It is done.")
    for record in records[1::2]:
        record["message"]["usage"] = USAGE
    return records


def said_in_pi() -> list[dict[str, Any]]:
    """Make a session of pi."""
    first = histories.PI[1] | {"message": {"role": "user", "content": [{"type": "text", "text": SECRET}]}}
    return [histories.PI[0], first, *histories.PI[2:9]]


def said_in_qwen() -> list[dict[str, Any]]:
    """Make a session of Qwen Code."""
    return [histories.QWEN[0] | {"message": {"role": "user", "parts": [{"text": SECRET}]}}, *histories.QWEN[1:]]


def said_in_chatgpt() -> list[dict[str, Any]]:
    """Make the nodes of a conversation of ChatGPT."""
    asked = histories.node("2", "1", "user", histories.texts(SECRET))
    return [*histories.CHATGPT[:2], asked, *histories.CHATGPT[3:]]


def said_in_opencode(count: int) -> bytes:
    """Make an export of OpenCode with some messages."""
    text = {"type": "text", "text": "I keep the word to myself.", "time": {"start": 21, "end": 22}}
    messages = [
        opencode.user("u", 10, {"type": "text", "text": SECRET}),
        opencode.assistant("v", 20, text, finish="stop"),
        opencode.user("w", 30, {"type": "text", "text": "Then go on."}),
        opencode.assistant("x", 40, text, finish="stop", parentID="w"),
    ]
    return json.dumps(opencode.export(*messages[:count], time={"created": 1, "updated": 900 + count})).encode()


class Grown(NamedTuple):
    """A file of a format, before and after it grew; before, no answer is open."""

    name: str
    before: bytes
    after: bytes


def of_lines(name: str, records: list[dict[str, Any]], count: int) -> Grown:
    """Make a file of lines that has some of its records before it grows."""
    return Grown(name, lines(*records[:count]), lines(*records))


def of_list(name: str, records: list[Any], count: int) -> Grown:
    """Make a file with a list of which some elements are there before it grows."""
    return Grown(name, json.dumps(records[:count]).encode(), json.dumps(records).encode())


AIDER = f"# aider chat started at 2026-03-01 09:30:00\n\n#### {SECRET}\n\nI keep it.\n\n#### Then go on.\n"
CODEX = [
    item("session_meta", id="codex-1", timestamp="2026-05-01T10:00:00.000Z", cwd="/w", cli_version="1", originator="c"),
    codex("user", SECRET),
    codex("assistant", "I keep the word to myself."),
    item("event_msg", type="token_count", info={"total_token_usage": USAGE, "last_token_usage": USAGE}),
    codex("user", "Then go on."),
    codex("assistant", "It is done."),
]
ROLES = [{"role": "Human", "content": SECRET}, {"role": "bot", "content": "I keep it."}, {"role": "human", "content": "Go on."}]  # fmt: skip
FILES: dict[str, Grown] = {
    "claude_code": of_lines("a.jsonl", claude(SECRET), 3),
    "claude_code, a large text": of_lines("a.jsonl", claude(LARGE), 3),
    "codex": of_lines("rollout.jsonl", CODEX, 5),
    "pi": of_lines("pi.jsonl", said_in_pi(), 6),
    "qwen_code": of_lines("q.jsonl", said_in_qwen(), 5),
    "gemini_cli": Grown("session-1.json", document(3), document(4)),
    "gemini_cli, lines": of_lines("session-2.jsonl", [histories.GEMINI, *json.loads(document(4))["messages"]], 4),
    "aider": Grown(".aider.chat.history.md", AIDER.encode(), f"{AIDER}\nIt is done.\n".encode()),
    "cline": of_list("ui_messages.json", [{**histories.CLINE[0], "text": SECRET}, *histories.CLINE[1:]], 11),
    "chatgpt": Grown(
        "conversations.json",
        json.dumps([export(said_in_chatgpt()[:8], "7")]).encode(),
        json.dumps([export(said_in_chatgpt(), "10")]).encode(),
    ),
    "opencode": Grown("export.json", said_in_opencode(3), said_in_opencode(4)),
    "openai_messages": of_list("chat.json", [ASKED, ANSWERED, MORE, ANSWERED], 3),
    "openai_messages, lines": of_lines("chat.jsonl", [ASKED, ANSWERED, MORE, ANSWERED], 3),
    "role_list": of_list("roles.json", [*ROLES, ROLES[1]], 3),
}
"""Formats that grow."""

TOUCHES: dict[str, Callable[[Store, Session], object]] = {
    "rename": lambda _, session: session.rename("Mine"),
    "note": lambda _, session: session.set_note("looked at"),
    "metadata": lambda _, session: session.set_metadata("k", "{}"),
    "archive": lambda _, session: session.archive(),
    "unarchive": lambda _, session: session.unarchive(),
    "value": lambda _, session: session.values.put("k", "v"),
    "name": lambda store, session: store.names.give(session.id, ("mine", "x")),
    "pin": lambda _, session: session.pin("a fact"),
    "todos": lambda _, session: session.set_todos([Todo("look", "pending")]),
    "settings": lambda _, session: session.set_settings(limits=Limits(context=10_000, output=1_000)),
    "usage": lambda _, session: session.record_usage(Usage(Tokens(1_000)), purpose="title"),
    "fact": lambda _, session: session.record_custom("mine", "{}"),
    "interrupt": lambda _, session: session.interrupt(),
    "redact": lambda _, session: redact(session),
}
"""Everything that leaves the conversation as it was."""


def redact(session: Session) -> None:
    """Redact the part that has the secret."""
    parts = [part for message in Transcript(session).oldest_first() for part in message.parts if part.kind == "text"]
    session.redact(next(part.id for part in parts if SECRET in part.text))


def tells(store: Store, *sessions: str) -> bool:
    """Whether an own event of these sessions, or of all, has the secret, titles left out."""
    return any(
        SECRET in store.text(content)
        for info in store.sessions()
        if info.id in sessions or not sessions
        for found in store.session(info.id).events(after=info.forked_at or 0)
        if not isinstance(found.event, (eventlog.events.SessionStarted, eventlog.events.SessionRenamed))
        for content in contents(found.event)
    )


def shown(store: Store, session: str) -> list[object]:
    """Return what a model is shown of a session, without texts."""
    messages = ModelView.of(store.session(session)).messages
    return [(message.role, message.source, len(message.parts)) for message in messages]


def given_back(store: Store, session: str) -> list[SourceRecord]:
    """Return the records of a session's file, without what stands around them."""
    return [source for source in emit([store.session(session)], store.text) if source.line]


class Ways:
    """Two ways of importing a file again: by a call, or by a program that follows it."""

    def __init__(self, store: Store, path: Path, *, follows: bool) -> None:
        self.store = store
        self.path = path
        self.following = Following(store, path) if follows else None

    def put(self, data: bytes) -> Report:
        """Write the file, in its place if it only grows, and import it."""
        if self.path.exists() and data.startswith(self.path.read_bytes()):
            with self.path.open("ab") as file:
                file.write(data[self.path.stat().st_size :])
        else:
            self.path.unlink(missing_ok=True)
            self.path.write_bytes(data)
        if self.following is None:
            return import_file(self.store, self.path)
        (report,) = self.following.reports()
        return report


EACH = pytest.mark.parametrize("format", FILES)
WAYS = pytest.mark.parametrize("follows", [False, True], ids=["import", "follow"])


@EACH
@WAYS
def test_what_is_no_part_of_a_conversation_makes_no_fork(tmp_path: Path, format: str, *, follows: bool) -> None:
    """A session that was touched goes on with its file, in each format and after each touch."""
    grown, path = FILES[format], tmp_path / FILES[format].name
    with eventlog.open("memory:") as fresh:
        (name,) = Ways(fresh, path, follows=False).put(grown.after).sessions
        expected, tokens, source = shown(fresh, name), fresh.info(name).tokens, given_back(fresh, name)
    for touch, act in TOUCHES.items():
        path.unlink()
        with eventlog.open("memory:") as store:
            way = Ways(store, path, follows=follows)
            assert way.put(grown.before).sessions == [name]
            act(store, store.session(name))
            report = way.put(grown.after)
            assert (report.sessions, report.events > 0) == ([name], True), touch
            assert [info.id for info in store.sessions()] == [name], touch
            if touch not in {"pin", "todos", "redact"}:  # which the view has, too
                assert shown(store, name) == expected, touch
            assert store.info(name).tokens == tokens + (1_000 if touch == "usage" else 0), touch
            assert given_back(store, name) == source, touch
            if touch == "rename" and format != "pi":  # whose file has a new title
                assert store.info(name).title == "Mine"
            assert import_file(store, path).events == 0, touch


@EACH
@WAYS
def test_redacted_content_does_not_come_back(tmp_path: Path, format: str, *, follows: bool) -> None:
    """A file that grows brings nothing of a redacted part, also when it has been scrubbed."""
    grown = FILES[format]
    with eventlog.open(tmp_path / "store") as store:
        way = Ways(store, tmp_path / grown.name, follows=follows)
        (name,) = way.put(grown.before).sessions
        assert tells(store)
        redact(store.session(name))
        store.scrub()
        way.put(grown.after)
        assert [info.id for info in store.sessions()] == [name]
        assert not tells(store)
        assert import_file(store, way.path).events == 0
        with pytest.raises(DamagedError):
            store.text(to_content(LARGE, {}))  # no event has the body, nor has the store


@pytest.mark.parametrize("text", [SECRET, LARGE], ids=["short", "large"])
@pytest.mark.parametrize("scrubs", [False, True], ids=["redacted", "scrubbed"])
def test_a_fork_has_the_part_redacted_as_well(tmp_path: Path, text: str, *, scrubs: bool) -> None:
    """Nothing of a redacted part comes back with a file that diverges before it, or at once."""
    records = [*talk("Hello.", "Hello to you."), *claude(text)]
    for number, record in enumerate(records, start=1):
        record |= {"uuid": f"r{number}", "parentUuid": f"r{number - 1}" if number > 1 else None}
        record["message"] |= {"id": f"msg_{number}"} if record["type"] == "assistant" else {}
    edited = [{**records[0], "userType": "another"}, *records[1:]]
    moved = [{**records[0], "cwd": "/elsewhere"}, *records[1:]]
    for changed in (edited, moved):
        with eventlog.open(tmp_path / str(len(list(tmp_path.iterdir())))) as store:
            way = Ways(store, tmp_path / "a.jsonl", follows=False)
            way.put(lines(*records))
            redact(store.session("s"))
            if scrubs:
                store.scrub()
            report = way.put(lines(*changed))
            assert report.sessions == ["s~2"]
            assert tells(store, "s") != scrubs
            assert not tells(store, "s~2")
            assert store.info("s~2").events > 20
            store.scrub()
            assert not tells(store)


def test_what_comes_later_of_a_redacted_part_is_not_stored(tmp_path: Path) -> None:
    """The result of a call that was redacted while it ran is not stored when it comes."""
    records = talk("Which word is it?", "", "", "It is done.")
    records[1]["message"]["content"] = [{"type": "tool_use", "id": "call", "name": "ask", "input": {"of": "the user"}}]
    result = {"type": "tool_result", "tool_use_id": "call", "content": SECRET}
    records[2]["message"]["content"] = [result]
    with eventlog.open("memory:") as store:
        way = Ways(store, tmp_path / "a.jsonl", follows=False)
        way.put(lines(*records[:2]))
        session = store.session("s")
        session.redact(next(p.id for m in Transcript(session).oldest_first() for p in m.parts if p.kind == "tool"))
        assert way.put(lines(*records)).sessions == ["s"]
        assert not tells(store)


def test_a_session_that_its_user_continued_becomes_a_fork(tmp_path: Path) -> None:
    """A session with messages, rollbacks or removals of its own stays as it is."""
    acts: list[Callable[[Session], object]] = [
        lambda session: session.user("said here"),
        lambda session: session.rollback(session.version - 2),
        lambda session: session.remove_message(next(iter(Transcript(session).oldest_first())).id),
    ]
    for act in acts:
        with eventlog.open("memory:") as store:
            grown, path = FILES["codex"], tmp_path / "rollout.jsonl"
            path.unlink(missing_ok=True)
            way = Ways(store, path, follows=False)
            (name,) = way.put(grown.before).sessions
            store.session(name).set_note("mine")
            act(store.session(name))
            version = store.info(name).version
            assert way.put(grown.after).sessions == [f"{name}~2"]
            assert store.info(name).version == version
            assert sum(info.calls for info in store.sessions()) == 1
            assert import_file(store, path).events == 0


def test_an_older_document_adds_nothing(tmp_path: Path) -> None:
    """A document whose last answer was completed since makes no fork; another answer does."""
    whole = json.loads(document(4))
    answer = {key: value for key, value in whole["messages"][1].items() if key != "toolCalls"}
    older = {**whole, "lastUpdated": whole["startTime"], "messages": [whole["messages"][0], answer]}
    other = {**older, "messages": [whole["messages"][0], {**answer, "content": "Something else."}]}
    with eventlog.open("memory:") as store:
        way = Ways(store, tmp_path / "session-1.json", follows=False)
        (name,) = way.put(document(4)).sessions
        info = store.info(name)
        store.session(name).rename("Mine")
        report = way.put(json.dumps(older).encode())
        assert (report.sessions, report.events) == ([name], 0)
        assert [(one.id, one.tokens) for one in store.sessions()] == [(name, info.tokens)]
        assert way.put(json.dumps(other).encode()).sessions == [f"{name}~2"]


def test_event_jsonl_brings_no_redacted_content_back(tmp_path: Path) -> None:
    """A session that came as event JSONL, was redacted and scrubbed: its file grows."""
    with eventlog.open(tmp_path / "store") as store, eventlog.open("memory:") as source:
        session = source.create_session(id="s")
        session.user(SECRET)
        session.record_usage(Usage(Tokens(5)))
        way = Ways(store, tmp_path / "events.jsonl", follows=False)
        way.put(jsonl(session))
        redact(store.session("s"))
        store.scrub()
        session.user("Then go on.")
        way.put(jsonl(session))
        assert not tells(store)
        assert sum(info.tokens for info in store.sessions()) == 5
        assert import_file(store, way.path).events == 0


def test_large_texts_behind_a_redacted_part_are_stored(tmp_path: Path) -> None:
    """Of many large texts that come after a redaction, in several appends, each can be read."""
    records = talk(LARGE, *(f"{number} " * INLINE for number in range(300)))
    with eventlog.open(tmp_path / "store") as store:
        way = Ways(store, tmp_path / "a.jsonl", follows=False)
        way.put(lines(*records[:3]))
        redact(store.session("s"))
        store.scrub()
        way.put(lines(*records))
        assert said(store, "s")[1:] == [record["message"]["content"][0]["text"] for record in records[1:]]
