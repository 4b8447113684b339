"""The selection of a compaction: a tail in budget, nothing open, the newest question kept."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import events as ev
from eventlog.values import File, MessageError, Text, Tool
from projections.conversation.parts import CompactionPart, Message, ToolPart
from projections.conversation.state import Conversation
from projections.replay.loop import replay
from projections.view.options import DEFAULT, OPENCODE_1_18
from projections.view.selection import visible_messages
from projections.view.targets import ModelViewProjection
from projections.window.compaction.selection import Selection, select_tail, tail_budget
from projections.window.policy.policy import DEFAULT_POLICY, OPENCODE_POLICY, CompactionPolicy
from projections.window.sizing.sizes import CharsSizes
from tests.support.history_strategies import histories
from tests.support.spans import Recording

POLICY = DEFAULT_POLICY.compaction
OPENCODE = OPENCODE_POLICY.compaction


def with_(policy: CompactionPolicy, **changes: object) -> CompactionPolicy:
    """The policy with some fields changed."""
    return msgspec.structs.replace(policy, **changes)


class Talk:
    """Builds a conversation event by event."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = [ev.SessionStarted(title="t")]

    def user(
        self, name: str, text: str = "x", *, synthetic: bool = False, queue: bool = False, media: bool = False
    ) -> Talk:
        """A user message."""
        self.events.append(ev.UserMessageAdded(name, synthetic=synthetic, delivery="queue" if queue else "steer"))
        self.events.append(ev.PartStarted(name, f"{name}p", Text(text, synthetic)))
        if media:
            self.events.append(ev.PartStarted(name, f"{name}f", File("image/png", "data:image/png;base64,AAAA")))
        return self

    def answer(
        self, name: str, size: int = 100, *, tool: bool = False, open: bool = False, failed: bool = False
    ) -> Talk:
        """A step of the assistant's, about `size` characters of it text."""
        self.events += [ev.AssistantMessageStarted(name), ev.StepStarted(name, f"{name}s")]
        if not failed:
            self.events += [ev.PartStarted(name, f"{name}p", Text("y" * size)), ev.PartEnded(f"{name}p")]
        if tool:
            self.events += [
                ev.PartStarted(name, f"{name}t", Tool("c", "bash")),
                ev.ToolRunning(f"{name}t", "{}"),
                ev.ToolCompleted(f"{name}t", "z" * size),
            ]
        if not open:
            self.events.append(ev.MessageFinished(name, "stop", MessageError("overflow") if failed else None))
        return self

    def ask(self, name: str, *, overflow: bool | None = None) -> Talk:
        """A compaction is requested."""
        self.events += [ev.UserMessageAdded(name), ev.CompactionRequested(name, f"{name}c", True, overflow)]
        return self

    def compacted(self, name: str, found: Selection, text: str = "SUMMARY") -> Talk:
        """Carry out the requested compaction as selected."""
        summary = f"{name}s"
        self.events += [
            ev.CompactionStarted(f"{name}c", found.through, found.tail, kept=found.kept),
            ev.AssistantMessageStarted(summary, name, summary=True),
            ev.PartStarted(summary, f"{summary}p", Text(text)),
            ev.PartEnded(f"{summary}p"),
            ev.MessageFinished(summary, "stop"),
            ev.CompactionCompleted(f"{name}c", summary),
        ]
        return self

    @property
    def recording(self) -> Recording:
        """The conversation as a session tells it."""
        return Recording([(1_000 + 7 * at, event) for at, event in enumerate(self.events)])

    @property
    def state(self) -> Conversation:
        """Its projected state."""
        return replay(ModelViewProjection(), self.recording).state

    def select(
        self, policy: CompactionPolicy = POLICY, *, marker: str | None = None, usable: int | None = 10_000
    ) -> Selection | None:
        """Return what a compaction would cover."""
        state = self.state
        options = DEFAULT if policy.tail_when_all_fits else OPENCODE_1_18
        measure = CharsSizes(state, options, self.recording.text)
        return select_tail(state, policy, measure, usable=usable, marker=marker, options=options)

    def shown(self) -> list[str]:
        """The messages of the view."""
        return [message.id for message in visible_messages(self.state, DEFAULT)]


def ids(found: Selection | None) -> tuple[list[str], str | None, tuple[str, ...]]:
    """Head, tail and kept messages by their ids."""
    assert found is not None
    return [message.id for message in found.head], found.tail, found.kept


def two_turns(size: int = 100) -> Talk:
    """Three turns of two steps each."""
    talk = Talk()
    for turn in "123":
        talk.user(f"u{turn}").answer(f"a{turn}", size, tool=True).answer(f"b{turn}", size)
    return talk


def test_budget() -> None:
    """A quarter of usable within its bounds; a number that was set goes before."""
    assert [tail_budget(POLICY, usable) for usable in (0, 8_003, 20_000, 10**6, None)] == [
        2_000,
        2_000,
        5_000,
        8_000,
        8_000,
    ]
    assert tail_budget(OPENCODE, 10**6) == 15_000
    assert tail_budget(with_(POLICY, preserve_recent_tokens=7), 10**6) == 7


ONE_TURN = Talk().user("u1").answer("a1").answer("a2").answer("a3")
TWO_TURNS = Talk().user("u1").answer("a1").user("u2").answer("a2")
OPEN = Talk().user("u1").answer("a1", 5_000).user("u2").answer("a2", 5_000, open=True).user("u3")
SYNTHETIC = Talk().user("u1").answer("a1").user("u2").answer("a2").user("s", synthetic=True).answer("a3")
CASES: dict[str, tuple[Talk, CompactionPolicy, tuple[str, str | None, tuple[str, ...]] | None]] = {
    "the newest turns stay": (two_turns(), POLICY, ("u1 a1 b1", "u2", ())),
    "as many as the policy says": (two_turns(), with_(POLICY, tail_turns=1), ("u1 a1 b1 u2 a2 b2", "u3", ())),
    "no turn, but the newest question": (
        two_turns(), with_(POLICY, tail_turns=0), ("u1 a1 b1 u2 a2 b2 a3 b3", None, ("u3",)),
    ),
    "not even the last message fits": (
        two_turns(1_000), with_(POLICY, preserve_recent_tokens=60), ("u1 a1 b1 u2 a2 b2 a3 b3", None, ("u3",)),
    ),
    "all fits, and the newest turn stays": (TWO_TURNS, POLICY, ("u1 a1", "u2", ())),
    "all fits, and OpenCode keeps none": (TWO_TURNS, OPENCODE, ("u1 a1 u2 a2", None, ())),
    "one turn keeps its question and newest step": (ONE_TURN, POLICY, ("a1 a2", "a3", ("u1",))),
    "one step": (Talk().user("u1").answer("a1"), POLICY, None),
    "one question": (Talk().user("u1"), POLICY, None),
    "nothing": (Talk(), POLICY, None),
    "a large answer": (Talk().user("u1").answer("a1", 100_000), POLICY, ("a1", None, ("u1",))),
    "up to an open message": (OPEN, with_(POLICY, tail_turns=0), ("u1 a1", "a2", ("u2",))),
    "an open message": (Talk().user("u1").answer("a1", 5_000, open=True), with_(POLICY, tail_turns=0), None),
    "a program's words begin no turn": (SYNTHETIC, with_(POLICY, tail_turns=1), ("u1 a1", "u2", ())),
    "in OpenCode they do": (SYNTHETIC, with_(OPENCODE, tail_turns=1), ("u1 a1 u2 a2", "s", ())),
}  # fmt: skip
"""Conversations and policies, and what is covered: head, tail, and messages that are kept."""


@pytest.mark.parametrize("name", CASES)
def test_what_is_covered(name: str) -> None:
    """The tail is in budget, nothing open is covered, and the newest question stays."""
    talk, policy, expected = CASES[name]
    found = talk.select(policy)
    if expected is None:
        assert found is None
    else:
        head, tail, kept = expected
        assert ids(found) == (head.split(), tail, kept)


def test_turn_is_split_at_a_message() -> None:
    """Of a turn that is too large the newest messages that fit stay, and its user message."""
    talk = Talk()
    for turn in "123":
        talk.user(f"u{turn}", "q" * 400).answer(f"a{turn}", 1_000, tool=True).answer(f"b{turn}", 1_000)
    assert ids(talk.select(with_(POLICY, preserve_recent_tokens=300)))[1:] == ("b3", ("u3",))
    assert ids(talk.select(with_(POLICY, preserve_recent_tokens=900)))[1:] == ("a3", ("u3",))
    assert ids(talk.select(with_(POLICY, preserve_recent_tokens=1_260)))[1:] == ("b2", ())


def test_waiting_message_is_never_covered() -> None:
    """A queued message waits beside the compaction: in no head, and visible once promoted."""
    talk = Talk().user("u1").answer("a1", 100_000).user("q1", queue=True).answer("a2", 100_000)
    talk.ask("m")
    found = talk.select(marker="m")
    assert ids(found) == (["a1", "a2"], None, ("u1",))
    assert found is not None
    talk.compacted("m", found)
    assert talk.shown() == ["m", "ms", "u1"]
    talk.events.append(ev.MessagePromoted("q1"))
    assert talk.shown() == ["m", "ms", "u1", "q1"]


def test_what_came_after_the_request_is_left_alone() -> None:
    """A message after the request is neither covered nor measured."""
    talk = two_turns(40_000).ask("m").user("late")
    found = talk.select(marker="m")
    assert ids(found)[1:] == (None, ())
    assert found is not None
    assert talk.compacted("m", found).shown() == ["m", "ms", "late"]


def test_second_compaction_updates_the_first() -> None:
    """Its head is what the first left and what came since."""
    talk = two_turns().ask("m")
    first = talk.select(marker="m")
    assert first is not None
    assert first.previous is None
    talk.compacted("m", first, " NOTES \n").user("u4").answer("a4").ask("n")
    second = talk.select(marker="n")
    assert ids(second) == (["u2", "a2", "b2"], "u3", ())
    assert second is not None
    assert second.previous == "NOTES"
    assert talk.compacted("n", second).shown() == ["n", "ns", "u3", "a3", "b3", "u4", "a4"]


def test_long_turn_keeps_its_question_over_many_compactions() -> None:
    """A request of hundreds of steps stays verbatim through every compaction of its work."""
    talk = Talk().user("u1", "the task")
    for number in range(10):
        for step in range(6):
            talk.answer(f"a{number}-{step}", 4_000)
        talk.ask(f"m{number}")
        found = talk.select(marker=f"m{number}")
        assert found is not None
        assert found.kept == ("u1",)
        talk.compacted(f"m{number}", found).user(f"s{number}", synthetic=True)
        assert talk.shown()[:3] == [f"m{number}", f"m{number}s", "u1"]
        assert len(talk.shown()) <= 6


def test_failed_compaction_leaves_head_and_previous_summary() -> None:
    """After a failed summary the next selection has the whole head (OpenCode loses it)."""
    talk = two_turns().ask("m")
    first = talk.select(marker="m")
    assert first is not None
    talk.compacted("m", first).user("u4").answer("a4").ask("n")
    asked = talk.select(marker="n")
    assert asked is not None
    talk.events += [
        ev.CompactionStarted("nc", asked.through, asked.tail, kept=asked.kept),
        ev.AssistantMessageStarted("x", "n", summary=True),
        ev.PartStarted("x", "xp", Text("half")),
        ev.PartEnded("xp"),
        ev.MessageFinished("x", None, MessageError("api")),
        ev.CompactionFailed("nc", "api", "x"),
    ]
    again = talk.ask("o").select(marker="o")
    assert ids(again) == ids(asked)
    assert again is not None
    assert again.previous == "SUMMARY"


class TestRefused:
    """After a request that was refused for its size."""

    def refused(self) -> Talk:
        """A question with an image, two steps, and the refused request."""
        talk = Talk().user("u1").answer("a1", 4_000).user("u2", media=True).answer("a2", tool=True)
        return talk.answer("x", failed=True).ask("m", overflow=True)

    def test_question_with_steps_stays_in_front_of_them(self) -> None:
        """A turn that has begun is not asked anew: its question and its steps stay in order."""
        found = self.refused().select(marker="m")
        assert ids(found) == (["u1", "a1"], "u2", ())
        assert found is not None
        assert found.replay is None

    def test_steps_over_the_budget_are_summarised(self) -> None:
        """Steps of the refused turn that do not fit are summarised, and its question stays."""
        found = self.refused().select(with_(POLICY, preserve_recent_tokens=20), marker="m")
        assert ids(found) == (["u1", "a1", "a2"], "x", ("u2",))
        assert found is not None
        assert found.replay is None

    def test_question_without_steps_is_replayed(self) -> None:
        """A question whose first request is refused is added again behind the summary."""
        talk = Talk().user("u1").answer("a1", 4_000).user("u2", media=True)
        found = talk.answer("x", failed=True).ask("m", overflow=True).select(marker="m")
        assert ids(found) == (["u1", "a1"], "x", ())
        assert found is not None
        assert (found.through, found.replay) == ("u2", "u2")

    def test_opencode_drops_the_steps(self) -> None:
        """OpenCode's preset covers the turn with its steps and summarises only earlier ones."""
        found = self.refused().select(OPENCODE, marker="m")
        assert ids(found) == (["u1", "a1"], None, ())
        assert found is not None
        assert (found.through, found.replay) == ("x", "u2")

    def test_only_message_is_not_covered(self) -> None:
        """No summary stands for a refused message that is alone; OpenCode's does."""
        talk = Talk().user("u1", media=True).answer("x", failed=True).ask("m", overflow=True)
        assert talk.select(POLICY, marker="m") is None
        found = talk.select(OPENCODE, marker="m")
        assert found is not None
        assert found.head[0].id == "u1"
        assert (found.replay, found.tail, found.kept) == (None, None, ())

    def test_replay_switched_off(self) -> None:
        """With replay off a refused request is selected like any other."""
        found = self.refused().select(with_(POLICY, replay=False), marker="m")
        assert ids(found) == (["u1", "a1"], "u2", ())
        assert found is not None
        assert found.replay is None


policies = st.builds(
    CompactionPolicy,
    tail_turns=st.sampled_from([None, 0, 1, 2, 5]),
    preserve_recent_tokens=st.sampled_from([None, 0, 20, 60, 200]),
    keep_newest_user=st.just(True),
)


@given(histories(), policies, st.sampled_from([None, 0, 9_000]))
def test_laws_of_the_selection(
    history: list[tuple[int, ev.Event]], policy: CompactionPolicy, usable: int | None
) -> None:
    """Head, kept and tail make up the view; the tail fits."""
    recording = Recording(history)
    state = replay(ModelViewProjection(), recording).state
    measure = CharsSizes(state, DEFAULT, recording.text)
    found = select_tail(state, policy, measure, usable=usable)
    if found is None:
        return
    compaction = state.compactions.get(state.in_force or "")
    pair = {compaction.message, compaction.summary} if compaction is not None else set[str | None]()
    view = [message for message in visible_messages(state, DEFAULT) if message.id not in pair]
    names = [message.id for message in view]
    last = max(message.place for message in view if message.id in {found.through, *found.kept, *ids_of(found.head)})
    assert [message.place for message in view if message.id == found.through] == [last]
    head = ids_of(found.head)
    assert {*head, *found.kept} == {message.id for message in view if message.place <= last}
    assert head == [name for name in names if name in head]
    assert set(head).isdisjoint(found.kept)
    place = 1 + max(map(names.index, head))
    tail = [message for message in view[place:] if message.id not in found.kept]
    behind = [message for message in tail if message.place > last]
    assert found.tail == (min(behind, key=lambda message: message.place).id if behind else None)
    waits = bool(tail) and any(isinstance(part, ToolPart) and part.waits for part in tail[0].parts)
    barred = waits or (bool(tail) and not tail[0].user and tail[0].finished is None)
    assert not tail or barred or measure.messages(tail) <= tail_budget(policy, usable)
    assert all(message.user or message.finished is not None for message in found.head)
    assert not any(map(_waits_for_a_result, found.head))
    newest = [message.id for message in state.messages.values() if _is_real(message)][-1:]
    assert not set(newest) & set(head)
    answered = state.answered_place()
    assert not any(_is_real(message) and message.place > answered for message in found.head)
    after = _after(recording, found)
    assert after[:2] == ["M", "S"]
    assert sorted(after[2:]) == sorted(name for name in names if name not in head)


def ids_of(messages: Sequence[Message]) -> list[str]:
    """Ids of messages."""
    return [message.id for message in messages]


def _after(recording: Recording, found: Selection) -> list[str]:
    """The view once the compaction is carried out as selected."""
    events: list[ev.Event] = [
        ev.UserMessageAdded("M"),
        ev.CompactionRequested("M", "C"),
        ev.CompactionStarted("C", found.through, found.tail, kept=found.kept),
        ev.AssistantMessageStarted("S", "M", summary=True),
        ev.MessageFinished("S", "stop"),
        ev.CompactionCompleted("C", "S"),
    ]
    recording.add([(10**6, event) for event in events])
    return [message.id for message in visible_messages(replay(ModelViewProjection(), recording).state, DEFAULT)]


def _is_real(message: Message) -> bool:
    hidden = message.synthetic or message.removed or message.waiting
    return message.user and not hidden and not any(isinstance(part, CompactionPart) for part in message.parts)


def _waits_for_a_result(message: Message) -> bool:
    return any(
        isinstance(part, ToolPart) and not part.removed and part.status in {"pending", "running"}
        for part in message.parts
    )
