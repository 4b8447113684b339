"""The OpenCode importer: no record is lost or imported twice, and exports are exact."""

from __future__ import annotations

import io
import json
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventlog
from eventlog import events as ev
from eventlog.errors import DamagedError, ImportFormatError
from eventlog.importers import detect, import_file
from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_document import DamagedDocumentError, Document
from eventlog.importers.common.json_patch import difference, patch
from eventlog.importers.opencode.emit import export_of
from eventlog.importers.opencode.importer import OpenCodeImporter
from eventlog.values import File, Model, Source, Tokens, Tool, Usage
from projections.replay.loop import replay
from projections.view.assembly import Assembly
from projections.view.model_view import ModelView
from projections.view.options import OPENCODE_1_18
from projections.view.targets import ModelViewProjection
from tests.support.opencode_exports import events_of_export
from tests.support.parity import Scenario, scenarios
from tests.support.spans import Recording, Timed

SCENARIOS = scenarios()
EACH = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
SNAPSHOT = (ev.ForeignKept, ev.SessionRenamed, ev.SessionArchived)
"""Facts of an export as a whole, which come last."""
REWRITTEN = {"edits", "revert", "revert-compacted"}
"""Scenarios in which OpenCode itself changes or deletes what it had stored."""


def export(*messages: dict[str, Any], **info: Any) -> dict[str, Any]:
    """An export of these messages."""
    whole = {
        "id": "ses_1",
        "title": "T",
        "directory": "/w",
        "version": "1.18.33",
        "time": {"created": 1, "updated": 900},
    }
    return {"info": {**whole, **info}, "messages": list(messages)}


def user(name: str, created: int, *parts: dict[str, Any]) -> dict[str, Any]:
    """A user message."""
    model = {"providerID": "p", "modelID": "m"}
    info = {
        "id": name,
        "sessionID": "ses_1",
        "role": "user",
        "time": {"created": created},
        "agent": "build",
        "model": model,
    }
    return {"info": info, "parts": _parts(name, parts)}


def assistant(name: str, created: int, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
    """An assistant message."""
    whole = {
        "id": name,
        "sessionID": "ses_1",
        "role": "assistant",
        "time": {"created": created},
        "parentID": "u",
        "mode": "build",
        "agent": "build",
        "path": {"cwd": "/w", "root": "/w"},
        "modelID": "m",
        "providerID": "p",
        "cost": 0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
    }
    return {"info": {**whole, **info}, "parts": _parts(name, parts)}


def _parts(name: str, parts: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    common = {"sessionID": "ses_1", "messageID": name}
    return [{"id": f"{name}.{number}", **common, **part} for number, part in enumerate(parts)]


def told(data: dict[str, Any]) -> list[ev.Event]:
    """The events of an export."""
    return [event for _, event in events_of_export(data).items]


def back(data: dict[str, Any]) -> Any:
    """An export after import, encoding, decoding and restoring."""
    recording = Recording.of(events_of_export(data))
    events = [(found.time, found.event) for span in recording.spans() for found in span.events()]
    return export_of(events, recording.text)


@EACH
def test_every_export_comes_back_exactly(scenario: Scenario) -> None:
    """Every export can be restored from its events, JSON-equal."""
    for name, data in scenario.exports():
        assert back(data) == data, name


@EACH
def test_every_export_imports_and_counts(scenario: Scenario) -> None:
    """Counts agree with the file, and importing an export again adds nothing."""
    name, data = list(scenario.exports())[-1]
    counts = Counter(part["type"] for message in data["messages"] for part in message["parts"])
    with eventlog.open("memory:") as store:
        file = io.BytesIO(json.dumps(data).encode())
        report = import_file(store, file)
        assert report.format == "opencode", name
        assert report.skipped == []
        assert report.sessions == [data["info"]["id"]]
        assert report.messages == len(data["messages"])
        assert report.parts == counts.total()
        session = store.session(data["info"]["id"])
        events = [found.event for found in session.events()]
        assert len(events) == report.events
        kinds = Counter(type(event) for event in events)
        assert kinds[ev.UserMessageAdded] + kinds[ev.AssistantMessageStarted] == len(data["messages"])
        started = Counter(type(event.kind) for event in events if isinstance(event, ev.PartStarted))
        assert started[Tool] == counts["tool"]
        assert started[File] == counts["file"]
        assert kinds[ev.StepFinished] == counts["step-finish"]
        assert kinds[ev.CompactionRequested] == counts["compaction"]
        states = Counter(
            part["state"]["status"]
            for message in data["messages"]
            for part in message["parts"]
            if part["type"] == "tool"
        )
        assert kinds[ev.ToolCompleted] == states["completed"]
        assert kinds[ev.ToolFailed] >= states["error"]
        assert session.info.title == data["info"]["title"]
        assert session.info.parent == data["info"].get("parentID")
        view = ModelView.of(session, preset="opencode-1.18")
        calls = Counter(type(part).__name__ for message in view.messages for part in message.parts)
        assert calls["Call"] == calls["Result"]
        file.seek(0)
        assert import_file(store, file).events == 0


@EACH
def test_a_later_export_has_the_old_events_as_prefix(scenario: Scenario) -> None:
    """A later export yields the earlier export's events as a prefix, snapshots apart."""
    known: dict[str, list[Timed]] = {}
    for name, data in scenario.exports():
        items = [item for item in events_of_export(data).items if not isinstance(item[1], SNAPSHOT)]
        before = known.get(data["info"]["id"], [])
        if scenario.name not in REWRITTEN:
            assert items[: len(before)] == before, name
        known[data["info"]["id"]] = items


@EACH
def test_growing_exports_are_one_session(scenario: Scenario) -> None:
    """A grown export appends; only a record that OpenCode itself rewrote makes a fork."""
    with eventlog.open("memory:") as store:
        for _, data in scenario.exports():
            file = io.BytesIO(json.dumps(data).encode())
            report = import_file(store, file)
            file.seek(0)
            assert import_file(store, file).events == 0
            session = store.session(report.sessions[0])
            assert session.info.title == data["info"]["title"]
            if scenario.name not in REWRITTEN:
                assert report.sessions == [data["info"]["id"]]
                events = [(found.time, found.event) for found in session.events()]
                assert export_of(events, store.text) == data
            fresh = ModelView.of(session, preset="opencode-1.18")
            alone = Recording.of(events_of_export(data))
            state, _ = replay(ModelViewProjection(), alone)
            assert list(fresh.messages) == list(Assembly(state, OPENCODE_1_18, alone.text).view())


@pytest.mark.parametrize(
    ("output", "total"),
    [(4, 25), (4, None), (9, 25)],
    ids=["reasoning beside the output", "no total", "an older file's output with reasoning"],
)
def test_output_has_the_reasoning_once(output: int, total: int | None) -> None:
    """However a version counts reasoning, the usage has it in the output, once."""
    tokens: dict[str, Any] = {"input": 3, "output": output, "reasoning": 5, "cache": {"read": 6, "write": 7}}
    tokens |= {} if total is None else {"total": total}
    data = export(user("u", 10), assistant("a", 20, finish="stop", cost=0.5, tokens=tokens))
    (used,) = [event for event in told(data) if isinstance(event, ev.UsageRecorded)]
    assert used.usage == Usage(Tokens(3, 9, 5, 6, 7, total), Decimal("0.5"))
    assert back(data) == data


def test_a_cost_of_0_is_unknown() -> None:
    """OpenCode writes 0 for a model without a price: no cost is known, and 0 is given back."""
    tokens = {"input": 3, "output": 4, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    data = export(user("u", 10), assistant("a", 20, finish="stop", tokens=tokens))
    (used,) = [event for event in told(data) if isinstance(event, ev.UsageRecorded)]
    assert used.usage.cost is None
    assert back(data) == data


def test_messages_and_parts_are_events() -> None:
    """Texts, reasoning, tools, steps, usage and files become events, not remainders."""
    tokens = {"input": 3, "output": 4, "reasoning": 5, "cache": {"read": 6, "write": 7}, "total": 25}
    source = {"type": "file", "path": "/w/a", "text": {"value": "@a", "start": 0, "end": 2}}
    data = export(
        user(
            "u",
            10,
            {"type": "text", "text": "hi"},
            {"type": "file", "mime": "text/plain", "url": "file:///a", "source": source},
        ),
        assistant(
            "a",
            20,
            {"type": "step-start", "snapshot": "s1"},
            {
                "type": "reasoning",
                "text": "hm",
                "time": {"start": 21, "end": 22},
                "metadata": {"x": {"signature": "s"}},
            },
            {"type": "text", "text": "yes", "time": {"start": 23, "end": 40}},
            {
                "type": "tool",
                "tool": "bash",
                "callID": "c",
                "state": {
                    "status": "completed",
                    "input": {"b": 1, "a": 2},
                    "output": "o",
                    "title": "t",
                    "metadata": {"exit": 0},
                    "time": {"start": 30, "end": 35},
                },
            },
            {"type": "patch", "hash": "h", "files": ["a"]},
            {"type": "step-finish", "reason": "stop", "snapshot": "s2", "tokens": tokens, "cost": 0.002455},
            tokens=tokens,
            cost=0.002455,
            finish="stop",
            time={"created": 20, "completed": 50},
        ),
    )
    assert back(data) == data
    events = told(data)
    assert not any(isinstance(event, ev.ForeignKept) and event.of == "a" for event in events)
    started = next(event for event in events if isinstance(event, ev.SessionStarted))
    assert (started.agent, started.model, started.directory) == ("build", Model("p", "m"), "/w")
    usage = next(event for event in events if isinstance(event, ev.UsageRecorded))
    assert usage.usage.cost == Decimal("0.002455")
    assert usage.usage.tokens.cache_write == 7
    running = next(event for event in events if isinstance(event, ev.ToolRunning))
    assert running.input == '{"b":1,"a":2}'
    file = next(event.kind for event in events if isinstance(event, ev.PartStarted) and isinstance(event.kind, File))
    assert file.source == Source("file", "/w/a", 0, 2, "@a")
    ended = next(event for event in events if isinstance(event, ev.PartEnded))
    assert ended.metadata == '{"x":{"signature":"s"}}'


def test_events_are_told_in_the_order_of_time() -> None:
    """A message sent while a tool ran, and a prune mark, stand where they happened."""
    tool = {"type": "tool", "tool": "bash", "callID": "c"}
    state: dict[str, Any] = {"status": "completed", "input": {}, "output": "o", "title": "", "metadata": {}}
    data = export(
        user("u", 10, {"type": "text", "text": "go"}),
        assistant(
            "a",
            20,
            {**tool, "state": {**state, "time": {"start": 21, "end": 60, "compacted": 80}}},
            time={"created": 20, "completed": 61},
            finish="tool-calls",
        ),
        user("u2", 40, {"type": "text", "text": "also"}),
        user("u3", 70, {"type": "text", "text": "later"}),
        user("u4", 90, {"type": "text", "text": "last"}),
    )
    assert back(data) == data
    kinds = [getattr(event, "message", type(event).__name__) for event in told(data)[1:]]
    a_tool_runs = kinds.index("ToolRunning")
    assert kinds[a_tool_runs:] == [
        "ToolRunning",
        "u2",
        "u2",
        "ToolCompleted",
        "a",
        "u3",
        "u3",
        "Pruned",
        "u4",
        "u4",
        "SessionRenamed",
        "ForeignKept",
    ]


def test_unfinished_messages_stay_open() -> None:
    """An unfinished message, an unended text and a running tool stay open."""
    tool = {
        "type": "tool",
        "tool": "bash",
        "callID": "c",
        "state": {"status": "running", "input": {}, "time": {"start": 30}},
    }
    waiting: dict[str, Any] = {
        "type": "tool",
        "tool": "read",
        "callID": "d",
        "state": {"status": "pending", "input": {}, "raw": '{"p'},
    }
    data = export(
        user("u", 10, {"type": "text", "text": "go"}),
        assistant("a", 20, {"type": "step-start"}, {"type": "text", "text": "", "time": {"start": 21}}, tool, waiting),
    )
    assert back(data) == data
    closing = (ev.MessageFinished, ev.PartEnded, ev.ToolCompleted, ev.ToolFailed)
    assert not [event for event in told(data) if isinstance(event, closing)]


def test_a_compaction_may_cover_what_a_crash_left_open() -> None:
    """A compaction that covers a never finished message imports with its tail in place."""
    summed = {"summary": True, "parentID": "k", "finish": "stop", "time": {"created": 50, "completed": 60}}
    data = export(
        user("u", 10, {"type": "text", "text": "go"}),
        assistant("a", 20, {"type": "text", "text": "", "time": {"start": 21}}),
        user("u2", 30, {"type": "text", "text": "again"}),
        user("k", 40, {"type": "compaction", "auto": True, "tail_start_id": "u2"}),
        assistant("s", 50, {"type": "text", "text": "sum", "time": {"start": 51, "end": 52}}, **summed),
    )
    assert back(data) == data
    with eventlog.open("memory:") as store:
        import_file(store, io.BytesIO(json.dumps(data).encode()))
        view = ModelView.of(store.session("ses_1"))
    assert [message.source for message in view.messages] == ["k", "s", "u2"]


@pytest.mark.parametrize("part", [None, "a.1"])
def test_a_revert_hides_what_the_next_prompt_would_delete(part: str | None) -> None:
    """`info.revert` hides the marked part or message and everything later."""
    texts = [{"type": "text", "text": text, "time": {"start": 21, "end": 22}} for text in ("one", "two")]
    marker = {"messageID": "a", "snapshot": "s"} if part is None else {"messageID": "a", "partID": part}
    data = export(
        user("u", 10, {"type": "text", "text": "go"}),
        assistant("a", 20, *texts, time={"created": 20, "completed": 30}, finish="stop"),
        user("u2", 40, {"type": "text", "text": "more"}),
        assistant("a2", 50, {"type": "text", "text": "half", "time": {"start": 51}}),
        revert=marker,
    )
    assert back(data) == data
    with eventlog.open("memory:") as store:
        import_file(store, io.BytesIO(json.dumps(data).encode()))
        view = ModelView.of(store.session("ses_1"), preset="opencode-1.18")
    shown = [[getattr(found, "text", "") for found in message.parts] for message in view.messages]
    assert shown == [["go"]] + ([["one"]] if part else [])


def test_unknown_things_are_kept_and_reported() -> None:
    """Fields without an event are listed as skipped, and an export returns them."""
    odd = {"type": "hologram", "data": {"deep": [1, {"x": None}]}}
    data = export(
        user("u", 10, {"type": "text", "text": "go"}, odd),
        {"info": {"id": "x", "role": "oracle"}, "parts": []},
        user("u", 20, {"type": "text", "text": "the same id"}),
        user("u9", 30, {"type": "text", "text": "fine", "extra": True}),
        share={"url": "https://example.com"},
    )
    data["version"] = 7
    report = Report("", "")
    events_of_export(data, report)
    assert [found.reason for found in report.skipped] == [
        "message 1: a part of an unknown type 'hologram'",
        "message 2: of neither user nor assistant",
        "message 3: its id was used before",
    ]
    assert (report.messages, report.parts) == (2, 2)
    assert back(data) == data


def test_lone_surrogates_and_large_texts_survive() -> None:
    """Texts with lone surrogates and of any length are stored exactly."""
    data = export(user("u", 10, {"type": "text", "text": "\ud83d lone"}, {"type": "text", "text": "long " * 5_000}))
    data["info"]["title"] = "half \ud83d"
    assert back(data) == data


def test_a_document_that_breaks_off_gives_what_came_before() -> None:
    """An export cut at 64 KiB by a pipe gives the messages before the cut and is reported."""
    messages = [user(f"u{number}", 10 + number, {"type": "text", "text": "x" * 500}) for number in range(200)]
    whole = json.dumps(export(*messages), indent=2).encode()
    report = Report("", "")
    batches = list(OpenCodeImporter().read(io.BytesIO(whole[: 64 * 1024]), "", report))
    assert 0 < report.messages < 200
    (skipped,) = report.skipped
    assert skipped.line > 1_000
    added = sum(isinstance(event, ev.UserMessageAdded) for batch in batches for _, event in batch.items)
    assert added == report.messages


def test_pieces_are_small_and_whole() -> None:
    """A long export comes in batches, each with the bodies that its events refer to."""
    messages = [
        user(f"u{number}", 10 + number, {"type": "text", "text": f"{number} " * 1_000}) for number in range(900)
    ]
    report = Report("", "")
    batches = list(OpenCodeImporter().read(io.BytesIO(json.dumps(export(*messages)).encode()), "", report))
    assert len(batches) > 2
    for batch in batches:
        for _, event in batch.items:
            if isinstance(event, ev.PartStarted):
                assert event.kind.text.digest in batch.bodies  # type: ignore[union-attr]  # all are large texts


def test_detection() -> None:
    """An export is detected by how its JSON begins."""
    assert detect(json.dumps(export()).encode()) == "opencode"
    for other in (b'{"messages": []}', b'[{"info": {}}]', b"", b'{"info": "text"}'):
        assert not OpenCodeImporter().detect(other, "")
    with pytest.raises(ImportFormatError):
        list(OpenCodeImporter().read(io.BytesIO(b'{"messages": []}'), "", Report("", "")))
    with pytest.raises(ImportFormatError):
        list(OpenCodeImporter().read(io.BytesIO(b'{"info": {}}'), "", Report("", "")))


def test_restoring_from_other_events_is_a_typed_error() -> None:
    """Restoring a remainder with other events than its own raises `DamagedError`."""
    batch = events_of_export(export(user("u", 10, {"type": "text", "text": "go", "extra": 1})))
    recording = Recording.of(batch)
    items = [item for item in batch.items if not isinstance(item[1], ev.PartStarted)]
    with pytest.raises(DamagedError):
        export_of(items, recording.text)
    with pytest.raises(DamagedError):
        export_of([], recording.text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, -1.5]) | st.text("ab\ud800", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(VALUES, VALUES)
def test_patches_are_exact(derived: Any, original: Any) -> None:
    """`patch(derived, difference(derived, original))` is the original, for any JSON values."""
    steps = json.loads(json.dumps(difference(derived, original)))
    again = patch(json.loads(json.dumps(derived)), steps)
    assert json.dumps(again, sort_keys=True) == json.dumps(original, sort_keys=True)


@settings(max_examples=50, deadline=None)
@given(st.lists(VALUES, max_size=4), st.integers(1, 7), st.sampled_from([None, 2]))
def test_documents_are_read_piece_by_piece(elements: list[Any], chunk: int, indent: int | None) -> None:
    """A document read in pieces of any size has the same members and elements."""
    text = json.dumps({"a": 1, "list": elements, "b": {"c": []}}, indent=indent)

    class Slow(io.BytesIO):
        """A file that returns few bytes at a time."""

        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(chunk, size) if size and size > 0 else chunk)

    found = list(Document(Slow(text.encode()), "list").members())
    assert found == [("a", 1), *(("list", element) for element in elements), ("b", {"c": []})]


@pytest.mark.parametrize(
    "text", ['{"a": [1, 2', '{"a": [1 2]}', '{"a" 1}', "[]", "", '{"a": tru', "{1: 2}", '{"a":' + "[" * 100_000]
)
def test_damaged_documents_are_typed_errors(text: str) -> None:
    """An invalid JSON document is a typed error that names the line."""
    with pytest.raises(DamagedDocumentError) as caught:
        list(Document(io.BytesIO(b"\n" + text.encode()), "a").members())
    assert caught.value.line == 2


@pytest.mark.parametrize("sign", [b"Q1", b"T2"])
def test_bytes_that_are_not_utf8_are_reported_and_the_rest_is_imported(sign: bytes) -> None:
    """One invalid UTF-8 byte is reported with its line; all other messages are whole."""
    data = export(
        user("msg_1", 1, {"type": "text", "text": "Q1 é"}),
        *(user(f"msg_{number}", number, {"type": "text", "text": f"text {number} " * 500}) for number in range(2, 40)),
        title="T2",
    )
    document = json.dumps(data, ensure_ascii=False, indent=1).encode()
    line = document[: document.index(sign)].count(b"\n") + 1
    with eventlog.open("memory:") as store:
        file = io.BytesIO(document.replace(sign, b"\xff" + sign, 1))
        file.name = "bad.json"
        report = import_file(store, file, format="opencode")
        assert [found.line for found in report.skipped] == [line]
        assert "UTF-8" in report.skipped[0].reason
        assert report.messages == 39
        messages = ModelView.of(store.session(report.sessions[0])).messages
    marked = "\ufffdQ1 é" if sign == b"Q1" else "Q1 é"
    assert [getattr(message.parts[0], "text", "") for message in messages] == [
        marked,
        *(f"text {number} " * 500 for number in range(2, 40)),
    ]


def test_what_is_before_bytes_that_are_not_utf8_is_read() -> None:
    """Without replacement marks a reader gets every element before the bad byte, and its line."""
    document = Document(io.BytesIO(b'[1,\n"two",\n"thr\xffee",\n4]'), "")
    found: list[Any] = []
    with pytest.raises(DamagedDocumentError) as caught:
        _read_into(document, found)
    assert found == [1, "two"]
    assert (caught.value.line, caught.value.reason) == (3, "not UTF-8")


def _read_into(document: Document, found: list[Any]) -> None:
    for element in document.elements():
        found.append(element)  # noqa: PERF402  # what was read before an error counts


def test_an_export_without_messages_is_reported() -> None:
    """An export that lacks its messages is reported; an empty session's is not."""
    whole = export()
    for data, reasons in ((whole, []), ({"info": whole["info"]}, ["the export has no messages"])):
        with eventlog.open("memory:") as store:
            file = io.BytesIO(json.dumps(data).encode())
            file.name = "empty.json"
            report = import_file(store, file, format="opencode")
            assert [found.reason for found in report.skipped] == reasons
            assert report.sessions == [whole["info"]["id"]]
