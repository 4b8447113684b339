"""A title that an importer makes of a prompt is redacted with the prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.importers import import_file
from eventlog.testing.file_search import files_with
from tests.support.encrypted_store import opened_by_the_keys

SECRET = "hunter2-of-the-vault"
PROMPT = f"my password is {SECRET} please log in"


def claude_code() -> list[dict[str, Any]]:
    """A session of Claude Code with one prompt."""
    told = {"sessionId": "aaaaaaaa-0000-4000-8000-000000000001", "timestamp": "2026-05-01T10:00:00.000Z"}
    asked = {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": PROMPT}}
    return [told | asked]


def codex() -> list[dict[str, Any]]:
    """A rollout of Codex with one prompt."""
    time = {"timestamp": "2026-05-01T10:00:00.000Z"}
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": PROMPT}]}
    return [
        time | {"type": "session_meta", "payload": {"id": "aaaaaaaa-0000-4000-8000-000000000002", "cwd": "/w"}},
        time | {"type": "response_item", "payload": said},
    ]


def gemini() -> list[dict[str, Any]]:
    """A chat of Gemini CLI, whose title stands in a snapshot."""
    asked = {"id": "m1", "timestamp": "2026-05-01T10:00:00.000Z", "type": "user", "content": PROMPT}
    answered = asked | {"id": "m2", "type": "gemini", "content": "ok"}
    return [{"sessionId": "s1", "projectHash": "p", "startTime": asked["timestamp"], "messages": [asked, answered]}]


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("records", [claude_code, codex, gemini], ids=lambda one: one.__name__)
def test_a_title_goes_with_the_prompt_that_it_quotes(tmp_path: Path, records: Any, *, keyed: bool) -> None:
    """Redaction empties the title, a scrub its event, and another import brings neither back."""
    file, path = tmp_path / ("session-1.json" if records is gemini else "file.jsonl"), tmp_path / "store"
    file.write_text("".join(json.dumps(record) + "\n" for record in records()))
    with eventlog.open(path, keys=True if keyed else None) as store:
        report = import_file(store, file)
        at = store.cursor()
        (info,) = store.sessions()
        assert info.title == PROMPT
        session = store.session(info.id)
        (part,) = {
            found.event.part
            for found in session.events()
            if isinstance(found.event, ev.PartStarted) and SECRET in str(found.event.kind)
        }
        assert not session.redact(part).occurrences
        assert session.info.title == ""
        store.scrub()
        file.touch()
        assert import_file(store, file).messages == report.messages
        assert [(one.id, one.title) for one in store.sessions()] == [(info.id, "")]
        assert SECRET not in str([found.event for found in session.events()])
    eventlog.restore(path, tmp_path / "restored", cursor=at)
    for place in (path, tmp_path / "restored"):
        with eventlog.open(place, keys=tmp_path / "store.keys" if keyed else None) as store:
            store.vacuum()
            assert [one.title for one in store.sessions()] == [""]
            assert SECRET.encode() not in opened_by_the_keys(store)
        assert not files_with(place, SECRET)


def test_a_title_given_by_hand_is_quoted_or_its_own(tmp_path: Path) -> None:
    """A title goes if it quotes the redacted text; another one, or a single word, stays."""
    with eventlog.open(tmp_path / "store") as store:
        for title, kept in (("my pass", ""), ("password is hunter2", ""), ("Log in", "Log in"), ("log in", "log in")):
            session = store.create_session(title=title)
            asked = session.user(PROMPT)
            (part,) = (found.event.part for found in session.events() if isinstance(found.event, ev.PartStarted))
            assert asked
            session.redact(part)
            assert session.info.title == kept
