"""Transcripts of Claude Code in odd orders: one view, imported, grown and live."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
from collections.abc import Sequence
from typing import Any

import pytest

import eventlog
from eventlog import Session, Store
from eventlog import events as ev
from eventlog.errors import ImportFormatError
from eventlog.importers import Report, import_file
from eventlog.importers.claude_code.records import is_message
from eventlog.importers.common.remainder import emit
from projections import ModelView
from projections.view.neutral import Call, Reasoning, Result, Text
from tests.support.import_counts import claude_lines, recorded
from tests.support.shared import shared_path

if os.environ.get("CI") is None:
    pytest.importorskip("claude_agent_sdk")
from eventlog.adapters.claude_agent import EverdeltaSessionStore

Records = list[dict[str, Any]]
KEY = {"project_key": "-work", "session_id": "s"}
CLEARED = "[Old tool result content cleared]"
ASKED = "What did we do so far?"
LINEAR = 1_000_000
"""Largest recording that is moved about, in bytes."""


def entry(uuid: str, kind: str, parent: str | None, **more: Any) -> dict[str, Any]:
    """A record of any type."""
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "isSidechain": False, **more}


def user(uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    """A prompt, or the results of calls."""
    return entry(uuid, "user", parent, message={"role": "user", "content": content}, **more)


def answer(uuid: str, parent: str | None, *blocks: Any, id: str = "") -> dict[str, Any]:
    """A record of an answer: of texts and blocks."""
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    message = {"role": "assistant", "id": id or f"msg_{uuid}", "model": "claude-x", "content": content}
    return entry(uuid, "assistant", parent, message=message)


def call(name: str) -> dict[str, Any]:
    """A call."""
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {}}


def results(uuid: str, parent: str, **outputs: str) -> dict[str, Any]:
    """The results of calls."""
    blocks = [{"type": "tool_result", "tool_use_id": name, "content": text} for name, text in outputs.items()]
    return user(uuid, parent, blocks)


def queued(uuid: str, parent: str, prompt: Any, **more: Any) -> dict[str, Any]:
    """A prompt that was typed while the model was busy."""
    return entry(uuid, "attachment", parent, attachment={"type": "queued_command", "prompt": prompt, **more})


def boundary(uuid: str, last: str, **metadata: Any) -> dict[str, Any]:
    """The request for a compaction."""
    more = {"logicalParentUuid": last, "compactMetadata": {"trigger": "auto", **metadata}}
    return entry(uuid, "system", None, subtype="compact_boundary", **more)


def cleared(uuid: str, parent: str, *calls: str) -> dict[str, Any]:
    """A micro-compaction."""
    metadata = {"trigger": "auto", "tokensSaved": 500, "compactedToolIds": list(calls)}
    return entry(uuid, "system", parent, subtype="microcompact_boundary", microcompactMetadata=metadata)


def read(store: Store, records: Sequence[Any]) -> Report:
    """Import a file of these records, always under one name."""
    file = io.BytesIO(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    file.name = "transcript.jsonl"
    return import_file(store, file, format="claude_code")


Shown = list[tuple[str, tuple[Any, ...]]]


def shown(session: Session) -> Shown:
    """Return the model's view, without ids."""
    return [(message.role, message.parts) for message in ModelView.of(session).messages]


def words(view: Shown) -> list[str]:
    """Return the texts of a view, and results of calls with their names."""
    found: list[str] = []
    for role, parts in view:
        for part in parts:
            if isinstance(part, (Text, Reasoning)):
                found.append(f"{role[0]}:{part.text}")
            elif isinstance(part, Result):
                found.append(f"{part.call}={part.output}")
            elif isinstance(part, Call):
                found.append(part.call)
    return found


def view_of(records: Records, *, forks: int | None = 0, steps: Sequence[int] = (1, 3, 10_000)) -> Shown:
    """Return the view of a transcript, the same imported, imported again, grown and live."""
    with eventlog.open("memory:") as store:
        report = read(store, records)
        session = store.session(report.sessions[0])
        view = shown(session)
        if forks is not None:
            assert len(report.sessions) == 1 + forks
        assert read(store, records).events == 0
        back = [found.record for found in emit([session], store.text)]
        assert back == records
    chance = random.Random(len(records))
    with eventlog.open("memory:") as store:
        grown = None
        for size in [*sorted(chance.choices(range(1, len(records)), k=4)), len(records)]:
            try:
                grown = read(store, records[:size])
            except ImportFormatError:
                continue
        assert grown is not None
        assert (grown.sessions, shown(store.session(grown.sessions[0]))) == (report.sessions, view)
    for step in steps:
        with eventlog.open("memory:") as store:
            for place in range(0, len(records), step):
                live = EverdeltaSessionStore(store)  # as another process, which has seen nothing
                asyncio.run(live.append(KEY, records[place : place + step]))
            live = EverdeltaSessionStore(store)
            assert shown(live.session(KEY)) == view, step
            assert asyncio.run(live.load(KEY)) == records
    return view


def linear_recordings() -> list[Records]:
    """Recorded transcripts of one session without branches."""
    found: list[Records] = []
    for path in recorded(shared_path("data"), "claude_code_jsonl"):
        records: Records = [record for _, record in claude_lines(path) if isinstance(record, dict)]
        uuids = [record["uuid"] for record in records if "uuid" in record]
        if path.suffix != ".jsonl" or path.stat().st_size > LINEAR or len(set(uuids)) < len(uuids):
            continue
        with eventlog.open("memory:") as store:
            if len(records) > 8 and len(read(store, records).sessions) == 1:
                found.append(records)
    return found


def moved(records: Records, chance: random.Random, *, asides: bool, times: int, far: int) -> Records:
    """Move records before others that stand up to `far` lines before them, or only asides."""
    records = list(records)
    for _ in range(times):
        place = chance.randrange(1, len(records))
        if not asides or not is_message(records[place]):
            records.insert(max(0, place - chance.randrange(1, far)), records.pop(place))
    return records


KINDS: list[dict[str, Any]] = [
    {"kind": "system", "subtype": "stop_hook_summary"},
    {"kind": "system", "subtype": "turn_duration"},
    {"kind": "system", "subtype": "informational"},
    {"kind": "progress", "data": {"type": "hook_progress"}},
    {"kind": "attachment", "attachment": {"type": "hook_success"}},
    {
        "kind": "attachment",
        "attachment": {"type": "queued_command", "prompt": "<task-notification>", "commandMode": "task-notification"},
    },
    {"kind": "hologram", "data": [1]},
]


@pytest.mark.parametrize("more", KINDS, ids=lambda more: f"{more['kind']}-{more.get('subtype', '')}")
@pytest.mark.parametrize("count", [1, 2])
def test_a_link_passes_through_any_record_before_its_parent(more: dict[str, Any], count: int) -> None:
    """Records of any type may stand before the answer they name; the conversation goes on."""
    more = dict(more)
    kind = more.pop("kind")
    one = entry("s1", kind, "a2", **more)
    two = entry("s2", kind, "s1", **more)
    rest = [user("u2", "s2" if count == 2 else "s1", "two"), answer("a3", "u2", "second")]
    for split in (False, True):  # the parent is of the open answer, or another answer
        first = answer("a1", "u1", "first", id="m")
        parent = answer("a2", "a1", "more", id="n" if split else "m")
        asides = [one, two][:count]
        sound = [user("u1", None, "one"), first, parent, *asides, *rest]
        late = [user("u1", None, "one"), first, *asides, parent, *rest]
        assert view_of(late) == view_of(sound)
        rewound = [user("u3", rest[0]["parentUuid"], "two again"), answer("a4", "u3", "third")]
        assert view_of([*late, *rewound], forks=1) == view_of([*sound, *rewound], forks=1)
        assert words(view_of([*late, *rewound], forks=1)) == ["u:one", "a:first", "a:more", "u:two again", "a:third"]


def test_a_turn_ends_with_the_parent_of_its_end() -> None:
    """The end of a turn that stands before the last answer finishes that answer, and no other."""
    records = [
        user("u", None, "go"),
        answer("a", "u", "think", id="m"),
        entry("s", "system", "b", subtype="turn_duration"),
    ]
    records.append(answer("b", "a", "said", id="m"))
    view_of(records)
    with eventlog.open("memory:") as store:
        session = store.session(read(store, records).sessions[0])
        finished = [found.event.message for found in session.events() if isinstance(found.event, ev.MessageFinished)]
        assert finished == ["m"]


@pytest.mark.parametrize("seed", range(4))
def test_asides_may_stand_anywhere_before_their_parents(seed: int) -> None:
    """Moved before their parents, records that are no messages change no recorded view."""
    for records in linear_recordings():
        chance = random.Random(seed)
        view = view_of(records, steps=())
        assert view_of(moved(records, chance, asides=True, times=12, far=30), steps=(7,)) == view


@pytest.mark.parametrize("seed", range(4))
def test_no_order_of_lines_invents_a_branch(seed: int) -> None:
    """However lines are moved, a recorded conversation without branches stays one session."""
    for records in linear_recordings():
        chance = random.Random(seed)
        said = {word for word in words(view_of(records, steps=())) if word[0] in "ut" or "=" in word}
        view = view_of(moved(records, chance, asides=False, times=3, far=6), steps=(5, 10_000))
        assert said <= set(words(view))
        view_of(moved(records, chance, asides=False, times=10, far=40), steps=())


def test_results_before_their_calls_come_with_them() -> None:
    """A result before its call is the call's, in one append and in several."""
    records = [
        user("u", None, "go"),
        results("r1", "a1", t1="one"),
        answer("a1", "u", call("t1"), id="m"),
        results("r2", "a2", t2="two"),
        answer("a2", "a1", call("t2"), id="m"),
        answer("b", "r2", "done"),
    ]
    assert words(view_of(records)) == ["u:go", "t1", "t2", "t1=one", "t2=two", "a:done"]


def test_a_parent_that_never_comes_hides_nothing() -> None:
    """Lost parents, at the beginning and later, leave every message in the view."""
    records = [answer("a0", "lost0", "zero"), user("u1", "lost1", "one"), answer("a1", "u1", "first")]
    records += [user("u2", "lost2", "two"), answer("a2", "lost3", "second"), user("u3", "a2", "three")]
    assert words(view_of(records)) == ["a:zero", "u:one", "a:first", "u:two", "a:second", "u:three"]


def test_a_gap_closes_after_a_while() -> None:
    """Long behind a lost parent a prompt that is sent again begins a branch, as ever."""
    records = [user("u0", None, "zero"), answer("a0", "u0", "nought"), user("u1", "lost", "one")]
    for number in range(1, 150):
        records += [answer(f"a{number}", f"u{number}", "ok"), user(f"u{number + 1}", f"a{number}", f"say {number}")]
    records.append(user("again", "a149", "say it again"))
    assert words(view_of(records, forks=1, steps=(10_000,)))[-2:] == ["a:ok", "u:say it again"]


def test_queued_prompts_are_user_messages() -> None:
    """A prompt that a person queued is a message of the user where the model got it."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    note = "<task-notification>\n<status>completed</status></task-notification>"
    records = [
        user("u", None, "go"),
        answer("a", "u", call("t1")),
        results("r", "a", t1="ok"),
        queued("q1", "r", "not yet", commandMode="prompt", origin={"kind": "human"}),
        queued("q2", "q1", note, commandMode="prompt"),
        queued("q3", "q2", note, commandMode="task-notification", origin={"kind": "task-notification"}),
        queued("q4", "q3", "typed long ago", commandMode="prompt"),
        queued("q5", "q4", [{"type": "text", "text": "look"}, image], commandMode="prompt", origin={"kind": "human"}),
        queued("q6", "q5", f"what is {note}?", commandMode="prompt", origin={"kind": "human"}),
        answer("b", "q6", "done"),
    ]
    asked = ["u:not yet", "u:typed long ago", "u:look", f"u:what is {note}?"]
    assert words(view_of(records)) == ["u:go", "t1", "t1=ok", *asked, "a:done"]
    with eventlog.open("memory:") as store:
        report = read(store, records)
        events = [found.event for found in store.session(report.sessions[0]).events()]
        waited = [
            event.message for event in events if isinstance(event, ev.UserMessageAdded) and event.delivery == "queue"
        ]
        assert waited == [event.message for event in events if isinstance(event, ev.MessagePromoted)]
        assert waited == ["q1", "q4", "q5", "q6"]
        assert [found.line for found in report.skipped] == [5, 6]
    assert words(view_of([*records, user("u2", "q1", "instead")], forks=1))[-2:] == ["u:not yet", "u:instead"]


def test_cleared_results_are_pruned() -> None:
    """Results that a micro-compaction names are cleared in the view, once, of any age."""
    records = [user("u", None, "go")]
    last = "u"
    for number in range(150):
        records += [
            answer(f"a{number}", last, call(f"t{number}")),
            results(f"r{number}", f"a{number}", **{f"t{number}": "big"}),
        ]
        last = f"r{number}"
    records += [
        cleared("s1", last, "t0", "t7", "nowhere", "t7"),
        answer("b", "s1", "ok"),
        cleared("s2", "b", "t7", "t149"),
    ]
    outputs = {word for word in words(view_of(records, steps=(50, 10_000))) if "=" in word}
    assert {word for word in outputs if CLEARED in word} == {f"t{number}={CLEARED}" for number in (0, 7, 149)}
    rewound = [user("u2", "r100", "again"), cleared("s3", "u2", "t7", "t149"), answer("c", "s3", "fine")]
    view = words(view_of([*records, *rewound], forks=1, steps=(50,)))
    assert [word for word in view if CLEARED in word] == [f"t7={CLEARED}"]


TALK = [
    user("u1", None, "one"),
    answer("a1", "u1", "first"),
    entry("s1", "attachment", "a1", attachment={"type": "hook_success"}),
    user("u2", "s1", "two"),
    answer("a2", "u2", call("t1")),
    results("r2", "a2", t1="ok"),
    answer("b2", "r2", "second"),
]
KEPT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "segment": (
        {"preservedSegment": {"headUuid": "u2", "anchorUuid": "sum", "tailUuid": "b2"}},
        ["u:two", "t1", "t1=ok", "a:second"],
    ),
    "segment from an attachment": (
        {"preservedSegment": {"headUuid": "s1", "anchorUuid": "sum", "tailUuid": "b2"}},
        ["u:two", "t1", "t1=ok", "a:second"],
    ),
    "list": ({"preservedMessages": {"anchorUuid": "sum", "uuids": ["u1", "b2"]}}, ["u:one", "a:second"]),
    "list with results": ({"preservedMessages": {"uuids": ["s1", "r2", "b2"]}}, ["t1", "t1=ok", "a:second"]),
    "unknown": ({"preservedSegment": {"headUuid": "gone", "anchorUuid": "sum", "tailUuid": "b2"}}, []),
    "none": ({}, []),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("parent", ["tail", "summary"])
def test_kept_messages_stand_behind_the_summary(name: str, parent: str) -> None:
    """Kept messages are in the view; a prompt behind the last of them follows the summary."""
    metadata, kept = KEPT[name]
    after = "b2" if parent == "tail" and kept else "sum"
    records = [
        *TALK,
        boundary("c", "b2", **metadata),
        user("sum", "c", "the summary", isCompactSummary=True),
        user("u3", after, "three"),
        answer("a3", "u3", "third"),
    ]
    begin = [f"u:{ASKED}", "a:the summary", *kept]
    assert words(view_of(records)) == [*begin, "u:three", "a:third"]
    again = [*records, user("u4", after, "three again")]
    assert words(view_of(again, forks=1)) == [*begin, "u:three again"]
    before = [*records, user("u5", "a1", "two again")]
    assert words(view_of(before, forks=1)) == ["u:one", "a:first", "u:two again"]


def test_a_later_compaction_hides_what_an_earlier_one_kept() -> None:
    """Each compaction names what it keeps; messages kept before are covered by the next."""
    records = [
        *TALK,
        boundary("c1", "b2", **KEPT["segment"][0]),
        user("sum", "c1", "the first summary", isCompactSummary=True),
        user("u3", "b2", "three"),
        answer("a3", "u3", "third"),
        boundary("c2", "a3", preservedSegment={"headUuid": "u3", "anchorUuid": "sum2", "tailUuid": "a3"}),
        user("sum2", "c2", "the second summary", isCompactSummary=True),
        user("u4", "a3", "four"),
    ]
    assert words(view_of(records)) == [f"u:{ASKED}", "a:the second summary", "u:three", "a:third", "u:four"]


def test_a_large_transcript_in_odd_order_is_one_session() -> None:
    """Twelve megabytes with torn lines, late parents and unknown types give one view, twice."""
    records: Records = [user("u0", None, "begin")]
    last = "u0"
    for number in range(1, 2_000):
        reply = answer(f"a{number}", last, call(f"t{number}"))
        result = results(f"r{number}", f"a{number}", **{f"t{number}": f"{number} " + "x" * 5_500})
        late = entry(f"s{number}", ("system", "hologram", "progress")[number % 3], f"r{number}", subtype="note")
        records += [result, late, reply] if number % 7 == 0 else [late, reply, result]
        last = f"s{number}"
    lines = [json.dumps(record).encode() for record in records]
    for place in range(500, len(lines) - 1, 500):
        lines[place] = b'{"type":"pr-link","sess' + lines[place]
    data = b"\n".join(lines) + b"\n"
    assert len(data) > 11_000_000
    with eventlog.open("memory:") as store:
        reports: list[Report] = []
        for _ in range(2):
            file = io.BytesIO(data)
            file.name = "large.jsonl"
            reports.append(import_file(store, file))
            assert len(reports[-1].sessions) == 1
        report = reports[-1]
        assert report.events == 0
        session = store.session(report.sessions[0])
        found = words(shown(session))
        assert [word.split()[0] for word in found if "=" in word] == [
            f"t{number}={number}" for number in range(1, 2_000)
        ]
        assert [one.record for one in emit([session], store.text)] == records
