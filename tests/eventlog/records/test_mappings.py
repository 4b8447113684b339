"""An imported file and a live feed of the same records give equal views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog import (
    AnthropicMapping,
    Feed,
    OpenAIChatMapping,
    OpenAIResponsesMapping,
    RecordMapping,
    Session,
    import_file,
)
from eventlog.importers.common.remainder import emit
from projections import ModelView
from projections.requests.openai import chat_messages
from tests.support.engines import Engine
from tests.support.shared import SHARED, shared_path

TABLE = Path(__file__).parents[2] / "golden" / "imports" / "recorded.json"


def view_of(session: Session) -> list[Any]:
    """Messages that a model would be sent; a file's settings may give it another prompt."""
    return chat_messages(ModelView.of(session).messages, ())


def numbered(messages: list[Any]) -> list[Any]:
    """The messages with calls numbered: ids that repeat get new ones by their session's."""
    numbers: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls", ()):
            call["id"] = numbers.setdefault(call["id"], str(len(numbers)))
        if "tool_call_id" in message:
            message["tool_call_id"] = numbers[message["tool_call_id"]]
    return messages


def compare(path: Path, mapping: RecordMapping, step: int) -> None:
    """Import a file, tell its records to a feed in appends of `step`, and compare the views."""
    engine = Engine("memory")
    store = engine.open()
    report = import_file(store, path)
    for name in report.sessions:
        imported = store.session(name)
        records = [source.record for source in emit([imported], store.text) if source.line]
        feed = Feed(store.create_session(), mapping)
        for start in range(0, len(records), step):
            feed.add(records[start : start + step])
        assert feed.read(feed.path()) == records
        assert numbered(view_of(feed.session)) == numbered(view_of(imported)), (path, name)
    engine.close()


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_recorded_chat_messages(step: int) -> None:
    """Every recorded list of chat messages gives one view, imported and told."""
    shared_path("data")
    names = [name for name, (format, _) in json.loads(TABLE.read_text()).items() if format == "openai_messages"]
    found = [SHARED / "data" / name for name in names if (SHARED / "data" / name).exists()]
    assert found
    for path in found if step > 1 else found[:4]:
        compare(path, OpenAIChatMapping(), step)


ANTHROPIC: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "What is the weather in Paris?"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "I should look it up.", "signature": "c2lnbmF0dXJlLW9mLXRoaW5raW5n"},
            {"type": "text", "text": "I will look it up."},
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Paris", "days": 1.0}},
            {"type": "tool_use", "id": "t2", "name": "weather", "input": {"city": "Rome"}},
        ],
        "stop_reason": "tool_use",
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t2", "content": "It is hot in Rome today."}]},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [{"type": "text", "text": "Rain."}],
                "is_error": True,
            },
            {"type": "text", "text": "Please go on."},
        ],
    },
    {"role": "assistant", "content": "Paris has rain.", "usage": {"input_tokens": 9, "output_tokens": 4}},
]


@pytest.mark.parametrize("step", [1, 2, 9])
def test_anthropic_messages(step: int, tmp_path: Path) -> None:
    """Messages with thinking, parallel calls and errors give one view, imported and told."""
    path = tmp_path / "messages.json"
    path.write_text(json.dumps(ANTHROPIC))
    compare(path, AnthropicMapping(), step)


RESPONSES: list[Any] = [
    {"role": "system", "content": "Be kind to the people who ask."},
    {"role": "user", "content": "What is in the two files?"},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Two files are to be read."}],
     "encrypted_content": "c2VjcmV0LXNlY3JldC1zZWNyZXQ="},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": '{"path": "/first/file"}'},
    {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "read", "arguments": '{"path": "/second/file"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "the first file's content"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "the second one's"}]},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "what"}},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "They have words in them.", "annotations": []}]},
    {"type": "unheard_of", "data": 1},
    {"role": "user", "content": [{"type": "input_text", "text": "Thank you for that."}]},
]  # fmt: skip


@pytest.mark.parametrize("step", [1, 2, 3, 20])
def test_responses_items(step: int) -> None:
    """Items give the same view in appends of any size, and come back as they were."""
    engine = Engine("memory")
    store = engine.open()
    feed = Feed(store.create_session(), OpenAIResponsesMapping())
    for start in range(0, len(RESPONSES), step):
        feed.add(RESPONSES[start : start + step])
    view = ModelView.of(feed.session)
    assert [segment for segment in view.system if segment] == [RESPONSES[0]["content"]]
    said = [(message["role"], message.get("content"), message.get("tool_call_id")) for message in view_of(feed.session)]
    assert said == [
        ("user", "What is in the two files?", None),
        ("assistant", "", None),
        ("tool", "the first file's content", "c1"),
        ("tool", "the second one's", "c2"),
        ("assistant", "They have words in them.", None),
        ("tool", "", "ws_1"),
        ("user", "Thank you for that.", None),
    ]
    assert feed.read(feed.path()) == RESPONSES
    assert feed.session.reader.state().open_messages() == ()
    engine.close()
