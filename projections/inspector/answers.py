"""The answers to what the page asks about one session, as JSON values."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from eventlog.errors import CallError, NotFoundError
from eventlog.errors.base import brief
from projections.exports.html_text import visible
from projections.inspector.catalogue import Catalogue, Query
from projections.inspector.comparison import neutral_json, seen_parts, shortened
from projections.inspector.history import StepRow, is_hidden, usage_json
from projections.inspector.large_text import MOST, beginning, beginnings, full_size
from projections.inspector.markup import prose_html
from projections.inspector.message_json import PAGE_TEXT, message_json, reasons_in
from projections.inspector.playback import played
from projections.inspector.room import Room
from projections.inspector.taken_out import attached
from projections.inspector.window_series import WindowSeries, window_tokens
from projections.reports.audit import audit
from projections.reports.cache_uses import cache_uses
from projections.reports.event_json import event_kind
from projections.reports.session_tree import whole_tree
from projections.reports.view_diff import diff
from projections.server.live_pages import number
from projections.transcript.message_json import part_json
from projections.transcript.transcript import Transcript
from projections.view.assembly import Assembly
from projections.view.offer import offer_of
from projections.view.options import DEFAULT
from projections.view.system_prompt import system_segments
from projections.view.targets import addressed

_PAGE = 30
"""Messages of a page."""
_MOST_MESSAGES = 200
_STEPS = 40
"""Steps of a page."""
_STEP_ORDERS: dict[str, Callable[[StepRow], Any]] = {
    "cost": lambda row: row.usage.known,
    "tokens": lambda row: row.usage.total,
    "time": lambda row: row.work,
}
"""Orders of the steps, the largest first."""
_SPENT = 400
"""Steps whose tokens and times a page of messages has."""
_PLAYED = 2_000
"""Events of a page of a replay."""
_REQUEST = 40
"""Messages of a page of a request."""
_REQUEST_TEXT = 20_000
"""Characters of each text of a request that are sent."""
_JUMPS = 2_000
"""The newest jumps that are listed."""
_LOOKED_FOR = 200
"""Messages in which a part is looked for."""


def session(room: Room, query: Query, catalogue: Catalogue) -> dict[str, Any]:
    """Return the listed facts of the session, its state and its newest version.

    With `quick=1` without its model, if that takes a long replay.
    """
    info, is_far = room.session.info, bool(query.get("quick")) and room.is_far()
    model = None if is_far else room.state().model
    listed = catalogue.listed([catalogue.with_state(info)])
    shown: dict[str, Any] = listed["sessions"][0]
    return shown | {
        "version": room.session.version,
        "model": "" if model is None else visible(str(model)),
        "partial": is_far or listed["estimating"],
    }


def messages(room: Room, query: Query) -> dict[str, Any]:
    """A page of everything that was said; with `seen=1` what the model saw of it.

    The newest messages up to version `at` that began before version `before`; or the oldest that
    began after version `after`; or those around version `around`. With `quick=1` a page without the
    reasons of the view, if these take a long replay; `marked` says whether it has them.
    """
    newest, at = room.session.version, room.asked(query)
    size = number(query, "size", _PAGE, least=1, most=_MOST_MESSAGES)
    before, newer = number(query, "before", 0) or None, False
    if "after" in query or "around" in query:
        begins = room.history.messages
        first = bisect_right(begins, number(query, "after", number(query, "around", 0) - 1))
        first = first if "after" in query else max(0, first - size // 2)
        newer = first + size < len(begins)
        before = begins[first + size] if newer else None
        size = min(size, len(begins) - first)
    found = room.page(at, before, size) if size else []
    state = None if query.get("quick") and room.is_far() else room.state(at)
    characters, running = [PAGE_TEXT], at == newest and room.is_run()

    resolve = partial(beginning, room.session)
    shown: list[dict[str, Any]] = []
    for each in reversed(found):
        reasons = reasons_in(state, resolve, hidden=each.hidden, at=at)
        message = message_json(each, reasons, characters, running=running)
        if query.get("seen"):
            message["view"] = {} if each.hidden or state is None else seen_parts(state, each.message, resolve)
        shown.append(message)
    return {"at": at, "messages": shown, "more": len(found) == size > 0, "newer": newer, "newest": newest,
            "marked": state is not None}  # fmt: skip


def part(room: Room, query: Query) -> dict[str, Any]:
    """A stretch of the texts of one part, from a character on."""
    name, start, at = query.get("part", ""), number(query, "from", 0), room.asked(query)
    before = min(room.session.reader.find(name), at) + 1
    texts = beginnings(room.session, start + MOST)
    within = islice(Transcript(room.session, at, texts=texts).newest_first(before), _LOOKED_FOR)
    found = next((found for message in within for found in message.parts if found.id == name), None)
    if found is None:
        raise NotFoundError("part", name, session=room.session.id)
    full = full_size(found.text)
    text = found.text[start : start + MOST]
    answer = {"id": name, "from": start, "size": full, "end": min(start + MOST, full), "text": visible(text)}
    if found.kind in {"text", "reasoning"} and start == 0:
        answer["html"] = prose_html(text)
    if found.kind == "tool" and start == 0:
        return {**shortened(part_json(found), MOST), **answer, "files": attached(room, name)}
    return answer


def history(room: Room, _query: Query, catalogue: Catalogue) -> dict[str, Any]:
    """The newest jumps."""
    found, ranges = room.history.jumps[-_JUMPS:], room.session.reader.effective_ranges()
    jumps = [
        {**shortened(msgspec.to_builtins(entry), MOST), "hidden": is_hidden(ranges, entry.version)} for entry in found
    ]
    forks = [
        {"version": fork["at"], "kind": "fork", "what": fork["title"] or fork["id"], "session": fork["id"]}
        for fork in catalogue.forks_of(room.session.id)
    ]
    return {"jumps": sorted([*jumps, *forks], key=lambda jump: jump["version"])}


def view(room: Room, query: Query) -> dict[str, Any]:
    """Return the prompt, the size and the time of the view right after a version."""
    at = room.asked(query)
    state = room.state(at)

    resolve = partial(beginning, room.session)
    moment = room.recorded(at)
    return {
        "at": at,
        "time": moment.time,
        "event": event_kind(moment.event).replace("-", " "),
        "messages": len(Assembly(state, addressed(state, DEFAULT), resolve).view()),
        "system": [visible(segment) for segment in system_segments(state, resolve)],
        "tools": visible(offer_of(state, resolve).tools or ""),
        "model": "" if state.model is None else visible(str(state.model)),
    }


def changes(room: Room, query: Query) -> dict[str, Any]:
    """Return the difference of the views of two versions, in sentences."""
    first, second = room.asked(query, "first", 1), room.asked(query, "second")
    states = [room.state(first), room.state(second)]
    found = diff(room.session, first, second, resolve=partial(beginning, room.session), states=states)
    parts = [{"part": each.part, "message": each.message, "kind": each.kind} for each in found.changes[:_JUMPS]]
    tokens = [window_tokens(room.session, *place) for place in zip(states, (first, second), strict=True)]
    return {
        "first": first,
        "second": second,
        "sentences": found.sentences(tokens=False),
        "parts": parts,
        "tokens": tokens,
    }


def window(room: Room, query: Query) -> dict[str, Any]:
    """The window over time, as far as it is counted; each call counts some more."""
    have = number(query, "have", 0)
    found = room.history
    if room.series is None or (not room.series.left and room.series.version != found.version):
        room.series = WindowSeries(room.session, found)
        have = 0
    series = room.series
    series.go_on()
    return {"points": series.points[have:], "from": have, "left": series.left}


def window_now(room: Room, _query: Query) -> dict[str, Any]:
    """Return what fills the window now and would leave it next; takes no lock of the room."""
    from projections.loop.context.report import window_report
    from projections.loop.context.window import ContextWindow

    with room.report_lock:
        moment = room.session.version, room.gone()
        if room.report is None or room.report[0] != moment:
            report = window_report(ContextWindow(room.session), largest=12)
            room.report = moment, shortened(report.as_json(), _REQUEST_TEXT)
        return room.report[1]


def steps(room: Room, query: Query) -> dict[str, Any]:
    """A page of the model calls, and sums over all.

    The newest first, up to version `before`; or with a `sort` the largest, behind the first `skip`.
    """
    found, ranges, sort = room.history, room.session.reader.effective_ranges(), query.get("sort", "")
    if sort and sort not in _STEP_ORDERS:
        raise CallError(f"sort is one of {', '.join(_STEP_ORDERS)}, not {brief(sort)}")
    rows = found.rows[: bisect_left(found.rows, number(query, "before", 1 << 53), key=lambda row: row.version)][::-1]
    if sort:
        rows = sorted(rows, key=_STEP_ORDERS[sort], reverse=True)[number(query, "skip", 0) :]
    running = room.is_run()
    return {
        "steps": [row.as_json(ranges, running=running) for row in rows[:_STEPS]],
        "all": len(found.rows),
        "recorded": len(found.steps),
        "untold": sum(row.is_untold for row in found.rows),
        "more": len(rows) > _STEPS,
        "prices": room.session.store.host.models.date,
        **usage_json(found.usage),
    }


def spent(room: Room, query: Query) -> dict[str, Any]:
    """Return by message what its model calls took, from the oldest that is asked for on.

    With the times of its calls of tools.
    """
    rows, ranges, running = room.history.rows, room.session.reader.effective_ranges(), room.is_run()
    first = bisect_left(rows, number(query, "first", 1), key=lambda row: row.version)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows[first : first + _SPENT]:
        found.setdefault(row.message, []).append(row.as_json(ranges, running=running))
    return {"messages": found}


def audited(room: Room, _query: Query) -> dict[str, Any]:
    """Check more requests; return how many steps are checked, and with which verdicts."""
    return {"checked": room.check(), "all": len(room.history.steps), "verdicts": dict(room.verdicts)}


def verdicts(room: Room, query: Query) -> dict[str, Any]:
    """For a few steps whether the request has the recorded digest, and what the cache gave."""
    first = number(query, "first", 1, least=1)
    last = number(query, "last", first, least=first, most=first + _STEPS)
    uses = {use.step: msgspec.to_builtins(use) for use in cache_uses(room.session, first, last)}
    steps = (shortened(msgspec.to_builtins(step), MOST) for step in audit(room.session, first, last))
    return {"steps": [{**step, "cache": uses.get(step["number"])} for step in steps]}


def request(room: Room, query: Query) -> dict[str, Any]:
    """A page of the exact request of one step, and whether its digest matches."""
    which, start = number(query, "step", 1, least=1), number(query, "from", 0)
    audited, sent = room.request(which)
    row = room.history.steps[which - 1]
    answer: dict[str, Any] = {
        **row.as_json(room.session.reader.effective_ranges(), running=room.is_run()),
        **shortened(msgspec.to_builtins(audited), MOST),
        "cache": next((msgspec.to_builtins(use) for use in cache_uses(room.session, which, which)), None),
        "steps": len(room.history.steps),
        "prices": room.session.store.host.models.date,
        "request": None,
    }
    if sent is not None:
        pieces = [
            {"role": each.role, "parts": [neutral_json(piece, _REQUEST_TEXT) for piece in each.parts]}
            for each in islice(sent.messages, start, start + _REQUEST)
        ]
        answer["request"] = {
            "from": start,
            "of": len(sent.messages),
            "messages": pieces,
            "system": [visible(segment[:MOST]) for segment in sent.system],
            "tools": None if sent.tools is None else visible(sent.tools[:MOST]),
            "format": None if sent.format is None else visible(sent.format[:MOST]),
        }
    return answer


def tree(room: Room, _query: Query, catalogue: Catalogue) -> dict[str, Any]:
    """The session's tree of forks and sub-sessions, the first session first."""
    own, scope = room.session, catalogue.scope
    tree = whole_tree(own.store, own.id)
    shown = [catalogue.with_state(info) for info in tree if scope in {None, info.scope}]
    return catalogue.listed(shown) | {"of": own.id, "cost": catalogue.cost(shown)}


def events_to_play(room: Room, query: Query) -> dict[str, Any]:
    """A page of a replay: what happens after a version, with the recorded times."""
    after = number(query, "after", 0)
    scenes, last = played(room.session, room.redacted(), after, number(query, "limit", _PLAYED, least=1, most=_PLAYED))
    return {"scenes": scenes, "last": last, "newest": room.session.version}
