"""Operations of a reply being written, its texts, calls, steps and end; and pipelines."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from eventlog import Reply, TextStream, ToolCall
from eventlog.append.pipeline import Pipeline
from eventlog.values import MessageError, Patch
from tests.growth.operation import Table, constant
from tests.growth.place import Place

CHUNKS: list[dict[str, Any]] = [
    *({"choices": [{"delta": {"content": "word "}}]} for _ in range(20)),
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
]
"""An answer of Chat Completions."""


@contextmanager
def _reply(at: Place) -> Generator[Reply]:
    """An open reply; the parts it leaves open are interrupted after the call."""
    with at.long.assistant() as reply:
        yield reply


@contextmanager
def _begun(at: Place) -> Generator[Reply]:
    """A reply that has not started, of a session whose lease is held."""
    with at.long.lease():
        reply = at.long.assistant()
        yield reply
        reply.close(None)


@contextmanager
def _step(at: Place) -> Generator[Reply]:
    with _reply(at) as reply:
        reply.step()
        yield reply


@contextmanager
def _text(at: Place) -> Generator[TextStream]:
    with _reply(at) as reply:
        text = reply.stream_text()
        text.append("some")
        yield text


@contextmanager
def _pending(at: Place) -> Generator[ToolCall]:
    with _reply(at) as reply:
        yield reply.tool("bash", call_id=at.name("c"))


@contextmanager
def _running(at: Place) -> Generator[ToolCall]:
    with _reply(at) as reply:
        yield reply.tool("bash", call_id=at.name("c"), input={})


@contextmanager
def _pipeline(at: Place) -> Generator[Pipeline]:
    with at.long.executor.collecting() as pipeline:
        at.long.rename("one")
        yield pipeline
    pipeline.commit()


def _called(_: Place, reply: Reply) -> None:
    reply.call(reply.tool("bash", call_id="c").id)


def _deltas(_: Place, text: TextStream) -> None:
    for _number in range(100):
        text.append("word ")


REPLY: Table = {
    "Reply.abort": constant(lambda _, reply: reply.abort(), _reply),
    "Reply.begin": constant(lambda _, reply: reply.begin(), _begun),
    "Reply.call": constant(_called, _reply),
    "Reply.close": constant(lambda _, reply: reply.close(None), _reply),
    "Reply.end_step": constant(lambda _, reply: reply.end_step(), _step),
    "Reply.fill": constant(lambda _, reply: reply.fill(CHUNKS), _reply),
    "Reply.record_custom": constant(lambda _, reply: reply.record_custom("x", "{}"), _reply),
    "Reply.finish": constant(lambda _, reply: reply.finish(), _reply),
    "Reply.in_step": constant(lambda _, reply: reply.in_step, _reply),
    "Reply.interrupt_requested": constant(lambda _, reply: reply.interrupt_requested, _reply),
    "Reply.looks_back": constant(lambda _, reply: reply.looks_back("length"), _reply),
    "Reply.is_open": constant(lambda _, reply: reply.is_open, _reply),
    "Reply.part": constant(lambda _, reply: reply.part(Patch("hash", ())), _reply),
    "Reply.stream_reasoning": constant(lambda _, reply: reply.stream_reasoning(), _reply),
    "Reply.retry": constant(lambda _, reply: reply.retry(MessageError("api")), _reply),
    "Reply.add_text": constant(lambda _, reply: reply.add_text("an answer"), _reply),
    "Reply.step": constant(lambda _, reply: reply.step(), _reply),
    "Reply.stream_text": constant(lambda _, reply: reply.stream_text(), _reply),
    "Reply.tool": constant(lambda at, reply: reply.tool("bash", call_id=at.name("c")), _reply),
    "ToolCall.fail": constant(lambda _, call: call.fail("no"), _running),
    "ToolCall.stream_input": constant(lambda _, call: call.stream_input("{"), _pending),
    "ToolCall.stream_output": constant(lambda _, call: call.stream_output("some"), _running),
    "ToolCall.progress": constant(lambda _, call: call.progress("half done"), _running),
    "ToolCall.start": constant(lambda _, call: call.start("{}"), _pending),
    "ToolCall.succeed": constant(lambda _, call: call.succeed("done"), _running),
    "TextStream.append": constant(_deltas, _text),
    "TextStream.close": constant(lambda _, text: text.close(), _text),
    "TextStream.end": constant(lambda _, text: text.end(), _text),
    "TextStream.is_open": constant(lambda _, text: text.is_open, _text),
    "Pipeline.commit": constant(lambda _, pipeline: pipeline.commit(), _pipeline),
    "Pipeline.is_open": constant(lambda _, pipeline: pipeline.is_open, _pipeline),
    "Pipeline.committed": constant(lambda at, pipeline: at.awaited(pipeline.committed()), _pipeline),
}
