"""Reads one session: events, history through forks and rollbacks, state, texts.

Which versions count: `history/effective_history.py`; where the events lie: `history/ancestry.py`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from eventlog.append.own_appends import recent
from eventlog.codec.decoded import DecodedCommit, Recorded, Span
from eventlog.errors import NotFoundError
from eventlog.history.ancestry import decoded_commits, forked_from, head_of, history_spans, texts
from eventlog.history.catalog import entry_of
from eventlog.history.effective_history import StreamRange
from eventlog.history.forgotten import blanked_commits, forgotten_in, without_content
from eventlog.history.ranges import Range, clipped, without
from eventlog.integrity.heads import SessionHead, session_head
from eventlog.state.loader import load_state, wrong_checkpoints
from eventlog.state.state import State
from eventlog.validation import each, require, require_version
from eventlog.values import Body, Content

if TYPE_CHECKING:
    from eventlog.append.writer import SessionWriter
    from eventlog.history.catalog import SessionInfo
    from eventlog.log.contract import HeadReader
    from eventlog.session.host import Host

__all__ = ["SessionReader"]


class SessionReader:
    """Reads one session.  Events that its own handle has accepted are committed first."""

    def __init__(self, host: Host, session: str, writer: SessionWriter) -> None:
        self.id = session
        self._host = host
        self._writer = writer

    @property
    def version(self) -> int:
        """Version of the newest event; events that this handle has accepted count."""
        self._see_own()
        return self._writer.newest()

    @property
    def info(self) -> SessionInfo:
        """The session's catalog entry."""
        self._see_own()
        return self._host.info(self.id)

    def at_once(self) -> AbstractContextManager[HeadReader]:
        """Read inside a block as of its beginning; see `Log.reading`."""
        return self._host.log.reading()

    def head(self) -> SessionHead:
        """The root of the session's hash tree, to keep elsewhere (`integrity/heads.py`)."""
        self._see_own()
        with self.at_once() as heads:
            return session_head(head_of(heads, self.id))

    @property
    def answered(self) -> int:
        """The newest version known to this handle at which a loop had nothing to do; 0 for none."""
        return self._writer.committed.entry.answered

    def state(self) -> State:
        """The state commands are decided against; do not change it."""
        self._writer.follow()
        return self._writer.committed.state

    @contextmanager
    def deciding(self) -> Generator[State]:
        """Hold the state still: no other thread changes it inside the `with`."""
        with self._writer.lock:
            yield self.state()

    def spans(self, after: int = 0, upto: int | None = None) -> Iterator[Span]:
        """Events of versions `after + 1 .. upto`, inherited ones included; runs of deltas whole."""
        return chain.from_iterable(map(DecodedCommit.spans, self.decoded_commits(after, upto)))

    def decoded_commits(self, after: int = 0, upto: int | None = None) -> Iterator[DecodedCommit]:
        """Events of versions `after + 1 .. upto`, append by append.

        Those of forgotten versions have no content, as after a scrub.
        """
        if type(after) is not int:
            require_version(after)
        if upto is not None:
            require_version(upto)
        if (own := recent(self._writer, after, upto)) is not None and not self.forgotten():
            return iter(own)
        version = self.version
        last = version if upto is None else min(upto, version)
        commits = decoded_commits(self._host.log, self._writer.ancestry(), after, last)
        forgotten = self.forgotten()
        return blanked_commits(commits, forgotten) if forgotten else commits

    def events(self, after: int = 0, upto: int | None = None) -> Iterator[Recorded]:
        """Events of versions `after + 1 .. upto`, one by one."""
        return chain.from_iterable(map(Span.events, self.spans(after, upto)))

    def history(self, at: int | None = None, after: int = 0) -> Iterator[Span]:
        """The effective history right after version `at`, now by default; see `Session.history`."""
        require_version(after)
        version = self.resolve(at)
        ranges = self._ranges(version)
        if ranges and ranges[-1][0] <= after + 1 and ranges[-1][1] >= version:  # all of it counts
            return self.spans(after, version)
        spans = history_spans(self._host.log, self._writer.ancestry(), ranges, version, after)
        forgotten = self.forgotten()
        return without_content(spans, forgotten) if forgotten else spans

    def effective_ranges(self, at: int | None = None) -> list[tuple[int, int]]:
        """Versions of the effective history at version `at`, as closed ascending ranges."""
        return self._ranges(self.resolve(at))

    def ancestry(self) -> tuple[StreamRange, ...]:
        """The streams that make up the session's history, the eldest first, its own last."""
        return tuple(self._writer.ancestry())

    def wrong_checkpoints(self, upto: int) -> Iterator[int]:
        """Versions up to `upto` whose checkpoint of command state differs from a replay."""
        return wrong_checkpoints(self._host.log, self.ancestry(), self.id, upto)

    def inherited_redactions(self) -> tuple[str, ...]:
        """Inherited parts that were redacted in their own session, before or after the fork."""
        if len(self._writer.ancestry()) == 1:
            return ()
        with self.at_once() as heads:
            lineage = list(forked_from(heads, self.id))[1:]
        return tuple(part for head, _ in reversed(lineage) for part in entry_of(head).redacted)

    def redactions(self, after: int = 0) -> tuple[str, ...]:
        """All parts that are redacted by now: inherited ones, and those redacted after `after`."""
        inherited = self.inherited_redactions()
        with self.deciding() as state:
            own, parts = self._writer.committed.entry.redacted, state.parts
            later = [part for part in own if not after or part not in parts or parts[part].newest() > after]
        return (*inherited, *later)

    def forgotten(self) -> tuple[Range, ...]:
        """Versions of forgotten records, which are effective at no version.

        Of a fork they are those forgotten in its parents, too, before or after the fork.
        """
        state = self._writer.followed()
        if state is not None and len(self._writer.committed.streams) == 1:
            return state.forgotten  # those of a parent are in the parent's entry
        with self.at_once() as heads:
            return forgotten_in(heads, self.id)

    def text(self, content: Content) -> str:
        """The text of a content of this session; errors as for `Store.text`."""
        require((str, Body), content, "a content is a str or a Body")
        return content if isinstance(content, str) else self._host.text(content, self.id)

    def data(self, data: bytes | Body) -> bytes:
        """The bytes of a value of this session, or of a body of any kind; errors as for `text`."""
        return self._host.data(data, self.id)

    def texts(self, bodies: Iterable[Body]) -> Iterator[str]:
        """The texts of many bodies, in their order; errors as for `Store.text`.

        Quicker than one by one.
        """
        bodies = each(bodies, "bodies are a list of Body")
        for body in bodies:
            require(Body, body, "a body is a Body")
        return texts(self._host.log, self.id, bodies)

    def find(self, name: str) -> int:
        """The version that added a message, part or pin; `NotFoundError` if none has this id."""
        require(str, name, "an id is a str")
        state = self.state()
        facts = state.messages.get(name) or state.parts.get(name)
        if facts is not None:
            return facts.added
        if name in state.pins:
            return state.pins[name].added
        raise NotFoundError("message, part or pin", name, session=self.id)

    def _ranges(self, version: int) -> list[tuple[int, int]]:
        with self.deciding() as state:
            ranges = state.history.at(version)
        return without(ranges, self.forgotten())

    def resolve(self, at: int | None) -> int:
        """Return version `at`, or the newest version for None.

        `NotFoundError` if the session has no such version.
        """
        version = self.version
        if at is None:
            return version
        require_version(at)
        if not 1 <= at <= version:
            raise NotFoundError("version", str(at), session=self.id)
        return at

    def inherited(self, at: int) -> tuple[list[StreamRange], State]:
        """The ancestry and the state that a fork at version `at` begins with."""
        streams = [
            StreamRange(stream.session, stream.first, min(stream.last, at))
            for stream in self._writer.ancestry()
            if stream.first <= at
        ]
        state, _ = load_state(self._host.log, streams, at)
        state.forget(clipped(self.forgotten(), 1, at))
        state.started = 0
        state.commit_to(state.version)
        return streams, state

    def _see_own(self) -> None:
        """Commit what this handle has accepted, so that it reads its own events."""
        writer = self._writer
        if writer.is_ahead and not writer.is_held_by_others:
            writer.settle()
