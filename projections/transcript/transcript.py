"""Transcript of a session: all messages, with marks for removed, pruned, covered ones.

It is read newest first, page by page. A page is made from the events of its own messages and the
few later ones about them, so its cost does not grow with the history before it.
`TranscriptProjection` gives the same messages from a projection of the whole history.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from eventlog.errors import CallError
from eventlog.errors.base import brief
from eventlog.session.session import Session
from eventlog.validation import require, require_call, require_version
from eventlog.values import Body
from projections.conversation.projection import ConversationProjection
from projections.transcript.backward import BackwardReader
from projections.transcript.message import TranscriptMessage, fill


class TranscriptProjection(ConversationProjection):
    """The projection of all messages; its state grows with the history."""

    name = "transcript"
    version = 5
    whole = True


_TOGETHER = 64
"""Messages whose large texts are read together for a reader who may stop."""
_ALL = 1_024
"""As many for a reader of the whole."""


class Transcript:
    """A session's transcript at a version, read on demand."""

    def __init__(
        self, session: Session, at: int | None = None, *, texts: Callable[[Sequence[Body]], Iterable[str]] | None = None
    ) -> None:
        """`texts` reads the bodies of large texts, by default all of each."""
        require(Session, session, "session is a Session")
        require_call(texts, "texts are read by a function that is given bodies")
        if at is not None:
            require_version(at)
        self._session = session
        self._texts = texts
        self.version: int = session.version if at is None else at

    def page(self, size: int = 50, before: int | None = None) -> list[TranscriptMessage]:
        """Return the newest `size` messages that began before version `before`, newest first."""
        require(int, size, "size is an int")
        if size < 0:
            raise CallError(f"size {brief(size)} is negative; give the number of messages of the page")
        if before is not None:
            require_version(before)
        together = max(1, min(size, _TOGETHER))
        return list(islice(self._before(before, together), min(size, sys.maxsize)))

    def newest_first(self, before: int | None = None) -> Iterator[TranscriptMessage]:
        """Yield all messages that began before version `before`, newest first.

        Reads back as far as the caller iterates.
        """
        if before is not None:
            require_version(before)
        return self._before(before, _TOGETHER)

    def oldest_first(self) -> list[TranscriptMessage]:
        """Return all messages in order."""
        newest_first = list(self._before(None, _ALL))
        newest_first.reverse()
        return newest_first

    def _before(self, version: int | None, together: int) -> Iterator[TranscriptMessage]:
        """Yield the messages that began before a version, newest first.

        The large texts of `together` messages are read together.
        """
        texts, own = self._texts or self._session.reader.texts, self._session.store.log.of(self._session.id)
        for messages, large, edition in BackwardReader(self._session, self.version).stretches():
            read_at = partial(own.bodies_at, edition) if self._texts is None else None
            end = len(messages)
            if version is not None:
                while end and messages[end - 1].version >= version:
                    end -= 1
            while end:
                begin = max(end - together, 0)
                while large and large[-1].message >= end:
                    large.pop()
                first = len(large)
                while first and large[first - 1].message >= begin:
                    first -= 1
                fill(messages, large[first:], texts, read_at)
                yield from reversed(messages[begin:end])
                end = begin
