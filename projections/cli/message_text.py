"""Messages of a transcript as text: Markdown on a terminal, plain text elsewhere.

`show` and `tail` print them. On a terminal long results are cut, and ids are short; what is cut can
be printed by `eventlog recall`. A pipe or file gets everything.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from projections.cli import output
from projections.cli.screen import columns, console, cut, draw, is_terminal, safe
from projections.reports.wording import counted, moment
from projections.view.opening_words import arguments, opening

if TYPE_CHECKING:
    from projections.cli.short_ids import ShortIds
    from projections.transcript.message import TranscriptMessage, TranscriptPart

LINES = 12
"""Lines that a terminal gets of a result."""
WIDEST = 100
"""Columns of a text: longer lines are hard to read."""
LONGEST = 50_000
"""Characters of the longest text that is laid out as Markdown, which takes its time."""
UNSHOWN = frozenset(("step-start", "step-finish"))
"""Parts that only count."""
_ROLES = {"user": "cyan", "assistant": "green"}


class MessagePrinter:
    """Prints messages; `whole` prints all of each result on a terminal, too."""

    def __init__(self, short: ShortIds, *, whole: bool = False) -> None:
        self._short = short
        self._drawn = is_terminal()
        self._lines = None if whole or not self._drawn else LINES

    def message(self, message: TranscriptMessage) -> None:
        """Print a message: its heading, then its parts."""
        self.heading(message)
        for part in message.parts:
            self.part(part)
        if self._drawn:
            output.line()

    def heading(self, message: TranscriptMessage) -> None:
        """Print who says it, when, at which version, and what became of it."""
        marks = [
            *([str(message.model)] if message.model is not None else []),
            *(name for name in ("synthetic", "summary", "removed") if getattr(message, name)),
            *(["compacted"] if message.covered is not None else []),
            *([f"failed: {message.error.name}"] if message.error is not None else []),
            *(["unfinished"] if message.role == "assistant" and message.finished is None else []),
        ]
        if not self._drawn:
            suffix = f"  [{', '.join(marks)}]" if marks else ""
            output.heading(f"{message.role}  version {message.version}  {moment(message.created)}{suffix}")
            return
        facts = [moment(message.created), f"version {message.version}", self._short.of(message.id), *marks]
        role = _ROLES.get(message.role, "")
        draw((message.role, f"bold {role}"), ("  " + "  ".join(facts), "dim"), cut_at=min(columns(), WIDEST))

    def part(self, part: TranscriptPart) -> None:
        """Print a part."""
        suffix = f" [{', '.join(part.marks)}]" if part.marks else ""
        if part.kind == "text":
            self._text(part, suffix)
        elif part.kind == "reasoning":
            self._block(part.text.removesuffix("\n") + suffix, "~ ", "dim")
        elif part.kind == "tool":
            self._tool(part, suffix)
        elif part.kind not in UNSHOWN:
            named = " ".join(word for word in (part.title, part.mime, part.filename or "") if word)
            description = " ".join(word for word in (safe(named, one_line=True), part.text) if word)
            output.block(f"({part.kind}{': ' if description else ''}{description}){suffix}")

    def _text(self, part: TranscriptPart, suffix: str) -> None:
        if self._lines is not None and part.synthetic:
            self._block(part.text + suffix, "", "dim", part.id)
        elif self._drawn and not part.marks and len(part.text) <= LONGEST and console().color_system:
            _print_markdown(part.text)
        else:
            output.block(part.text + suffix)

    def _tool(self, part: TranscriptPart, suffix: str) -> None:
        if not self._drawn:
            output.line(f"-> {part.tool}({part.input}) {part.status}{suffix}")
        else:
            self._draw_call(part, suffix)
        if part.error:
            self._block(part.error, "<! ", "red", part.id)
        if part.text:
            self._block(part.text, "<- ", "dim", part.id)
        for file in part.attachments:
            self._block(f"[{safe(file, one_line=True)}]", "<- ", "dim")

    def _draw_call(self, part: TranscriptPart, suffix: str) -> None:
        """Print a call in one line: the tool, its arguments as far as there is room, its end."""
        from rich.cells import cell_len

        end = f"  {'' if part.status == 'completed' else part.status + ' '}{self._short.of(part.id)}{suffix}"
        head = safe(f"-> {part.tool} ", one_line=True)
        end = safe(end, one_line=True)
        said = safe(opening(arguments(part.input), WIDEST), one_line=True)
        room = min(columns(), WIDEST) - cell_len(head) - cell_len(end)
        draw((head, "magenta"), (cut(said, room), ""), (end, "red" if part.status == "failed" else "dim"))

    def _block(self, text: str, mark: str, look: str, part: str = "") -> None:
        """Print a text with a mark before each line; a result as far as `self._lines` allow."""
        if not self._drawn or len(text) > LONGEST:
            output.block(text, mark)
            return
        lines = output.marked(text, mark).split("\n")
        left = len(lines) - (self._lines or len(lines))
        if part and left > 0:
            lines = lines[: self._lines]
        for line in lines:
            draw((line.expandtabs(), look), cut_at=columns() if self._lines else sys.maxsize)
        if part and left > 0:
            draw((f"   … {counted(left, 'more line')}: --full, or recall {self._short.of(part)}", "dim"))


def _print_markdown(text: str) -> None:
    """Lay out a text for the terminal; links stay as they are written."""
    from rich.markdown import Markdown

    drawn = Markdown(safe(text), code_theme="ansi_dark", hyperlinks=False)
    console().print(drawn, width=min(columns(), WIDEST))
