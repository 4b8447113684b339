"""Chat Completions as servers speak them: each call whole, each failure a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.session.filling import Filled
from eventlog.streams.openai_chat import ChatReader
from eventlog.values import Text
from projections import Transcript

Chunk = dict[str, Any]


def chunk(*calls: Chunk, finish: str | None = None, **delta: Any) -> Chunk:
    """A chunk with calls, and other fields of its delta."""
    return {"choices": [{"delta": {**({"tool_calls": [*calls]} if calls else {}), **delta}, "finish_reason": finish}]}


def call(index: int | None, id: str | None, name: str | None, arguments: Any) -> Chunk:
    """A piece of a call, without the fields that are None."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    found: Chunk = {"type": "function", "function": function}
    return found | {key: value for key, value in (("index", index), ("id", id)) if value is not None}


END = chunk(finish="tool_calls")
BOTH = [("a", "ls", '{"p":1}'), ("b", "cat", '{"q":2}')]
ONE = [("a", "ls", '{"p":1}')]
DIALECTS: dict[str, tuple[list[Chunk], list[tuple[str, str, str]]]] = {
    "as documented": (
        [
            chunk(call(0, "a", "ls", "")),
            chunk(call(0, None, None, '{"p":')),
            chunk(call(0, None, None, "1}")),
            chunk(call(1, "b", "cat", '{"q":2}')),
        ],
        BOTH,
    ),
    "pieces of two calls in turn": (
        [
            chunk(call(0, "a", "ls", ""), call(1, "b", "cat", "")),
            chunk(call(1, None, None, '{"q":')),
            chunk(call(0, None, None, '{"p":1}')),
            chunk(call(1, None, None, "2}")),
        ],
        BOTH,
    ),
    "index 0 for every call": ([chunk(call(0, "a", "ls", '{"p":1}')), chunk(call(0, "b", "cat", '{"q":2}'))], BOTH),
    "no index": ([chunk(call(None, "a", "ls", '{"p":1}')), chunk(call(None, "b", "cat", '{"q":2}'))], BOTH),
    "no index, in one chunk": ([chunk(call(None, "a", "ls", '{"p":1}'), call(None, "b", "cat", '{"q":2}'))], BOTH),
    "no index, pieces": ([chunk(call(None, "a", "ls", '{"p":')), chunk(call(None, None, None, "1}"))], ONE),
    "no index, empty ids, one tool": (
        [chunk(call(None, "", "ls", '{"p":1}')), chunk(call(None, "", "ls", '{"p":2}'))],
        [("call_0", "ls", '{"p":1}'), ("call_1", "ls", '{"p":2}')],
    ),
    "one id for two calls": (
        [chunk(call(0, "X", "ls", '{"p":1}')), chunk(call(1, "X", "ls", '{"p":2}'))],
        [("X", "ls", '{"p":1}'), ("X_2", "ls", '{"p":2}')],
    ),
    "the id in every piece": ([chunk(call(0, "a", "ls", '{"p":')), chunk(call(0, "a", "ls", "1}"))], ONE),
    "the name in pieces": ([chunk(call(0, "a", "l", "")), chunk(call(0, None, "s", '{"p":1}'))], ONE),
    "empty arguments first": ([chunk(call(0, "a", "ls", "{}")), chunk(call(0, None, None, '{"p":1}'))], ONE),
    "empty arguments": ([chunk(call(0, "a", "ls", "{}"))], [("a", "ls", "{}")]),
    "no arguments": ([chunk(call(0, "a", "ls", None))], [("a", "ls", "{}")]),
    "arguments as an object": ([chunk(call(0, "a", "ls", {"p": 1}))], ONE),
    "a function call": ([chunk(function_call={"name": "ls", "arguments": '{"p":1}'})], [("call_0", "ls", '{"p":1}')]),
    "finished as stopped": ([chunk(call(0, "a", "ls", '{"p":1}')), chunk(finish="stop")], ONE),
    "other choices": (
        [{"choices": [{"index": 1, "delta": {"content": "no"}}, *chunk(call(0, "a", "ls", '{"p":1}'))["choices"]]}],
        ONE,
    ),
}


def filled(chunks: list[Chunk], store: eventlog.Store) -> tuple[eventlog.Session, Filled]:
    """Fill a reply of a new session, and run its calls."""
    session = store.create_session()
    session.user("go")
    with session.assistant("local/x") as reply:
        end = reply.fill(chunks)
        for each in end.calls:
            each.start("{}")
            each.succeed("done")
        if reply.is_open:
            reply.finish("tool-calls")
    return session, end


def calls_of(session: eventlog.Session) -> list[tuple[str, str, str]]:
    """Id, tool and streamed arguments of each call."""
    started = [each.event for each in session.events() if isinstance(each.event, ev.PartStarted)]
    deltas = [each.event for each in session.events() if isinstance(each.event, ev.PartDelta)]
    return [
        (start.kind.call, start.kind.tool, "".join(each.text for each in deltas if each.part == start.part) or "{}")
        for start in started
        if isinstance(start.kind, eventlog.values.Tool)
    ]


@pytest.mark.parametrize("name", DIALECTS)
def test_each_call_of_a_dialect_is_whole(name: str) -> None:
    """Whichever fields a server leaves out or repeats, each call has its id and arguments."""
    chunks, expected = DIALECTS[name]
    with eventlog.open("memory:") as store:
        session, end = filled([*chunks, END] if name != "finished as stopped" else chunks, store)
        assert calls_of(session) == expected
        assert (end.reason, len(end.calls)) == ("tool-calls", len(expected))


@pytest.mark.parametrize("arguments", ['{"p":', '{"p":1}{"p":2}', "[1]", "ls -l", '"x"'])
@pytest.mark.parametrize("finish", ["tool_calls", "length"])
def test_a_call_without_whole_arguments_fails_and_goes_back_to_the_model(arguments: str, finish: str) -> None:
    """The call never runs, the others do, and the failure tells the model what to do."""
    chunks = [chunk(call(0, "a", "ls", arguments)), chunk(call(1, "b", "cat", '{"q":2}'), finish=finish)]
    with eventlog.open("memory:") as store:
        session, end = filled(chunks, store)
        assert [each.call_id for each in end.calls] == ["b"]
        failed = [each.event for each in session.events() if isinstance(each.event, ev.ToolFailed)]
        (error,) = [session.text(event.error) for event in failed]
        assert "whole" in error
        assert arguments in error
        alone, end = filled([chunk(call(0, "a", "ls", arguments), finish=finish)], store)
        assert end.calls == ()
        finished = [each.event for each in alone.events() if isinstance(each.event, ev.MessageFinished)]
        assert [event.reason for event in finished] == ["tool-calls"]


def test_text_behind_a_call_is_a_part_of_its_own() -> None:
    """The order of text, call and text is that of the model."""
    with eventlog.open("memory:") as store:
        session, _ = filled([chunk(content="a"), chunk(call(0, "a", "ls", '{"p":1}')), chunk(content="b"), END], store)
        (message,) = [each for each in Transcript(session).oldest_first() if each.role == "assistant"]
        assert [(part.kind, part.text) for part in message.parts if part.kind in {"text", "tool"}] == [
            ("text", "a"),
            ("tool", "done"),
            ("text", "b"),
        ]


def test_reasoning_of_a_router_keeps_its_signature() -> None:
    """`reasoning_details` are text and the provider's metadata, to be sent back."""
    details = [{"type": "reasoning.text", "text": "hm", "signature": "S", "index": 0}]
    with eventlog.open("memory:") as store:
        session, _ = filled([chunk(reasoning_details=details), chunk(content="x", finish="stop")], store)
        ended = [each.event.metadata for each in session.events() if isinstance(each.event, ev.PartEnded)]
        assert '"signature":"S"' in str(ended[0])
        assert ended[1] is None


def _block(index: int, start: Chunk, *deltas: Chunk, late: int = 0) -> list[Chunk]:
    """The events of a block of Anthropic, which begins `late` deltas behind its first."""
    found: list[Chunk] = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    found.insert(late, {"type": "content_block_start", "index": index, "content_block": start})
    return [*found, {"type": "content_block_stop", "index": index}]


def _used(id: str, at: int, late: int = 0) -> list[Chunk]:
    pieces = ({"type": "input_json_delta", "partial_json": piece} for piece in ('{"a":', f"{at}}}"))
    return _block(at, {"type": "tool_use", "id": id, "name": "f", "input": {}}, *pieces, late=late)


def _item(id: str, call: str, at: int, late: int = 0) -> list[Chunk]:
    item = {"type": "function_call", "id": id, "call_id": call, "name": "f", "arguments": ""}
    done = {"type": "response.output_item.done", "item": {**item, "arguments": f'{{"a":{at}}}'}}
    found: list[Chunk] = [
        {"type": "response.function_call_arguments.delta", "item_id": id, "delta": f'{{"a":{at}}}'},
        done,
    ]
    found.insert(late, {"type": "response.output_item.added", "item": item})
    return found


def _part(at: int) -> Chunk:
    call = {"id": "x", "name": "f", "args": {"a": at}}
    return {"candidates": [{"content": {"parts": [{"functionCall": call}]}}]}


DISORDER: dict[str, list[Chunk]] = {
    "Anthropic, one id": [*_used("x", 0), *_used("x", 1)],
    "Anthropic, arguments before their call": [*_used("x", 0), *_used("y", 1, late=1)],
    "Anthropic, all arguments before their call": [*_used("x", 0, late=2), *_used("y", 1)],
    "Responses, one id": [*_item("fc_1", "x", 0), *_item("fc_2", "x", 1)],
    "Responses, one item id": [*_item("fc_1", "x", 0), *_item("fc_1", "y", 1)],
    "Responses, arguments before their call": [*_item("fc_1", "x", 0), *_item("fc_2", "y", 1, late=1)],
    "Responses, whole before its beginning": [*_item("fc_1", "x", 0), *_item("fc_2", "y", 1, late=2)],
    "Gemini, one id": [_part(0), _part(1)],
}


@pytest.mark.parametrize("name", DISORDER)
def test_calls_that_come_in_disorder_are_whole_and_have_ids_of_their_own(name: str) -> None:
    """Equal ids, and events in another order, lose no call and no argument."""
    with eventlog.open("memory:") as store:
        session, _ = filled(DISORDER[name], store)
        found = calls_of(session)
    assert [json.loads(arguments) for *_, arguments in found] == [{"a": 0}, {"a": 1}]
    assert len({id for id, *_ in found}) == 2


@pytest.mark.parametrize("api", ["anthropic", "openai-responses"])
def test_a_text_before_its_beginning_is_one_text(api: str) -> None:
    """The event that announces a text may come behind the first piece of it."""
    message = {"type": "message", "id": "msg_1"}
    pieces = [{"type": "text_delta", "text": piece} for piece in ("Hel", "lo")]
    delta = {"type": "response.output_text.delta", "item_id": "msg_1", "content_index": 0}
    chunks: dict[str, list[Chunk]] = {
        "anthropic": _block(0, {"type": "text", "text": ""}, *pieces, late=1),
        "openai-responses": [
            {**delta, "delta": "Hel"},
            {"type": "response.output_item.added", "item": message},
            {**delta, "delta": "lo"},
            {"type": "response.output_item.done", "item": message},
        ],
    }
    with eventlog.open("memory:") as store:
        session, _ = filled(chunks[api], store)
        parts = [found.event.kind for found in session.events() if isinstance(found.event, ev.PartStarted)]
        said = [found.event.text for found in session.events() if isinstance(found.event, ev.PartDelta)]
    assert len([kind for kind in parts if isinstance(kind, Text)]) == 2  # the question, and the answer
    assert "".join(said) == "Hello"


@pytest.mark.parametrize(("completion", "total"), [(9, 19), (4, 19), (9, None)], ids=["within", "beside", "no total"])
def test_a_completion_has_the_reasoning_once(completion: int, total: int | None) -> None:
    """Where the total shows that reasoning is beside the completion, the output has both."""
    counts = {"prompt_tokens": 10, "completion_tokens": completion, "total_tokens": total}
    used = {**counts, "completion_tokens_details": {"reasoning_tokens": 5}}
    with eventlog.open("memory:") as store:
        _, end = filled([chunk(content="a", finish="stop"), {**chunk(), "usage": used}], store)
    assert end.usage is not None
    assert (end.usage.tokens.output, end.usage.tokens.reasoning) == (9, 5)


def _none(_reader: ChatReader, _chunk: Chunk) -> list[Any]:
    return []


@pytest.mark.parametrize("name", [*DIALECTS, "interleaved"])
def test_the_quick_way_reads_as_the_long_way_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of one piece, which are read at once, give the same parts."""
    mixed = [
        chunk(content="a", role="assistant", refusal=None, tool_calls=None),
        chunk(content="b", reasoning_content="hm"),
        chunk(call(0, "x", "f", "")),
        chunk(call(0, None, None, '{"p"')),
        chunk(content="between"),
        chunk(call(0, None, None, ":1}")),
        chunk(reasoning_details=[{"type": "reasoning.text", "text": "t", "signature": "S"}]),
        {**chunk(content="c"), "usage": {"prompt_tokens": 3}},
        chunk(content="d", finish="tool_calls"),
    ]
    chunks = mixed if name == "interleaved" else DIALECTS[name][0]
    found: list[list[Any]] = []
    for _ in range(2):
        with eventlog.open("memory:") as store:
            session, end = filled(chunks, store)
            parts = [(part.kind, part.text) for message in Transcript(session).oldest_first() for part in message.parts]
            found.append([parts, end.reason, end.usage, calls_of(session)])
        monkeypatch.setattr(ChatReader, "_plain_text", _none)
    assert found[0] == found[1]
