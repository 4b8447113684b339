"""OpenCode accepts the exported JSON, and Markdown has the whole transcript."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings

import eventlog
from eventlog import Store
from eventlog import events as ev
from eventlog.errors import ImportFormatError
from eventlog.importers import import_file
from eventlog.importers.common.conversation_parts import COVERS_NOTHING
from eventlog.session_store import begin_session
from eventlog.values import (
    Attachment,
    File,
    MessageError,
    Model,
    Opaque,
    PartKind,
    Reasoning,
    Source,
    Text,
    Tokens,
    Tool,
    Truncation,
    Usage,
)
from projections.exports.markdown import markdown_blocks
from projections.exports.opencode import opencode_export, opencode_pieces
from projections.reports.usage import total, usage_by_model
from projections.transcript.transcript import Transcript
from tests.support.export_sessions import jsonl, put, read, stored, talk
from tests.support.history_strategies import histories
from tests.support.import_counts import recorded
from tests.support.opencode_exports import events_of_export
from tests.support.opencode_schema import document_faults
from tests.support.parity import scenarios
from tests.support.shared import shared_path
from tests.support.spans import Timed


@pytest.fixture
def other() -> Iterator[Store]:
    """Give another store in memory."""
    with eventlog.open("memory:") as opened:
        yield opened


def test_every_parity_export_is_given_back() -> None:
    """An unchanged import from OpenCode is exported JSON-equal, for every recorded export."""
    shared_path("parity")
    count = 0
    for scenario in scenarios():
        for name, export in scenario.exports():
            with eventlog.open("memory:") as store:
                session = put(store, events_of_export(export))
                assert opencode_export(session) == export, (scenario.name, name)
                assert document_faults(export) == [], (scenario.name, name)
                count += 1
    assert count > 200


def test_recorded_sessions_become_documents_that_opencode_takes() -> None:
    """Sessions of other agents and streams are exported with all that OpenCode requires."""
    data = shared_path("data")
    count = 0
    with eventlog.open("memory:") as store, eventlog.open("memory:") as other:
        for path in [*recorded(data, "claude_code_jsonl"), *sorted((data / "sse_extracted").glob("*.sse"))]:
            try:
                report = import_file(store, path)
            except ImportFormatError:
                continue
            for name in report.sessions:
                document = opencode_export(store.session(name))
                assert document_faults(document) == [], name
                count += len(document["messages"])
                assert read(other, b"".join(opencode_pieces(store.session(name)))).skipped == []
                if path.suffix == ".sse":  # no branch, whose usage would be left out
                    pair = (other.session(document["info"]["id"]), store.session(name))
                    used, had = (total(usage_by_model(each.reader.spans())) for each in pair)
                    assert (used.tokens, used.cost) == (had.tokens, had.cost), name
    assert count > 500


@settings(max_examples=80, deadline=None)
@given(histories(max_size=60))
def test_random_histories_become_documents_that_opencode_takes(items: list[Timed]) -> None:
    """Any history gives a valid document, which imports and exports without a change."""
    with eventlog.open("memory:") as store, eventlog.open("memory:") as other:
        document = opencode_export(stored(store, items))
        assert document_faults(document) == []
        report = import_file(other, io.BytesIO(json.dumps(document).encode()))
        reasons = {skipped.reason.partition(": ")[2] for skipped in report.skipped}
        # A step-start that was removed or rolled back, and a summary that says nothing.
        assert reasons <= {"a step-finish part without a step-start", COVERS_NOTHING}
        assert opencode_export(other.session("ses_x")) == document


def test_a_native_session_in_opencodes_words(store: Store) -> None:
    """Texts, reasoning, calls, results, usage and files are where OpenCode has them."""
    session = talk(store, "ses_n")
    call = session.events()
    tool = next(found.event.part for found in call if isinstance(found.event, ev.ToolCompleted))
    session.context.prune([tool])
    document = opencode_export(session)
    assert document_faults(document) == []
    info = document["info"]
    assert (info["title"], info["directory"], info["tokens"]["total"]) == ("Fixed", "/w", 40)
    asked, answered = document["messages"]
    assert asked["info"]["model"] == {"providerID": "p", "modelID": "m"}
    assert asked["info"]["system"] == "y" * 2000
    assert asked["parts"][1]["source"]["text"] == {"value": "@a", "start": 0, "end": 3}
    assert answered["info"]["finish"] == "tool-calls"
    assert answered["info"]["path"] == {"cwd": "/w", "root": "/"}
    parts = {part["type"]: part for part in answered["parts"] if part["type"] != "tool"}
    assert parts["reasoning"]["text"] == "I think"
    assert parts["text"]["text"] == "so it is ``` 中\udc00"
    first, second = (part["state"] for part in answered["parts"] if part["type"] == "tool")
    assert first["output"] == "z" * 5000
    assert first["time"]["compacted"] >= first["time"]["end"]
    assert (second["status"], second["error"]) == ("error", "not allowed")
    assert json.loads(b"".join(opencode_pieces(session))) == document


def test_a_long_result_is_whole(store: Store) -> None:
    """OpenCode has no `recall`, so it gets the output and not the preview that names the tool."""
    session = store.create_session()
    session.user("What is in the log?")
    output = "a line of the log\n" * 9_000
    with session.assistant("p/m") as reply:
        call = reply.tool("read", call_id="c1", input={})
        call.succeed(output, truncation=Truncation("a line\nRead them with: recall prt_1 lines 2-9000", 1, 9))
        reply.finish("tool-calls")
    (part,) = [part for part in opencode_export(session)["messages"][1]["parts"] if part["type"] == "tool"]
    assert part["state"]["output"] == output


def test_a_call_that_the_provider_ran_is_still_one(store: Store, other: Store) -> None:
    """A call that the provider ran is one in OpenCode's form and back."""
    session = store.create_session(id="ses_p")
    session.user("look it up")
    with session.assistant("acme/one") as reply:
        for number, metadata in enumerate((None, '{"acme":{"itemId":"i"}}')):
            call = reply.tool("web_search", call_id=f"c{number}", provider_executed=True, metadata=metadata)
            call.start({"q": "x"})
            call.succeed("found")
        reply.finish()
    document = opencode_export(session)
    assert document_faults(document) == []
    read(other, json.dumps(document).encode())
    kinds = [found.event.kind for found in other.session("ses_p").events() if isinstance(found.event, ev.PartStarted)]
    assert [kind.provider_executed for kind in kinds if isinstance(kind, Tool)] == [True, True]
    assert opencode_export(other.session("ses_p")) == document


def test_the_usage_of_an_open_message_comes_back(store: Store, other: Store) -> None:
    """A message that is still open, as imports leave the last one, keeps its usage."""
    session = store.create_session(id="ses_open")
    session.user("hello")
    items = (
        ev.AssistantMessageStarted("msg_a", model=Model("p", "m")),
        ev.StepStarted("msg_a", "prt_s"),
        ev.PartStarted("msg_a", "prt_t", Text("so far")),
        ev.UsageRecorded(Usage(Tokens(7, 2, cache_read=5), Decimal("0.5")), "msg_a", "prt_f", Model("p", "m")),
    )
    session.append([(1_000, item) for item in items])
    document = opencode_export(session)
    assert document_faults(document) == []
    assert "completed" not in document["messages"][-1]["info"]["time"]
    import_file(other, io.BytesIO(json.dumps(document).encode()))
    (info,) = other.sessions()
    assert (info.tokens, info.spent) == (session.info.tokens, session.info.spent) == (14, Decimal("0.5"))


@pytest.mark.parametrize("cost", [None, Decimal("0.5")])
@pytest.mark.parametrize("thought", [0, 3, 9, 12])
def test_usage_with_reasoning_comes_back(store: Store, other: Store, thought: int, cost: Decimal | None) -> None:
    """A usage keeps its sums, unknown costs, and reasoning up to the output."""
    session = store.create_session(id="ses_used")
    session.user("hello")
    with session.assistant("acme/one") as reply:
        reply.stream_text().append("so")
        reply.finish("stop", usage=Usage(Tokens(7, 9, thought, cache_read=5), cost))
    assert opencode_export(session)["messages"][-1]["info"]["tokens"]["output"] == 9 - min(thought, 9)
    import_file(other, io.BytesIO(b"".join(opencode_pieces(session))))
    used, had = (total(usage_by_model(each.reader.spans())) for each in (other.session("ses_used"), session))
    assert used == msgspec.structs.replace(had, reasoning=min(thought, 9))


@pytest.mark.parametrize("summary", [None, "They asked for notes."])
def test_a_compaction_of_the_provider_is_said(store: Store, other: Store, summary: str | None) -> None:
    """A document names such a compaction, with its readable summary; no model gets it."""
    session = store.create_session(id="ses_c")
    session.user("hello")
    items = (
        ev.AssistantMessageStarted("msg_a", model=Model("p", "m")),
        ev.StepStarted("msg_a", "prt_s"),
        ev.PartStarted("msg_a", "prt_o", Opaque("openai.compaction", '{"encrypted_content":"x"}', "p", text=summary)),
        ev.StepFinished("msg_a", "prt_z", "stop"),
        ev.MessageFinished("msg_a", "stop"),
    )
    session.append([(1_000, item) for item in items])
    document = opencode_export(session)
    assert document_faults(document) == []
    (said,) = [part for part in document["messages"][-1]["parts"] if part["type"] == "text"]
    assert said["text"].endswith("(openai.compaction)" if summary is None else f": {summary}")
    assert (said["synthetic"], said["ignored"]) == (True, True)
    import_file(other, io.BytesIO(b"".join(opencode_pieces(session))))
    assert opencode_export(other.session("ses_c")) == document


def test_an_import_that_went_on_natively_keeps_its_fields(store: Store) -> None:
    """After native turns, prunes and edits an import still has every member of OpenCode."""
    shared_path("parity")
    export = next(
        found for s in scenarios() if s.name == "tools-multi" for name, found in s.exports() if name.endswith("02")
    )
    session = put(store, events_of_export(export))
    with session.lease():
        pass
    parts = [part for message in export["messages"] for part in message["parts"]]
    tool = next(part for part in parts if part["type"] == "tool" and part["state"]["status"] == "completed")
    text = next(part for part in parts if part["type"] == "text" and "time" in part)
    session.context.prune([tool["id"]])
    session.edit_part(text["id"], "edited")
    session.user("and now?", model="p/m")
    with session.assistant(model="p/m") as reply:
        reply.stream_text().append("done")
        reply.finish("stop")
    document = opencode_export(session)
    assert document_faults(document) == []
    count = len(export["messages"])
    assert len(document["messages"]) == count + 2
    found = {part["id"]: part for message in document["messages"] for part in message["parts"]}
    assert found[tool["id"]]["state"]["time"].pop("compacted")
    assert found[text["id"]]["text"] == "edited"
    found[text["id"]]["text"] = text["text"]
    assert document["messages"][:count] == export["messages"]
    assert {**document["info"], **dict.fromkeys(("time", "cost", "tokens"), 0)} == {
        **export["info"],
        **dict.fromkeys(("time", "cost", "tokens"), 0),
    }


def test_a_fork_has_ids_of_its_own(store: Store) -> None:
    """OpenCode's message ids are global, so a fork is exported with ids of its own."""
    session = talk(store, "ses_n")
    fork = session.fork(id="ses_m")
    fork.user("on")
    one, two = opencode_export(session), opencode_export(fork)
    assert document_faults(two) == []
    ids = [{message["info"]["id"] for message in document["messages"]} for document in (one, two)]
    assert not ids[0] & ids[1]
    assert len(two["messages"]) == len(one["messages"]) + 1
    assert opencode_export(fork) == two


def test_rolled_back_removed_and_redacted_are_not_in_it(store: Store) -> None:
    """The document has no rolled-back, removed or redacted content."""
    session = store.create_session(id="ses_r", model="p/m")
    kept = session.user("kept")
    session.user("removed secret")
    session.remove_message(session.user("another secret"))
    at = session.version
    session.user("rolled back secret")
    session.rollback(at)
    second = next(message.id for message in Transcript(session).page() if message.id != kept and not message.removed)
    part = next(
        found.event.part
        for found in session.events()
        if getattr(found.event, "message", "") == second and isinstance(found.event, ev.PartStarted)
    )
    session.append([(session.info.updated, ev.PartRedacted(part))], expected_version=session.version)
    text = b"".join(opencode_pieces(session)).decode()
    assert "kept" in text
    assert "secret" not in text
    assert document_faults(opencode_export(session)) == []


def test_foreign_values_are_brought_into_opencodes_form(store: Store) -> None:
    """Errors, inputs, metadata, sources and formats get a form that OpenCode accepts."""
    session = begin_session(store, ev.SessionStarted(parent="parent"), id="not opencode's")  # as an importer does
    kinds: list[PartKind] = [
        Text("hi", metadata="[1]"),
        File("text/plain", "x", None, Source("text", "x")),
        File("text/plain", "x", None, Source("symbol", "x", name="f")),
    ]
    session.user(kinds, tools='{"a":true,"b":1}', format='{"type":"grammar"}')
    message, p1, p2 = "m:1", "p.1", "p.2"
    session.append(
        [
            (5, ev.AssistantMessageStarted(message)),
            (6, ev.PartStarted(message, p1, Tool("c", "t"))),
            (7, ev.ToolRunning(p1, "[1,2]")),
            (8, ev.ToolCompleted(p1, "out", None, "", '"text"', (Attachment("image/png", "data:,", source=Source("text")),))),
            (9, ev.PartStarted(message, p2, Tool("d", "t"))),
            (9, ev.ToolFailed(p2, "bad")),
            (9, ev.PartStarted(message, "p.3", Reasoning("thought"))),
            (9, ev.PartEnded("p.3")),
            (9, ev.MessageFinished(message, "error", MessageError("odd", "what", "[]"))),
        ]
    )  # fmt: skip
    document = opencode_export(session)
    assert document_faults(document) == []
    assert document["info"]["id"].startswith("ses_")
    assert document["messages"][1]["info"]["error"]["data"]["message"].startswith("odd")
    assert document["messages"][1]["parts"][2]["text"] == "thought"
    assert document["messages"][0]["info"]["tools"] == {"a": True}


def test_markdown_says_all_that_was_said(store: Store) -> None:
    """The Markdown has every text, call, output and error in order, with its marks."""
    session = talk(store, "ses_n")
    tool = next(found.event.part for found in session.events() if isinstance(found.event, ev.ToolCompleted))
    session.context.prune([tool])
    session.remove_message(session.user("taken back"))
    text = "".join(markdown_blocks(session))
    places = [text.index(word) for word in ("# Fixed", "please", "> I think", "so it is", '"ls"', "z" * 5000, '"rm"')]
    assert places == sorted(places)
    assert "pruned" in text
    assert "## user · " in text
    assert "removed" in text[text.index("taken back") - 100 : text.index("taken back")]
    assert "**error**: not allowed" in text
    text.encode()


def test_markdown_fences_hold_what_is_in_them(store: Store) -> None:
    """Markdown puts an output with fences into a longer fence."""
    session = store.create_session(model=Model("p", "m"))
    with session.assistant() as reply:
        reply.tool("cat", call_id="c", input={}).succeed("a\n`````\nb\n")
        reply.finish("stop")
    assert "``````\na\n`````\nb\n``````\n" in "".join(markdown_blocks(session))


def test_markdown_of_a_tree_tells_each_message_once(store: Store) -> None:
    """With --tree forks and sub-sessions follow, without the messages they inherited."""
    session = talk(store, "ses_n")
    fork = session.fork(id="ses_f")
    fork.user("in the fork")
    session.subsession(id="ses_s").user("below")
    text = "".join(markdown_blocks(session, tree=True))
    assert [text.count(word) for word in ("I think", "in the fork", "below", "\n---\n")] == [1, 1, 1, 2]
    assert "".join(markdown_blocks(fork)).count("I think") == 1


def test_markdown_of_recorded_sessions(store: Store) -> None:
    """Markdown of recorded sessions has every part's text."""
    data = shared_path("data")
    words = 0
    for path in recorded(data, "claude_code_jsonl")[::4]:
        for name in import_file(store, path).sessions:
            session = store.session(name)
            whole = "".join(markdown_blocks(session))
            for said in Transcript(session).newest_first():
                for part in said.parts:
                    if part.kind == "text" and part.text.isascii():
                        assert part.text.strip("\n") in whole
                        words += 1
    assert words > 100


def test_exports_read_only(store: Store) -> None:
    """No export writes anything."""
    session = talk(store)
    before = (store.log.last_positions(), session.version)
    jsonl(session, tree=True)
    opencode_export(session)
    "".join(markdown_blocks(session, tree=True))
    assert (store.log.last_positions(), session.version) == before
    assert msgspec.json.decode(b"".join(opencode_pieces(store.create_session(id="ses_e"))))["messages"] == []
