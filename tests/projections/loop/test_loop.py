"""A loop with a scripted model: every result of `next_step`, and what a loop does with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from eventlog import events as ev
from eventlog.errors import CallError, LeaseHeldError, RefusedError, StreamError, SummarizerError, WindowTooSmallError
from eventlog.session.owner import LIVE
from eventlog.session.session import Session
from eventlog.values import INTERRUPTED, File, Limits, MessageError, Subtask, Text, Tokens, Usage
from projections import ModelView
from projections.loop import (
    Blocked,
    CallModel,
    Compact,
    ContextWindow,
    ModelRequest,
    Promote,
    Prune,
    RequestCompaction,
    RunSubtask,
    RunTools,
    Step,
    Stop,
    Wait,
)
from projections.loop.context.continuation import CONTINUE
from projections.loop.context.window_state import LAST_STEP
from projections.loop.task_calls import task_answer
from projections.view.options import RenderOptions
from projections.view.part_rendering import CLEARED, QUESTION, SUBTASK
from projections.window import (
    ContextPolicy,
    Hooks,
    LoopPolicy,
    OverflowPolicy,
    PrunePolicy,
    SummaryRequest,
    ToolCalled,
    TruncationPolicy,
)
from projections.window.compaction.summarizer import Piece
from projections.window.policy.hooks import AutoContinue
from tests.support.engines import Engine
from tests.support.window_loop import (
    LIMITS,
    MODEL,
    SMALL,
    Loop,
    Reply,
    asked,
    results,
    sections,
    summarized,
    talk,
    texts,
    told,
)


def stopped(step: Step) -> str:
    """The reason why a loop ended."""
    assert isinstance(step, (Stop, Blocked, Wait))
    return step.reason


def scripted(*answers: Reply) -> Callable[[ModelRequest], Reply]:
    """Give answers one after another, the last one repeatedly."""
    left = list(answers)
    return lambda _request: left.pop(0) if len(left) > 1 else left[0]


def says_nothing(request: SummaryRequest) -> str:
    """A summariser that answers with blanks."""
    del request
    return "  "


def until(
    done: int, output: str = "look", tokens: Callable[[ModelRequest], int | None] = lambda _request: None
) -> Callable[[ModelRequest], Reply]:
    """Call a tool until the view has so many results or a summary speaks of them, then answer."""
    made = [0]

    def answer(request: ModelRequest) -> Reply:
        if made[0] >= done:
            return Reply("done", tokens=tokens(request))
        made[0] += 1
        return Reply(calls=[(output, json.dumps({"n": made[0]}))], tokens=tokens(request))

    return answer


def test_a_turn_calls_tools_and_ends(engine: Engine) -> None:
    """The model is called, its tools run, it is called again, and the loop stops."""

    def model(request: ModelRequest) -> Reply:
        if not results(request.messages):
            return Reply("let me see", calls=[("add", '{"a": 2, "b": 3}'), ("nope", "not json"), ("bad", "{}")])
        return Reply("five")

    def bad(given: dict[str, Any]) -> str:
        raise ValueError(f"no {given}")

    session = engine.open().create_session()
    session.user("add")
    loop = Loop(session, model, {"add": lambda given: str(given["a"] + given["b"]), "bad": bad})
    assert loop.run() == Stop("finished")
    assert loop.kinds() == ["CallModel", "RunTools", "CallModel", "Stop"]
    found = results(loop.requests[1].messages)
    assert [(result.output, result.error) for result in found[:1]] == [("5", False)]
    assert found[1].error
    assert "not a JSON object" in found[1].output
    assert (found[2].output, found[2].error) == ("ValueError: no {}", True)
    assert texts(ModelView.of(session).messages)[-1] == "five"
    assert not session.executor.holds_lease


def test_a_tool_runs_only_after_its_running_is_durable_and_its_result_is_before_the_next_call(engine: Engine) -> None:
    """Another handle sees the running event, and the result at the next model call."""
    session = engine.open().create_session(id="s")
    session.user("go")
    other = engine.open()
    seen: list[str] = []

    def newest(kind: type[Any]) -> bool:
        return any(isinstance(recorded.event, kind) for recorded in other.session("s").events())

    def tool(given: dict[str, Any]) -> str:
        del given
        seen.append(f"tool {newest(ev.ToolRunning)} {newest(ev.ToolCompleted)}")
        return "out"

    def model(request: ModelRequest) -> Reply:
        seen.append(f"model {newest(ev.ToolRunning)} {newest(ev.ToolCompleted)}")
        return Reply("end") if results(request.messages) else Reply(calls=[("t", "{}")])

    Loop(session, model, {"t": tool}).run()
    assert seen == ["model False False", "tool True False", "model True True"]


def test_nothing_is_written_by_looking(session: Session) -> None:
    """Looking at a window appends nothing; `with` records its arguments once."""
    session.user("hello")
    version = session.version
    window = ContextWindow(session, SMALL, model=MODEL, limits=LIMITS, environment={})
    assert isinstance(window.next_step(), CallModel)
    assert session.version == version
    for _ in range(2):
        with ContextWindow(session, SMALL, model=MODEL, limits=LIMITS, environment={}):
            pass
    assert session.version == version + 1
    again = ContextWindow(session, environment={})
    assert (again.state.policy, again.state.model, again.state.limits) == (SMALL, MODEL, LIMITS)


def test_a_reply_needs_the_lease_and_one_at_a_time(session: Session) -> None:
    """`begin` is refused without the lease and while a reply is open."""
    session.user("hello")
    window = ContextWindow(session, environment={})
    step = window.next_step()
    assert isinstance(step, CallModel)
    with pytest.raises(RefusedError):
        window.begin(step)
    with pytest.raises(RefusedError):
        window.finish()
    with pytest.raises(CallError):
        window.perform(step)
    with ContextWindow(session, model=MODEL, limits=Limits(), environment={}) as held:
        step = held.next_step()
        assert isinstance(step, CallModel)
        held.begin(step)
        with pytest.raises(RefusedError):
            held.begin(step)
        assert stopped(held.next_step()) == "streaming"
    assert stopped(ContextWindow(session, environment={}).next_step()) == "aborted"


def test_old_results_are_pruned_inside_a_loop(session: Session) -> None:
    """Inside a loop all but the newest two steps may be pruned, and the next request shows it."""
    policy = ContextPolicy(truncation=TruncationPolicy(enabled=False))
    limits = Limits(context=21_000, output=1_000)
    session.user("look at everything")
    loop = Loop(session, until(6), {"look": lambda given: f"{given} " + "word " * 2_000}, policy, limits)
    assert loop.run() == Stop("finished")
    assert loop.count(Prune) >= 1
    assert loop.count(Compact) == 0
    outputs = [result.output for result in results(loop.requests[-1].messages)]
    assert outputs[0] == CLEARED
    assert all(output != CLEARED for output in outputs[-2:])


def test_old_results_are_pruned_after_a_loop(session: Session) -> None:
    """After a loop the newest two turns are protected."""
    policy = ContextPolicy(truncation=TruncationPolicy(enabled=False), prune=PrunePolicy(steps=None))
    limits = Limits(context=41_000, output=1_000)
    loop = Loop(session, lambda _request: Reply("ok"), {"look": lambda _given: "word " * 8_000}, policy, limits)
    for number in range(4):
        session.user(f"turn {number}")
        loop.model = scripted(Reply(calls=[("look", f'{{"n": {number}}}')]), Reply("ok"))
        if number == 3:
            loop.options = {"environment": {"EVENTLOG_PRUNE": "0"}}
        loop.run()
    assert loop.count(Prune) == 0
    before = ModelView.of(session).digest
    loop.options = {}
    assert loop.run() == Stop("finished")
    assert loop.count(Prune) == 1
    outputs = [result.output for result in results(ModelView.of(session).messages)]
    assert [output == CLEARED for output in outputs] == [True, False, False, False]
    window = ContextWindow(session, environment={})
    assert window.undo() == "prune"
    assert ModelView.of(session).digest == before
    with pytest.raises(RefusedError):
        window.undo()


def test_a_full_window_is_compacted_with_a_tail_and_the_loop_goes_on(session: Session) -> None:
    """A compaction leaves a summary, the newest turns, the newest question, a continuation."""
    talk(session, 14)
    session.user("the newest question")
    heads: list[SummaryRequest] = []

    def summarizer(request: SummaryRequest) -> str:
        heads.append(request)
        return summarized(request)

    loop = Loop(
        session, lambda request: Reply(f"after {asked(request)}"), {}, SMALL, LIMITS, {"summarizer": summarizer}
    )
    assert loop.run() == Stop("finished")
    assert loop.kinds() == ["RequestCompaction", "Compact", "CallModel", "Stop"]
    (request,) = loop.requests
    said = texts(request.messages)
    assert said[0] == QUESTION
    assert said[1].startswith("## Goal")
    assert "the newest question" in said
    assert said[-1] == CONTINUE
    assert any(text.startswith("answer 13 ") for text in said)
    assert not any(text.startswith("answer 3 ") for text in said)
    assert not any("the newest question" in text for head in heads for text in texts(head.messages))
    assert request.counted < 4_000


def test_a_compaction_in_the_middle_of_a_turn_keeps_what_was_asked(session: Session) -> None:
    """A turn that does not fit is split, a call stays with its result, the question stays."""
    session.user("read it all")
    loop = Loop(
        session,
        until(14),
        {"look": lambda given: f"{given} " + "word " * 600},
        SMALL,
        LIMITS,
        {"summarizer": summarized},
    )
    assert loop.run() == Stop("finished")
    assert loop.count(Compact) >= 1
    for request in loop.requests:
        assert "read it all" in texts(request.messages, "user")
        assert request.counted < 4_000
    assert texts(ModelView.of(session).messages)[-1] == "done"


def test_a_failed_summary_leaves_the_boundary_in_force_and_after_three_the_loop_is_blocked(session: Session) -> None:
    """An empty summary hides nothing, and three failures in a row end in a clear error."""
    talk(session, 14)
    good = Loop(session, lambda _request: Reply("fine"), {}, SMALL, LIMITS, {"summarizer": summarized})
    session.user("first")
    good.run()
    talk(session, 14)
    session.user("second")
    before = ModelView.of(session).digest
    bad = Loop(session, lambda _request: Reply("never"), {}, SMALL, LIMITS, {"summarizer": says_nothing})
    step = bad.run()
    assert stopped(step) == "compaction-fails"
    assert isinstance(step, Blocked)
    assert "empty" in step.sentence
    assert "a larger window" in step.sentence
    assert bad.count(Compact) == 3
    assert bad.requests == []
    assert ModelView.of(session).digest == before
    assert stopped(Loop(session, lambda _request: Reply("never"), {}, SMALL, LIMITS).run()) == "compaction-fails"
    by_hand = ContextWindow(session, SMALL, limits=LIMITS, summarizer=summarized, environment={})
    assert by_hand.compact().completed
    again = Loop(session, lambda _request: Reply("at last"), {}, SMALL, LIMITS, {"summarizer": summarized})
    assert again.run() == Stop("finished")
    assert texts(ModelView.of(session).messages)[-1] == "at last"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([sections(), ToolCalled("bash")], "tool-called: bash"),
        ([sections("word " * 5_000)], "view-too-large"),
    ],
)
def test_a_summary_that_is_no_good_is_a_failed_compaction(session: Session, answer: list[Piece], reason: str) -> None:
    """With a tool call, or too large, a summary hides nothing."""
    talk(session, 6)
    window = ContextWindow(session, SMALL, model=MODEL, limits=LIMITS, summarizer=lambda _: answer, environment={})
    before = ModelView.of(session).digest
    result = window.compact()
    assert not result.completed
    assert result.reason.startswith(reason)
    assert ModelView.of(session).digest == before


def test_what_cannot_be_compacted_is_sent_as_it_is_if_it_fits(session: Session) -> None:
    """After three failed summaries a request that leaves room for its answer is sent."""
    talk(session, 13)
    bad = Loop(session, lambda _request: Reply("fine"), {}, SMALL, LIMITS, {"summarizer": says_nothing})
    for number in range(1, 3):
        session.user(f"question {number}")
        assert bad.run() == Stop("finished")
        assert (bad.count(Compact), len(bad.requests)) == (3 * number, number)
    assert 4_000 <= bad.requests[0].counted < 4_500


def test_an_error_of_the_summariser_is_a_failed_compaction(session: Session) -> None:
    """A summariser's error is recorded by its type, without words that are not ours."""
    talk(session, 6)

    def foreign(request: SummaryRequest) -> Iterator[str]:
        del request
        yield "## Goal"
        raise ValueError("secret")

    def ours(error: Exception) -> Callable[[SummaryRequest], str]:
        def summarize(request: SummaryRequest) -> str:
            del request
            raise error

        return summarize

    def of_no_pieces(request: SummaryRequest) -> list[Any]:
        del request
        return [3]

    cases: list[tuple[Callable[[SummaryRequest], Any], str]] = [
        (foreign, "ValueError"),
        (ours(SummarizerError("not reached")), "SummarizerError: not reached"),
        (ours(CallError("no such form")), "CallError: no such form"),
        (ours(StreamError("overloaded")), "StreamError: the provider's answer is an error: overloaded"),
        (of_no_pieces, "CallError: a summariser gave a int; expected text, Usage or ToolCalled"),
    ]
    for summarizer, reason in cases:
        window = ContextWindow(session, SMALL, limits=LIMITS, summarizer=summarizer, environment={})
        assert window.compact().reason == reason


def test_a_compaction_is_performed_whole_also_without_the_lease(engine: Engine) -> None:
    """A window that is not entered holds the lease from the start of a compaction to its end."""
    session = engine.open().create_session(id="s")
    talk(session, 14)
    session.user("newest")
    window = ContextWindow(session, SMALL, model=MODEL, limits=LIMITS, summarizer=summarized, environment={})
    window.record()
    for kind in (RequestCompaction, Compact):
        step = window.next_step()
        assert isinstance(step, kind)
        result = window.perform(step)
    assert result is not None
    assert result.reason == ""
    assert session.reader.state().compaction_in_force() is not None
    assert not session.executor.holds_lease


def test_a_compaction_that_a_crash_broke_off_is_carried_out_again(engine: Engine) -> None:
    """The half of a summary is never visible, also not beside the whole one after a crash."""
    store = engine.open()
    session = store.create_session(id="s")
    talk(session, 14)
    session.user("newest")
    before = ModelView.of(session).digest

    def dying(request: SummaryRequest) -> Iterator[str]:
        del request
        yield "HALF A SUMMARY"
        raise GeneratorExit

    window = ContextWindow(session, SMALL, model=MODEL, limits=LIMITS, summarizer=dying, environment={})
    session.executor.acquire()
    window.record()
    step = window.next_step()
    assert isinstance(step, RequestCompaction)
    window.perform(step)
    compact = window.next_step()
    assert isinstance(compact, Compact)
    session.context.start_compaction(compact.part, through=session.reader.state().last_user())
    half = session.assistant(MODEL, reply_to=compact.message, summary=True)
    half.begin()
    half.stream_text().append("HALF A SUMMARY")
    crash(session)
    taken = engine.open().session("s")
    assert ModelView.of(taken).digest == before
    loop = Loop(taken, lambda _request: Reply("ok"), {}, SMALL, LIMITS, {"summarizer": summarized})
    assert loop.run() == Stop("finished")
    assert loop.kinds() == ["Compact", "CallModel", "Stop"]
    assert "HALF" not in told(loop.requests[0].messages)


def crash(session: Session) -> None:
    """Flush what was accepted, and make the handle's store a dead owner's."""
    session.flush()
    LIVE.pop(session.store.host.owner.store, None)


def test_reports_that_no_window_holds_cost_a_few_compactions_and_never_the_turn(session: Session) -> None:
    """A model that always reports more than its window, and answers, is asked to the end."""
    session.user("go")
    loop = Loop(session, until(60, tokens=lambda _request: 100_000), {}, SMALL, LIMITS, {"summarizer": summarized})
    assert loop.run() == Stop("finished")
    assert len(loop.requests) == 61
    assert 0 < loop.count(Compact) <= len(loop.requests) // 10


def test_compactions_that_help_are_never_counted_against_a_session(session: Session) -> None:
    """Only failures in a row stop automatic compaction, also without reported usage."""
    loop = Loop(session, lambda _request: Reply("word " * 1_500), {}, SMALL, LIMITS, {"summarizer": summarized})
    for number in range(20):
        session.user(f"question {number}")
        assert loop.run() == Stop("finished")
    assert loop.count(Compact) > 3


def test_a_model_that_refuses_every_request_ends_in_a_clear_error(session: Session) -> None:
    """A provider that calls every request too large ends after a few compactions."""
    talk(session, 4)
    session.user("go")
    loop = Loop(session, lambda _request: Reply(refused=True), {}, SMALL, LIMITS, {"summarizer": summarized})
    step = loop.run()
    assert stopped(step) in {"compaction-fails", "failed"}
    assert loop.count(Compact) <= 5
    assert len(loop.requests) <= 5


def test_a_prompt_that_alone_fills_the_window_is_reported(session: Session) -> None:
    """If system prompt and tools alone are over, no compaction is tried, and the loop says so."""
    session.set_system_prompt("word " * 5_000)
    session.user("go")
    loop = Loop(session, lambda _request: Reply("never"), {}, SMALL, LIMITS)
    step = loop.run()
    assert stopped(step) == "window-too-small"
    assert (loop.count(Compact), loop.requests) == (0, [])
    assert isinstance(step, Blocked)
    with pytest.raises(WindowTooSmallError, match="system prompt and the tools alone"):
        raise step.error()


@pytest.mark.parametrize("switch", ["policy", "environment"])
def test_auto_off_is_obeyed_everywhere(session: Session, switch: str) -> None:
    """With `auto=False`, in policy or environment, nothing compacts by itself."""
    overflow = OverflowPolicy(auto=switch != "policy", max_messages=2)
    environment = {"EVENTLOG_AUTO_COMPACT": "0"} if switch == "environment" else {}
    policy = msgspec.structs.replace(SMALL, overflow=overflow)
    talk(session, 12, tokens=90_000)
    session.user("go")
    loop = Loop(session, lambda _request: Reply("ok", tokens=90_000), {}, policy, LIMITS, {"environment": environment})
    assert loop.run() == Stop("finished")
    session.user("once more")
    loop.model = lambda _request: Reply(refused=True)
    assert stopped(loop.run()) == "failed"
    session.context.request_compaction(auto=True)
    session.user("and again")
    loop.model = lambda _request: Reply("ok")
    assert loop.run() == Stop("finished")
    assert loop.count(RequestCompaction) == loop.count(Compact) == 0
    window = ContextWindow(session, policy, limits=LIMITS, summarizer=summarized, environment=environment)
    assert window.compact().completed


def test_prune_off_is_obeyed_everywhere(session: Session) -> None:
    """`EVENTLOG_PRUNE=0` switches pruning off in a loop and by hand."""
    policy = ContextPolicy(truncation=TruncationPolicy(enabled=False), overflow=OverflowPolicy(auto=False))
    limits = Limits(context=21_000, output=1_000)
    session.user("look")
    tools: dict[str, Callable[[dict[str, Any]], str]] = {"look": lambda given: f"{given} " + "word " * 2_000}
    loop = Loop(session, until(6), tools, policy, limits, {"environment": {"EVENTLOG_PRUNE": "off"}})
    assert loop.run() == Stop("finished")
    assert loop.count(Prune) == 0
    assert loop.window().prune(inside=True) is None
    loop.options = {}
    assert loop.window().prune(inside=True) is not None
    with pytest.raises(CallError):
        ContextWindow(session, environment={"EVENTLOG_PRUNE": "perhaps"})


def test_the_switches_are_read_from_the_environment(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The switches are the process's unless others are given, and are not recorded."""
    monkeypatch.setenv("EVENTLOG_AUTO_COMPACT", "0")
    monkeypatch.setenv("EVENTLOG_PRUNE", "false")
    window = ContextWindow(session, SMALL)
    assert (window.state.policy.overflow.auto, window.state.policy.prune.enabled) == (False, False)
    window.record()
    assert ContextWindow(session, environment={}).state.policy == SMALL


PNG = "data:image/png;base64,iVBORw0KGgo="


def asked_with_picture(session: Session) -> None:
    """Three turns, and a question with a picture and all that a message can have."""
    talk(session, 3, words=20)
    file = File("image/png", PNG, "red.png")
    session.user(
        [Text("what is this"), file], agent="artist", system="Be kind.", format='{"type":"text"}', tools='{"x":true}'
    )


def test_a_refused_question_is_asked_again_behind_the_summary(session: Session) -> None:
    """A refused message is added again with its media named; no continuation is asked for."""
    asked_with_picture(session)

    def model(request: ModelRequest) -> Reply:
        return Reply("a red picture") if QUESTION in texts(request.messages) else Reply(refused=True)

    loop = Loop(session, model, {}, SMALL, LIMITS, {"summarizer": summarized})
    assert loop.run() == Stop("finished")
    assert loop.kinds() == ["CallModel", "RequestCompaction", "Compact", "CallModel", "Stop"]
    request = loop.requests[-1]
    assert texts(request.messages, "user")[-2:] == ["what is this", "[Attached image/png: red.png]"]
    assert CONTINUE not in told(request.messages)
    assert request.system == ("Be kind.",)
    again = [recorded.event for recorded in session.events() if isinstance(recorded.event, ev.UserMessageAdded)][-1]
    assert (again.agent, again.format, again.tools, again.synthetic) == (
        "artist",
        '{"type":"text"}',
        '{"x":true}',
        False,
    )
    assert again.cause is not None


def test_a_turn_that_is_refused_goes_on_behind_its_question(session: Session) -> None:
    """A question with steps stays in front, its media named: no tool runs twice."""
    asked_with_picture(session)

    def model(request: ModelRequest) -> Reply:
        if QUESTION in texts(request.messages):
            return Reply("a red picture")
        return Reply(refused=True) if results(request.messages) else Reply(calls=[("look", '{"n": 1}')])

    tools: dict[str, Callable[[dict[str, Any]], str]] = {"look": lambda _given: "it is FINISHED STEP"}
    loop = Loop(session, model, tools, SMALL, LIMITS, {"summarizer": summarized})
    assert loop.run() == Stop("finished")
    named = ["CallModel", "RunTools", "CallModel", "ReplaceMedia"]
    assert loop.kinds() == [*named, "CallModel", "RequestCompaction", "Compact", "CallModel", "Stop"]
    request = loop.requests[-1]
    said = "\n".join(told([message]) for message in request.messages)
    places = [said.index(word) for word in (QUESTION, "what is this", "red.png", "FINISHED STEP", CONTINUE)]
    assert places == sorted(places)
    assert request.system == ("Be kind.",)
    asked = [event for recorded in session.events() if isinstance(event := recorded.event, ev.UserMessageAdded)]
    assert sum(not event.synthetic for event in asked) == 3 + 1


def test_a_refused_question_with_nothing_before_it_is_asked_without_its_media(session: Session) -> None:
    """A question that is alone is asked again without media, and no summary stands for it."""
    session.user([Text("what is this"), File("image/png", PNG, "red.png")])
    model = scripted(Reply(refused=True), Reply("I cannot see it"))
    loop = Loop(session, model, {}, SMALL, LIMITS, {"summarizer": summarized})
    assert loop.run() == Stop("finished")
    assert loop.kinds() == ["CallModel", "ReplaceMedia", "CallModel", "Stop"]
    assert texts(loop.requests[-1].messages, "user") == ["what is this", "[Attached image/png: red.png]"]


@pytest.mark.parametrize("before", [0, 3], ids=["alone", "behind a summary"])
def test_no_question_is_done_that_no_model_saw(session: Session, before: int) -> None:
    """A question refused for its size is sent whole or blocks: no summary stands for it.

    The loop says so; without the question the next one is answered.
    """
    talk(session, before)
    question = f"begins {'word ' * 500} ends"
    with session.turn(question, "r") as turn:
        loop = Loop(session, scripted(*[Reply(refused=True)] * 9), {}, SMALL, LIMITS, {"summarizer": summarized})
        end = loop.run()
        assert isinstance(end, Blocked)
        assert turn.state != "done"
    assert len(loop.requests) == (2 if before else 1)
    assert all(question in "\n".join(texts(request.messages, "user")) for request in loop.requests)
    for removed in re.findall(r"remove_message\('(\w+)'\)", end.sentence):
        session.remove_message(removed)
    session.user("shorter")
    after = Loop(session, scripted(Reply("an answer")), {}, SMALL, LIMITS, {"summarizer": summarized})
    assert after.run() == Stop("finished")


def test_a_hook_may_keep_the_loop_from_going_on(session: Session) -> None:
    """The hook learns which compaction it is; its no, or the policy's, stops the continuation."""
    told_of: list[AutoContinue] = []

    def no(found: AutoContinue) -> bool:
        told_of.append(found)
        return False

    talk(session, 12)
    session.user("newest")
    model = scripted(Reply(calls=[("look", "{}")], tokens=4_100), Reply("all done"))
    loop = Loop(session, model, {}, SMALL, LIMITS, {"summarizer": summarized, "hooks": Hooks(auto_continue=no)})
    assert loop.run() == Stop("finished")
    assert loop.kinds() == ["CallModel", "RunTools", "RequestCompaction", "Compact", "CallModel", "Stop"]
    assert [(found.session, found.overflow) for found in told_of] == [(session.id, False)]
    assert CONTINUE not in told(ModelView.of(session).messages)


def test_what_was_answered_before_a_compaction_is_not_asked_again(session: Session) -> None:
    """Compacted by hand after the answer, a session has nothing to do."""
    session.user([Text("newest"), Subtask("count", "to count", "helper")])
    loop = Loop(session, lambda _request: Reply("word " * 900), {}, SMALL, LIMITS, {"summarizer": summarized})
    assert loop.run() == Stop("finished")
    assert (loop.count(RunSubtask), len(loop.requests)) == (1, 1)
    assert loop.window().compact().completed
    view = ModelView.of(session)
    assert "newest" in texts(view.messages)
    assert "word word" not in told(view.messages)
    assert loop.run() == Stop("finished")
    assert (loop.count(RunSubtask), len(loop.requests)) == (1, 1)


@pytest.mark.parametrize(
    ("said", "wrapped"),
    [
        (["also B", Text("Called the Read tool", synthetic=True)], [True, False]),
        (["one", " \n", "two"], [True, False, True]),
        ([Text("of the program", synthetic=True)], [False]),
        ([File("text/csv", "data:,x", "x.csv"), "look"], [False, True]),
    ],
)
def test_a_reminder_wraps_the_user_s_texts_part_by_part(session: Session, said: list[Any], wrapped: list[bool]) -> None:
    """Texts of the program, files and blank texts stay as they are."""
    session.user("first")
    with session.assistant("openai/gpt-5") as reply:
        reply.tool("bash", call_id="1", input={}).succeed("ok")
        session.user([Text(part) if isinstance(part, str) else part for part in said])
        reply.finish("tool-calls")
    newest = ModelView.of(session, options=RenderOptions(reminder=True)).messages[-1]
    plain = ModelView.of(session).messages[-1]
    texts = [getattr(part, "text", "") for part in newest.parts]
    assert [text.startswith("<system-reminder>") for text in texts] == wrapped
    for found, before, is_wrapped in zip(newest.parts, plain.parts, wrapped, strict=True):
        assert is_wrapped != (found == before)


def test_messages_that_arrive_in_a_turn_can_be_wrapped_as_reminders(session: Session) -> None:
    """A last-step notice is off by default; when on, it is recorded with the step."""
    from projections import RenderOptions

    session.user("count")

    def model(request: ModelRequest) -> Reply:
        if not results(request.messages):
            session.user("and hurry")
            return Reply(calls=[("look", "{}")])
        return Reply("ok")

    loop = Loop(session, model, {}, None, None, {"options": RenderOptions(reminder=True)})
    assert loop.run() == Stop("finished")
    assert texts(loop.requests[-1].messages, "user")[-1].startswith("<system-reminder>\n")
    started = [recorded.event for recorded in session.events() if isinstance(recorded.event, ev.StepStarted)][-1]
    assert started.render is not None
    options = msgspec.convert(json.loads(started.render)["options"], RenderOptions)
    assert options.reminder
    assert ModelView.of(session, started.view_version, options).digest == started.view_digest


def test_the_last_step_of_a_turn_is_told_so_and_no_other_follows(session: Session) -> None:
    """A step limit is enforced, also across compactions."""
    policy = msgspec.structs.replace(SMALL, loop=LoopPolicy(max_steps=14))
    session.user("go on and on")
    tools: dict[str, Callable[[dict[str, Any]], str]] = {"look": lambda given: f"{given} " + "word " * 600}
    loop = Loop(session, until(1_000), tools, policy, LIMITS, {"summarizer": summarized})
    assert stopped(loop.run()) == "max-steps"
    assert loop.count(Compact) >= 1
    assert len(loop.requests) == 14
    ends = [
        request.messages[-1].role == "assistant" and texts(request.messages)[-1] == LAST_STEP
        for request in loop.requests
    ]
    assert ends == [False] * 13 + [True]
    session.user("more")
    assert stopped(loop.run()) == "max-steps"
    assert len(loop.requests) == 28


def test_a_queued_message_waits_unseen_and_is_promoted_after_the_turn(session: Session) -> None:
    """A queued message is in no request of the running turn; a steering one is in the next."""
    session.user("first")
    arrived: list[str] = []

    def model(request: ModelRequest) -> Reply:
        if not arrived:
            arrived.extend(
                (
                    session.user("queued one", delivery="queue"),
                    session.user("queued two", delivery="queue"),
                    session.user("steered"),
                )
            )
            return Reply(calls=[("look", "{}")])
        return Reply(f"to {asked(request)}")

    loop = Loop(session, model)
    assert loop.run() == Stop("finished")
    assert loop.kinds() == [
        "CallModel",
        "RunTools",
        "CallModel",
        "Promote",
        "CallModel",
        "Promote",
        "CallModel",
        "Stop",
    ]
    assert [step.message for step in loop.steps if isinstance(step, Promote)] == arrived[:2]
    said = [texts(request.messages) for request in loop.requests]
    assert "steered" in said[1]
    assert not any("queued" in text for text in said[1])
    assert said[2][-1] == "queued one"
    assert not any("queued two" in text for text in said[2])
    assert texts(ModelView.of(session).messages)[-5:] == [
        "to steered",
        "queued one",
        "to queued one",
        "queued two",
        "to queued two",
    ]


def test_subtasks_run_in_sub_sessions_before_the_model_is_called(engine: Engine) -> None:
    """Each subtask has a sub-session, its answer is a result, and none runs twice."""
    store = engine.open()
    session = store.create_session(scope="alice")
    session.user([Text("do"), Subtask("count", "to count", "helper"), Subtask("sing", "to sing", "singer")])
    loop = Loop(session, lambda _request: Reply("both done"))

    def counts(child: Session) -> str:
        del child
        return "forty-two"

    def fails(child: Session) -> str:
        raise RuntimeError(child.id)

    children: list[Session] = []
    with loop.window() as window:
        for run in (counts, fails):
            step = window.next_step()
            assert isinstance(step, RunSubtask)
            children.append(window.run_subtask(step, run))
        assert loop.go(window) == Stop("finished")
    assert loop.kinds() == ["CallModel", "Stop"]
    assert SUBTASK in texts(loop.requests[0].messages)
    assert [(found.output, found.error) for found in results(loop.requests[0].messages)] == [
        (task_answer(children[0], "forty-two"), False),
        (f"RuntimeError: {children[1].id}", True),
    ]
    assert [texts(ModelView.of(child).messages) for child in children] == [["count"], ["sing"]]
    assert {child.info.parent for child in children} == {session.id}
    assert {child.info.scope for child in children} == {"alice"}


def test_an_interrupt_from_another_handle_stops_the_loop(engine: Engine) -> None:
    """After an interrupt the loop ends at its next step, and the next question is answered."""
    session = engine.open().create_session(id="s")
    other = engine.open()
    session.user("go")

    def model(request: ModelRequest) -> Reply:
        if asked(request) == "now":
            return Reply("as ever")
        other.session("s").interrupt("enough")
        return Reply("half", calls=[("look", "{}")])

    loop = Loop(session, model)
    assert loop.run() == Stop("interrupted")
    assert loop.count(RunTools) == 0
    assert stopped(loop.run()) == "aborted"
    session.user("now")
    assert loop.run() == Stop("finished")
    assert "half" in told(loop.requests[-1].messages)
    assert results(loop.requests[-1].messages)[0].error


def test_an_interrupt_ends_an_answer_that_streams(engine: Engine) -> None:
    """A stream is ended early with what it had said; an older interrupt does not count."""
    session = engine.open().create_session(id="s")
    other = engine.open().session("s")
    closed: list[bool] = []

    def chunks(interrupted_at: int) -> Iterator[dict[str, Any]]:
        number = 0
        try:
            for number in range(200):
                if number == interrupted_at:
                    other.interrupt()
                    session.flush()  # what is accepted is decided before what others say is read
                yield {"choices": [{"delta": {"content": f"{number} "}}]}
        finally:
            closed.append(number < 199)

    session.interrupt("before anything was asked")
    for at, reason in ((1_000, "unknown"), (20, "aborted")):
        session.user("count")
        with ContextWindow(session, model=MODEL, limits=Limits(), environment={}) as window:
            step = window.next_step()
            assert isinstance(step, CallModel)
            reply, _ = window.begin(step)
            assert reply.fill(chunks(at)).reason == reason
    assert closed == [False, True]
    assert stopped(ContextWindow(session, environment={}).next_step()) == "aborted"
    said = texts(ModelView.of(session).messages)[-1]
    assert said.startswith("0 1 2 ")
    assert " 50 " not in said


def test_an_interrupt_stops_a_summary_and_is_not_taken_for_a_later_one(session: Session) -> None:
    """An interrupt aborts the running compaction, and not a later one."""
    talk(session, 14)
    session.user("newest")
    before = ModelView.of(session).digest

    def slow(request: SummaryRequest) -> Iterator[str]:
        del request
        for number in range(200):
            if number == 20:
                session.interrupt()
            yield sections() if number == 0 else "."

    loop = Loop(session, lambda _request: Reply("ok"), {}, SMALL, LIMITS, {"summarizer": slow})
    assert loop.run() == Stop("interrupted")
    assert ModelView.of(session).digest == before
    session.interrupt("while nothing runs")
    session.user("go on")
    loop.options = {"summarizer": summarized}
    assert loop.run() == Stop("finished")
    assert [step for step in loop.kinds() if step == "Compact"] == ["Compact", "Compact"]


def test_an_interrupt_at_the_end_of_a_summary_is_not_lost(session: Session) -> None:
    """An interrupt while a summary is written stops the loop after the compaction."""
    talk(session, 14)
    session.user("newest")

    def late(request: SummaryRequest) -> Iterator[str]:
        yield summarized(request)
        session.interrupt()

    loop = Loop(session, lambda _request: Reply("never"), {}, SMALL, LIMITS, {"summarizer": late})
    assert loop.run() == Stop("interrupted")
    assert loop.requests == []


def test_an_abort_stops_and_a_crash_resumes(engine: Engine) -> None:
    """A turn that the user broke off stays so until the user says something."""
    store = engine.open()
    aborted = store.create_session(id="aborted")
    aborted.user("go")
    with aborted.assistant(MODEL) as reply:
        reply.add_text("half")
        reply.abort()
    assert Loop(aborted, lambda _request: Reply("never")).run() == Stop("aborted", MessageError("aborted"))
    crashed = store.create_session(id="crashed")
    crashed.user("go")
    crashed.executor.acquire()
    window = ContextWindow(crashed, model=MODEL, limits=Limits(), environment={})
    step = window.next_step()
    assert isinstance(step, CallModel)
    reply, _ = window.begin(step)
    reply.add_text("half")
    reply.tool("look", call_id="c", input={})
    crash(crashed)
    taken = engine.open().session("crashed")
    loop = Loop(taken, lambda _request: Reply("the rest"))
    assert loop.run() == Stop("finished")
    assert "half" in texts(loop.requests[0].messages)
    assert results(loop.requests[0].messages)[0].output == INTERRUPTED


def test_an_abort_over_the_limit_or_in_a_subtask_is_not_worked_around(session: Session) -> None:
    """Neither an overflow nor a subtask makes a loop go on that the user stopped."""
    session.user([Text("do"), Subtask("count", "to count")])

    def stops(child: Session) -> str:
        session.interrupt()
        raise KeyboardInterrupt(child.id)

    with ContextWindow(session, SMALL, model=MODEL, limits=LIMITS, environment={}) as window:
        step = window.next_step()
        assert isinstance(step, RunSubtask)
        with pytest.raises(KeyboardInterrupt):
            window.run_subtask(step, stops)
        assert stopped(window.next_step()) == "interrupted"
    session.user("again")
    with session.assistant(MODEL) as reply:
        reply.step()
        reply.add_text("half")
        reply.end_step("tool-calls", usage=Usage(Tokens(90_000, 1)))
        reply.abort()
    assert stopped(Loop(session, lambda _request: Reply("never"), {}, SMALL, LIMITS).run()) == "aborted"


def test_going_back_before_an_interrupted_turn_lets_the_loop_go_on(session: Session) -> None:
    """A rolled-back interrupted turn may be done again without a new message."""
    session.user("go")
    version = session.version

    def model(request: ModelRequest) -> Reply:
        del request
        session.interrupt()
        return Reply(calls=[("look", "{}")])

    loop = Loop(session, model)
    assert loop.run() == Stop("interrupted")
    session.rollback(version)
    loop.model = lambda _request: Reply("done")
    assert loop.run() == Stop("finished")


def test_an_old_stop_is_forgotten_with_the_messages_that_a_compaction_covers(session: Session) -> None:
    """A refused question, asked again behind a compaction, is not stopped by an earlier stop."""
    session.user("first")
    session.interrupt()
    for number in range(8):
        session.user(f"question {number} " + "about a long matter " * 40)
        with session.assistant(MODEL) as reply:
            reply.add_text(f"answer {number}")
            reply.finish()
    session.user("refused")
    options: dict[str, Any] = {"limits": LIMITS, "summarizer": summarized, "environment": {}}
    with ContextWindow(session, SMALL, model=MODEL, **options) as window:
        step = window.next_step()
        assert isinstance(step, CallModel)
        reply, _ = window.begin(step)
        reply.abort(MessageError("overflow", "too long"))
        for kind in (RequestCompaction, Compact):
            step = window.next_step()
            assert isinstance(step, kind)
            window.perform(step)
        window.save()
        assert isinstance(window.next_step(), CallModel)
    with ContextWindow(session, SMALL, model=MODEL, **options) as later:
        assert isinstance(later.next_step(), CallModel)


def test_an_error_of_the_loop_itself_is_recorded_and_stops(session: Session) -> None:
    """A program's exception closes the reply as failed, and the model is not called again."""
    session.user("go")

    def model(request: ModelRequest) -> Reply:
        del request
        raise OSError("network")

    loop = Loop(session, model)
    with pytest.raises(OSError, match="network"):
        loop.run()
    assert loop.run() == Stop("failed", MessageError("unknown", "OSError"))


def test_hooks_that_change_nothing_leave_no_patch(session: Session) -> None:
    """A hook that returns its input leaves no patch, and the digest is the view's."""
    session.user("go")
    hooks = Hooks(system=lambda system: system, messages=lambda found: found)
    Loop(session, lambda _request: Reply("ok"), {}, None, None, {"hooks": hooks}).run()
    started = [recorded.event for recorded in session.events() if isinstance(recorded.event, ev.StepStarted)][-1]
    assert started.patch is None
    options = ContextWindow(session, environment={}).state.options
    assert ModelView.of(session, started.view_version, options).digest == started.view_digest


def test_hooks_of_a_summary_add_context_replace_the_prompt_and_transform_the_messages(session: Session) -> None:
    """Context goes behind the prompt."""
    talk(session, 6)
    seen: list[SummaryRequest] = []

    def summarizer(request: SummaryRequest) -> str:
        seen.append(request)
        return sections() if len(seen) == 1 else "short"

    hooks = Hooks(context=lambda: ["remember the milk"], messages=lambda found: found[1:])
    window = ContextWindow(session, SMALL, limits=LIMITS, summarizer=summarizer, hooks=hooks, environment={})
    assert window.compact().completed
    assert seen[0].prompt.endswith("remember the milk")
    assert "question 0" not in told(seen[0].messages)
    talk(session, 6)
    other = Hooks(prompt=lambda _template: "Be brief.")
    window = ContextWindow(session, SMALL, limits=LIMITS, summarizer=summarizer, hooks=other, environment={})
    assert window.compact().completed
    assert seen[1].prompt.endswith("Be brief.")
    assert seen[1].previous is not None
    assert seen[1].previous in seen[1].prompt


def test_the_system_prompt_has_two_segments_and_the_first_stays(session: Session) -> None:
    """Header, then the caller's and the message's own."""
    session.set_system_prompt("You are an agent.", "Today is Monday.")
    loop = Loop(session, lambda _request: Reply("word " * 500), {}, SMALL, LIMITS, {"summarizer": summarized})
    for number in range(9):
        session.user(f"question {number}", system=f"Hint {number}." if number % 2 else None)
        loop.run()
    assert loop.count(Compact) >= 1
    assert {request.system[0] for request in loop.requests} == {"You are an agent."}
    assert {request.system[1] for request in loop.requests} >= {"Today is Monday.", "Today is Monday.\nHint 1."}
    assert all(len(request.system) == 2 for request in loop.requests)


def test_another_loop_at_work_is_waited_for(engine: Engine) -> None:
    """One loop at a time: a second owner gets no lease, and a reader sees whose reply is open."""
    session = engine.open().create_session(id="s")
    session.user("go")
    other = engine.open().session("s")

    def model(request: ModelRequest) -> Reply:
        del request
        session.flush()
        assert stopped(ContextWindow(other, environment={}).next_step()) == "another-loop"
        with pytest.raises(LeaseHeldError), ContextWindow(other, environment={}):
            pass
        return Reply("ok")

    assert Loop(session, model).run() == Stop("finished")
