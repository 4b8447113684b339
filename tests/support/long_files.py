"""Files of any size in each format that is imported, of many small records."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import eventlog
from projections.exports.jsonl import jsonl_lines

Write = Callable[[Path, int], Path]
"""Writes a file of about so many bytes to a folder, and returns its path."""

SAID = "words that somebody says, " * 38
STAMP = "2026-01-01T00:00:00.000Z"


def _text(number: int) -> str:
    return f"{number} {SAID}"


def _until(pieces: Iterator[str], size: int) -> Iterator[str]:
    """Yield pieces of a file until it is as large."""
    written = 0
    for piece in pieces:
        yield piece
        written += len(piece)
        if written >= size:
            return


def _lines(name: str, records: Callable[[], Iterator[Any]], end: str = "\n") -> Write:
    """Return what writes a record a line."""

    def write(folder: Path, size: int) -> Path:
        path = folder / name
        with path.open("w") as file:
            file.writelines(_until((json.dumps(record) + end for record in records()), size))
        return path

    return write


def _document(name: str, head: str, records: Callable[[], Iterator[Any]], tail: str) -> Write:
    """Return what writes a document around an array of records."""

    def write(folder: Path, size: int) -> Path:
        path = folder / name
        with path.open("w") as file:
            file.write(head)
            for number, piece in enumerate(_until(map(json.dumps, records()), size)):
                file.write(f",{piece}" if number else piece)
            file.write(tail)
        return path

    return write


def _roles(user: str, assistant: str) -> Callable[[], Iterator[Any]]:
    return lambda: ({"role": assistant if number % 2 else user, "content": _text(number)} for number in count())


def _sessions() -> Iterator[Any]:
    roles = ("user", "assistant")
    for number in count():
        yield {"messages": [{"role": roles[place % 2], "content": f"{number} {_text(place)}"} for place in range(8)]}


def _claude() -> Iterator[Any]:
    for number in count():
        shared = {"sessionId": "s", "parentUuid": f"u{number - 1}" if number else None, "timestamp": STAMP}
        content: Any = _text(number)
        if number % 2:
            content = [{"type": "text", "text": content}]
        kind = ("user", "assistant")[number % 2]
        message = {"role": kind, "content": content, "id": f"m{number}"}
        yield {"type": kind, "uuid": f"u{number}", "message": message, **shared}


def _codex() -> Iterator[Any]:
    yield {"timestamp": STAMP, "type": "session_meta", "payload": {"id": "s", "cwd": "/p"}}
    for number in count():
        role, kind = (("user", "input_text"), ("assistant", "output_text"))[number % 2]
        item = {"type": "message", "role": role, "content": [{"type": kind, "text": _text(number)}]}
        yield {"timestamp": STAMP, "type": "response_item", "payload": item}


def _anthropic() -> Iterator[Any]:
    for number in count():
        yield {"role": "user", "content": _text(number)}
        call = {"type": "tool_use", "id": f"c{number}", "name": "t", "input": {"a": _text(number)}}
        yield {"role": "assistant", "content": [call]}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": _text(number)}
        yield {"role": "user", "content": [result]}


def _responses() -> Iterator[Any]:
    for number in count():
        yield {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _text(number)}]}
        yield {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": '{"a": 1}'}
        yield {"type": "function_call_output", "call_id": f"c{number}", "output": _text(number)}


def _gemini() -> Iterator[Any]:
    for number in count():
        yield {"id": f"u{number}", "timestamp": STAMP, "type": "user", "content": _text(number)}
        yield {"id": f"a{number}", "timestamp": STAMP, "type": "gemini", "content": _text(number), "model": "g"}


def _gemini_lines() -> Iterator[Any]:
    yield {"sessionId": "s", "projectHash": "h", "startTime": STAMP}
    yield from _gemini()


def _qwen() -> Iterator[Any]:
    for number in count():
        kind, role = (("user", "user"), ("assistant", "model"))[number % 2]
        yield {
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": "q",
            "timestamp": STAMP,
            "type": kind,
            "message": {"role": role, "parts": [{"text": _text(number)}]},
        }


def _pi() -> Iterator[Any]:
    yield {"type": "session", "id": "p", "timestamp": STAMP, "cwd": "/p"}
    for number in count():
        call = {"type": "toolCall", "id": f"c{number}", "name": "b", "arguments": {"x": _text(number)}}
        answer = {"role": "assistant", "provider": "p", "model": "m", "content": [call], "stopReason": "toolUse"}
        result = {
            "role": "toolResult",
            "toolCallId": f"c{number}",
            "content": [{"type": "text", "text": _text(number)}],
        }
        behind = f"r{number - 1}" if number else None
        yield {"type": "message", "id": f"a{number}", "parentId": behind, "timestamp": STAMP, "message": answer}
        yield {"type": "message", "id": f"r{number}", "parentId": f"a{number}", "timestamp": STAMP, "message": result}


def _cline() -> Iterator[Any]:
    for number in count():
        yield {"ts": 3 * number, "type": "say", "say": "user_feedback", "text": _text(number)}
        yield {"ts": 3 * number + 1, "type": "say", "say": "api_req_started", "text": '{"tokensIn": 1}'}
        yield {"ts": 3 * number + 2, "type": "say", "say": "text", "text": _text(number)}


def _chatgpt() -> Iterator[Any]:
    for number in count():
        mapping: dict[str, Any] = {}
        for place in range(8):
            author = {"role": ("user", "assistant")[place % 2]}
            message = {"author": author, "content": {"content_type": "text", "parts": [_text(place)]}}
            mapping[f"n{place}"] = {"id": f"n{place}", "parent": f"n{place - 1}" if place else None, "message": message}
        yield {"title": "t", "mapping": mapping, "current_node": "n7", "conversation_id": f"c{number}"}


def _aider(folder: Path, size: int) -> Path:
    path = folder / "history.md"
    turns = (f"#### {number} asks\n\n{_text(number)}\n\n> Applied edit to x.py  \n\n" for number in count())
    with path.open("w") as file:
        file.write("\n# aider chat started at 2026-01-01 10:00:00\n\n")
        file.writelines(_until(turns, size))
    return path


_INFO = {"id": "ses_1", "projectID": "p", "directory": "/p", "title": "t", "time": {"created": 1}}


def _opencode() -> Iterator[Any]:
    for number in count():
        own = {"sessionID": "ses_1", "messageID": f"msg_{number:09}"}
        info: dict[str, Any] = {"id": own["messageID"], "sessionID": "ses_1", "role": "user", "agent": "build"}
        info |= {"time": {"created": number}, "model": {"providerID": "p", "modelID": "m"}}
        yield {"info": info, "parts": [{"id": f"prt_{number:09}", "type": "text", "text": _text(number), **own}]}


def _opencode_storage(folder: Path, size: int) -> Path:
    path = folder / "storage" / "session" / "p" / "ses_1.json"
    for place in ("session/p", "message/ses_1", "part"):
        (folder / "storage" / place).mkdir(parents=True)
    path.write_text(json.dumps(_INFO))
    for message in islice(_opencode(), size // len(json.dumps(next(_opencode())))):
        name = message["info"]["id"]
        (folder / "storage" / "message" / "ses_1" / f"{name}.json").write_text(json.dumps(message["info"]))
        (folder / "storage" / "part" / name).mkdir()
        (folder / "storage" / "part" / name / "prt.json").write_text(json.dumps(message["parts"][0]))
    return path


def _opencode_db(folder: Path, size: int) -> Path:
    path = folder / "opencode.db"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE session (id, project_id, directory, title, time_created)")
    database.execute("CREATE TABLE message (id, session_id, time_created, data)")
    database.execute("CREATE TABLE part (id, message_id, data)")
    database.execute("CREATE INDEX of_session ON message (session_id, time_created, id)")
    database.execute("CREATE INDEX of_message ON part (message_id, id)")
    database.execute("INSERT INTO session VALUES ('ses_1', 'p', '/p', 't', 1)")
    for message in islice(_opencode(), size // len(json.dumps(next(_opencode())))):
        info, (part,) = message["info"], message["parts"]
        row = (info["id"], "ses_1", info["time"]["created"], json.dumps(info))
        database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
        database.execute("INSERT INTO part VALUES (?, ?, ?)", (part["id"], info["id"], json.dumps(part)))
    database.commit()
    database.close()
    return path


def _event_jsonl(folder: Path, size: int) -> Path:
    path = folder / "events.jsonl"
    with eventlog.open("memory:") as store:
        session = store.create_session()
        for number in range(size // len(_text(0)) + 1):
            session.user(_text(number))
        with path.open("wb") as file:
            file.writelines(jsonl_lines(session))
    return path


def _stream(records: Callable[[int], list[Any]]) -> Write:
    """Return what writes the answers of a recorded stream."""

    def write(folder: Path, size: int) -> Path:
        path = folder / "stream.sse"
        events = (f"data: {json.dumps(record)}\n\n" for number in count() for record in records(number))
        with path.open("w") as file:
            file.writelines(_until(events, size))
        return path

    return write


def _anthropic_answer(number: int) -> list[Any]:
    message: Any = {
        "id": f"m{number}",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "c",
        "usage": {},
    }
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": _text(number)}}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[delta] * 4,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    ]


def _chat_answer(number: int) -> list[Any]:
    def chunk(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": f"x{number}", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}

    return [*[chunk({"content": _text(number)}, None)] * 4, chunk({}, "stop")]


def _responses_answer(number: int) -> list[Any]:
    place = {"item_id": f"i{number}", "output_index": 0, "content_index": 0}
    response: Any = {"id": f"r{number}", "object": "response", "model": "m", "output": []}
    return [
        {"type": "response.created", "response": response},
        *[{"type": "response.output_text.delta", "delta": _text(number), **place}] * 4,
        {"type": "response.completed", "response": response},
    ]


def _gemini_answer(number: int) -> list[Any]:
    def piece(reason: dict[str, str]) -> dict[str, Any]:
        content = {"role": "model", "parts": [{"text": _text(number)}]}
        return {"responseId": f"r{number}", "candidates": [{"content": content, **reason}]}

    return [*[piece({})] * 4, piece({"finishReason": "STOP"})]


FORMS: dict[str, Write] = {
    "aider": _aider,
    "anthropic_messages": _document("a.json", '{"model": "m", "messages": [', _anthropic, "]}"),
    "anthropic_sse": _stream(_anthropic_answer),
    "chatgpt": _document("conversations.json", "[", _chatgpt, "]"),
    "claude_code": _lines("c.jsonl", _claude),
    "cline": _document("ui_messages.json", "[", _cline, "]"),
    "codex": _lines("rollout.jsonl", _codex),
    "event_jsonl": _event_jsonl,
    "gemini_cli": _document("s.json", '{"sessionId": "s", "projectHash": "h", "messages": [', _gemini, "]}"),
    "gemini_cli, lines": _lines("s.jsonl", _gemini_lines),
    "gemini_stream": _stream(_gemini_answer),
    "openai_chat_sse": _stream(_chat_answer),
    "openai_messages": _document("o.json", '{"messages": [', _roles("user", "assistant"), "]}"),
    "openai_messages, lines": _lines("o.jsonl", _roles("user", "assistant")),
    "openai_messages, sessions": _lines("m.jsonl", _sessions),
    "openai_responses": _document("r.json", '{"model": "m", "store": true, "input": [', _responses, "]}"),
    "openai_responses_sse": _stream(_responses_answer),
    "opencode": _document("e.json", f'{{"info": {json.dumps(_INFO)}, "messages": [', _opencode, "]}"),
    "opencode_db": _opencode_db,
    "opencode_storage": _opencode_storage,
    "pi": _lines("p.jsonl", _pi),
    "qwen_code": _lines("q.jsonl", _qwen),
    "role_list": _document("l.json", "[", _roles("client", "counselor"), "]"),
}
"""Writers of files by format; some formats have two forms."""


def long_file(form: str, folder: Path, size: int) -> Path:
    """Write a file of this form, of about so many bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    return FORMS[form](folder, size)
