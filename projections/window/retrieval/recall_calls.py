"""The tool `recall` as a window offers it to a model: its schema, and answers to calls.

Reading itself is `recall.py`. An answer is held to the bounds of truncation, so it is never
truncated again; what did not fit is named by the range to go on with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, cast

from eventlog.errors import CallError
from eventlog.session.session import Session
from eventlog.session.tool_functions import functions_in, parameters_of
from eventlog.values import Json
from projections.tokens.counter import utf8_length
from projections.window.retrieval.excerpts import bytes_of, lines_of
from projections.window.retrieval.recall import recall
from projections.window.retrieval.tool_schemas import ToolForm, schema_of, with_schema
from projections.window.retrieval.truncation import Bounds, beginning

RECALL = "recall"
"""Name of the tool."""
DESCRIPTION = (
    "Read again what was left out of a long tool result. Give the part that the result names, and one of: lines, bytes, search."
    " Without any of them it is read from its beginning."
)
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "part": {"type": "string", "description": "The part, as the shortened result names it."},
        "lines": {"type": "string", "description": "A range of lines, such as 201-400; the first is 1."},
        "bytes": {
            "type": "string",
            "description": "A range of bytes, such as 0-5000; the first is 0, the last is left out.",
        },
        "search": {"type": "string", "description": "A text; the lines that have it are shown with their numbers."},
        "field": {"type": "string", "enum": ["output", "input"], "description": "The arguments of the call: input."},
    },
    "required": ["part"],
}
RANGE = re.compile(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?")
LINE = "\n"
NOTES = 300
"""Bytes of a bound that are kept for what is said around the text."""


def recall_tool(form: ToolForm = "chat") -> dict[str, Any]:
    """The schema for Chat Completions, Responses, Anthropic Messages or Gemini."""
    return schema_of(form, RECALL, DESCRIPTION, PARAMETERS)


def offers_recall(tools: Json | None) -> bool:
    """Whether `recall` is among these schemas (a JSON array); not another tool of that name."""
    return any(map(_is_ours, functions_in(tools)))


def with_recall(tools: Json | None) -> Json:
    """The schemas of the tools, followed by the schema of `recall` in their form.

    The form of Chat Completions if `tools` is empty.  `CallError` if another tool has its name.
    """
    if any(function.get("name") == RECALL for function in functions_in(tools)):
        raise CallError(
            f"the session's tools have another tool named {RECALL!r}; give it another name, or do without recall"
        )
    return with_schema(tools, RECALL, DESCRIPTION, PARAMETERS)


def answer_recall(session: Session, given: Mapping[str, Any], bounds: Bounds) -> str:
    """Answer a call with these arguments, within the bounds.

    `CallError` or `NotFoundError` says what is wrong with them.
    """
    part = given.get("part")
    if not isinstance(part, str) or not part:
        raise CallError(f"part is a {type(part).__name__}; give the part that the shortened result names, as a text")
    asked = {name: given[name] for name in ("lines", "bytes", "search") if given.get(name) not in (None, "")}
    if len(asked) > 1:
        raise CallError("give one of lines, bytes and search")
    field: Any = given.get("field") or "output"
    whole = recall(session, part, field=field)
    if whole.kind == "file" and whole.text.startswith("data:"):
        mime = whole.text[len("data:") :].partition(";")[0][:NOTES]
        return f"[{mime}, {whole.size} bytes as base64: no text; the user can attach it again]"
    if "search" in asked:
        return _matches(session, part, str(asked["search"]), bounds, field)
    if "bytes" in asked:
        excerpt = bytes_of(whole.text, *_range("bytes", asked["bytes"]))
        start, last_line = excerpt.first, None
    else:
        excerpt = lines_of(whole.text, *(_range("lines", asked["lines"]) if asked else (1, max(whole.lines, 1))))
        start = utf8_length(lines_of(whole.text, 1, excerpt.first - 1).text) if excerpt.first > 1 else 0
        last_line = excerpt.last
    text = beginning(excerpt.text, max(bounds.lines - 2, 1), max(bounds.size - NOTES, 1))
    end = start + utf8_length(text)
    read = f"[bytes {start}-{end} of {whole.size}, {whole.lines} lines in all]\n{text}"
    if last_line is not None and text:
        last = excerpt.first + text.count("\n") - text.endswith("\n")
        read = f"[lines {excerpt.first}-{last} of {whole.lines}, bytes {start}-{end} of {whole.size}]\n{text}"
    if len(text) == len(excerpt.text):
        return read
    if last_line is not None and text.endswith("\n"):
        return f"{read}[go on with lines {excerpt.first + text.count(LINE)}-{last_line}]"
    return f"{read}\n[go on with bytes {end}-{start + utf8_length(excerpt.text)}]"


# -- helpers -----------------------------------------------------------------------------------


def _is_ours(function: dict[str, Any]) -> bool:
    takes: Any = parameters_of(function)
    return (
        function.get("name") == RECALL and isinstance(takes, dict) and "part" in str(cast("Any", takes).get("required"))
    )


def _range(name: str, given: object) -> tuple[int, int]:
    found = RANGE.fullmatch(str(given)[:80])
    if found is None:
        raise CallError(f"{name} is a range such as 10-20")
    first = int(found[1])
    return first, int(found[2]) if found[2] else first + (name == "bytes")


def _matches(session: Session, part: str, wanted: str, bounds: Bounds, field: Literal["output", "input"]) -> str:
    """The lines that have a text, as many as fit."""
    found = recall(session, part, search=wanted, field=field)
    lines: list[str] = []
    room = bounds.size - NOTES
    for match in found.matches[: max(bounds.lines - 2, 1)]:
        line = f"{match.line}: {match.text}"
        room -= utf8_length(line) + 1
        if lines and room < 0:
            break
        lines.append(line)
    more = ", and more" if found.more or len(lines) < len(found.matches) else ""
    return "\n".join([f"[{len(lines)} matching lines of {found.lines}{more}]", *lines])
