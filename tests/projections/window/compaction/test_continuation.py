"""The message after a compaction: the refused one without media, or a prompt to go on."""

from __future__ import annotations

import re

import pytest

from eventlog import events as ev
from eventlog.values import Agent, File, PartKind, Subtask, Text
from projections.conversation.state import Conversation
from projections.loop.context.continuation import continuation, overflow_replay
from projections.replay.loop import replay
from projections.view.targets import ModelViewProjection
from tests.support.opencode_exports import events_of_export
from tests.support.parity import scenarios
from tests.support.shared import shared_path
from tests.support.spans import Recording


def told(*kinds: PartKind) -> tuple[Conversation, Recording]:
    """A user message "u" with these parts, named "p0", "p1" and so on."""
    events: list[ev.Event] = [ev.SessionStarted(), ev.UserMessageAdded("u")]
    events += [ev.PartStarted("u", f"p{at}", kind) for at, kind in enumerate(kinds)]
    recording = Recording([(1_000 + at, event) for at, event in enumerate(events)])
    return replay(ModelViewProjection(), recording).state, recording


def test_media_become_texts_and_the_rest_stays() -> None:
    """Images and PDFs become text in place; all other parts stay as they were."""
    kept: list[PartKind] = [
        Text("what is this?", metadata='{"a":1}'),
        Text("note", synthetic=True),
        Text("aside", ignored=True),
        File("text/plain", "file:///a.txt", "a.txt"),
        Agent("build"),
        Subtask("do it", "d", "general"),
    ]
    media = [File("image/png", "data:image/png;base64,AAAA", "red.png"), File("application/pdf", "data:,x")]
    state, recording = told(*kept, *media)
    assert overflow_replay(state.messages["u"], recording.text) == [
        *kept,
        Text("[Attached image/png: red.png]"),
        Text("[Attached application/pdf: file]"),
    ]


def test_what_is_gone_stays_gone() -> None:
    """Removed and redacted parts, and compaction markers, are not added again."""
    state, recording = told(Text("a"), Text("b"), Text("c"))
    events: list[ev.Event] = [ev.PartRemoved("p0"), ev.PartRedacted("p1", ""), ev.CompactionRequested("u", "c")]
    recording.add([(2_000, event) for event in events])
    state = replay(ModelViewProjection(), recording).state
    assert overflow_replay(state.messages["u"], recording.text) == [Text("c")]


def test_words_of_the_default_are_our_own() -> None:
    """The default continuation is our own text; its notice follows a refused request only."""
    plain, refused = continuation("default", overflow=False), continuation("default", overflow=True)
    assert refused.endswith(plain)
    assert len(refused) > len(plain)
    assert plain != continuation("opencode-1.18", overflow=False)
    assert not refused.startswith(continuation("opencode-1.18", overflow=True)[:40])


@pytest.mark.parametrize(("scenario", "overflow"), [("compact-auto", False), ("overflow-first", True)])
def test_words_of_the_preset_are_the_recorded_ones(scenario: str, *, overflow: bool) -> None:
    """With the preset the continuation is OpenCode's, byte for byte."""
    shared_path("parity", "dev")
    found = next(each for each in scenarios() if each.name == scenario)
    texts = {
        part["text"]
        for _, export in found.exports()
        for message in export["messages"]
        for part in message["parts"]
        if "compaction_continue" in part.get("metadata", ())
    }
    assert continuation("opencode-1.18", overflow=overflow) in texts


def test_replay_is_what_opencode_replayed() -> None:
    """A replayed message has the parts that OpenCode stored in its copies."""
    shared_path("parity", "dev")
    found = next(each for each in scenarios() if each.name == "overflow-image")
    export = list(found.exports())[-1][1]
    recording = Recording.of(events_of_export(export))
    messages = [message for message in replay(_Whole(), recording).state.messages.values() if message.user]
    copies = 0
    for place, message in enumerate(messages[2:], 2):
        before = messages[place - 2]
        if not any(
            re.match(r"\[Attached image/png: ", _said(part)) for part in overflow_replay(message, recording.text)
        ):
            continue
        copies += 1
        assert overflow_replay(message, recording.text) == overflow_replay(before, recording.text)
    assert copies >= 1


class _Whole(ModelViewProjection):
    """Every message, covered ones too."""

    whole = True


def _said(part: PartKind) -> str:
    return part.text if isinstance(part, Text) and isinstance(part.text, str) else ""
