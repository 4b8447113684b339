"""Reads of a session through its ancestry: inherited versions lie in other streams.

Reading never writes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from eventlog.codec.decoded import DecodedCommit, Span, decode_commit, spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.large_texts import checked_body_text
from eventlog.codec.payload import is_foreign
from eventlog.errors import DamagedError, ErasedError, NotFoundError
from eventlog.events import LASTING
from eventlog.history.catalog import entry_of
from eventlog.history.effective_history import END, StreamRange
from eventlog.log.commit import Commit, Head
from eventlog.log.contract import HeadReader, Log
from eventlog.values import Body

APART = 256
"""Versions between two wanted ones from which on they are read one by one."""
TEXTS_AT_ONCE = 256
"""Bodies read together: about a MB."""


def head_of(log: HeadReader, session: str) -> Head:
    """Return the session's head.

    `NotFoundError` if there is no such session, `ErasedError` if it was erased.
    """
    head = _head_of(log, session)
    if head.entry and entry_of(head).erased:
        raise ErasedError(session)
    return head


def _head_of(log: HeadReader, session: str) -> Head:
    head = log.head(session)
    if head is None or is_foreign(head):
        raise NotFoundError("session", session)
    return head


def ancestry(log: HeadReader, session: str) -> list[StreamRange]:
    """Return the streams of a session's versions, oldest first; its own is last, open-ended.

    An ancestor may be erased: what a fork inherited belongs to the fork, too. `ErasedError` if the
    session itself was.
    """
    return _streams_of(log, head_of(log, session))


def ancestors(log: HeadReader, session: str) -> list[StreamRange]:
    """Return the streams of other sessions that a session inherits, also of an erased one."""
    return _streams_of(log, _head_of(log, session))[:-1]


def _streams_of(log: HeadReader, head: Head) -> list[StreamRange]:
    streams: list[StreamRange] = []
    last = END
    for above in _upwards(log, head):
        if last > above.base:
            streams.append(StreamRange(above.session, above.base + 1, last))
        last = min(last, above.base, entry_of(above).forked_at)
    streams.reverse()
    return streams


def _upwards(log: HeadReader, head: Head) -> Iterator[Head]:
    """Yield a head and those it was forked from; `DamagedError` for an ancestor of itself."""
    seen: set[str] = set()
    while head.session not in seen:
        yield head
        name = entry_of(head).fork_of
        if name is None or not head.base:
            return
        seen.add(head.session)
        head = _head_of(log, name)
    raise DamagedError("a session that is its own ancestor", session=head.session)


def forked_from(log: HeadReader, session: str) -> Iterator[tuple[Head, int]]:
    """Yield the heads of a session and of those it was forked from, the eldest last.

    Each comes with its last version that is the session's, too. A session that was forked at a
    version of its parent's parent has none of its parent's own, but what is hidden there is hidden
    in the fork.
    """
    last = END
    for head in _upwards(log, _head_of(log, session)):
        yield head, last
        last = min(last, entry_of(head).forked_at)


def continued(log: HeadReader, head: Head) -> Head | None:
    """Return the head of the stream that holds the version a fork continues; else None."""
    return next((above for above in _upwards(log, head) if above.base < head.base), None)


def decoded_commits(
    log: Log, streams: Sequence[StreamRange], after: int = 0, upto: int | None = None
) -> Iterator[DecodedCommit]:
    """Yield every event of versions `after + 1 .. upto`, oldest first, commit by commit."""
    for stream in streams:
        last = stream.last if upto is None else min(stream.last, upto)
        expected = max(stream.first, after + 1)
        if expected > last:
            continue
        for commit in log.read(stream.session, expected - 1, last):
            decoded = decode_commit(commit, expected - 1, last)
            if decoded is None:
                continue
            if decoded.first != expected:
                raise DamagedError(f"version {expected} is missing", session=stream.session, version=expected)
            expected = decoded.last + 1
            yield decoded
        if expected <= last < END:
            raise DamagedError(f"version {expected} is missing", session=stream.session, version=expected)


def spans(log: Log, streams: Sequence[StreamRange], after: int = 0, upto: int | None = None) -> Iterator[Span]:
    """Yield every event of versions `after + 1 .. upto`, runs of deltas as one span."""
    return chain.from_iterable(map(DecodedCommit.spans, decoded_commits(log, streams, after, upto)))


def stream_spans(log: Log, session: str, after: int = 0, upto: int | None = None) -> Iterator[Span]:
    """Yield the spans of one stream in versions `after + 1 .. upto`, without its ancestry.

    For a search: missing versions are no error.
    """
    for commit in log.read(session, after, upto):
        yield from spans_of(commit, after, upto)


def commits_with(log: Log, session: str, versions: Sequence[int]) -> Iterator[tuple[Commit, Sequence[int]]]:
    """Yield the commits of a stream that hold ascending versions, each with those it holds.

    Versions that the stream does not have are left out.
    """
    for group in _together(versions):
        start = 0
        for commit in log.read(session, group[0] - 1, group[-1]):
            start = bisect_left(group, commit.first, start)
            end = bisect_left(group, commit.first + commit.count, start)
            if start < end:
                yield commit, group[start:end]


def _together(versions: Sequence[int]) -> Sequence[Sequence[int]]:
    """Return versions in groups whose neighbours are not far apart."""
    if versions and versions[-1] - versions[0] <= len(versions) * APART // 8:
        return [versions]  # as most lists are
    groups: list[list[int]] = []
    before = -APART - 1
    for version in versions:
        if version - before <= APART:
            groups[-1].append(version)
        else:
            groups.append([version])
        before = version
    return groups


def history_spans(
    log: Log, streams: Sequence[StreamRange], ranges: list[tuple[int, int]], at: int, after: int = 0
) -> Iterator[Span]:
    """Yield the effective history right after version `at`, from version `after + 1` on.

    `ranges` are its effective ranges. What a rollback hid is left out, except events that a
    rollback does not undo.
    """
    index = 0
    for span in spans(log, streams, after, at):
        while index < len(ranges) and ranges[index][1] < span.first:
            index += 1
        if not isinstance(span.item, DeltaRun):
            effective = index < len(ranges) and ranges[index][0] <= span.first
            if effective or isinstance(span.item, LASTING):
                yield span
            continue
        position = index
        while position < len(ranges) and ranges[position][0] <= span.last:
            part = span.cut(ranges[position][0] - 1, ranges[position][1])
            if part is not None:
                yield part
            position += 1


def texts(log: Log, session: str, bodies: Iterable[Body]) -> Iterator[str]:
    """Yield the texts of many bodies of a session, in their order.

    `DamagedError` for a body that is missing or not what was stored, `ErasedError` if the session
    was erased meanwhile.
    """
    own = log.of(session)
    remaining = iter(bodies)
    while wanted := list(islice(remaining, TEXTS_AT_ONCE)):
        for body, packed in zip(wanted, own.bodies_of([body.digest for body in wanted]), strict=True):
            if packed is None:
                head_of(log, session)  # raises if it was erased
                raise DamagedError(f"body {body.digest.hex()} is missing", session=session)
            yield checked_body_text(body, packed)
