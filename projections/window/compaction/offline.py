"""The offline summariser: fills the template from the messages, without a model.

Deterministic, in any language, and bounded: each section has a room in UTF-8 bytes, some 1,500
tokens in all, and the oldest points are left out.  A previous summary, also another program's, is
merged section by section, so ten compactions give a text of the size of one.  Decisions and
preferences, which only a reader understands, stay in the words they were said in, or are copied
from the previous summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from eventlog.validation import require
from projections.conversation.file_access import access_of, paths_of
from projections.view.neutral import Call, NeutralMessage, Result, Text
from projections.view.part_rendering import CLEARED
from projections.window.compaction.request import GOES_ON, SummaryRequest
from projections.window.compaction.template import NONE, SECTIONS, foreign_sections, sections_of

ROOM = {
    "Goal": 900,
    "Constraints & Preferences": 1200,
    "Done": 1000,
    "In Progress": 700,
    "Blocked": 900,
    "Key Decisions": 800,
    "Next Steps": 800,
    "Critical Context": 1400,
    "Relevant Files": 1200,
}
"""Bytes of each section's points."""

POINT = 440
"""Bytes of one point at most."""

_NEWEST = "Newest request: "
_ANSWERED = "Last answer: "
_PENDING = "Not answered yet: "
_CALLS = re.compile(r"`(?P<tool>[^`]+)`: (?P<calls>\d+) calls?(?:, (?P<failed>\d+) failed)?(?:; last (?P<last>.*))?")
_BULLET = re.compile(r"^\s*(?:(?:[-*+]|\d{1,3}[.)])\s+)+")
_FILE = re.compile(r"(?:`([^`]+)`|([^`\s]+)): (.+)")
_HOW = ("read", "written", "used")


class _Tally(msgspec.Struct):
    """The calls of one tool: how many, how many failed, and the last one's subject."""

    calls: int = 0
    failed: int = 0
    last: str = ""

    def said(self, tool: str) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        last = f"; last {self.last}" if self.last else ""
        return f"{_quoted(tool)}: {self.calls} call{'s' if self.calls != 1 else ''}{failed}{last}"


class _Facts(msgspec.Struct):
    """The facts in the messages of a request, in order."""

    pending: list[str]
    """The newest question, until a reply without calls answers it."""
    users: list[str] = msgspec.field(default_factory=list[str])
    answers: list[str] = msgspec.field(default_factory=list[str])
    calls: dict[str, _Tally] = msgspec.field(default_factory=dict[str, _Tally])
    errors: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """The calls that failed and did not succeed when tried again, with their errors."""
    done: set[str] = msgspec.field(default_factory=set[str])
    files: dict[str, set[str]] = msgspec.field(default_factory=dict[str, set[str]])


def summarize_offline(request: SummaryRequest) -> str:
    """The summary of a request's messages, merged into the previous one."""
    require(SummaryRequest, request, "a summariser is given a SummaryRequest")
    previous = request.previous or ""
    before = {name: _points(body) for name, body in (sections_of(previous) or foreign_sections(previous)).items()}
    sections = {name: before.get(name, []) for name in ROOM}
    told = _facts(request, [point for point in sections["In Progress"] if point.startswith(_PENDING)])
    if not before:
        sections["Critical Context"] = _ends(_points(previous), ROOM["Critical Context"])
    _goal(sections, told)
    _progress(sections, told, request)
    _files(sections, told, request)
    lines: list[str] = []
    for level, name, _ in SECTIONS:
        lines += ["", f"{level} {name}"]
        if name in ROOM:
            newest_first = name not in {"Goal", "In Progress", "Next Steps"}
            lines += [
                f"- {point}" for point in _fitted(_distinct(sections[name]), ROOM[name], oldest_go=newest_first)
            ] or [f"- {NONE}"]
    return "\n".join(lines).strip()


# -- what the messages tell --------------------------------------------------------------------


def _facts(request: SummaryRequest, before: list[str]) -> _Facts:
    """Read the messages; `before` are the pending questions of the previous summary."""
    told = _Facts(before)
    pending: dict[tuple[str, str], Call] = {}
    for message in request.messages:
        if message.role == "user":
            said = _point(_texts(message))
            if said and said not in {GOES_ON, NONE} and message.source not in request.facts.synthetic:
                told.users.append(said)
                told.pending = [_PENDING + said]
            continue
        for part in message.parts:
            if isinstance(part, Call):
                pending[message.source, part.call] = part
            elif isinstance(part, Result):
                _add_result(told, pending.pop((message.source, part.call), None), part)
        said = _line(_texts(message)) if message.role == "assistant" else ""
        if said:
            told.answers.append(said)
            if not any(isinstance(part, Call) for part in message.parts):
                told.pending = []
    return told


def _add_result(told: _Facts, call: Call | None, result: Result) -> None:
    tool = _quoted(result.tool)
    tally = told.calls.setdefault(tool[1:-1], _Tally())
    tally.calls += 1
    what = _what(call)
    tally.last = what or tally.last
    key = f"{tool} {what}" if what else tool
    if result.error:
        tally.failed += 1
        told.errors[key] = _line(result.output) or "no message"
        told.done.discard(key)
        return
    told.errors.pop(key, None)
    told.done.add(key)
    if call is not None:
        for path in paths_of(call.tool, call.input):
            told.files.setdefault(_quoted(path)[1:-1], set()).add(access_of(call.tool) or "used")


def _what(call: Call | None) -> str:
    """Return the subject of a call: the first text among its arguments."""
    if call is None:
        return ""
    try:
        arguments = msgspec.json.decode(call.input, type=dict[str, object])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""
    first = next((value for value in arguments.values() if isinstance(value, str) and value.strip()), "")
    return _quoted(_cut(_line(first), 80)) if first else ""


def _texts(message: NeutralMessage) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text) and part.text != CLEARED)


# -- the sections ------------------------------------------------------------------------------


def _goal(sections: dict[str, list[str]], told: _Facts) -> None:
    """Fill Goal and Constraints: the first request is the goal, the newest stands beside it.

    Requests between them may be wishes that still hold.
    """
    before = sections["Goal"]
    goals = [point for point in before if not point.startswith(_NEWEST)] or told.users[:1]
    newest = next((point for point in before if point.startswith(_NEWEST)), "").removeprefix(_NEWEST)
    heard = [*([newest] if newest else []), *told.users]
    wishes = [*dict.fromkeys(heard[::-1])][::-1]  # said twice counts once, where it came last
    said = [text for text in wishes if text not in goals]
    sections["Goal"] = _distinct([*goals, *(_NEWEST + text for text in said[-1:])])
    sections["Constraints & Preferences"] = _distinct([*sections["Constraints & Preferences"], *said[:-1]])


def _progress(sections: dict[str, list[str]], told: _Facts, request: SummaryRequest) -> None:
    tallies: dict[str, _Tally] = {}
    others: list[str] = []
    for point in sections["Done"]:
        match = _CALLS.fullmatch(point)
        if match is None:
            others.append(point)
            continue
        tallies[match["tool"]] = _Tally(int(match["calls"]), int(match["failed"] or 0), match["last"] or "")
    for tool, tally in told.calls.items():
        known = tallies.pop(tool, _Tally())
        tallies[tool] = _Tally(known.calls + tally.calls, known.failed + tally.failed, tally.last or known.last)
    todos = request.facts.todos
    finished = [_line(todo.text) for todo in todos if todo.status == "completed"]
    sections["Done"] = _distinct([*others, *finished, *(tally.said(tool) for tool, tally in tallies.items())])
    running = [_line(todo.text) for todo in todos if todo.status == "in_progress"]
    if running or request.messages:
        sections["In Progress"] = _distinct([*running, *told.pending])
    open_todos = [_line(todo.text) for todo in todos if todo.status not in {"completed", "cancelled", "in_progress"}]
    if todos:
        sections["Next Steps"] = _distinct(open_todos)
    failed = [f"{call}: {error}" for call, error in told.errors.items()]
    kept = [point for point in sections["Blocked"] if not any(point.startswith(f"{call}: ") for call in told.done)]
    sections["Blocked"] = _distinct([*kept, *failed])
    answers = [_ANSWERED + text for text in told.answers[-2:]]
    context = [point for point in sections["Critical Context"] if not (answers and point.startswith(_ANSWERED))]
    sections["Critical Context"] = _distinct([*context, *answers])


def _files(sections: dict[str, list[str]], told: _Facts, request: SummaryRequest) -> None:
    known: dict[str, set[str]] = {}
    others: dict[str, str] = {}
    for point in sections["Relevant Files"]:
        match = _FILE.fullmatch(point)
        path = (match[1] or match[2]) if match else point
        how = set(match[3].split(", ")) if match else set[str]()
        if match and match[1] and how <= set(_HOW):
            known[path] = how
        else:
            others[path] = point
    for path, how in (*told.files.items(), *((_quoted(path)[1:-1], {"written"}) for path in request.facts.files)):
        if path not in others:
            known[path] = known.pop(path, set()) | how
    told_now = [f"`{path}`: {', '.join(word for word in _HOW if word in how)}" for path, how in known.items()]
    sections["Relevant Files"] = _distinct([*others.values(), *told_now])


# -- points ------------------------------------------------------------------------------------


def _points(body: str) -> list[str]:
    """The points of a section, each on one line; without bullets, each line is one."""
    points: list[str] = []
    for line in body.splitlines():
        text = line.strip()
        if not text:
            continue
        if _BULLET.match(line) or not points or not line[0].isspace():
            points.append(text)
        else:
            points[-1] = f"{points[-1]} {text}"
    return _distinct(points)


def _distinct(points: Iterable[str]) -> list[str]:
    """The points cut to size, each once, at the place where it came last."""
    found: dict[str, None] = {}
    for point in points:
        text = _point(point)
        found.pop(text, None)
        if text and text != NONE:
            found[text] = None
    return [*found]


def _fitted(points: Sequence[str], room: int, *, oldest_go: bool) -> list[str]:
    """As many points as there is room for, in their order."""
    kept: list[str] = []
    for point in reversed(points) if oldest_go else points:
        room -= len(point.encode("utf-8", "replace")) + 3
        if room < 0:
            break
        kept.append(point)
    return kept[::-1] if oldest_go else kept


def _ends(points: Sequence[str], room: int) -> list[str]:
    """Return all points, or the first and the last ones, half of the room for either."""
    first = _fitted(points, room // 2, oldest_go=False)
    last = _fitted(points[len(first) :], room // 2, oldest_go=True)
    return [*first, *last]


def _point(text: str) -> str:
    """A text as one point: on one line, cut to size, without a bullet of its own."""
    return _cut(_BULLET.sub("", _line(text)), POINT)


def _quoted(text: str) -> str:
    """Return a name between backticks, without backticks of its own, so that it reads back."""
    name = _line(text).replace("`", "'")
    return f"`{name or '?'}`"


def _line(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


def _cut(text: str, size: int) -> str:
    """The beginning of a text, at most so many UTF-8 bytes, at the end of a character."""
    data = text.encode("utf-8", "replace")
    if len(data) <= size:
        return text
    return data[: size - 3].decode("utf-8", "ignore").rstrip() + "…"
