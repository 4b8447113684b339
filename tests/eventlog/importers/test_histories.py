"""Histories of other programs: every message, given back, imported once, damaged or not."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import Store
from eventlog import events as ev
from eventlog.errors import ImportFormatError
from eventlog.importers import Report, import_file
from eventlog.importers.common.remainder import emit
from eventlog.values import Reasoning, Text
from projections import ModelView
from tests.support.import_counts import is_array, is_object
from tests.support.shared import shared_path
from tests.support.source_documents import conversation_of, document, history_of

KNOWN_TO_DIFFER = {
    "agent_sessions_fixtures/Resources__Fixtures__stage0__agents__codex__small.jsonl",
    "entireio_codex/entire-graph__d9_4ea7db13b9_0_full.jsonl",
}
"""Files for which the table counts messages of the screen, too."""


def put(store: Store, data: bytes, name: str) -> Report:
    """Import these bytes as a file of this name."""
    file = io.BytesIO(data)
    file.name = name
    return import_file(store, file)


def grow(store: Store, name: str, forms: Iterable[bytes]) -> Report:
    """Import a file as it grows; each form twice, of which the second adds nothing."""
    reports = [(put(store, form, name), put(store, form, name).events) for form in forms]
    assert not any(events for _, events in reports)
    return reports[-1][0]


def back(store: Store, report: Report) -> list[Any]:
    """Return the documents of a report's sessions, put together again."""
    return [document(emit([store.session(name)], store.text)) for name in report.sessions]


def expected() -> list[dict[str, str]]:
    """Rows of the table of recordings, with the messages that each has."""
    with (shared_path("data") / "expected.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_every_recording_has_its_messages() -> None:
    """Each listed recording gives the messages that the table counts; a repeat adds nothing."""
    rows = expected()
    wrong: dict[str, int] = {}
    for row in rows:
        with eventlog.open("memory:") as store:
            report = import_file(store, shared_path("data") / row["file"])
            again = import_file(store, shared_path("data") / row["file"])
            assert again.events == 0, row["file"]
            if str(report.messages) != row["messages"]:
                wrong[row["file"]] = report.messages
    assert len(rows) >= 266
    assert wrong.keys() <= KNOWN_TO_DIFFER


DOCUMENTS = ["role list", "gemini_cli"]
"""Formats whose files are one JSON document."""


def of_format(*formats: str) -> list[Path]:
    """Recordings of some formats."""
    return [shared_path("data") / row["file"] for row in expected() if row["format"] in formats]


def test_documents_are_given_back() -> None:
    """A file that is one document comes back equal."""
    files = of_format(*DOCUMENTS)
    assert len(files) >= 30
    for path in files:
        with eventlog.open("memory:") as store:  # an older document of a stored session adds nothing
            report = import_file(store, path)
            assert all("notice of the program" in one.reason for one in report.skipped)
            assert back(store, report) == [json.loads(path.read_text())], path.name


def damaged(data: bytes) -> list[bytes]:
    """Bytes cut at several places, with one flipped at several places, and twice."""
    places = [len(data) * part // 9 for part in range(1, 9)]
    flipped = [data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :] for at in places]
    return [*(data[:at] for at in places), *flipped, data + data, data + b"\n" + data]


def check_damage(data: bytes, name: str) -> None:
    """Import each damaged form: it is refused with a typed error, or stored once."""
    for number, form in enumerate(damaged(data)):
        with eventlog.open("memory:") as store:
            try:
                put(store, form, name)
            except ImportFormatError:
                continue
            assert put(store, form, name).events == 0, (name, number)


@pytest.mark.parametrize("format", ["role list", "gemini_cli"])
def test_damage_is_no_crash(format: str) -> None:
    """A recording that is cut, flipped or doubled is imported in part, or refused."""
    for path in sorted(of_format(format), key=lambda path: path.stat().st_size)[:3]:
        check_damage(path.read_bytes(), path.name)


def test_roles_have_other_names(store: Store) -> None:
    """Names of roles in any case mean what the provider's roles do; others are reported."""
    said = [
        {"role": "System", "content": "Be kind to everyone who asks."},
        {"role": "Human", "content": "How long is the Elbe?", "mood": "curious"},
        {"role": "bot", "content": "About 1,094 kilometres."},
        {"role": "narrator", "content": "A pause."},
        {"role": "human", "content": "Thank you."},
    ]
    report = put(store, json.dumps(said).encode(), "roles.json")
    assert (report.format, report.messages, len(report.skipped)) == ("role_list", 3, 1)
    assert back(store, report) == [said]
    assert put(store, json.dumps([*said, {"role": "bot", "content": "Gladly."}]).encode(), "roles.json").events > 0
    with pytest.raises(ImportFormatError):
        put(store, json.dumps([{"role": "client", "content": "alone"}]).encode(), "alone.json")


def lines(*records: object) -> bytes:
    """Return a file with a JSON value a line."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def shown(store: Store, report: Report) -> list[str]:
    """Return the messages that a model is shown of a report's session, each once."""
    found = ModelView.of(store.session(report.sessions[0])).messages
    return list(dict.fromkeys(str(message.source) for message in found))


CALL = {
    "id": "list-1",
    "name": "list_directory",
    "args": {"path": "a folder with notes"},
    "status": "success",
    "result": [{"functionResponse": {"id": "list-1", "name": "list_directory", "response": {"output": "one.md, two.md, three.md"}}}],
}  # fmt: skip
GEMINI = {
    "sessionId": "g-1",
    "projectHash": "f00",
    "startTime": "2026-05-01T10:00:00Z",
    "lastUpdated": "2026-05-01T10:00:00Z",
}
GEMINI_MESSAGES: list[dict[str, Any]] = [
    {"id": "1", "timestamp": "2026-05-01T10:00:00Z", "type": "user", "content": [{"text": "Which notes are there?"}]},
    {
        "id": "2", "timestamp": "2026-05-01T10:00:02Z", "type": "gemini", "content": "There are three notes.", "model": "gemini-x",
        "thoughts": [{"subject": "Looking", "description": "The folder may have some notes."}], "toolCalls": [CALL],
        "tokens": {"input": 10, "output": 4, "cached": 3, "thoughts": 2, "tool": 0, "total": 16},
    },
    {"id": "3", "timestamp": "2026-05-01T10:00:03Z", "type": "user", "content": "Read the first, please."},
]  # fmt: skip


def test_a_session_of_gemini_cli_grows(store: Store) -> None:
    """A file that is written anew as it grows extends its session; its title is the latest."""
    for end in (1, 2, 3):
        document_ = {**GEMINI, "lastUpdated": f"2026-05-01T10:00:0{end}Z", "messages": GEMINI_MESSAGES[:end]}
        if end == 3:
            document_["summary"] = "Notes are read"
        report = put(store, json.dumps(document_, indent=2).encode(), "session-1.json")
        assert (report.format, report.messages, report.skipped) == ("gemini_cli", end, [])
        assert put(store, json.dumps(document_, indent=1).encode(), "session-1.json").events == 0
        assert back(store, report) == [document_]
    assert [info.title for info in store.sessions()] == ["Notes are read"]


def test_lines_of_gemini_cli_repeat_and_rewind(store: Store) -> None:
    """A message that comes again replaces itself; a rewind goes back to before its message."""
    first = {key: value for key, value in GEMINI_MESSAGES[1].items() if key != "toolCalls"}
    records = [
        GEMINI,
        GEMINI_MESSAGES[0],
        first,
        GEMINI_MESSAGES[1],
        {"$set": {"summary": "Notes"}},
        GEMINI_MESSAGES[2],
    ]
    report = put(store, lines(*records), "session-2.jsonl")
    assert (report.format, report.messages, report.skipped) == ("gemini_cli", 4, [])
    assert len(shown(store, report)) == 3
    records.append({"$rewindTo": "3"})
    report = put(store, lines(*records), "session-2.jsonl")
    assert len(shown(store, report)) == 2
    assert [source.record for source in emit([store.session(report.sessions[0])], store.text)] == records
    assert put(store, lines(*records), "session-2.jsonl").events == 0


BASE_OF_QWEN = {"sessionId": "q-1", "timestamp": "2026-05-01T10:00:00Z", "cwd": "/project", "version": "0.9"}
RESPONSE_OF_QWEN = {"functionResponse": {"id": "c", "name": "read_file", "response": {"output": "a line of the file"}}}
CALL_OF_QWEN = {"functionCall": {"id": "c", "name": "read_file", "args": {"path": "readme of the project"}}}
QWEN: list[dict[str, Any]] = [
    {**BASE_OF_QWEN, "uuid": "1", "parentUuid": None, "type": "user", "message": {"role": "user", "parts": [{"text": "Read it"}]}},
    {**BASE_OF_QWEN, "uuid": "2", "parentUuid": "1", "type": "assistant", "model": "qwen", "message": {"role": "model", "parts": [
        {"text": "The file may say it.", "thought": True}, CALL_OF_QWEN]}, "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 9}},
    {**BASE_OF_QWEN, "uuid": "3", "parentUuid": "2", "type": "tool_result", "message": {"role": "user", "parts": [RESPONSE_OF_QWEN]}},
    {**BASE_OF_QWEN, "uuid": "4", "parentUuid": "3", "type": "system", "subtype": "ui_telemetry", "systemPayload": {"a": 1}},
    {**BASE_OF_QWEN, "uuid": "5", "parentUuid": "4", "type": "user", "message": {"role": "user", "parts": [{"text": "left behind"}]}},
    {**BASE_OF_QWEN, "uuid": "6", "parentUuid": "2", "type": "tool_result", "message": {"role": "user", "parts": [RESPONSE_OF_QWEN]}},
    {**BASE_OF_QWEN, "uuid": "7", "parentUuid": "6", "type": "assistant", "message": {"role": "model", "parts": [{"text": "It is short."}]}},
]  # fmt: skip


def test_a_session_of_qwen_code(store: Store) -> None:
    """Calls get their results, and a record behind an earlier one leaves what came between."""
    records = QWEN
    report = grow(store, "q.jsonl", (lines(*records[:end]) for end in (2, 4, 5, 7)))
    assert report.format == "qwen_code"
    assert report.sessions == [info.id for info in store.sessions()]
    assert (report.messages, len(report.skipped)) == (4, 1)
    assert len(shown(store, report)) == 3
    assert [source.record for source in emit([store.session(report.sessions[0])], store.text)] == records
    check_damage(lines(*records), "q.jsonl")


def test_the_recording_of_pi(store: Store) -> None:
    """Messages, calls and results are as the table says, and every line comes back."""
    (path,) = of_format("pi")
    report = import_file(store, path)
    session = store.session(report.sessions[0])
    kinds = Counter(type(found.event) for found in session.events())
    failed = [one.event for one in session.events() if isinstance(one.event, ev.ToolFailed)]
    stopped = sum(event.interrupted for event in failed)
    assert (kinds[ev.UserMessageAdded], kinds[ev.AssistantMessageStarted]) == (88, 453)
    assert (kinds[ev.ToolRunning], kinds[ev.ToolCompleted] + len(failed) - stopped) == (391, 373)
    assert report.skipped == []
    records = [source.record for source in emit([session], store.text)]
    assert records == [json.loads(line) for line in path.read_text().splitlines()]


def entry(kind: str, id: str, parent: str | None, /, **fields: object) -> dict[str, object]:
    """Make an entry of pi."""
    return {"type": kind, "id": id, "parentId": parent, "timestamp": "2026-05-02T08:00:00.000Z", **fields}


CALL_OF_PI = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "ls -l the/folder"}}
IMAGE_OF_PI = {"type": "image", "data": "aW1hZ2UgYnl0ZXMgaGVyZQ==", "mimeType": "image/png"}
USAGE_OF_PI = {"input": 3, "output": 2, "cacheRead": 1, "cacheWrite": 0, "cost": {"total": 0.5}}
SAID_OF_PI = {
    "role": "assistant",
    "provider": "anthropic",
    "api": "anthropic-messages",
    "model": "m",
    "usage": USAGE_OF_PI,
}
RESULT_OF_PI = {
    "role": "toolResult",
    "toolCallId": "c",
    "content": [{"type": "text", "text": "three files"}, IMAGE_OF_PI],
}
PI: list[dict[str, Any]] = [
    {"type": "session", "version": 3, "id": "p-1", "timestamp": "2026-05-02T08:00:00.000Z", "cwd": "/project"},
    entry("message", "a", None, message={"role": "user", "content": [{"type": "text", "text": "List it"}, IMAGE_OF_PI]}),
    entry("message", "b", "a", message={**SAID_OF_PI, "stopReason": "toolUse", "content": [
        {"type": "thinking", "thinking": "A command will do it.", "thinkingSignature": "signed by the provider"}, CALL_OF_PI]}),
    entry("message", "c", "b", message=RESULT_OF_PI),
    entry("message", "d", "c", message={**SAID_OF_PI, "stopReason": "stop", "content": [{"type": "text", "text": "Three."}]}),
    entry("message", "e", "d", message={"role": "user", "content": "left behind, too"}),
    entry("branch_summary", "f", "b", summary="A branch listed the files.", fromId="e"),
    entry("message", "g", "f", message={**RESULT_OF_PI, "isError": True}),
    entry("message", "h", "g", message={"role": "bashExecution", "command": "git status --short", "output": "clean"}),
    entry("session_info", "i", "h", name="Files are listed"),
    entry("message", "j", "i", message={**SAID_OF_PI, "stopReason": "aborted", "content": [], "errorMessage": "stopped"}),
    entry("compaction", "k", "j", summary="The files were listed twice.", firstKeptEntryId="h", tokensBefore=90),
    entry("message", "l", "k", message={"role": "user", "content": "Go on."}),
]  # fmt: skip


def test_a_session_of_pi_is_a_tree(store: Store) -> None:
    """Branches, compactions with a kept tail, commands and notes mean what pi shows a model."""
    records = PI
    report = grow(store, "pi.jsonl", (lines(*records[:end]) for end in range(2, len(records) + 1)))
    assert report.format == "pi"
    assert (report.sessions, report.skipped) == ([info.id for info in store.sessions()], [])
    assert store.info(report.sessions[0]).title == "Files are listed"
    assert shown(store, report) == ["k:asked", "k", "h", "l"]
    assert [source.record for source in emit([store.session(report.sessions[0])], store.text)] == records
    check_damage(lines(*records), "pi.jsonl")


AIDER = """
# aider chat started at 2026-03-01 09:30:00

> Aider v0.80.0  
> Model: a-model with diff edit format  

#### /add notes.md  

> Added notes.md to the chat  

#### please make a list  
#### of the notes  

Here is the list:

- one
- two

> Applied edit to notes.md  
Anything else?


# aider chat started at 2026-03-02 10:00:00

#### and a title?
"""  # noqa: W291


def test_a_history_of_aider_grows(store: Store) -> None:
    """Each start is a session; prompts and answers are messages, and the text comes back."""
    ends = [at for at in range(len(AIDER)) if AIDER.startswith(("\n#### ", "\n> Applied", "\n# aider"), at)][4:]
    for text in [*(AIDER[:end] for end in ends), AIDER]:
        report = grow(store, ".aider.chat.history.md", [text.encode()])
        whole = "".join(history_of(emit([store.session(name)], store.text)) for name in report.sessions)
        assert whole == text.rstrip() + ("  " if text.endswith("  \n") else "") + "\n"
    report = put(store, AIDER.encode(), ".aider.chat.history.md")
    assert (report.format, report.messages, len(report.sessions)) == ("aider", 3, 2)
    assert len(list(store.sessions())) == 2
    assert store.info(report.sessions[0]).created == 1_772_357_400_000
    parts = (found.event for found in store.session(report.sessions[0]).events())
    told = [
        part.kind.text for part in parts if isinstance(part, ev.PartStarted) and isinstance(part.kind, Text | Reasoning)
    ]
    assert told == ["please make a list\nof the notes", "Here is the list:\n\n- one\n- two", "Anything else?"]
    check_damage(AIDER.encode(), ".aider.chat.history.md")


TOOL_OF_CLINE = {
    "tool": "searchFiles",
    "path": "notes/of",
    "regex": "the first",
    "content": "the first line of the notes",
}
REQUEST_OF_CLINE = {"request": "the whole prompt", "tokensIn": 7, "tokensOut": 3, "cost": 0.25}
CLINE: list[dict[str, Any]] = [
    {"ts": 1770000000000, "type": "say", "say": "text", "text": "Read my notes, please.", "images": ["data:image/png;base64,AAAA"]},
    {"ts": 1770000001000, "type": "say", "say": "api_req_started", "text": json.dumps(REQUEST_OF_CLINE)},
    {"ts": 1770000002000, "type": "say", "say": "reasoning", "text": "The file is not large."},
    {"ts": 1770000003000, "type": "say", "say": "text", "text": "I read the file first."},
    {"ts": 1770000004000, "type": "ask", "ask": "tool", "text": json.dumps(TOOL_OF_CLINE)},
    {"ts": 1770000004500, "type": "say", "say": "tool", "text": json.dumps({"tool": "readFile", "path": "notes.md", "content": "/of/the/project/notes.md"})},
    {"ts": 1770000005000, "type": "ask", "ask": "command", "text": "wc -l notes/of/the/project.md"},
    {"ts": 1770000006000, "type": "say", "say": "command_output", "text": "12 notes/of/the/project.md"},
    {"ts": 1770000007000, "type": "say", "say": "checkpoint_created"},
    {"ts": 1770000008000, "type": "ask", "ask": "followup", "text": json.dumps({"question": "Which one?", "options": []})},
    {"ts": 1770000009000, "type": "say", "say": "user_feedback", "text": "The second one."},
    {"ts": 1770000010000, "type": "say", "say": "condense_context", "contextCondense": {"summary": "Notes were read by the model."}},
]  # fmt: skip


def test_a_task_of_cline_as_its_screen_shows_it(store: Store) -> None:
    """Prompts, answers, calls with what the screen shows of them, and condensed contexts."""
    records = CLINE
    forms = (json.dumps(records[:end]).encode() for end in range(1, len(records) + 1))
    report = grow(store, "ui_messages.json", forms)
    assert (report.format, report.messages, len(report.skipped)) == ("cline", 5, 1)
    assert report.sessions == [info.id for info in store.sessions()]
    events = [found.event for found in store.session(report.sessions[0]).events()]
    assert [event.output for event in events if isinstance(event, ev.ToolCompleted)] == [
        "the first line of the notes",
        "",  # of a file that is read the screen shows the path alone
        "12 notes/of/the/project.md",
    ]
    assert back(store, report) == [records]
    check_damage(json.dumps(records).encode(), "ui_messages.json")
    whole: list[object] = [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}], "ts": 1},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}], "ts": 2},
    ]
    assert put(store, json.dumps(whole).encode(), "api_conversation_history.json").format == "anthropic_messages"


def node(name: str, parent: str | None, role: str, content: dict[str, object], **fields: object) -> dict[str, object]:
    """Make a node of an export; its name is the seconds of its time."""
    author: dict[str, object] = {"role": role, "name": fields.pop("tool", None), "metadata": {}}
    message: dict[str, object] = {
        "id": name,
        "author": author,
        "create_time": 1.77e9 + float(name),
        "content": content,
        **fields,
    }
    return {"id": name, "message": message, "parent": parent, "children": []}


def texts(*parts: object) -> dict[str, object]:
    """Make the content of a text, or of several parts."""
    return {
        "content_type": "text" if all(isinstance(part, str) for part in parts) else "multimodal_text",
        "parts": parts,
    }


def export(nodes: list[dict[str, Any]], current: str, title: str = "A title") -> dict[str, Any]:
    """Make a conversation of an export from copies of its nodes."""
    mapping = {one["id"]: {**one, "children": [n["id"] for n in nodes if n["parent"] == one["id"]]} for one in nodes}
    whole: dict[str, Any] = json.loads(json.dumps({
        "title": title, "create_time": 1.77e9, "update_time": 1.77e9 + float(nodes[-1]["id"] or 0), "mapping": mapping,
        "current_node": current, "conversation_id": "c-1", "is_archived": False,
    }))  # fmt: skip
    return whole


IMAGE_OF_CHATGPT = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-abcdefgh", "width": 4}
CHATGPT: list[dict[str, Any]] = [
    {"id": "0", "message": None, "parent": None, "children": []},
    node("1", "0", "system", texts("")),
    node("2", "1", "user", texts("Which picture is this one?", IMAGE_OF_CHATGPT)),
    node("3", "2", "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "Looking", "content": "It may be a cat of some kind."}]},
         recipient="all", metadata={"model_slug": "gpt-x"}),
    node("4", "3", "assistant", {"content_type": "code", "language": "python", "text": "print('this is a cat')"}, recipient="python"),
    node("5", "4", "tool", {"content_type": "execution_output", "text": "this is a cat, surely"}, tool="python"),
    node("6", "5", "assistant", texts("A cat."), recipient="all", end_turn=True),
    node("7", "6", "user", texts("Are you sure about that?")),
    node("8", "7", "assistant", texts("Yes."), recipient="all"),
    node("9", "6", "user", texts("Which kind of cat is it?")),
    node("10", "9", "assistant", texts("A grey one, as far as one sees."), recipient="all"),
]  # fmt: skip


def test_an_export_of_chatgpt_is_a_tree(store: Store) -> None:
    """Branches, tools and references of an export; it grows, and its current branch is shown."""
    nodes = CHATGPT
    grown = [export(nodes[:end], nodes[end - 1]["id"], f"Cats {end}") for end in (3, 5, 6, 9, 10, 11)]
    report = grow(store, "conversations.json", (json.dumps([data]).encode() for data in grown))
    assert (report.format, report.skipped) == ("chatgpt", [])
    data = grown[-1]
    # The files that an export is split into may be split elsewhere.
    assert put(store, json.dumps([data]).encode(), "conversations-001.json").events == 0
    assert [info.title for info in store.sessions()] == ["Cats 11"]
    assert report.messages == 8
    assert shown(store, report) == ["2", "3", "4", "6", "9", "10"]
    assert conversation_of(emit([store.session(report.sessions[0])], store.text)) == data
    back_then = export(nodes, "8", "Cats")
    report = put(store, json.dumps(back_then).encode(), "conversations.json")
    assert shown(store, report) == ["2", "3", "4", "6", "7", "8"]
    assert conversation_of(emit([store.session(report.sessions[0])], store.text)) == back_then
    assert len(list(store.sessions())) == 1
    check_damage(json.dumps([back_then, data], indent=1).encode(), "conversations.json")


ITEMS: list[dict[str, Any]] = [
    {"type": "message", "id": "msg_1", "role": "user", "content": [{"type": "input_text", "text": "What time is it there?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "A tool knows the time."}], "encrypted_content": "x" * 20},
    {"type": "function_call", "id": "fc_1", "call_id": "c_1", "name": "clock", "arguments": '{"place": "over there"}'},
    {"type": "function_call_output", "call_id": "c_1", "output": "it is half past ten"},
    {"type": "message", "id": "msg_2", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Half past ten."}]},
]  # fmt: skip
TEXT = {"model": "gpt-x", "instructions": "Answer in one sentence.", "input": "How are you today?", "store": False}
USED = {"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}
BODIES: dict[str, tuple[Any, int]] = {
    "request": ({"model": "gpt-x", "instructions": "Be short, please.", "tools": [{"type": "function", "name": "clock"}], "input": ITEMS}, 3),
    "text": (TEXT, 1),
    "roles": ({"model": "gpt-x", "input": [{"role": "user", "content": "Hi"}]}, 1),
    "response": ({"id": "resp_1", "object": "response", "model": "gpt-x", "output": ITEMS[1:3], "usage": USED}, 1),
    "page": ({"object": "list", "data": ITEMS, "first_id": "msg_1", "has_more": False}, 3),
    "new": ({"metadata": {"topic": "time"}, "items": ITEMS[:1]}, 1),
    "array": (ITEMS, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_bodies_of_responses_and_conversations(store: Store, name: str) -> None:
    """Requests, responses and pages of items have their messages, and come back whole."""
    body, messages = BODIES[name]
    report = grow(store, "body.json", [json.dumps(body, indent=indent).encode() for indent in (None, 2)])
    assert (report.format, report.messages, report.skipped) == ("openai_responses", messages, [])
    assert back(store, report) == [body]
    assert len(list(store.sessions())) == 1
    events = [found.event for found in store.session(report.sessions[0]).events()]
    assert any(isinstance(event, ev.UsageRecorded) for event in events) == (name == "response")
    check_damage(json.dumps(body, indent=1).encode(), "body.json")


def test_bodies_of_other_apis_are_no_conversation(store: Store) -> None:
    """A text for an embedding, and lists of other objects, are refused."""
    others: list[Any] = [
        {"model": "embed-1", "input": "How are you today?"},
        {"model": "say-1", "input": "How are you today?", "voice": "a voice"},
        {"object": "list", "data": [{"id": "m", "object": "model"}]},
        {"items": [{"name": "a lamp"}]},
        {"output": [{"type": "function_call"}]},
    ]
    for other in others:
        with pytest.raises(ImportFormatError):
            put(store, json.dumps(other).encode(), "other.json")


ODD_ITEMS: list[object] = [None, 5, "odd", {}]
ODD: list[object] = [None, 5, -1.5, True, "", "odd", [], [None], {}, {"text": 5}, [[]]]


def odd_forms(value: Any) -> Iterator[Any]:
    """Yield a JSON value with each value in it replaced by each odd one, or left out."""
    if is_object(value):
        members = value
        for key, inner in members.items():
            yield {name: one for name, one in members.items() if name != key}
            yield from ({**members, key: odd} for odd in ODD)
            yield from ({**members, key: form} for form in odd_forms(inner))
    elif is_array(value):
        items = value
        for place, inner in enumerate(items):
            yield from ([*items[:place], odd, *items[place + 1 :]] for odd in ODD_ITEMS)
            yield from ([*items[:place], form, *items[place + 1 :]] for form in odd_forms(inner))


STEP = 13
"""Of the forms every n-th is imported, for there are thousands."""
ODD_FILES: dict[str, tuple[str, Any]] = {
    "gemini_cli": ("session.json", {**GEMINI, "messages": GEMINI_MESSAGES}),
    "gemini_cli_lines": (
        "session.jsonl",
        [GEMINI, *GEMINI_MESSAGES, {"$set": {"messages": [GEMINI_MESSAGES[0], {**GEMINI_MESSAGES[0], "id": "4"}]}}],
    ),
    "qwen_code": ("q.jsonl", QWEN),
    "pi": ("pi.jsonl", PI),
    "cline": ("ui_messages.json", CLINE),
    "chatgpt": ("conversations.json", [export(CHATGPT, "8")]),
    "openai_responses": ("body.json", {"id": "r", "object": "response", "output": ITEMS, "usage": USED}),
}


@pytest.mark.parametrize("kind", ODD_FILES)
def test_values_of_other_types_are_no_crash(kind: str) -> None:
    """A file with any value replaced, or left out, is imported once, or refused with a reason."""
    name, whole = ODD_FILES[kind]
    format = kind.removesuffix("_lines")
    for form in islice(odd_forms(whole), 0, None, STEP):
        data = lines(*form) if name.endswith(".jsonl") else json.dumps(form).encode()
        with eventlog.open("memory:") as store:
            for added in (None, 0):
                file = io.BytesIO(data)
                file.name = name
                try:
                    report = import_file(store, file, format=format)
                except ImportFormatError:
                    break
                assert report.events == added or added is None, json.dumps(form)
