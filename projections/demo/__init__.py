"""A small recorded session, and playing it: what was recorded is streamed once more, delta by delta, through a live handle.

Not the command that shows it (`projections/cli/commands/demo.py`).  Where the recording is from, and its licence, is in `README.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeAlias

from eventlog import Reply, Session, TextStream, ToolCall, Usage
from eventlog import events as ev
from eventlog.values import Reasoning, Text, Tool

__all__ = ["Heard", "answer_path", "play", "prompt"]

Heard: TypeAlias = Callable[[Literal["reasoning", "call", "text", "result"], str], None]
"""Is told of each piece as it goes by."""


def answer_path() -> Path:
    """The recorded stream of the answer."""
    return Path(str(files("projections.demo") / "answer.sse"))


def prompt() -> str:
    """What the user had asked."""
    return (files("projections.demo") / "prompt.txt").read_text(encoding="utf-8").strip()


def play(recorded: Session, live: Session, heard: Heard) -> int:
    """Stream the assistant messages of one session into another, as an agent would; returns the number of deltas."""
    player = _Player(recorded, live, heard)
    with ExitStack() as stack:
        for found in recorded.events():
            player.take(found.event, stack)
    return player.deltas


class _Player:
    """Turns recorded events into commands on a live session."""

    def __init__(self, recorded: Session, live: Session, heard: Heard) -> None:
        self._text = recorded.text
        self._live = live
        self._heard = heard
        self._reply: Reply | None = None
        self._streams: dict[str, tuple[Literal["text", "reasoning"], TextStream]] = {}
        self._calls: dict[str, ToolCall] = {}
        self._usage: Usage | None = None
        self.deltas = 0

    def take(self, event: ev.Event, stack: ExitStack) -> None:
        """Do what the event says was done."""
        match event:
            case ev.AssistantMessageStarted():
                self._reply = stack.enter_context(self._live.assistant(event.model))
                self._reply.step()
            case ev.PartStarted():
                self._begin(event)
            case ev.PartDelta():
                self._grow(event)
            case ev.PartEnded() if event.part in self._streams:
                self._streams[event.part][1].end(event.metadata)
            case ev.UsageRecorded():
                self._usage = event.usage
            case ev.MessageFinished() if self._reply is not None:
                self._reply.finish(event.reason or "stop", usage=self._usage)
            case _:
                self._tool(event)

    def _begin(self, event: ev.PartStarted) -> None:
        assert self._reply is not None, "the recording has an answer only"
        match event.kind:
            case Text():
                self._streams[event.part] = ("text", self._reply.stream_text())
            case Reasoning():
                self._streams[event.part] = ("reasoning", self._reply.stream_reasoning())
            case Tool(call, tool, provider_executed, metadata):
                self._calls[event.part] = self._reply.tool(
                    tool, call_id=call, provider_executed=provider_executed, metadata=metadata
                )
                self._heard("call", f"{tool} ")
            case _:
                self._reply.part(event.kind)

    def _grow(self, event: ev.PartDelta) -> None:
        if not event.text:
            return
        self.deltas += 1
        if event.part in self._calls:
            self._calls[event.part].stream_input(event.text)
            self._heard("call", event.text)
        else:
            kind, stream = self._streams[event.part]
            stream.append(event.text)
            self._heard(kind, event.text)

    def _tool(self, event: ev.Event) -> None:
        match event:
            case ev.ToolRunning():
                self._calls[event.part].start(self._text(event.input), title=event.title)
            case ev.ToolCompleted():
                output = self._text(event.output)
                self._calls[event.part].succeed(output, title=event.title, metadata=event.metadata)
                self._heard("result", output)
            case ev.ToolFailed():
                self._calls[event.part].fail(self._text(event.error), interrupted=event.interrupted)
            case _:
                pass
