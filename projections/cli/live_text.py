"""Events of a session as they happen, as text: what `tail --follow` prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from projections.cli.screen import draw, safe
from projections.reports.wording import counted, moment, pruned_words

if TYPE_CHECKING:
    from eventlog import Session
    from eventlog.codec.decoded import Recorded
    from eventlog.values import Content

_ROLES = {"user": "cyan", "assistant": "green"}


class LivePrinter:
    """Prints events one by one; streamed text goes on where it ended."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tools: dict[str, str] = {}
        self._streaming: tuple[str, str] | None = None
        """The part and field whose text is on the last line."""

    def event(self, recorded: Recorded) -> None:
        """Print an event, at once."""
        from eventlog import events as ev
        from eventlog.values import Reasoning, Text, Tool

        event = recorded.event
        match event:
            case ev.UserMessageAdded():
                self._heading("user", recorded)
            case ev.AssistantMessageStarted():
                self._heading("assistant", recorded)
            case ev.PartStarted(kind=Text(text=text) | Reasoning(text=text)):
                if text:
                    self._line(self._text(text))
            case ev.PartStarted(kind=Tool(tool=tool)):
                self._tools[event.part] = tool
            case ev.PartDelta(field="text"):
                self._stream((event.part, event.field), event.text)
            case ev.ToolRunning():
                self._line(f"-> {self._tools.get(event.part, 'tool')} {self._text(event.input)}", "magenta")
            case ev.CallAsked():
                why = f": {event.reason}" if event.reason else ""
                self._line(f"-? {self._tools.get(event.part, 'tool')} {self._text(event.input)} waits{why}", "yellow")
            case ev.CallAnswered():
                by = f" by {event.by}" if event.by else ""
                self._line(f"(answered{by}: {event.verdict}{': ' if event.reason else ''}{event.reason})", "dim")
            case ev.ToolCompleted():
                self._line("<- " + self._text(event.output), "dim")
            case ev.ToolFailed():
                self._line("<! " + self._text(event.error), "red")
            case ev.MessageFinished(error=error) if error is not None:
                self._line(f"failed: {error.name}", "red")
            case ev.Pruned():
                words = pruned_words(len(event.parts), len(event.arguments))
                self._line(f"(pruned: {words}; {counted(event.freed, 'token')} freed)", "dim")
            case ev.MediaReplaced():
                self._line(f"({event.mime} {event.name} refused, and named instead)", "dim")
            case ev.CompactionCompleted():
                self._line(f"(compacted; the summary is {event.summary})", "dim")
            case ev.RolledBack():
                self._line(f"(rolled back to version {event.to})", "dim")
            case ev.SessionErased():
                self._line("(erased)", "dim")
            case _:
                return
        sys.stdout.flush()

    def end(self) -> None:
        """End the last line."""
        if self._streaming is not None:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._streaming = None

    def _heading(self, role: str, recorded: Recorded) -> None:
        self.end()
        facts = f"  {moment(recorded.time)}  version {recorded.version}"
        draw((role, f"bold {_ROLES[role]}"), (facts, "dim"))

    def _line(self, text: str, look: str = "") -> None:
        self.end()
        for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n"):
            draw((line, look))

    def _stream(self, place: tuple[str, str], text: str) -> None:
        if self._streaming != place:
            self.end()
        self._streaming = place
        sys.stdout.write(safe(text))

    def _text(self, content: Content) -> str:
        return self._session.text(content)
