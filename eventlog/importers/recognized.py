"""Files that are recognised and refused: HTTP recordings, other tools' files, data sets.

Some of them look much like a format that can be imported.  So they are checked first, and refused
by name.
"""

from __future__ import annotations

import re
from typing import Any

from eventlog.importers.common.json_lines import DamagedLineError, is_array, is_object, parse

__all__ = ["looks_like"]

LINES = 50
"""Lines of a file that are examined."""

_CASSETTE = re.compile(
    rb"""^["']?(?:http_)?interactions["']?[ \t]*:(?:[ \t]|\r?$)"""
    rb"""|^responses[ \t]*:[ \t]*\r?\n[ \t]*-[ \t]+response[ \t]*:""",
    re.MULTILINE,
)
"""Cassettes of vcrpy, VCR and betamax, and files of `responses`."""
_RECORDED_JSON = re.compile(
    rb"""^\s*\{\s*(?:"version"\s*:\s*\d+\s*,\s*(?:"metadata"\s*:.*?)?|"recorded_with"\s*:\s*"[^"]*"\s*,\s*)?"""
    rb"""["']?(?:http_)?interactions["']?\s*:"""
    rb"""|^\s*\{\s*"log"\s*:\s*\{\s*"(?:version|creator|browser|pages|entries)"\s*:""",
    re.DOTALL,
)
"""The cassettes as JSON or in braces, and HAR files."""
_NOCK = re.compile(rb'^\s*\[\s*\{\s*"scope"\s*:\s*"http')
_GEMINI = re.compile(rb'^\s*\{\s*"sessionId"\s*:\s*"[^"]*"\s*,\s*"projectHash"\s*:')
_AIDER = re.compile(rb"^# aider chat started at |^#### ", re.MULTILINE)


def looks_like(start: bytes) -> str | None:
    """Return what a file that begins with these bytes is; None if it is not known."""
    data = start.removeprefix(b"\xef\xbb\xbf")
    first = data.lstrip()[:1]
    if first not in {b"{", b"["}:
        if _CASSETTE.search(data):
            return "a recorded HTTP cassette (YAML)"
        return "a chat history of aider (Markdown)" if first == b"#" and _AIDER.search(data) else None
    if _RECORDED_JSON.match(data) or _NOCK.match(data):
        return "recorded HTTP traffic (JSON)"
    if _GEMINI.match(data):
        return "a session of Gemini CLI"
    found: list[dict[str, Any]] = []
    for line in data.split(b"\n")[:LINES]:
        try:
            value, _ = parse(line.strip()) if line.strip() else (None, True)
        except DamagedLineError:
            continue
        if is_object(value):
            found.append(value)
    return _tool(found) if found else None


def _tool(records: list[dict[str, Any]]) -> str | None:
    """Return the tool that wrote these lines."""
    head = records[0]
    inner = [found for record in records if is_object(found := record.get("message"))]
    if any("parts" in message and "content" not in message for message in inner) or any(
        "systemPayload" in record for record in records
    ):
        return "a session of Qwen Code or another descendant of Gemini CLI"
    if any(str(record.get("sessionId", "")).startswith("session-") and "uuid" in record for record in records):
        return "a session of iFlow CLI"
    if head.get("type") == "session_start" and "id" in head:
        return "a session of Droid"
    if head.get("type") == "session" and "cwd" in head:
        return "a session of pi"
    if any("providerOptions" in message for message in inner):
        return "a session of Posit Assistant"
    if head.get("type") in {"system", "user"} and "message" not in head and "content" in head and len(records) > 1:
        return (
            "a session of Grok Build"
            if any("synthetic_reason" in one or "prompt_index" in one for one in records)
            else None
        )
    if any("instance_id" in record and ("history" in record or "test_result" in record) for record in records):
        return "results of OpenHands"
    turns = head.get("conversations")
    if is_array(turns) and turns and is_object(turns[0]) and "from" in turns[0]:
        return "a data set of conversations (ShareGPT)"
    return None
