"""The transcript is read newest first, in pages, with marks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventlog
from eventlog import events as ev
from eventlog.codec.large_texts import to_content
from eventlog.errors import CallError
from eventlog.values import Agent, Patch, Retry, Subtask, Text
from projections import CallModel, ContextWindow
from projections.conversation.parts import TextPart
from projections.replay.loop import replay
from projections.transcript import backward
from projections.transcript.message import TranscriptMessage, transcript_message
from projections.transcript.transcript import Transcript, TranscriptProjection
from tests.support.compactions import compacted
from tests.support.history_strategies import Command, Grower, commands
from tests.support.sample_sessions import read_by

PROJECTION = TranscriptProjection()


def filled(store: eventlog.Store, steps: list[Command]) -> eventlog.Session:
    """A session of random events."""
    grower = Grower()
    for step in steps:
        grower.do(step)
    session = store.create_session(title="t", time=1_000)
    if grower.items[1:]:
        session.append(grower.items[1:])
    return session


@settings(max_examples=60, deadline=None)
@given(st.lists(commands(), min_size=8, max_size=50), st.integers(1, 9), st.data())
def test_reading_backwards_equals_the_fold(steps: list[Command], window: int, data: st.DataObject) -> None:
    """Pages from the end equal the whole projection reversed, at any version."""
    with eventlog.open("memory:") as store, pytest.MonkeyPatch.context() as patched:
        patched.setattr(backward, "WINDOW", window)
        session = filled(store, steps)
        redacted = {span.item.part for span in session.reader.spans() if isinstance(span.item, ev.PartRedacted)}
        for at in {session.version, data.draw(st.integers(1, session.version))}:
            state, _ = replay(PROJECTION, session.reader, at)
            for part in redacted & state.where.keys():
                state.where[part][1].redacted = True
            expected = [transcript_message(message, store.text) for message in state.messages.values()]
            assert [*Transcript(session, at).newest_first()] == expected[::-1]
            assert Transcript(session, at).oldest_first() == expected


def _messages(store: eventlog.Store, count: int) -> eventlog.Session:
    session = store.create_session()
    items: list[tuple[int, ev.Event]] = []
    for number in range(count):
        items.append((number, ev.UserMessageAdded(f"m{number}")))
        items.append((number, ev.PartStarted(f"m{number}", f"p{number}", Text(f"text {number}"))))
    session.append(items)
    return session


def test_a_whole_transcript_reads_each_large_text_once(store: eventlog.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large texts are read in bulk, and one that several messages share is read once."""
    session = store.create_session()
    for number in range(70):
        session.user(f"{number} " * 1_000)
        session.user("the same " * 1_000)
    read: list[bytes] = []
    several = store.log.bodies_of

    def watched(digests: Sequence[bytes]) -> list[bytes | None]:
        read.extend(digests)
        return several(digests)

    monkeypatch.setattr(store.log, "bodies_of", watched)
    texts = [message.parts[0].text for message in Transcript(session).oldest_first()]
    assert texts == [text for number in range(70) for text in (f"{number} " * 1_000, "the same " * 1_000)]
    assert len(read) == len(set(read)) == 71


def test_a_large_text_that_grows_stays_one_text(store: eventlog.Store) -> None:
    """Bodies and the deltas after them are joined; the state has the deltas as one piece."""
    bodies: dict[bytes, bytes] = {}
    large = to_content("large " * 1_000, bodies)
    deltas = [ev.PartDelta("p", "text", text) for text in ("and ", "", "more")]
    session = store.create_session()
    with session.lease():
        begin: list[ev.Event] = [ev.AssistantMessageStarted("m"), ev.PartStarted("m", "p", Text(large))]
        session.append([(1, event) for event in (*begin, *deltas)], bodies=bodies)
        session.append([(2, ev.PartEnded("p")), (2, ev.MessageFinished("m", "stop"))])
    state, _ = replay(PROJECTION, session.reader)
    part = state.messages["m"].parts[0]
    assert isinstance(part, TextPart)
    assert part.pieces == [large, "and more"]
    assert Transcript(session).oldest_first()[0].parts[0].text == "large " * 1_000 + "and more"


def test_what_two_compactions_cover_stays_covered_without_the_first(store: eventlog.Store) -> None:
    """After a compaction is undone, the newer one that covers a message marks it."""
    session = store.create_session()
    asked = session.user("covered by both")
    parts = [compacted(session, kept=()), compacted(session, kept=())]
    session.remove_message(session.reader.state().parts[parts[0]].message)
    told = Transcript(session).oldest_first()
    assert {message.id: message.covered for message in told}[asked] == parts[1]
    assert told[::-1] == [*Transcript(session).newest_first()]
    assert session.context.undo_compaction() == parts[1]
    assert not any(message.covered for message in Transcript(session).oldest_first())


def test_an_undone_compaction_leaves_the_marks_of_older_ones_as_they_were(store: eventlog.Store) -> None:
    """A compaction covers what it covered when it completed, after a promotion, too."""
    session = store.create_session()
    session.user("asked")
    queued = session.user("meanwhile", delivery="queue")
    compacted(session, tail=queued, kept=())
    said = session.user("after it")
    with session.lease():
        session.context.promote(queued)
    before = {message.id: message.covered for message in Transcript(session).oldest_first()}
    assert before[said] is None
    compacted(session, kept=())
    session.context.undo_compaction()
    told = Transcript(session).oldest_first()
    assert before.items() <= {message.id: message.covered for message in told}.items()
    assert told[::-1] == [*Transcript(session).newest_first()]


@pytest.mark.parametrize("bound", ["tail", "through"])
def test_a_promoted_message_bounds_a_compaction_where_it_was_promoted(store: eventlog.Store, bound: str) -> None:
    """A message that waited comes after what was said meanwhile, read from either end."""
    session = store.create_session()
    session.user("asked")
    queued = session.user("meanwhile", delivery="queue")
    with session.assistant() as reply:
        reply.add_text("while it waits")
        reply.finish()
    with session.lease():
        session.context.promote(queued)
    part = compacted(session, tail=queued, kept=()) if bound == "tail" else compacted(session, through=queued, kept=())
    told = Transcript(session).oldest_first()
    covered = {message.id: message.covered for message in told}
    assert covered[reply.id] == part
    assert covered[queued] == (part if bound == "through" else None)
    assert told[::-1] == [*Transcript(session).newest_first()]


def test_pages_follow_each_other(store: eventlog.Store) -> None:
    """Pages of any size, each starting at the last one's cursor, give every message once."""
    transcript = Transcript(_messages(store, 25))
    found: list[TranscriptMessage] = []
    while page := transcript.page(7, before=found[-1].version if found else None):
        found.extend(page)
    assert [message.id for message in found] == [f"m{number}" for number in reversed(range(25))]


@pytest.mark.promise(8)
def test_a_page_does_not_read_the_history_before_it(store: eventlog.Store) -> None:
    """Promise 8: the newest page reads only its own events, however long the history is."""
    session = _messages(store, 4_000)
    pages: list[list[TranscriptMessage]] = []
    read = read_by(session, lambda: pages.append(Transcript(session).page(10)))
    assert [message.parts[0].text for message in pages[0]][:2] == ["text 3999", "text 3998"]
    assert 0 < len(read) <= backward.WINDOW * (1 + backward.WINDOWS)
    assert len(read_by(session, lambda: pages.append(Transcript(session).page(10)))) <= backward.WINDOW
    assert pages[0] == pages[1]


def test_marks(store: eventlog.Store) -> None:
    """Removed, pruned, redacted, covered and open are marked; a redacted part has its kind."""
    session = store.create_session()
    session.user([Text("one"), Text("secret"), Subtask("task", "what", "who"), Agent("helper")], id="u1")
    with session.assistant(model="p/m", id="a1") as reply:
        reply.stream_text().append("two")
        call = reply.tool("bash", call_id="c", input={"x": 1})
        call.succeed("long output")
        reply.finish("stop")
    parts = {
        facts.kind + str(number): part for number, (part, facts) in enumerate(session.reader.state().parts.items())
    }
    tool = next(part for kind, part in parts.items() if kind.startswith("tool"))
    secret = list(parts.values())[1]
    session.append([(5, ev.Pruned((tool,))), (6, ev.PartRedacted(secret))])
    session.append(
        [
            (7, ev.UserMessageAdded("k")),
            (7, ev.CompactionRequested("k", "kc")),
            (7, ev.CompactionStarted("kc")),
            (7, ev.AssistantMessageStarted("ks", "k", summary=True)),
            (8, ev.PartStarted("ks", "kt", Text("sum"))),
            (8, ev.PartEnded("kt")),
            (8, ev.MessageFinished("ks", "stop")),
            (9, ev.CompactionCompleted("kc", "ks")),
            (9, ev.UserMessageAdded("u2")),
            (9, ev.PartStarted("u2", "u2p", Text("three"))),
            (10, ev.PartRemoved("u2p")),
            (11, ev.AssistantMessageStarted("a2")),
            (11, ev.PartStarted("a2", "a2p", Text("unfin"))),
            (11, ev.PartStarted("a2", "a2q", Patch("h", ("a", "b")))),
            (11, ev.PartStarted("a2", "a2r", Retry(1, eventlog.values.MessageError("api", "429")))),
        ]
    )
    first, answer, marker, summary, second, last = Transcript(session).oldest_first()
    assert [message.covered for message in (first, answer, marker, summary, second, last)] == ["kc"] * 2 + [None] * 4
    assert [part.text for part in first.parts] == ["one", "[Redacted]", "task", "helper"]
    assert first.parts[1].redacted
    assert [part.kind for part in first.parts] == ["text", "text", "subtask", "agent"]
    (result,) = [part for part in answer.parts if part.kind == "tool"]
    assert (result.text, result.pruned, result.input, result.status) == (
        "long output",
        True,
        '{"x":1}',
        "completed",
    )
    assert second.parts[0].removed
    assert last.parts[0].open
    assert [part.text for part in last.parts] == ["unfin", "a\nb", "429"]
    assert (first.role, answer.role, answer.reason, summary.summary) == ("user", "assistant", "stop", True)


def test_what_was_rolled_back_is_not_said_any_more(store: eventlog.Store) -> None:
    """The transcript has the effective history; an earlier version still has everything."""
    session = _messages(store, 6)
    version = session.version
    session.rollback(5)
    session.user("instead", id="other")
    assert [message.id for message in Transcript(session).newest_first()] == ["other", "m1", "m0"]
    assert len(Transcript(session, version).oldest_first()) == 6
    with pytest.raises(CallError):
        Transcript(session, 999).page()


def test_a_question_that_a_loop_repeats_is_the_programs(store: eventlog.Store) -> None:
    """A request is refused for its size: of the question and its repetition one is the user's."""
    session = store.create_session()
    session.user("first")
    with session.assistant("acme/one") as reply:
        reply.add_text("answer")
        reply.finish()
    session.user("asked once")
    with ContextWindow(session, model="acme/one", limits=eventlog.Limits(40_000, 4_000)) as window:
        while step := window.next_step():
            if not isinstance(step, CallModel):
                window.perform(step)
                continue
            reply, _ = window.begin(step)
            if session.info.messages == 4:
                reply.abort(eventlog.MessageError("overflow", "too long"))
            else:
                reply.add_text("done")
                reply.finish()
    said = [message for message in Transcript(session).oldest_first() if message.role == "user"]
    assert ["asked once" in str(message.parts) for message in said].count(True) == 2
    assert [message.parts[0].text for message in said if not message.synthetic] == ["first", "asked once"]
