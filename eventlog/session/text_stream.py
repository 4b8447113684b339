"""A text that streams: each delta is accepted with one list operation.

`reply.py` makes one for a text or reasoning part, `tool_call.py` for a tool's input and output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog import events as ev
from eventlog.errors import CallError, EventlogError, LimitError, RefusedError
from eventlog.errors.base import brief
from eventlog.state.rules import check_deltas
from eventlog.validation import a_kind
from eventlog.values import Json

if TYPE_CHECKING:
    from eventlog.session.executor import Executor
    from eventlog.session.held_lease import Lease

LONG_DELTA = 4096
"""Characters from which on a delta is weighed against the room of the buffer."""
MAX_DELTA = 16 * 1024 * 1024
"""Longest single delta, in characters."""


class TextStream:
    """A text that streams: a text or reasoning part, or a tool's input or output.

    `id` is the part's.
    """

    # `_open` is False once the caller asked to end the part; whether that was refused the state
    # knows.
    __slots__ = ("__weakref__", "_buffer", "_clock", "_executor", "_flat", "_key", "_lease", "_open", "_writer", "id")

    def __init__(self, executor: Executor, part: str, field: str, lease: Lease | None) -> None:
        self.id: str = part
        self._executor = executor
        self._lease = lease
        self._writer = executor.writer
        self._buffer = executor.writer.buffer
        self._flat = self._buffer.flat
        self._clock = executor.host.nanoseconds
        self._key = (part, field)
        self._open = lease is None or lease.live
        if lease is not None:
            lease.streams.add(self)

    def append(self, text: str) -> None:
        """Accept one delta; an empty one is ignored.  Blocks only while the buffer is full."""
        if text.__class__ is str and 0 < len(text) <= LONG_DELTA and self._open:
            flat, buffer = self._flat, self._buffer
            if len(flat) >= buffer.limit:
                self._writer.pressure()
            flat.extend((self._key, text, self._clock()))
            if not buffer.awake:
                self._writer.wake((self._key, text))
        else:
            self._append_other(text)

    def _append_other(self, text: str) -> None:
        """Accept a long delta, ignore an empty one, and raise for an argument that is none."""
        if not self._open:
            self._executor.host.require_open(writing=True)
            if self._lease is not None and self._lease.is_taken_over:
                self._lease.require_live()
            self._open = self._is_taking()
        if not self._open:
            raise RefusedError(f"part {brief(self.id)} is ended", expected="an open part", session=self._executor.id)
        if text.__class__ is not str:
            raise CallError(f"a delta is a str, not {a_kind(text)}")
        if len(text) > MAX_DELTA:
            raise LimitError("characters of a delta", len(text), MAX_DELTA)
        if text:
            buffer, writer = self._buffer, self._writer
            if len(buffer) >= buffer.limit:
                writer.pressure()
            writer.weigh(len(text))
            self._flat.extend((self._key, text, self._clock()))
            if not buffer.awake:
                writer.wake((self._key, text))

    def end(self, metadata: Json | None = None) -> None:
        """End the part; durable when it returns.

        `metadata` is the provider's, such as a signature. If the end is refused, the part stays
        open and the call can be repeated.
        """
        self._open = False
        try:
            self._executor.command([ev.PartEnded(self.id, metadata)], lease=self._lease)
        except EventlogError:
            self._open = self._is_taking()
            raise

    def close(self) -> None:
        """Have the next delta check the lease and the session's state first.

        Another task may have taken the lease over, another command ended the part.
        """
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether the part accepts deltas."""
        return self._open or self._is_taking()

    def _is_taking(self) -> bool:
        """Whether the session's state allows deltas.

        The log may since have refused the command that ended the part.
        """
        try:
            with self._executor.reader.deciding() as state:
                check_deltas(state, *self._key)
        except EventlogError:
            return False
        return True
