"""A small recorded session, and a player that streams it again through a live session.

`README.md` says where the recording is from, and its licence.
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

__all__ = ["Listener", "answer_path", "play", "prompt"]

Listener: TypeAlias = Callable[[Literal["reasoning", "call", "text", "result"], str], None]
"""Called with the kind and the text of each delta."""


def answer_path() -> Path:
    """Return the file with the recorded stream of the answer."""
    return Path(str(files("projections.demo") / "answer.sse"))


def prompt() -> str:
    """Return the user's question."""
    return (files("projections.demo") / "prompt.txt").read_text(encoding="utf-8").strip()


def play(recorded: Session, live: Session, on_delta: Listener) -> int:
    """Stream the assistant messages of a session into another; return the number of deltas."""
    player = _Player(recorded, live, on_delta)
    with ExitStack() as stack:
        for each in recorded.events():
            player.play(each.event, stack)
    return player.deltas


class _Player:
    """Turns recorded events into commands on a live session."""

    def __init__(self, recorded: Session, live: Session, on_delta: Listener) -> None:
        self._text = recorded.text
        self._live = live
        self._on_delta = on_delta
        self._reply: Reply | None = None
        self._streams: dict[str, tuple[Literal["text", "reasoning"], TextStream]] = {}
        self._calls: dict[str, ToolCall] = {}
        self._usage: Usage | None = None
        self.deltas = 0

    def play(self, event: ev.Event, stack: ExitStack) -> None:
        """Run the command that the event records."""
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
                self._on_delta("call", f"{tool} ")
            case _:
                self._reply.part(event.kind)

    def _grow(self, event: ev.PartDelta) -> None:
        if not event.text:
            return
        self.deltas += 1
        if event.part in self._calls:
            self._calls[event.part].stream_input(event.text)
            self._on_delta("call", event.text)
        else:
            kind, stream = self._streams[event.part]
            stream.append(event.text)
            self._on_delta(kind, event.text)

    def _tool(self, event: ev.Event) -> None:
        match event:
            case ev.ToolRunning():
                self._calls[event.part].start(self._text(event.input), title=event.title)
            case ev.ToolCompleted():
                output = self._text(event.output)
                self._calls[event.part].succeed(output, title=event.title, metadata=event.metadata)
                self._on_delta("result", output)
            case ev.ToolFailed():
                self._calls[event.part].fail(self._text(event.error), interrupted=event.interrupted)
            case _:
                pass
