"""The audit rebuilds the request of every step and compares it with the recorded digest."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from eventlog import AsyncSession
from eventlog import events as ev
from eventlog.errors import NotFoundError, RequestTooLargeError
from eventlog.importers import import_file
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import File, Limits, Model, Todo, Tokens, Usage
from projections.loop.context.window import ContextWindow
from projections.loop.decision.steps import CallModel, RunTools
from projections.reports.audit import AuditedStep, audit, audited_step
from projections.reports.timeline import timeline
from projections.reports.view_diff import diff
from projections.view.model_view import LiveView, ModelView
from projections.view.neutral import NeutralMessage, Text
from projections.window.compaction.record import SUMMARY_RENDERER
from projections.window.compaction.request import GOES_ON, SummaryRequest
from projections.window.compaction.template import SECTIONS, SYSTEM, summary_prompt
from projections.window.policy.hooks import Hooks
from projections.window.policy.policy import ContextPolicy, LoopPolicy
from tests.support.shared import shared_path

pytestmark = pytest.mark.promise(10)


def chunks(text: str, calls: int, tokens: int) -> Iterator[dict[str, Any]]:
    """An answer as a stream of Chat Completions chunks."""
    yield {"choices": [{"delta": {"content": text}}]}
    for index in range(calls):
        function = {"name": "read", "arguments": json.dumps({"file_path": f"f{index}.py"})}
        yield {"choices": [{"delta": {"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}}]}
    yield {"choices": [{"delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}
    yield {"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}}


def work(session: Session, steps: int, hooks: Hooks | None = None, policy: ContextPolicy | None = None) -> None:
    """One turn with many steps that read files, in a window that is pruned and compacted."""
    taken = 0
    limits = Limits(9_000, 1_000)
    with ContextWindow(session, policy, model=Model("p", "m"), limits=limits, hooks=hooks) as window:
        while step := window.next_step(allow_repeats=True):
            if isinstance(step, CallModel):
                reply, request = window.begin(step)
                taken += 1
                reply.fill(chunks(f"Step {taken}. " * 30, int(taken < steps), request.counted))
            elif isinstance(step, RunTools):
                for call in step.calls:
                    window.run(call, lambda given: f"the content of {given['file_path']} " * 200)
                window.finish()
            else:
                window.perform(step)


def verdicts(session: Session) -> list[str]:
    """The verdict on every step."""
    return [found.verdict for found in audit(session)]


def long_session(store: Store) -> Session:
    """A session that was pruned, compacted, rolled back and continued."""
    session = store.create_session(title="audited")
    session.set_system_prompt("You help.", "In this folder.")
    session.set_tools('[{"name":"read"}]')
    session.set_todos([Todo("find it")])
    session.user("Find the defect. " * 50)
    work(session, 12)
    middle = session.version
    session.user("And the next one. " * 50)
    work(session, 20)
    with ContextWindow(session, limits=Limits(9_000, 1_000)) as window:
        assert window.compact().completed
    session.user("Once more")
    work(session, 3)
    session.rollback(middle)
    session.user("Another way")
    work(session, 4)
    return session


def test_every_step_of_a_driven_session_matches(store: Store) -> None:
    """After prunes, a compaction, a rollback and a fork every digest still matches."""
    session = long_session(store)
    kinds = Counter(type(span.item) for span in session.reader.spans())
    assert kinds[ev.Pruned]
    assert kinds[ev.CompactionCompleted]
    assert kinds[ev.RolledBack]
    found = list(audit(session))
    turns = [step for step in found if step.purpose == "turn"]
    assert {step.verdict for step in turns} == {"match"}
    assert len(turns) >= 12 + 20 + 3 + 4
    summaries = [step for step in found if step.purpose == "summary"]
    assert len(summaries) >= 1
    assert {step.verdict for step in summaries} == {"match"}
    fork = session.fork(session.version // 2)
    fork.user("In the fork")
    work(fork, 2)
    assert {step.verdict for step in audit(fork) if step.purpose == "turn"} == {"match"}


def test_a_summary_in_several_requests_with_hooks_is_rebuilt(store: Store) -> None:
    """Requests for summaries are steps, too: each chunk is rebuilt, hooks included."""
    session = store.create_session()
    for number in range(12):
        session.user(f"Question {number}. " * 40)
        with session.assistant(model="p/m") as reply:
            reply.add_text(f"Answer {number}. " * 60)
            reply.finish()
    asked: list[tuple[NeutralMessage, ...]] = []

    def picky(request: SummaryRequest) -> str:
        if request.tokens > 1_500:
            raise RequestTooLargeError("too large", status=413)
        asked.append(request.conversation())
        return f"## Goal\n- summary {len(asked)}"

    hooks = Hooks(
        messages=lambda given: [*given[:3], NeutralMessage("user", (Text("(a hook was here)"),)), *given[4:]],
        context=lambda: ["Mind the tests."],
        prompt=lambda words: f"Summarise, in your own words, where this says {len(words)} characters.",
    )
    with ContextWindow(session, summarizer=picky, hooks=hooks, limits=Limits(60_000, 8_000)) as window:
        assert window.compact().completed
    steps = [step for step in audit(session) if step.purpose == "summary"]
    assert len(asked) >= 2
    assert [step.verdict for step in steps if step.recorded] == ["match"] * len(steps)
    sent = [found for number in range(1, len(steps) + 1) if (found := audited_step(session, number)[1]) is not None]
    assert [tuple(found.messages) for found in sent][-len(asked) :] == asked
    again = steps[0].view_version
    with ContextWindow(session, summarizer=sections_of_template, limits=Limits(60_000, 8_000)) as window:
        session.user("One more. " * 50)
        assert window.compact().completed
    last = [*audit(session)][-1]
    assert (last.purpose, last.verdict) == ("summary", "match")
    assert last.view_version != again


def test_the_words_of_the_template_belong_to_the_renderers_name() -> None:
    """Promise 10: changed words of a summary request need a new `SUMMARY_RENDERER`."""
    words = "\0".join((SYSTEM, summary_prompt(), summary_prompt("notes", ["context"]), GOES_ON))
    assert (SUMMARY_RENDERER, sha256(words.encode()).hexdigest()[:16]) == ("summary/1", "e9f31d286fd0a60e")


def sections_of_template(request: SummaryRequest) -> str:
    """A summary with every section."""
    del request
    return "\n\n".join(f"{level} {name}\n- word" for level, name, _ in SECTIONS)


def test_the_rebuilt_request_is_what_was_sent(store: Store) -> None:
    """System prompt, tools and messages of a step are those of the view that it was sent."""
    session = store.create_session()
    session.set_system_prompt("You help.")
    session.set_tools('[{"name":"read"}]')
    session.user("Hello")
    work(session, 1)
    step, sent = audited_step(session, 1)
    assert sent is not None
    view = ModelView.of(session, step.view_version)
    assert ([*sent.messages], sent.system, sent.tools) == ([*view.messages], ("You help.",), '[{"name":"read"}]')
    with pytest.raises(NotFoundError):
        audited_step(session, 2)


def brief(given: list[NeutralMessage]) -> list[NeutralMessage]:
    """A hook that appends to the prompt."""
    return [*given, NeutralMessage("user", (Text("Be brief"),))]


def shorter(given: list[NeutralMessage]) -> list[NeutralMessage]:
    """A hook that removes the beginning."""
    return given[1:]


def changed(given: list[NeutralMessage]) -> list[NeutralMessage]:
    """A hook that changes the beginning to invalid Unicode."""
    return [msgspec.structs.replace(given[0], parts=(Text("\ud800 changed"),)), *given[1:]]


def nothing(given: list[NeutralMessage]) -> list[NeutralMessage]:
    """A hook that changes nothing."""
    return given


@pytest.mark.parametrize("messages", [brief, shorter, changed, nothing])
def test_what_hooks_changed_is_rebuilt_without_them(
    store: Store, messages: Callable[[list[NeutralMessage]], Sequence[NeutralMessage]]
) -> None:
    """Promise 10: results of hooks are recorded, so a request is rebuilt without the hook."""
    session = store.create_session()
    session.set_system_prompt("You help.")
    session.user("Hello")
    session.user("there")
    hooks = Hooks(messages=messages, system=lambda segments: [*segments, "Today is Sunday", "It rains"])
    work(session, 2, hooks)
    assert verdicts(session) == ["match", "match"]
    _, sent = audited_step(session, 1)
    assert sent is not None
    assert sent.system == ("You help.", "Today is Sunday\nIt rains")
    view = ModelView.of(session, next(audit(session)).view_version)
    assert [*sent.messages] == [*messages([*view.messages])]


def test_the_last_step_of_a_turn_matches_with_its_notice(store: Store) -> None:
    """The text that ends a turn is a recorded render option."""
    session = store.create_session()
    session.user("Hello")
    work(session, 9, policy=ContextPolicy(loop=LoopPolicy(max_steps=2)))
    assert verdicts(session) == ["match", "match"]
    _, sent = audited_step(session, 2)
    assert sent is not None
    assert sent.options.max_steps is not None
    assert sent.messages[-1].role == "assistant"


def test_another_renderer_is_unknown_and_named(store: Store) -> None:
    """A digest of an unknown renderer is unknown, not a mismatch."""
    session = store.create_session()
    session.user("Hello")
    with session.assistant(model="p/m") as reply:
        reply.step(view_version=2, view_digest=b"\1" * 32, render='{"renderer":"neutral/0"}')
        reply.add_text("Hi")
        reply.finish()
    (step,) = audit(session)
    assert (step.verdict, step.renderer) == ("unknown", "neutral/0")
    assert "neutral/0" in step.reason


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("sent", ["view", "preset", "earlier", "live", "hook", "excluding", "version", "none"])
def test_a_filled_reply_that_names_its_view_can_be_audited(store: Store, sent: str, is_async: bool) -> None:
    """By `view=` any loop leaves a digest, unless no options give that view again."""
    session = store.create_session()
    session.set_system_prompt("You help.")
    first = session.user("Hello")
    before = session.version
    session.user("there")
    views: dict[str, Callable[[], ModelView | int | None]] = {
        "view": lambda: ModelView.of(session),
        "preset": lambda: ModelView.of(session, preset="opencode-1.18"),
        "earlier": lambda: ModelView.of(session, at=before),
        "live": lambda: LiveView(session).view,
        "hook": lambda: ModelView.of(session, hook=lambda segments: [*segments, "It rains"]),
        "excluding": lambda: LiveView(session).excluding(first),
        "version": lambda: session.version,
        "none": lambda: None,
    }
    view = views[sent]()

    async def answer() -> None:
        async with AsyncSession(session).assistant(model="p/m", view=view) as reply:
            await reply.fill({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})

    if is_async:
        asyncio.run(answer())
    else:
        with session.assistant(model="p/m", view=view) as reply:
            reply.fill(chunks("Hi", 0, 10))
    assert verdicts(session) == ["match" if sent in {"view", "preset", "earlier", "live"} else "unknown"]


FIRST_PARTS: dict[str, Callable[[Reply], object]] = {
    "text": lambda reply: reply.stream_text().append("Hi"),
    "reasoning": lambda reply: reply.stream_reasoning().append("Hm"),
    "call": lambda reply: reply.tool("read", call_id="c", input={}).succeed("done"),
    "streamed call": lambda reply: reply.tool("read", call_id="c").fail("no"),
    "whole text": lambda reply: reply.add_text("Hi"),
    "file": lambda reply: reply.part(File("text/plain", "file:///a", "a")),
    "filled": lambda reply: reply.fill(chunks("", 1, 10)).calls[0].fail("no"),
}
"""Beginnings of a reply, by hand or filled."""


@pytest.mark.parametrize("first", FIRST_PARTS)
@pytest.mark.parametrize("step", ["none", "before", "ended"])
def test_a_reply_that_names_its_view_has_one_step_whatever_it_begins_with(store: Store, first: str, step: str) -> None:
    """The first part of a reply, of any kind, leaves the digest, unless the program does."""
    session = store.create_session()
    session.user("Hello")
    view = ModelView.of(session)
    with session.assistant(model="p/m", view=view) as reply:
        if step != "none":
            reply.step(**view.record)
        FIRST_PARTS[first](reply)
        reply.stream_text().append("there")
        if step == "ended" and reply.in_step:
            reply.end_step("stop")
        reply.finish(usage=Usage(Tokens(input=3)))
    assert verdicts(session) == ["match"]


def test_a_reply_by_hand_without_a_view_has_no_step(store: Store) -> None:
    """Nothing is known of its request, so nothing is recorded of it."""
    session = store.create_session()
    session.user("Hello")
    for view in (None, session.version):
        with session.assistant(model="p/m", view=view) as reply:
            reply.add_text("Hi")
            reply.finish()
    assert verdicts(session) == []


def test_the_second_model_call_of_a_reply_has_no_digest_of_the_first(store: Store) -> None:
    """A reply's view is that of its first model call; of the next one nothing is known."""
    session = store.create_session()
    session.user("Hello")
    with session.assistant(model="p/m", view=ModelView.of(session)) as reply:
        (call,) = reply.fill(chunks("", 1, 10)).calls
        call.start({})
        call.succeed("done")
        reply.fill(chunks("Hi", 0, 10))
    assert verdicts(session) == ["match", "unknown"]


def test_a_redacted_part_makes_its_steps_redacted(store: Store) -> None:
    """A step whose view had a part that was redacted since is neither match nor mismatch."""
    session = store.create_session()
    session.user("Hello")
    work(session, 1)
    session.user("The password is xyzzy")
    work(session, 1)
    secret = next(
        span.item.part
        for span in session.reader.spans()
        if isinstance(span.item, ev.PartStarted) and "xyzzy" in str(span.item.kind)
    )
    session.append([(0, ev.PartRedacted(secret))])
    assert verdicts(session) == ["match", "redacted"]
    assert "xyzzy" not in str([*audit(session)])


def test_imported_steps_are_unknown(store: Store) -> None:
    """Imported steps have no digest."""
    path = next(iter(sorted(shared_path("parity").glob("dev/tools-multi*/exports/*.json"))))
    import_file(store, path)
    (info,) = store.sessions()
    found: list[AuditedStep] = list(audit(store.session(info.id)))
    assert found
    assert {step.verdict for step in found} == {"unknown"}


def test_a_diff_tells_what_was_pruned_compacted_and_rolled_back(store: Store) -> None:
    """The difference of two views names the change of each part, and its tokens add up."""
    session = long_session(store)
    places = {type(span.item).__name__: span.first for span in session.reader.spans()}
    for event, kind in (("Pruned", "pruned"), ("CompactionCompleted", "compacted"), ("RolledBack", "rolled-back")):
        before, after = places[event] - 1, places[event]
        found = diff(session, before, after)
        assert kind in {change.kind for change in found.changes}
        assert found.tokens_first + sum(change.after - change.before for change in found.changes) == found.tokens_second
        assert any(found.sentences())
        back = diff(session, after, before)
        assert (back.tokens_first, back.tokens_second) == (found.tokens_second, found.tokens_first)
    same = diff(session, session.version, session.version)
    assert same.changes == ()


def test_a_timeline_tells_the_fill_and_what_was_rolled_back(store: Store) -> None:
    """The timeline has steps with fill, prunes, compactions, rollbacks and forks."""
    session = long_session(store)
    fork = session.fork()
    found = timeline(session)
    kinds = Counter(entry.kind for entry in found.entries)
    assert kinds["pruned"]
    assert kinds["compacted"]
    assert kinds["rolled-back"] == 1
    assert kinds["step"] >= 39
    assert found.forks == (fork.id,)
    assert sum(found.kinds.values()) == session.version
    assert all(entry.fill is not None and 0 < entry.fill < 1.1 for entry in found.entries if entry.kind == "step")
    assert any(entry.hidden for entry in found.entries)
    assert not any(entry.hidden for entry in found.entries if entry.kind == "step"), "usage lasts"
    assert [entry.version for entry in found.entries] == sorted(entry.version for entry in found.entries)
