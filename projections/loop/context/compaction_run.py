"""Carry out a compaction: select, summarise, check the summary, complete or fail.

`next_step.py` decides to compact.  The pure pieces are in `compaction/`: `selection.py`,
`request.py`, `guard.py`, `continuation.py`.  Events are appended through the session's ordinary
commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from inspect import unwrap
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.errors import (
    EventlogError,
    MessageTooLargeError,
    RequestTooLargeError,
    SummarizerError,
    SummarizerRefusedError,
)
from eventlog.errors.base import giving_way_to
from eventlog.session.inputs import stored_kind
from eventlog.values import MessageError, Model, PartKind, Text, Usage
from projections.loop.decision.loop_state import NOTHING
from projections.view.model_view import digest_of
from projections.view.neutral import NeutralMessage
from projections.view.neutral import Text as Said
from projections.window.compaction.continuation import continuation, overflow_replay
from projections.window.compaction.guard import check_summary, is_thin
from projections.window.compaction.offline import summarize_offline
from projections.window.compaction.record import SUMMARY_FORM, SUMMARY_RENDERER, SummaryRecord, without
from projections.window.compaction.request import SummaryJob, SummaryRequest
from projections.window.compaction.selection import Selection
from projections.window.compaction.summarizer import Summarizer, ToolCalled, pieces
from projections.window.compaction.template import ASKED_AGAIN, TEMPLATE, left_out, missing_sections
from projections.window.policy.hooks import AutoContinue, Hooks

if TYPE_CHECKING:
    from eventlog.session.reply import Reply
    from eventlog.session.session import Session
    from projections.conversation.parts import Message
    from projections.loop.decision.situation import Situation
    from projections.loop.decision.steps import Compact

__all__ = ["CompactionResult", "CompactionRun"]

SMALLER = 3
"""Times that a request refused for its size is made again, each half as large."""
LOOKS = 16
"""Pieces of a summary between two looks for an interrupt."""


class CompactionResult(msgspec.Struct, frozen=True):
    """How a compaction ended.  `reason` is "" if it is in force now."""

    part: str
    reason: str = ""
    summary: str | None = None
    """The summary message."""
    covered: int = 0
    """Messages that it covers."""
    requests: int = 0
    """Requests it took to summarise them."""
    tokens_before: int = 0
    tokens_after: int = 0

    @property
    def completed(self) -> bool:
        """Whether it is in force."""
        return not self.reason


class SummaryFailure(Exception):  # noqa: N818  # control flow inside this module
    """The summary came to nothing, for this reason."""


class CompactionRun:
    """One run."""

    def __init__(
        self,
        session: Session,
        situation: Situation,
        version: int,
        *,
        summarizer: Summarizer,
        hooks: Hooks,
        model: Model | None,
    ) -> None:
        """`situation` is that right after `version`."""
        self._session = session
        self._now = situation
        self._state = situation.state
        self._measure = situation.measure
        self._version = version
        self._summarizer = summarizer
        self._hooks = hooks
        self._model = model
        self._wants_sections = situation.policy.compaction.require_sections
        self._requests = 0
        self._asked = 0
        """Version at which the compaction was asked for."""
        self._before = 0
        """Tokens of the next request before it."""

    def run(self, step: Compact) -> CompactionResult:
        """Carry out the compaction that `step` names; a failure is recorded as one.

        What the summariser raises is a failed compaction, and what interrupts the program (not an
        `Exception`) an aborted one, raised again. Errors of the store are raised as they are.
        """
        now, policy = self._now, self._now.policy.compaction
        self._asked, self._before = self._state.messages[step.message].version, now.request()
        selection = now.selection(step.message)
        if selection is None:
            self._session.context.fail_compaction(step.part, NOTHING)
            return CompactionResult(step.part, NOTHING, tokens_before=self._before)
        prompt = None if self._hooks.prompt is None else self._hooks.prompt(TEMPLATE)
        self._wants_sections = self._wants_sections and prompt is None
        context = () if self._hooks.context is None else tuple(self._hooks.context())
        job = SummaryJob(
            selection.head,
            policy,
            self._measure.text,
            now.count,
            kept=[self._state.messages[name] for name in selection.kept],
            model=self._model,
            options=now.options,
            max_input=None if unwrap(self._summarizer) is summarize_offline else now.usable,
            todos=self._state.todos,
            context=context,
            prompt=prompt,
            transform=self._hooks.messages,
        )
        self._session.context.start_compaction(
            step.part,
            through=selection.through,
            tail=selection.tail,
            kept=selection.kept,
            tokens_before=self._before,
            model=self._model,
            prompt_digest=_first_digest(job, selection.previous),
        )
        record = SummaryRecord(
            SUMMARY_RENDERER,
            options=now.options,
            tool_output_limit=policy.tool_output_limit,
            without=without(self._state, now.options, step.message, selection),
            context=context,
            prompt=prompt,
        )
        with self._session.assistant(
            self._model,
            reply_to=step.message,
            agent="compaction",
            mode="compaction",
            summary=True,
            view=self._version,
        ) as reply:
            try:
                text = self._summarise(reply, job, selection.previous, record)
                after = self._tokens_after(step, selection, text)
                self._judge(text, after)
            except SummaryFailure as failed:
                return self._fail(step, reply, str(failed), selection)
            except BaseException as error:
                with giving_way_to(error, "compaction"):
                    reply.abort(MessageError("aborted"))
                    self._session.context.fail_compaction(step.part, "aborted", summary=reply.id)
                raise
            reply.finish("stop")
        bodies: dict[bytes, bytes] = {}
        then = self._continuation(step, selection, bodies)
        completed = ev.CompactionCompleted(step.part, reply.id, after)
        self._session.executor.command([completed, *then], bodies)  # the window leaves the checkpoint
        return self._result(step, "", reply, selection, after)

    # -- the summary ---------------------------------------------------------------------------

    def _summarise(self, reply: Reply, job: SummaryJob, previous: str | None, record: SummaryRecord) -> str:
        """Summarise the whole head, request by request; return the last text.

        Only the last text stays in the message.
        """
        done, limit, smaller = 0, None, 0
        again: str | None = None
        while True:
            try:
                request = self._request(job, done, previous, limit, again)
            except MessageTooLargeError as error:
                raise SummaryFailure(_reason(error)) from error
            try:
                text, part = self._stream(reply, request, replace(record, after=done, upto=request.upto), job.patch)
            except RequestTooLargeError as error:
                if smaller == SMALLER:
                    raise SummaryFailure(_reason(error)) from error
                smaller += 1
                limit = (limit or request.tokens) // 2
                continue
            except (SummarizerError, SummarizerRefusedError) as error:
                raise SummaryFailure(_reason(error)) from error
            except (SummaryFailure, EventlogError):  # the store's errors are not the summary's
                raise
            except Exception as error:
                raise SummaryFailure(_reason(error)) from error
            if request.last:
                if again is not None or not self._is_thin(text, job):
                    return text
                again = ASKED_AGAIN.format(headings=", ".join(missing_sections(text)))
                record = replace(record, context=(*record.context, again))
            elif not text.strip():
                raise SummaryFailure("empty")
            else:
                done, previous, record = request.upto, text, replace(record, previous=part)
            self._session.remove_part(part)

    def _is_thin(self, text: str, job: SummaryJob) -> bool:
        said = self._now.count((NeutralMessage("assistant", (Said(text),)),), ())
        return self._wants_sections and is_thin(text, said, job.tokens)

    def _request(
        self, job: SummaryJob, done: int, previous: str | None, limit: int | None, again: str | None
    ) -> SummaryRequest:
        """Return the next request; a message that does not fit alone may fill the window."""
        try:
            return job.request(done, previous, max_input=limit, more=again)
        except MessageTooLargeError:
            if limit is not None or self._now.largest is None:
                raise
            return job.request(done, previous, max_input=self._now.largest, more=again)

    def _stream(
        self, reply: Reply, request: SummaryRequest, record: SummaryRecord, patch: str | None
    ) -> tuple[str, str]:
        """Ask once, with the answer in a text part of its own; returns the text and the part."""
        self._requests += 1
        reply.step(
            purpose="summary",
            view_version=self._version,
            view_digest=digest_of(request.conversation(), (request.system,), None, SUMMARY_FORM),
            render=record.encode(),
            counted=request.tokens,
            patch=patch,
        )
        stream = reply.stream_text()
        found: list[str] = []
        spent: list[Usage] = []
        try:
            with closing(pieces(self._summarizer, request)) as answer:
                for number, piece in enumerate(answer):
                    if isinstance(piece, str):
                        stream.append(piece)
                        found.append(piece)
                    elif isinstance(piece, Usage):
                        spent.append(piece)
                    else:
                        self._refuse_tool(piece)
                    if number % LOOKS == 0:
                        self._look_up()
        except BaseException:
            reply.end_step("error", usage=spent[-1] if spent else None)
            raise
        if request.last and self._wants_sections and (rest := left_out("".join(found))):
            stream.append(rest)
            found.append(rest)
        stream.end()
        reply.end_step("stop", usage=spent[-1] if spent else None)
        return "".join(found), stream.id

    def _refuse_tool(self, called: ToolCalled) -> None:
        raise SummaryFailure(check_summary("", tool_called=called.tool) or "tool-called")

    def _look_up(self) -> None:
        """Stop if an interrupt was requested after the compaction was."""
        if self._session.reader.state().interrupt_pending(self._asked):
            raise SummaryFailure("aborted")

    def _judge(self, text: str, after: int) -> None:
        reason = check_summary(text, view_tokens_after=after, usable=self._now.largest)
        if reason is not None:
            raise SummaryFailure(reason)

    def _tokens_after(self, step: Compact, selection: Selection, text: str) -> int:
        """Tokens of the first request after the compaction."""
        said = self._said_then(step, selection)
        then = [self._measure.text(kind.text) for kind in said if isinstance(kind, Text)]
        return self._now.tokens_after(selection, text, then, marker=step.message)

    def _said_then(self, step: Compact, selection: Selection) -> list[PartKind]:
        """Return the parts said after the summary: the refused message again, or a continuation.

        A hook or the policy may still leave them out.
        """
        if selection.replay is not None:
            return overflow_replay(self._state.messages[selection.replay], self._measure.text)
        if not step.auto:
            return []
        return [Text(continuation(self._now.policy.preset, overflow=step.overflow), synthetic=True)]

    # -- afterwards ----------------------------------------------------------------------------

    def _continuation(self, step: Compact, selection: Selection, bodies: dict[bytes, bytes]) -> list[ev.Event]:
        """The message that follows an automatic compaction, if one does."""
        kinds = self._said_then(step, selection)
        if selection.replay is not None:
            again = self._state.messages[selection.replay]
            return self._user(step.part, kinds, bodies, like=again, synthetic=again.synthetic)
        if not kinds or not self._now.policy.compaction.auto_continue:
            return []
        like = self._state.messages[step.message]
        hook = self._hooks.auto_continue
        if hook is not None and not hook(AutoContinue(self._session.id, step.part, step.overflow, like.agent)):
            return []
        return self._user(step.part, kinds, bodies, like=like, synthetic=True)

    def _user(
        self,
        cause: str,
        kinds: Sequence[PartKind],
        bodies: dict[bytes, bytes],
        *,
        like: Message,
        synthetic: bool,
    ) -> list[ev.Event]:
        store = self._session.store
        message = store.host.new_id("msg_")
        added = ev.UserMessageAdded(
            message,
            like.agent,
            like.model,
            like.variant,
            like.system,
            like.tools,
            like.format,
            synthetic,
            cause=cause,
        )
        parts = [ev.PartStarted(message, store.host.new_id("prt_"), stored_kind(kind, bodies)) for kind in kinds]
        return [added, *parts]

    def _fail(self, step: Compact, reply: Reply, reason: str, selection: Selection) -> CompactionResult:
        reply.abort(MessageError("aborted" if reason == "aborted" else "summary", reason))
        self._session.context.fail_compaction(step.part, reason, summary=reply.id)
        return self._result(step, reason, reply, selection, 0)

    def _result(self, step: Compact, reason: str, reply: Reply, selection: Selection, after: int) -> CompactionResult:
        return CompactionResult(step.part, reason, reply.id, len(selection.head), self._requests, self._before, after)


def _first_digest(job: SummaryJob, previous: str | None) -> bytes | None:
    """Return the digest of the first request's prompts; None if there can be no request."""
    try:
        return job.request(0, previous).digest
    except EventlogError:
        return None


def _reason(error: Exception) -> str:
    """Return the recorded reason of an error: its type, and our own messages, never content."""
    return f"{type(error).__name__}: {error}" if isinstance(error, EventlogError) else type(error).__name__
