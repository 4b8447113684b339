"""An assistant message being filled: open inside its `with` block.

Its commands are `reply_commands.py`; a provider's answer becomes commands in `filling.py`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.errors import StopError
from eventlog.errors.base import giving_way_to
from eventlog.session.failure import failure_of
from eventlog.session.filling import Filled, Filling, chunks_of, fill_with
from eventlog.session.held_lease import A_LEASE, Block, Lease
from eventlog.session.reply_commands import ReplyCommands
from eventlog.state.settling import closing_message
from eventlog.state.waiting_calls import asked
from eventlog.streams.answer import API
from eventlog.validation import require_or_none
from eventlog.values import MessageError


class Reply(ReplyCommands):
    """An assistant message, open inside its `with` block; `fill` takes a provider's answer.

    Left without `finish`, it is finished as aborted; left by an exception, as failed, with the
    status and the text of a provider's answer (an exception with `status_code`). A stop of the
    program (Ctrl-C, `SystemExit`, a cancelled task) or a `ConnectionError` leaves it as a crash
    would: its turn can be resumed. `id` is the message's.
    """

    def __enter__(self) -> Self:
        self._block = Block()
        lease = self._executor.acquire(wait=self.lease_wait, lazily=True, block=self._block)
        try:
            self.begin(lease)
        except BaseException:
            self._executor.release(lease)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        block, self._block = self._block, None  # held by this call alone: should it break off, the lease is over
        with giving_way_to(error, "reply"):
            try:
                self.close(error)
            finally:
                self._executor.release(self.lease)
                del block

    def begin(self, lease: Lease | None = None) -> None:
        """Open the message under a lease, by default the running task's.

        `with` does this, after it has taken one.
        """
        require_or_none(Lease, lease, A_LEASE)
        self._took_lease = lease is not None
        self.lease: Lease | None = lease or self._executor.leases.held
        self._accept([self._begin(), *self._repeated()])
        self._begun = True

    def _repeated(self) -> list[ev.Event]:
        """The failed attempt that this reply repeats, as its first part."""
        lease = self.lease
        if lease is None or lease.retry is None or self._started.summary:
            return []
        retry, lease.retry = lease.retry, None
        self._failed = retry.attempt
        return [ev.PartStarted(self.id, self._executor.host.new_id("prt_"), retry)]

    def close(self, error: BaseException | None) -> None:
        """Abort the message unless it is finished; `error` is the exception of its block."""
        if not self.is_open:
            return
        reason = None if error is None else failure_of(error)
        try:
            if error is not None:
                self._executor.writer.flush()  # a `finish` that was interrupted may be on its way
            self._abort(reason)
        except Exception as failed:
            if not isinstance(failed, StopError):  # an earlier command, or `prices`, failed; aborted all the same
                self._abort(reason)
            raise

    def _abort(self, reason: MessageError | None) -> None:
        """Abort the message, unless it turns out to be finished."""
        state = self._executor.reader.state()
        if state.has_message(self.id) and self.id not in state.open_messages():
            self._close()
        elif any(state.parts[call].message == self.id for call in asked(state)):
            used = self._used(None, None, self._purpose, failed=reason is not None)
            self._end([*used, *closing_message(state, self.id, reason or MessageError("aborted"))])
        else:
            self.abort(reason)

    def _begin(self) -> ev.AssistantMessageStarted:
        """The first event; by default it replies to the newest user message that it has seen."""
        started, executor, lease = self._started, self._executor, self.lease
        seen = started.seen
        if seen is not None:
            executor.require_seen(seen)
        elif lease is not None:
            seen = lease.seen()
        with executor.writer.lock:
            is_read = seen is not None or (lease is not None and lease.is_claimed)  # to take a lease the log is read
            state = executor.writer.known_state() if is_read else executor.reader.state()
            seen = state.version if seen is None else state.history.shared_with(min(seen, state.version))
            reply_to = started.reply_to or state.last_user(seen)
        self._started = replace(started, seen=seen, reply_to=reply_to)
        return self._started

    def fill(self, answer: object, *, api: API | None = None) -> Filled:
        """Fill the reply from a provider's answer, as it streams or whole; returns its end.

        `answer` is what the provider's package returned: an iterable of chunks, objects or
        mappings, of OpenAI Chat Completions, OpenAI Responses, Anthropic Messages or Gemini, or one
        whole answer. The first chunks tell the API; `api` names it. Text, reasoning and arguments
        are accepted as they come. The step is begun, unless one is open, and ended; the reply is
        finished unless a call waits for the program (`Filled.calls`). A call whose arguments are no
        whole JSON object fails, so that the model calls again. A user's stop ends the stream and
        aborts the reply. Errors of the stream are raised, with the reply as far as it came:
        `StreamError` for an error of the provider, `UnknownStreamError` for another API.
        """
        return fill_with(Filling(self, api), chunks_of(answer))
