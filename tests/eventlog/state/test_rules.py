"""Every rule of the state machines; a retracted decision leaves no trace."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import events as ev
from eventlog.errors import AlreadyExistsError, CallError, LimitError, NotFoundError, RefusedError
from eventlog.state.evolve import evolve
from eventlog.state.rules import check
from eventlog.state.settling import closing
from eventlog.state.state import State
from eventlog.state.stored import canonical
from eventlog.values import File, MessageError, PartKind, Reasoning, Snapshot, Text, Tokens, Tool, Usage
from tests.support.history_strategies import histories


def after(*events: ev.Event) -> State:
    """The state after these events, each of which must be legal."""
    state = State()
    for event in (ev.SessionStarted(), *events):
        check(state, event)
        evolve(state, event)
    return state


def part(name: str, kind: PartKind, message: str = "m2") -> ev.PartStarted:
    """A part of the open message."""
    return ev.PartStarted(message, name, kind)


USER = (ev.UserMessageAdded("m1"), ev.PartStarted("m1", "u1", Text("hi")))
OPEN = (*USER, ev.AssistantMessageStarted("m2"))
TEXT = (*OPEN, part("t1", Text()))
TOOL = (*OPEN, part("c1", Tool("call", "bash")))
RUNNING = (*TOOL, ev.ToolRunning("c1", "{}"))
COMPLETED = (*RUNNING, ev.ToolCompleted("c1", "out"))
PRUNED = (*COMPLETED, ev.Pruned(("c1",)))
ARGUMENTS_CLEARED = (*COMPLETED, ev.Pruned((), arguments=("c1",)))
REPLACED = (*COMPLETED, ev.MediaReplaced("c1", "image/png", "a.png"))
FINISHED = (*TEXT, ev.PartDelta("t1", "text", "x"), ev.PartEnded("t1"), ev.MessageFinished("m2", "stop"))
ASKED = (*FINISHED, ev.UserMessageAdded("m3"), ev.CompactionRequested("m3", "k1"))
STARTED = (*ASKED, ev.CompactionStarted("k1", "m2"))
SUMMARY = (*STARTED, ev.AssistantMessageStarted("m4", summary=True), ev.MessageFinished("m4"))
COMPACTED = (*SUMMARY, ev.CompactionCompleted("k1", "m4"))
TWICE = (
    *COMPACTED,
    ev.UserMessageAdded("m5"),
    ev.CompactionRequested("m5", "k2"),
    ev.CompactionStarted("k2", "m3"),
    ev.AssistantMessageStarted("m6", summary=True),
    ev.MessageFinished("m6"),
    ev.CompactionCompleted("k2", "m6"),
)
BACK = (*FINISHED, ev.RolledBack(3))
WAITING = (*TOOL, ev.CallAsked("c1", "{}"))
CLOSED = (*WAITING, ev.MessageFinished("m2", "tool-calls"))
GRANTED = (*CLOSED, ev.CallAnswered("c1", 6, "allow"))
"""A call that waits in an open message, then in a finished one (7), then is allowed."""
RAN = (*GRANTED, ev.ToolRunning("c1", "{}"))
DENIED = ev.CallAnswered("c1", 6, "deny")

REFUSED: list[tuple[str, tuple[ev.Event, ...], ev.Event, type[CallError]]] = [
    ("a second start", (), ev.SessionStarted(), RefusedError),
    ("a fork inside a session", (), ev.SessionForked("p", 1), RefusedError),
    ("anything after the erasure", (ev.SessionErased(),), ev.SessionRenamed("t"), RefusedError),
    ("a message id again", USER, ev.UserMessageAdded("m1"), AlreadyExistsError),
    ("a message id of the other kind again", USER, ev.AssistantMessageStarted("m1"), AlreadyExistsError),
    ("a message id that a rollback hid", BACK, ev.AssistantMessageStarted("m2"), AlreadyExistsError),
    ("an empty message id", (), ev.UserMessageAdded(""), LimitError),
    ("a message id that is too long", (), ev.UserMessageAdded("é" * 129), LimitError),
    ("a part id again", TEXT, part("t1", Text()), AlreadyExistsError),
    ("a part id of another message again", TEXT, part("u1", Text()), AlreadyExistsError),
    ("a part of no message", (), part("p", Text()), NotFoundError),
    ("a part of a finished message", FINISHED, part("p", Text()), RefusedError),
    ("a part of a removed message", (*FINISHED, ev.MessageRemoved("m2")), part("p", Text()), NotFoundError),
    ("a part of a hidden message", BACK, part("p", Text()), NotFoundError),
    ("a part of an earlier user message", OPEN, ev.PartStarted("m1", "p", Text()), RefusedError),
    ("a tool part of a user message", USER, ev.PartStarted("m1", "p", Tool("c", "bash")), RefusedError),
    ("a reasoning part of a user message", USER, ev.PartStarted("m1", "p", Reasoning()), RefusedError),
    ("a provider call id twice in a message", TOOL, part("c2", Tool("call", "bash")), AlreadyExistsError),
    ("a delta of no part", OPEN, ev.PartDelta("t1", "text", "x"), NotFoundError),
    ("a delta of an ended part", (*TEXT, ev.PartEnded("t1")), ev.PartDelta("t1", "text", "x"), RefusedError),
    ("a delta of a user's part", USER, ev.PartDelta("u1", "text", "x"), RefusedError),
    ("a delta of an unknown field", TEXT, ev.PartDelta("t1", "title", "x"), RefusedError),
    ("a text delta of a tool", TOOL, ev.PartDelta("c1", "text", "x"), RefusedError),
    ("an input delta of a running tool", RUNNING, ev.PartDelta("c1", "input", "x"), RefusedError),
    ("an output delta of a pending tool", TOOL, ev.PartDelta("c1", "output", "x"), RefusedError),
    ("an output delta of a completed tool", COMPLETED, ev.PartDelta("c1", "output", "x"), RefusedError),
    ("an input delta of a text", TEXT, ev.PartDelta("t1", "input", "x"), RefusedError),
    ("a delta of a snapshot", (*OPEN, part("s", Snapshot("a"))), ev.PartDelta("s", "text", "x"), RefusedError),
    ("an end of an ended part", (*TEXT, ev.PartEnded("t1")), ev.PartEnded("t1"), RefusedError),
    ("an end of a tool", TOOL, ev.PartEnded("c1"), RefusedError),
    ("an edit of an open part", TEXT, ev.PartEdited("t1", "y"), RefusedError),
    ("an edit of a running tool", RUNNING, ev.PartEdited("c1", "y"), RefusedError),
    ("an edit of a file", (*OPEN, part("f", File("a/b", "u"))), ev.PartEdited("f", "y"), RefusedError),
    ("a removal of an open part", TEXT, ev.PartRemoved("t1"), RefusedError),
    ("a removal of a running tool", RUNNING, ev.PartRemoved("c1"), RefusedError),
    ("a removal of a removed part", (*COMPLETED, ev.PartRemoved("c1")), ev.PartRemoved("c1"), NotFoundError),
    ("a removal of a running compaction", STARTED, ev.PartRemoved("k1"), RefusedError),
    ("a run of no call", OPEN, ev.ToolRunning("c1", "{}"), NotFoundError),
    ("a run of a text", TEXT, ev.ToolRunning("t1", "{}"), RefusedError),
    ("a second run", RUNNING, ev.ToolRunning("c1", "{}"), RefusedError),
    ("progress of a pending tool", TOOL, ev.ToolProgress("c1"), RefusedError),
    ("progress of a completed tool", COMPLETED, ev.ToolProgress("c1"), RefusedError),
    ("a result of a pending tool", TOOL, ev.ToolCompleted("c1", "out"), RefusedError),
    ("a second result", COMPLETED, ev.ToolCompleted("c1", "out"), RefusedError),
    ("a failure after the result", COMPLETED, ev.ToolFailed("c1", "no"), RefusedError),
    ("a result after the failure", (*TOOL, ev.ToolFailed("c1", "no")), ev.ToolCompleted("c1", "out"), RefusedError),
    ("a result of an unknown call", OPEN, ev.ToolCompleted("c9", "out"), NotFoundError),
    ("the end of a user message", USER, ev.MessageFinished("m1"), RefusedError),
    ("the end of a message with an open text", TEXT, ev.MessageFinished("m2"), RefusedError),
    ("the end of a message with a pending tool", TOOL, ev.MessageFinished("m2"), RefusedError),
    ("the end of a message with a running tool", RUNNING, ev.MessageFinished("m2"), RefusedError),
    ("a second end", FINISHED, ev.MessageFinished("m2"), RefusedError),
    ("the end of no message", (), ev.MessageFinished("m2"), NotFoundError),
    ("the removal of an open message", OPEN, ev.MessageRemoved("m2"), RefusedError),
    ("a second removal", (*USER, ev.MessageRemoved("m1")), ev.MessageRemoved("m1"), NotFoundError),
    ("a step in a user message", USER, ev.StepStarted("m1", "s1"), RefusedError),
    ("a step in a finished message", FINISHED, ev.StepStarted("m2", "s1"), RefusedError),
    ("a step end without a step", OPEN, ev.StepFinished("m2", "s1"), RefusedError),
    (
        "a second step end",
        (*OPEN, ev.StepStarted("m2", "s1"), ev.StepFinished("m2", "s2")),
        ev.StepFinished("m2", "s3"),
        RefusedError,
    ),
    ("a step with a known part id", TEXT, ev.StepStarted("m2", "t1"), AlreadyExistsError),
    ("usage of no message", (), ev.UsageRecorded(Usage(Tokens()), "m9"), NotFoundError),
    ("a prune of a text", FINISHED, ev.Pruned(("t1",)), RefusedError),
    ("a prune of a running tool", RUNNING, ev.Pruned(("c1",)), RefusedError),
    ("a second prune", (*COMPLETED, ev.Pruned(("c1",))), ev.Pruned(("c1",)), RefusedError),
    ("a restore of what is not pruned", COMPLETED, ev.Restored(("c1",)), RefusedError),
    ("cleared arguments of a text", FINISHED, ev.Pruned((), arguments=("t1",)), RefusedError),
    ("cleared arguments of a running tool", RUNNING, ev.Pruned((), arguments=("c1",)), RefusedError),
    ("arguments that are cleared twice", ARGUMENTS_CLEARED, ev.Pruned((), arguments=("c1",)), RefusedError),
    ("a restore of arguments after a prune of the result", PRUNED, ev.Restored((), ("c1",)), RefusedError),
    ("a restore of the result after a prune of arguments", ARGUMENTS_CLEARED, ev.Restored(("c1",)), RefusedError),
    ("media of a text", FINISHED, ev.MediaReplaced("t1", "image/png", "a.png"), RefusedError),
    ("media of no part", FINISHED, ev.MediaReplaced("t9", "image/png", "a.png"), NotFoundError),
    ("media that come back and were not replaced", COMPLETED, ev.MediaRestored("c1"), RefusedError),
    ("media that come back twice", (*REPLACED, ev.MediaRestored("c1")), ev.MediaRestored("c1"), RefusedError),
    ("media that come back, rolled back", (*REPLACED, ev.RolledBack(7)), ev.MediaRestored("c1"), RefusedError),
    ("a compaction in an assistant message", FINISHED, ev.CompactionRequested("m2", "k"), RefusedError),
    ("a compaction in an earlier message", OPEN, ev.CompactionRequested("m1", "k"), RefusedError),
    ("a compaction that nobody asked for", FINISHED, ev.CompactionStarted("k1"), NotFoundError),
    ("a second start of a compaction", STARTED, ev.CompactionStarted("k1"), RefusedError),
    (
        "a compaction beside a running one",
        (*STARTED, ev.UserMessageAdded("m5"), ev.CompactionRequested("m5", "k2")),
        ev.CompactionStarted("k2", "m1"),
        RefusedError,
    ),
    (
        "a compaction that covers an open message",
        (*OPEN, ev.UserMessageAdded("m3"), ev.CompactionRequested("m3", "k1")),
        ev.CompactionStarted("k1", "m2"),
        RefusedError,
    ),
    ("a compaction through no message", ASKED, ev.CompactionStarted("k1", "m9"), NotFoundError),
    ("the end of a compaction not started", ASKED, ev.CompactionCompleted("k1", "m2"), RefusedError),
    ("a user's message as the summary", SUMMARY, ev.CompactionCompleted("k1", "m3"), RefusedError),
    ("the failure of a completed compaction", COMPACTED, ev.CompactionFailed("k1"), RefusedError),
    ("the undo of a running compaction", STARTED, ev.CompactionUndone("k1"), RefusedError),
    ("the undo of an earlier compaction", TWICE, ev.CompactionUndone("k1"), RefusedError),
    ("a second undo", (*COMPACTED, ev.CompactionUndone("k1")), ev.CompactionUndone("k1"), RefusedError),
    ("a rollback to version 0", USER, ev.RolledBack(0), NotFoundError),
    ("a rollback to the future", USER, ev.RolledBack(4), NotFoundError),
    ("a pin of nothing", (), ev.Pinned("p"), RefusedError),
    ("a pin of two things", TEXT, ev.Pinned("p", "fact", "t1"), RefusedError),
    ("a pin of no part", (), ev.Pinned("p", part="t1"), NotFoundError),
    ("a pin id again", (ev.Pinned("p", "fact"),), ev.Pinned("p", "fact"), AlreadyExistsError),
    ("an unpin of no pin", (), ev.Unpinned("p"), NotFoundError),
    ("a second unpin", (ev.Pinned("p", "fact"), ev.Unpinned("p")), ev.Unpinned("p"), NotFoundError),
    ("an unpin of a hidden pin", (*USER, ev.Pinned("p", "f"), ev.RolledBack(2)), ev.Unpinned("p"), NotFoundError),
    ("an ask for a text", TEXT, ev.CallAsked("t1", "{}"), RefusedError),
    ("an ask for a call with a result", COMPLETED, ev.CallAsked("c1", "{}"), RefusedError),
    ("a second ask", WAITING, ev.CallAsked("c1", "{}"), RefusedError),
    ("a run of a call that waits", CLOSED, ev.ToolRunning("c1", "{}"), RefusedError),
    ("an answer for a call that was not asked", TOOL, ev.CallAnswered("c1", 5, "allow"), RefusedError),
    ("an answer for a call that is denied", (*CLOSED, DENIED), DENIED, RefusedError),
    ("a second answer", GRANTED, ev.CallAnswered("c1", 6, "deny"), RefusedError),
    ("an answer to another ask", CLOSED, ev.CallAnswered("c1", 5, "allow"), RefusedError),
    ("a denial with arguments", CLOSED, ev.CallAnswered("c1", 6, "deny", edit="{}"), RefusedError),
    ("an answer that a rollback leaves no ask for", (*CLOSED, ev.RolledBack(5)), DENIED, RefusedError),
    ("an answer in a removed message", (*CLOSED, ev.MessageRemoved("m2")), DENIED, NotFoundError),
    ("a second run of an allowed call", (*RAN, ev.ToolCompleted("c1", "out")), RAN[-1], RefusedError),
    ("a run of a call that ran in a history that was left", (*RAN, ev.RolledBack(8)), RAN[-1], RefusedError),
    ("an answer for a call that ran in such a history", (*RAN, ev.RolledBack(7)), DENIED, RefusedError),
    ("a prune of a call that waits", CLOSED, ev.Pruned(("c1",)), RefusedError),
    ("a removal of a call that waits", CLOSED, ev.PartRemoved("c1"), RefusedError),
    (
        "a compaction that covers a call that waits",
        (*CLOSED, ev.UserMessageAdded("m3"), ev.CompactionRequested("m3", "k1")),
        ev.CompactionStarted("k1", "m2"),
        RefusedError,
    ),
    ("a redaction of no part", (), ev.PartRedacted("t1"), NotFoundError),
]


@pytest.mark.parametrize(
    ("before", "event", "error"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_does_not_follow_is_refused(before: tuple[ev.Event, ...], event: ev.Event, error: type[CallError]) -> None:
    """Illegal transitions are refused with a reason and leave the state unchanged."""
    state = after(*before)
    untouched = encoded(state)
    with pytest.raises(error) as caught:
        check(state, event)
    assert type(caught.value) is error
    if isinstance(caught.value, RefusedError):
        assert caught.value.expected
    assert encoded(state) == untouched


def test_anything_before_the_start_is_refused() -> None:
    """Any event before a session's start or fork is refused."""
    with pytest.raises(RefusedError):
        check(State(), ev.SessionRenamed("t"))


ALLOWED: list[tuple[str, tuple[ev.Event, ...], ev.Event]] = [
    ("a text delta", TEXT, ev.PartDelta("t1", "text", "x")),
    ("an input delta of a pending tool", TOOL, ev.PartDelta("c1", "input", "x")),
    ("an output delta of a running tool", RUNNING, ev.PartDelta("c1", "output", "x")),
    ("the failure of a pending tool", TOOL, ev.ToolFailed("c1", "no")),
    ("the failure of a running tool", RUNNING, ev.ToolFailed("c1", "no")),
    ("an edit of an ended text", FINISHED, ev.PartEdited("t1", "y")),
    ("an edit of a result", COMPLETED, ev.PartEdited("c1", "y")),
    (
        "the same call id in another message",
        (*COMPLETED, ev.AssistantMessageStarted("m9")),
        part("p", Tool("call", "b"), "m9"),
    ),
    ("a second step", (*OPEN, ev.StepStarted("m2", "s1"), ev.StepFinished("m2", "s2")), ev.StepStarted("m2", "s3")),
    ("a restore of what is pruned", (*COMPLETED, ev.Pruned(("c1",))), ev.Restored(("c1",))),
    ("cleared arguments of a pruned result", PRUNED, ev.Pruned((), arguments=("c1",))),
    ("a restore of a result with cleared arguments", (*PRUNED, ev.Pruned((), arguments=("c1",))), ev.Restored(("c1",))),
    ("a restore of arguments", ARGUMENTS_CLEARED, ev.Restored((), ("c1",))),
    ("arguments after a rollback", (*ARGUMENTS_CLEARED, ev.RolledBack(7)), ev.Pruned((), arguments=("c1",))),
    ("media that come back", REPLACED, ev.MediaRestored("c1")),
    ("media that come back after an edit", (*REPLACED, ev.PartEdited("c1", "y")), ev.MediaRestored("c1")),
    ("other media of one part", REPLACED, ev.MediaReplaced("c1", "image/png", "b.png")),
    ("a prune after a restore", (*COMPLETED, ev.Pruned(("c1",)), ev.Restored(("c1",))), ev.Pruned(("c1",))),
    ("a prune after its prune was rolled back", (*COMPLETED, ev.Pruned(("c1",)), ev.RolledBack(7)), ev.Pruned(("c1",))),
    ("a compaction after a failed one", (*STARTED, ev.CompactionFailed("k1")), ev.CompactionStarted("k1", "m2")),
    ("the undo of the latest compaction", TWICE, ev.CompactionUndone("k2")),
    ("the undo of the one before", (*TWICE, ev.CompactionUndone("k2")), ev.CompactionUndone("k1")),
    ("an end that a rollback hid", (*FINISHED, ev.RolledBack(6)), ev.PartEnded("t1")),
    ("usage of a hidden message", BACK, ev.UsageRecorded(Usage(Tokens()), "m2")),
    ("a redo", BACK, ev.RolledBack(8)),
    ("an ask for a pending call", TOOL, ev.CallAsked("c1", "{}")),
    ("the end of a message with a call that waits", WAITING, ev.MessageFinished("m2", "tool-calls")),
    ("the first answer", CLOSED, ev.CallAnswered("c1", 6, "allow", "ann", edit="{}")),
    ("the first run of an allowed call", GRANTED, ev.ToolRunning("c1", "{}")),
    ("an answer after a rollback to the ask", (*GRANTED, ev.RolledBack(7)), DENIED),
    ("another ask for a call that was allowed", GRANTED, ev.CallAsked("c1", "{}")),
    ("an interrupt of a call that was allowed", GRANTED, ev.CallAnswered("c1", 6, "stop")),
    ("a result of an allowed call that ran", RAN, ev.ToolCompleted("c1", "out")),
    (
        "a compaction before a call that waits",
        (*CLOSED, ev.UserMessageAdded("m3"), ev.CompactionRequested("m3", "k1")),
        ev.CompactionStarted("k1", "m1"),
    ),
    ("a second message beside an open one", OPEN, ev.AssistantMessageStarted("m9")),
    ("a user message beside an open one", OPEN, ev.UserMessageAdded("m9")),
]


@pytest.mark.parametrize(("before", "event"), [case[1:] for case in ALLOWED], ids=[case[0] for case in ALLOWED])
def test_what_follows_is_allowed(before: tuple[ev.Event, ...], event: ev.Event) -> None:
    """Legal events are accepted before and after rollbacks."""
    check(after(*before), event)


def encoded(state: State) -> bytes:
    """The state's checkpoint, without what only retraction needs."""
    return canonical(state)


@pytest.mark.promise(4)
@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(0, 100), st.integers(0, 100))
def test_retracting_is_as_if_it_never_happened(grown: list[tuple[int, ev.Event]], first: int, second: int) -> None:
    """Promise 4: retracting a failed append leaves no trace, and it may be decided again."""
    history = [event for _, event in grown]
    low, high = sorted((1 + first % len(history), 1 + second % len(history)))
    state = State()
    snapshots = {0: encoded(state)}
    for event in history:
        evolve(state, event)
        snapshots[state.version] = encoded(state)
    for version in (high, low):
        state.retract(version)
        assert encoded(state) == snapshots[version]
    for event in history[low:]:
        check(state, event)
        evolve(state, event)
    assert encoded(state) == snapshots[len(history)]
    state.commit_to(low)
    state.retract(low)
    assert encoded(state) == snapshots[low]


@settings(max_examples=40, deadline=None)
@given(histories())
def test_closing_leaves_nothing_open(grown: list[tuple[int, ev.Event]]) -> None:
    """The events that close an interrupted session are legal and leave nothing open."""
    state = after(*(event for _, event in grown[1:]))
    for event in closing(state, "interrupted"):
        check(state, event)
        evolve(state, event)
    assert state.open_messages() == ()
    assert closing(state, "interrupted") == []
    compaction = state.open_compaction()
    assert compaction is None or state.status(state.parts[compaction]) == "requested"


def test_closing_keeps_what_was_said() -> None:
    """Closing ends streamed text, fails tools, aborts the message, in this order."""
    state = after(*RUNNING, part("t1", Text()), ev.PartDelta("t1", "text", "so far"), part("c2", Tool("c", "b")))
    assert closing(state, "interrupted") == [
        ev.ToolFailed("c1", "[Tool execution was interrupted]", interrupted=True),
        ev.PartEnded("t1"),
        ev.ToolFailed("c2", "[Tool execution was interrupted]", interrupted=True),
        ev.MessageFinished("m2", None, MessageError("aborted", "interrupted")),
    ]


def test_an_open_compaction_fails_when_it_is_closed() -> None:
    """An open compaction fails as `interrupted` on closing; a requested one stays due."""
    assert closing(after(*STARTED), "interrupted") == [ev.CompactionFailed("k1", "interrupted")]
    assert closing(after(*ASKED), "interrupted") == []


def test_a_removed_request_is_no_longer_due() -> None:
    """A compaction whose part was removed before it began is no longer due."""
    state = after(*ASKED)
    assert state.open_compaction() == "k1"
    assert after(*ASKED, ev.PartRemoved("k1")).open_compaction() is None


def test_an_interrupt_is_answered_by_the_end_of_a_message() -> None:
    """An interrupt stays requested until a message ends, also across a rollback."""
    state = after(*OPEN, ev.InterruptRequested("stop"), ev.RolledBack(4))
    assert state.interrupt_pending()
    evolve(state, ev.MessageFinished("m2"))
    assert not state.interrupt_pending()
