"""A window clears old arguments, thoughts and media, and every report of it says so."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

import eventlog
from eventlog import events as ev
from eventlog.values import File, Limits
from projections import ContextPolicy, ContextWindow, ModelView, PrunePolicy, recall, window_report
from projections.loop import AsyncContextWindow, CallModel, Prune
from projections.reports.audit import audit
from projections.reports.timeline import timeline
from projections.reports.view_diff import diff
from projections.reports.visibility import explain_part
from projections.transcript.transcript import Transcript
from projections.view.neutral import Call, Reasoning
from projections.view.neutral import File as SentFile
from projections.window.policy.policy import OPENCODE_POLICY
from projections.window.retrieval.recall_calls import answer_recall
from projections.window.retrieval.truncation import Bounds
from tests.support.engines import ENGINES, Engine

IMAGE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
POLICY = ContextPolicy(prune=PrunePolicy(policy="recency", protect=0, minimum=100))
LIMITS = Limits(100_000, 1_000)


def work(session: eventlog.Session, model: str = "openai-compatible/m") -> None:
    """Three turns; the first has a picture, a thought, a large call, and one that failed."""
    session.user(
        "draw it",
        files=[File("image/png", IMAGE, "shot.png")],
    )
    with session.assistant(model) as reply:
        thought = reply.stream_reasoning(id="thought")
        thought.append("I think of lines. " * 40)
        thought.end()
        given: dict[str, object] = {"path": "src/draw.py", "content": "draw a line\n" * 200}
        reply.tool("write", call_id="w1", id="call_write", input=given).succeed("written")
        reply.tool("write", call_id="w2", id="call_failed", input=given | {"path": "b.py"}).fail("no room")
        reply.tool("bash", call_id="b1", id="call_bash", input={"command": "ls"}).succeed("a file\n" * 300)
        reply.finish("tool-calls")
    for question in ("go on", "and on"):
        session.user(question)
        with session.assistant(model) as reply:
            thought = reply.stream_reasoning()
            thought.append("I think again. " * 40)
            thought.end()
            reply.tool("write", call_id="w", input={"path": "c.py", "content": "x = 1\n" * 200}).succeed("written")
            reply.finish()


def file_of(session: eventlog.Session) -> str:
    """The part of the picture."""
    return next(part.id for message in Transcript(session).oldest_first() for part in message.parts if part.mime)


def shown(session: eventlog.Session, kind: type) -> int:
    """How many parts of a kind the view has."""
    return sum(isinstance(part, kind) for message in ModelView.of(session).messages for part in message.parts)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_prune_clears_arguments_thoughts_and_media(engine: str) -> None:
    """One event lists them, the newest turns stay, and an undo gives the same bytes again."""
    opened = Engine(engine)
    with opened.open() as store:
        session = store.create_session(id="s")
        work(session)
        picture, before = file_of(session), ModelView.of(session)
        window = ContextWindow(session, POLICY, limits=LIMITS, environment={})
        tokens = window.tokens
        step = window.prune()
        assert step is not None
        assert set(step.plan.parts) == {picture, "thought", "call_bash"}
        assert set(step.plan.arguments) == {"call_write", "call_failed"}
        (event,) = [one.event for one in session.events() if isinstance(one.event, ev.Pruned)]
        assert (event.parts, event.arguments, event.freed) == (step.plan.parts, step.plan.arguments, step.plan.freed)
        window.state.catch_up()
        assert tokens - window.tokens == pytest.approx(step.plan.freed, abs=20)
        assert (shown(session, SentFile), shown(session, Reasoning)) == (0, 2)
        calls = [part for message in ModelView.of(session).messages for part in message.parts if isinstance(part, Call)]
        assert [json.loads(call.input).get("path") for call in calls] == ["src/draw.py", "b.py", None, "c.py", "c.py"]
        assert ["omitted" in call.input for call in calls] == [True, True, False, False, False]
        assert window.prune() is None
    with opened.open() as store:
        session = store.session("s")
        assert ModelView.of(session).digest != before.digest
        assert ContextWindow(session, environment={}).undo() == "prune"
        assert ModelView.of(session).digest == before.digest
        with pytest.raises(eventlog.RefusedError):
            ContextWindow(session, environment={}).undo()
    opened.close()


def test_reports_name_the_prune(store: eventlog.Store) -> None:
    """`explain`, timeline, diff, transcript and the window's report tell of each part."""
    session = store.create_session()
    work(session)
    window = ContextWindow(session, POLICY, limits=LIMITS, environment={})
    version = session.version
    plan = window_report(window).prune
    kinds = sorted(part.kind for part in plan.parts)
    assert kinds == ["arguments", "arguments", "file", "reasoning", "tool"]
    step = window.prune()
    assert step is not None
    assert plan.freed == step.plan.freed
    reasons = {name: explain_part(session, name) for name in (file_of(session), "thought", "call_write", "call_bash")}
    assert [found.reason for found in reasons.values()] == [
        "media-cleared",
        "reasoning-cleared",
        "arguments-cleared",
        "cleared",
    ]
    assert [found.shown for found in reasons.values()] == [True, False, True, True]
    for found in reasons.values():
        assert found.cause is not None
        assert (found.cause.kind, found.cause.version, found.cause.what) == ("prune", version + 1, "recency")
    session.context.prune(["call_write"])
    assert explain_part(session, "call_write").reason == "call-cleared"
    words = [entry.what for entry in timeline(session).entries if entry.kind == "pruned"]
    assert words == ["3 parts, arguments of 2 calls, policy recency", "1 part"]
    changes = diff(session, version, version + 1).changes
    assert {change.part: change.kind for change in changes} == dict.fromkeys(
        [file_of(session), "thought", "call_write", "call_failed", "call_bash"], "pruned"
    )
    assert {change.kind for change in diff(session, version + 1, version).changes} >= {"restored"}
    marks = {part.id: part.marks for message in Transcript(session).oldest_first() for part in message.parts}
    assert (marks["thought"], marks["call_write"]) == (["pruned"], ["pruned", "arguments pruned"])
    (first, second) = window_report(window).changes
    assert (first.arguments, second.arguments) == (step.plan.arguments, ())


def test_what_is_cleared_is_recalled(store: eventlog.Store) -> None:
    """Arguments, thoughts and media are read as they were, by programs and the model."""
    session = store.create_session()
    work(session)
    assert ContextWindow(session, POLICY, limits=LIMITS, environment={}).prune() is not None
    assert json.loads(recall(session, "call_write", field="input").text)["content"] == "draw a line\n" * 200
    assert recall(session, "thought").text == "I think of lines. " * 40
    assert recall(session, file_of(session)).text == IMAGE
    bounds = Bounds(50, 4_000)
    assert '"path":"src/draw.py"' in answer_recall(session, {"part": "call_write", "field": "input"}, bounds)
    assert "1 matching" in answer_recall(session, {"part": "call_write", "field": "input", "search": "draw.py"}, bounds)
    assert answer_recall(session, {"part": file_of(session)}, bounds).startswith("[image/png, ")
    with pytest.raises(eventlog.CallError):
        answer_recall(session, {"part": "call_write", "field": "both"}, bounds)


def test_the_audit_rebuilds_each_request(store: eventlog.Store) -> None:
    """Requests before a prune, after it, and after its undo match their digests."""
    session = store.create_session()
    work(session)
    with ContextWindow(session, POLICY, model="openai-compatible/m", limits=LIMITS, environment={}) as window:
        for question in ("one", "two", "three"):
            session.user(question)
            step = window.next_step()
            while isinstance(step, Prune):
                window.perform(step)
                step = window.next_step()
            assert isinstance(step, CallModel)
            reply, _ = window.begin(step)
            reply.add_text("done")
            reply.finish()
            if question == "one":
                pruned = window.prune()
                assert pruned is not None
                assert pruned.plan.arguments
            elif question == "two":
                assert window.undo() == "prune"
    assert [found.verdict for found in audit(session)] == ["match"] * 3


@pytest.mark.parametrize("kind", ["arguments", "reasoning", "media"])
def test_each_kind_has_a_switch(store: eventlog.Store, kind: str) -> None:
    """A switch that is off leaves its kind alone, and the others are cleared all the same."""
    session = store.create_session()
    work(session)
    policy = replace(POLICY, prune=replace(POLICY.prune, **{kind: False}))
    step = ContextWindow(session, policy, limits=LIMITS, environment={}).prune()
    assert step is not None
    cleared = {"arguments": bool(step.plan.arguments)}
    cleared |= {"reasoning": "thought" in step.plan.parts, "media": file_of(session) in step.plan.parts}
    assert cleared == {name: name != kind for name in cleared}


@pytest.mark.parametrize(
    ("model", "metadata", "cleared"),
    [
        ("openai-compatible/m", None, True),
        ("vllm/qwen3", None, True),
        ("deepseek/deepseek-chat", None, False),
        ("openrouter/deepseek/deepseek-v3.2", None, False),
        ("anthropic/claude", '{"anthropic":{"signature":"s"}}', False),
        ("openai/gpt-5", '{"openai":{"itemId":"rs_1","reasoningEncryptedContent":"c"}}', False),
        ("google/gemini-3-pro", '{"google":{"thoughtSignature":"s"}}', False),
    ],
)
def test_a_thought_that_its_provider_wants_back_stays(
    store: eventlog.Store, model: str, metadata: str | None, *, cleared: bool
) -> None:
    """Signed and enciphered thoughts stay, and all of a provider that refuses answers without."""
    session = store.create_session()
    for _ in range(3):
        session.user("go on")
        with session.assistant(model) as reply:
            thought = reply.stream_reasoning(metadata=metadata)
            thought.append("I think of lines. " * 100)
            thought.end()
            reply.add_text("done")
            reply.finish()
    step = ContextWindow(session, POLICY, limits=LIMITS, environment={}).prune()
    assert (step is not None) == cleared


def test_the_newest_turn_keeps_its_pictures_and_thoughts(store: eventlog.Store) -> None:
    """In a long loop of one turn, old arguments go and the question stays whole."""
    session = store.create_session()
    session.user("draw this", files=[File("image/png", IMAGE, "shot.png")])
    for number in range(6):
        with session.assistant("openai-compatible/m") as reply:
            thought = reply.stream_reasoning()
            thought.append("I think of lines. " * 40)
            thought.end()
            metadata = '{"google":{"thoughtSignature":"s"}}' if number == 1 else None
            given: dict[str, object] = {"path": f"{number}.py", "content": "x = 1\n" * 200}
            reply.tool("write", call_id="w", id=f"w{number}", input=given, metadata=metadata).succeed("ok")
            reply.finish("tool-calls")
    window = ContextWindow(session, POLICY, limits=LIMITS, environment={})
    step = window.prune(inside=True)
    assert step is not None
    assert (step.plan.parts, step.plan.arguments) == ((), ("w0", "w2", "w3"))


def test_what_the_newest_turn_names_goes_last(store: eventlog.Store) -> None:
    """A result whose file or call the newest question names stays before newer ones do."""
    session = store.create_session()
    for path in ("src/a.py", "src/b.py", "src/c.py", "src/d.py"):
        session.user("go on")
        with session.assistant("a/b") as reply:
            part = f"read_{path[4]}"
            reply.tool("read", call_id=part, id=part, input={"filePath": path}).succeed("line\n" * 300)
            reply.finish()
    prune = PrunePolicy(policy="recency", protect=1_300, minimum=100, turns=1)
    window = ContextWindow(session, ContextPolicy(prune=prune), limits=LIMITS, environment={})

    def planned(question: str) -> tuple[str, ...]:
        session.user(question)
        window.state.catch_up()
        plan = window.state.situation().prune_plan(inside=False)
        session.rollback(to=session.version - 1)
        return () if plan is None else plan.parts

    assert planned("go on") == ("read_a", "read_b")
    assert planned("look at a.py again.") == ("read_b", "read_c")
    assert planned("now `./src/b.py`, please") == ("read_a", "read_c")
    assert planned("what did read_b say?") == ("read_a", "read_c")
    assert planned("a.py, b.py and c.py, all of them") == ("read_a", "read_d")


def test_opencode_clears_results_only(store: eventlog.Store) -> None:
    """The preset `opencode-1.18` has every switch off, and its planner looks at results alone."""
    prune = OPENCODE_POLICY.prune
    assert [prune.arguments, prune.reasoning, prune.media] == [False, False, False]
    session = store.create_session()
    work(session)
    policy = ContextPolicy(prune=PrunePolicy(policy="opencode", protect=0, minimum=0, turns=1))
    step = ContextWindow(session, policy, limits=LIMITS, environment={}).prune()
    assert step is not None
    assert step.plan.arguments == ()
    assert all(part.startswith(("call_", "prt_")) for part in step.plan.parts)
    assert shown(session, Reasoning) == 3


def test_an_asyncio_window_prunes_and_undoes(tmp_path: Path) -> None:
    """The twin of the window clears and restores the same, and another handle sees it."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s")
        work(session)
        before = ModelView.of(session).digest
        window = AsyncContextWindow(ContextWindow(session, POLICY, limits=LIMITS, environment={}))

        async def run() -> None:
            step = await window.prune()
            assert step is not None
            assert step.plan.arguments
            with eventlog.open(tmp_path / "store") as other:
                assert ModelView.of(other.session("s")).digest != before
            assert await window.undo() == "prune"

        asyncio.run(run())
        assert ModelView.of(session).digest == before
