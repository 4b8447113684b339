"""The audit after a changed byte in the store, and after a changed renderer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import eventlog
from eventlog import events as ev
from eventlog.codec.batch import Entry, decode
from eventlog.codec.deltas import DeltaRun
from eventlog.log.commit import Commit
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import File, Text
from projections.reports.audit import AuditedStep, audit
from projections.requests.openai import chat_messages
from projections.view import digest as digests
from projections.view.model_view import ModelView
from tests.projections.reports.test_audit import long_session, verdicts, work
from tests.support.engines import LastingLog

pytestmark = pytest.mark.promise(10)

_encode = msgspec.msgpack.Encoder().encode
VISIBLE: dict[type[ev.Base], tuple[str, ...]] = {
    ev.ToolRunning: ("input",),
    ev.ToolCompleted: ("output",),
    ev.SystemPromptSet: ("header", "rest"),
    ev.ToolsSet: ("schemas",),
}
"""Fields of events that the model is sent as they are."""


def other(text: str) -> str:
    """The text with one letter near its middle changed."""
    at = next(at for at in (*range(len(text) // 2, len(text)), *range(len(text))) if text[at].isalpha())
    return text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1 :]


def changes(entry: Entry | DeltaRun) -> Iterator[Entry | DeltaRun]:
    """The entry with one byte of a sent text changed, for each of its texts."""
    if isinstance(entry, DeltaRun):
        if entry.text and all(field == "text" for _, field in entry.keys):  # a tool's input is given once more
            yield msgspec.structs.replace(entry, text=other(entry.text))
        return
    event = entry.event
    if isinstance(event, ev.PartStarted) and isinstance(event.kind, Text) and isinstance(event.kind.text, str):
        if event.kind.text:
            kind = msgspec.structs.replace(event.kind, text=other(event.kind.text))
            yield msgspec.structs.replace(entry, event=msgspec.structs.replace(event, kind=kind))
        return
    for field in VISIBLE.get(type(event), ()):
        text = getattr(event, field)
        if isinstance(text, str) and text:
            changed: Any = msgspec.structs.replace(event, **{field: other(text)})
            yield msgspec.structs.replace(entry, event=changed)


def forgeries(commits: list[Commit]) -> Iterator[tuple[int, list[Commit]]]:
    """Yield the history with one byte changed, hashes left as they are, and its version."""
    for number, commit in enumerate(commits):
        batch = decode(commit.payload)
        version = commit.first
        for place, entry in enumerate(batch.entries):
            for changed in changes(entry):
                entries = [*batch.entries[:place], changed, *batch.entries[place + 1 :]]
                forged = msgspec.structs.replace(
                    commit, payload=_encode(msgspec.structs.replace(batch, entries=entries))
                )
                yield version, [*commits[:number], forged, *commits[number + 1 :]]
            version += entry.count if isinstance(entry, DeltaRun) else 1


def test_one_changed_byte_anywhere_names_the_steps() -> None:
    """After a changed byte the audit names every step that was sent it, and no earlier one."""
    log = LastingLog()
    with Store(log) as store:
        session = store.create_session(id="a")
        session.set_system_prompt("You help.", "In this folder.")
        session.set_tools('[{"name":"read"}]')
        for question in ("Find the defect", "And the next one"):
            session.user(question)
            work(session, 3)
        steps = list(audit(session))
        assert {step.verdict for step in steps} == {"match"}
        assert len(steps) == 6
    commits = list(log._sessions["a"])
    log._derived = {}
    tried = 0
    for version, forged in forgeries(commits):
        log._sessions["a"] = forged
        with Store(log) as store:
            found = verdicts(store.session("a"))
        sent = [step.view_version is not None and step.view_version >= version for step in steps]
        assert found == ["mismatch" if was else "match" for was in sent], version
        tried += 1
    assert tried > 12


def sent(session: Session, steps: list[AuditedStep]) -> list[bytes]:
    """Return the request of each turn, from the view at its version."""
    views = [ModelView.of(session, at=step.view_version) for step in steps if step.purpose == "turn"]
    made = [(chat_messages(view.messages, view.system), view.tools) for view in views]
    return [msgspec.json.encode(request) for request in made]


def test_one_changed_byte_in_a_history_with_everything_in_it() -> None:
    """After prunes, compactions and rollbacks the audit names only the steps that differ."""
    log = LastingLog()
    with Store(log) as store:
        session = long_session(store)
        name = session.id
        steps = list(audit(session))
        assert {step.verdict for step in steps} == {"match"}
        true = sent(session, steps)
    commits = list(log._sessions[name])
    log._derived = {}
    named: list[int] = []
    for _, forged in list(forgeries(commits))[::4]:
        log._sessions[name] = forged
        with Store(log) as store:
            session = store.session(name)
            found = [step.verdict for step in audit(session) if step.purpose == "turn"]
            now = sent(session, steps)
        assert found == ["match" if is_so == was else "mismatch" for is_so, was in zip(now, true, strict=True)]
        named.append(found.count("mismatch"))
    assert len(named) > 20
    assert min(named) > 0, "each text was sent at least once"
    assert len(set(named)) > 5


def test_the_form_of_a_view_belongs_to_the_renderers_name() -> None:
    """Promise 10: a changed view needs a new `RENDERER`: this digest is that of neutral/1."""
    with eventlog.open("memory:") as store:
        session = store.create_session(id="s", time=1)
        session.set_system_prompt("You help.", "In this folder.")
        session.user("Find it", id="m1", files=[File("image/png", "data:image/png;base64,AA==", "a.png")])
        with session.assistant(model="p/m", id="m2") as reply:
            reply.stream_reasoning().append("Let me see")
            reply.add_text("I look")
            reply.tool("read", call_id="c1", input={"path": "a"}).succeed("one\ntwo")
            reply.tool("read", call_id="c2", input={"path": "b"}).fail("not there")
            reply.finish("tool-calls")
        digest = ModelView.of(session).digest.hex()[:16]
    assert (digests.RENDERER, digest) == ("neutral/1", "6a5e79bed2567777")
