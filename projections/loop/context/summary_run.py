"""Write one summary into a reply; each request is a step with its record.

The reply is one of the session, or of the sub-session that writes while the session goes on.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from inspect import unwrap
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.errors import (
    DataError,
    EventlogError,
    MessageTooLargeError,
    RequestTooLargeError,
    StopError,
)
from eventlog.values import MessageError, Model, Usage
from projections.view.digest import digest_of
from projections.view.neutral import NeutralMessage
from projections.view.neutral import Text as Said
from projections.window.compaction.offline import summarize_offline
from projections.window.compaction.record import SUMMARY_FORM, SUMMARY_RENDERER, Begun, SummaryRecord, without
from projections.window.compaction.request import SummaryJob, SummaryRequest
from projections.window.compaction.summarizer import HOME, FailedCall, Piece, Summarizer, ToolCalled, pieces
from projections.window.compaction.template import (
    ASKED_AGAIN,
    TEMPLATE,
    foreign_sections,
    left_out,
    missing_sections,
    sections_of,
)
from projections.window.policy.hooks import Hooks

if TYPE_CHECKING:
    from eventlog.session.reply import Reply
    from eventlog.session.session import Session
    from projections.loop.decision.situation import Situation
    from projections.window.compaction.selection import Selection

SMALLER = 3
"""Times that a request refused for its size is made again, each half as large."""
LOOKS = 16
"""Pieces of a summary between two looks for an interrupt."""
EMPTY = "empty"
TOOL_CALLED = "tool-called"
VIEW_TOO_LARGE = "view-too-large"

LONG_ENOUGH = 200
"""Tokens of a summary that is long enough for any conversation."""
SHARE = 50
"""Tokens that one token of a summary may stand for, up to `LONG_ENOUGH`."""


class SummaryFailure(Exception):  # noqa: N818  # control flow inside the loop
    """The summary came to nothing, for this reason."""

    @property
    def error(self) -> MessageError:
        """How its message ends."""
        return MessageError("aborted" if str(self) == "aborted" else "summary", str(self))


class SummaryRun:
    """The requests for one summary; `write` may run in a thread of its own."""

    def __init__(
        self,
        session: Session,
        now: Situation,
        version: int,
        selection: Selection,
        *,
        marker: str | None,
        summarizer: Summarizer,
        hooks: Hooks,
        model: Model | None,
        since: int,
        begun: Begun | None = None,
    ) -> None:
        """`now` is the situation right after `version`, of the session whose messages are covered.

        `session` is that of the reply; an interrupt of it after version `since` ends the summary.
        `marker` is the message that asks for the compaction; `begun` says what the summary is for
        if the reply is a sub-session's.
        """
        policy, state = now.policy.compaction, now.summarisable
        self._session = session
        self._version = version
        self._since = since
        self._count = now.count
        self._largest = now.largest
        self._summarizer, self._home = summarizer, HOME.get()
        self.is_offline: bool = unwrap(summarizer) is summarize_offline
        """Whether no model is called."""
        self._previous = selection.previous
        prompt = None if hooks.prompt is None else hooks.prompt(TEMPLATE)
        self._wants_sections = policy.require_sections and prompt is None
        context = () if hooks.context is None else tuple(hooks.context())
        self._job = SummaryJob(
            selection.head,
            policy,
            now.measure.text,
            now.count,
            kept=[state.messages[name] for name in selection.kept],
            model=model,
            options=now.options,
            max_input=None if self.is_offline else now.usable,
            todos=state.todos,
            context=context,
            prompt=prompt,
            transform=hooks.messages,
        )
        self.prompt_digest: bytes | None = self._first_digest()
        """Digest of the first request's prompts; None if there can be no request."""
        self._record = SummaryRecord(
            SUMMARY_RENDERER,
            options=now.options,
            tool_output_limit=policy.tool_output_limit,
            without=without(state, now.options, marker, selection),
            covered=len(selection.head),
            context=context,
            prompt=prompt,
            begun=None if begun is None else replace(begun, prompt_digest=self.prompt_digest),
        )
        self.requests: int = 0
        """Requests that were made so far."""

    def write(self, reply: Reply) -> str:
        """Summarise the whole head, request by request; return the last text.

        Only the last text stays in the message. Raises `SummaryFailure`; errors of the store are
        raised as they are.
        """
        HOME.set(self._home)  # this may be another thread
        previous, record = self._previous, self._record
        done, limit, smaller = 0, None, 0
        again: str | None = None
        while True:
            try:
                request = self._request(done, previous, limit, again)
            except MessageTooLargeError as error:
                raise SummaryFailure(_reason(error)) from error
            try:
                text, part = self._stream(reply, request, replace(record, after=done, upto=request.upto))
            except RequestTooLargeError as error:
                if smaller == SMALLER:
                    raise SummaryFailure(_reason(error)) from error
                smaller += 1
                limit = (limit or request.tokens) // 2
                continue
            if request.last:
                if again is not None or not self._is_thin(text):
                    return text
                again = ASKED_AGAIN.format(headings=", ".join(missing_sections(text)))
                record = replace(record, context=(*record.context, again))
            elif not text.strip():
                raise SummaryFailure("empty")
            else:
                done, previous, record = request.upto, text, replace(record, previous=part)
            self._session.remove_part(part)

    def _is_thin(self, text: str) -> bool:
        said = self._count((NeutralMessage("assistant", (Said(text),)),), ())
        return self._wants_sections and is_thin(text, said, self._job.tokens)

    def _request(self, done: int, previous: str | None, limit: int | None, again: str | None) -> SummaryRequest:
        """Return the next request; a message that does not fit alone may fill the window."""
        try:
            return self._job.request(done, previous, max_input=limit, more=again)
        except MessageTooLargeError:
            if limit is not None or self._largest is None:
                raise
            return self._job.request(done, previous, max_input=self._largest, more=again)

    def _stream(self, reply: Reply, request: SummaryRequest, record: SummaryRecord) -> tuple[str, str]:
        """Ask once, with the answer in a text part of its own; returns the text and the part."""
        self.requests += 1
        reply.step(
            purpose="summary",
            view_version=self._version,
            view_digest=digest_of(request.conversation(), (request.system,), None, SUMMARY_FORM),
            render=record.encode(),
            counted=request.tokens,
            patch=self._job.patch,
        )
        stream = reply.stream_text()
        found: list[str] = []
        try:
            with closing(self._pieces(request)) as answer:
                for number, piece in enumerate(answer):
                    if isinstance(piece, str):
                        stream.append(piece)
                        found.append(piece)
                    elif isinstance(piece, Usage):
                        reply.told = piece
                    elif isinstance(piece, FailedCall):
                        reply.lost.append(piece.usage)
                        reply.told = None
                    else:
                        self._refuse_tool(piece)
                    if number % LOOKS == 0:
                        self._look_up()
        except BaseException:
            if reply.told is not None:
                reply.lost.append(reply.told)
                reply.told = None
            reply.end_step("error")
            raise
        if request.last and self._wants_sections and (rest := left_out("".join(found))):
            stream.append(rest)
            found.append(rest)
        stream.end()
        reply.end_step("stop")
        return "".join(found), stream.id

    def _pieces(self, request: SummaryRequest) -> Generator[Piece]:
        """Yield what the summariser answers; its errors are the summary's, a store's are not."""
        try:
            yield from pieces(self._summarizer, request, self._home)
        except (RequestTooLargeError, DataError, StopError):
            raise
        except Exception as error:
            raise SummaryFailure(_reason(error)) from error

    def _refuse_tool(self, called: ToolCalled) -> None:
        raise SummaryFailure(check_summary("", tool_called=called.tool) or "tool-called")

    def _look_up(self) -> None:
        """Stop if an interrupt was requested."""
        if self._session.reader.state().interrupt_pending(self._since):
            raise SummaryFailure("aborted")

    def _first_digest(self) -> bytes | None:
        try:
            return self._job.request(0, self._previous).digest
        except EventlogError:
            return None


def check_summary(
    text: str,
    *,
    tool_called: str | None = None,
    view_tokens_after: int | None = None,
    limit: int | None = None,
) -> str | None:
    """Why a summary is no good, as the reason of `CompactionFailed`, or None if it may stand.

    `tool_called` is the tool that the summariser called, if it did: none was offered.
    `view_tokens_after` are the tokens of the view with the summary, `limit` those that a request
    may have; the check is left out while either is unknown. A reason begins with one of the
    names above and never holds text of the conversation.
    """
    if tool_called is not None:
        return f"{TOOL_CALLED}: {tool_called[:80]}" if tool_called else TOOL_CALLED
    if not text.strip():
        return EMPTY
    if limit is not None and view_tokens_after is not None and view_tokens_after >= limit:
        return f"{VIEW_TOO_LARGE}: {view_tokens_after} tokens, and a request has fewer than {limit}"
    return None


def is_thin(text: str, tokens: int, covered: int) -> bool:
    """Whether a summary says too little for the tokens that it covers.

    A known heading is enough, ours or another agent's; so is a text of any form and language that
    is long enough.
    """
    if tokens >= min(LONG_ENOUGH, covered // SHARE) or not text.strip():
        return False
    return not (sections_of(text) or foreign_sections(text))


def judge(text: str, after: int | None, largest: int | None) -> None:
    """Refuse a summary that is empty, or leaves `after` tokens where `largest` may be sent."""
    reason = check_summary(text, view_tokens_after=after, limit=largest)
    if reason is not None:
        raise SummaryFailure(reason)


def _reason(error: Exception) -> str:
    """Return the recorded reason of an error: its type, and our own messages, never content."""
    return f"{type(error).__name__}: {error}" if isinstance(error, EventlogError) else type(error).__name__
