"""Importer of chat histories of aider, `.aider.chat.history.md`.

A line `# aider chat started at TIME` begins a session, lines with `#### ` are of the user, those
with `> ` are aider's own; all else is of the model. Between two prompts there is one answer, for
nothing tells where another began. Commands (`/add` …) are no messages, unless they ask the model.

A source record is a run of lines of one kind, or one line of aider's own: its text without white
space at the ends of lines, what stood `before` it, and, where they are not the usual ones, its
lines' `ends`. Blank lines at the end of the file are in no record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_lines import MAX_LINE, is_object
from eventlog.importers.common.message_lists import ListedConversation
from eventlog.importers.common.message_reader import RecordLists
from eventlog.streams.records import text_of

_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")
_BEGINNING = re.compile(rb"\s*# aider chat started at \d{4}-\d\d-\d\d ")
PREFIXES = {"user": "#### ", "tool": "> "}
"""How lines of a kind begin; those of the model have no prefix."""
_ASKING = ("/ask", "/code", "/architect", "/help", "/chat-mode")
"""Commands whose words the model is given."""
_LONGEST = 1 << 20
"""Characters of a record; a longer run is several."""


class AiderMapping:
    """The mapping; a record is a run of lines."""

    format = "aider"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one run of lines means."""
        kind, text = text_of(record.get("kind")), text_of(record.get("text"))
        if kind == "user" and text.startswith(("/", "!")) and not text.startswith(_ASKING):
            to.skip("a command to aider: kept, but no message")
        elif kind == "user":
            to.user(text)
        elif kind == "assistant" and not to.begun:
            to.skip("a text before the first prompt: kept, but no message")
        elif kind == "assistant":
            if to.conversation.open is None:
                to.answer()
            to.text(text)
        elif kind == "tool":
            to.skip("a line of aider's own: kept, but no message")


class _Run:
    """Lines of one kind while they are read."""

    def __init__(self, kind: str, number: int, before: str) -> None:
        self.kind = kind
        self.number = number
        self.before = before
        self.size = 0
        self._lines: list[tuple[str, str, str]] = []

    def add(self, line: str) -> None:
        """Add a line, with its end."""
        self.size += len(line)
        prefix = PREFIXES.get(self.kind, "")
        if not line.startswith(prefix):
            prefix = prefix.rstrip()
        body = line[len(prefix) :]
        said = body.rstrip()
        self._lines.append((prefix, said, body[len(said) :]))

    def record(self) -> dict[str, Any]:
        """Return the lines as a source record."""
        prefix = PREFIXES.get(self.kind, "")
        found: dict[str, Any] = {"kind": self.kind, "before": self.before}
        if prefix:
            found["text"] = "\n".join(said for _, said, _ in self._lines)
            ends = [[before, after] for before, _, after in self._lines]
        else:  # white space within what a model wrote is its own
            whole = "".join(said + after for _, said, after in self._lines)
            found["text"] = whole.rstrip()
            ends = [["", whole[len(found["text"]) :]]]
        if ends != [[prefix, "  \n" if prefix else "\n"]] * len(ends):
            found["ends"] = ends
        return found


def _kind(line: str) -> str:
    if _START.match(line):
        return "start"
    return next((kind for kind, prefix in PREFIXES.items() if f"{line.rstrip()} ".startswith(prefix)), "assistant")


def _runs(file: BinaryIO, report: Report) -> Iterator[tuple[int, Any, bool]]:
    """Yield the records of the file; blank lines belong to what follows them."""
    run: _Run | None = None
    blank, number = "", 0
    while raw := file.readline(MAX_LINE):
        number += 1
        line = raw.decode("utf-8", "replace")
        if number == 1:
            line = line.removeprefix("\ufeff")
        if "\ufffd" in line and line.encode() != raw:
            report.skip(number, "not UTF-8: U+FFFD stands in its place")
        if not line.strip():
            blank += line
            continue
        kind = _kind(line)
        goes_on = run is not None and run.kind == kind and run.size < _LONGEST
        if run is not None and goes_on and (kind == "assistant" or (kind == "user" and not blank)):
            if blank:
                run.add(blank)
        else:
            if run is not None:
                yield run.number, run.record(), True
            run = _Run(kind, number, blank)
        blank = ""
        run.add(line)
    if run is not None:
        yield run.number, run.record(), True


def _conversations(file: BinaryIO, report: Report) -> Iterator[ListedConversation]:
    runs = _runs(file, report)
    waiting = next(runs, None)
    names: dict[str, int] = {}

    def rest(first: tuple[int, Any, bool]) -> Iterator[tuple[int, Any, bool]]:
        nonlocal waiting
        waiting = None
        yield first
        for run in runs:
            if run[1]["kind"] == "start":
                waiting = run
                return
            yield run

    while waiting is not None:
        found = _START.match(text_of(waiting[1]["text"])) if is_object(waiting[1]) else None
        time = found.group(1) if found else ""
        names[time] = names.get(time, 0) + 1
        name = f":{time}" + (f"~{names[time]}" if names[time] > 1 else "")
        yield ListedConversation(name, "", {}, rest(waiting), {"timestamp": time})


AIDER = RecordLists(AiderMapping(), lambda start: bool(_BEGINNING.match(start)), _conversations)
