"""Content that no living session has any more: superseded and dropped values.

A value is freed once it is the newest of its key in no living session: a fork may still have one
that its parent replaced or erased. `scrub.py` removes the content and keeps the event with its key.

A restore to an earlier position may bring back a state in which such a value was the newest. Its
content is gone, so the restored store records that the key has no value (`drop_freed`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from eventlog import events as ev
from eventlog.codec.decoded import spans_of
from eventlog.codec.payload import is_encrypted, is_foreign
from eventlog.codec.redaction import is_freed
from eventlog.errors import KeyMissingError
from eventlog.history.ancestry import ancestors, ancestry, stream_spans
from eventlog.history.catalog import entry_of
from eventlog.history.effective_history import END, StreamRange
from eventlog.log.merkle import SALT_BYTES
from eventlog.maintenance.copy_commits import add_events

if TYPE_CHECKING:
    from eventlog.log.commit import Commit
    from eventlog.log.contract import Log
    from eventlog.log.embedded.bulk_writer import BulkWriter


class _Change(NamedTuple):
    version: int
    has_content: bool
    """Whether it put a value whose content is there."""


class _Viewer(NamedTuple):
    """A living session that sees a stream up to a version, behind the streams in `above`."""

    upto: int
    above: Sequence[StreamRange]


_Changes = dict[str, list[_Change]]
"""Changes by key, in the order of versions."""


def freed_versions(log: Log) -> dict[str, set[int]]:
    """Return the versions whose content no living session has any more, by stream."""
    heads = {head.session: head for head in log.heads() if not is_foreign(head) and not head.gone}
    changes: dict[str, _Changes] = {}
    for name, head in heads.items():
        if entry_of(head).valued:
            try:
                changes[name] = _changes(log, name)
            except KeyMissingError:
                continue  # unreadable without the key, so nothing can be removed
    viewers: dict[str, list[_Viewer]] = {name: [] for name in changes}
    for name in heads if changes else ():
        if entry_of(heads[name]).erased:
            continue
        streams = [*ancestors(log, name), StreamRange(name, heads[name].base + 1, END)]  # it may be erased by now
        for place, stream in enumerate(streams):
            if stream.session in changes:
                above = [other for other in streams[place + 1 :] if other.session in changes]
                viewers[stream.session].append(_Viewer(stream.last, above))
    freed = {name: set(_freed(found, viewers[name], changes)) for name, found in changes.items()}
    return {name: versions for name, versions in freed.items() if versions}


def _changes(log: Log, session: str) -> _Changes:
    found: _Changes = {}
    for span in stream_spans(log, session):
        if isinstance(span.item, (ev.ValuePut, ev.ValueDropped)):
            has_content = isinstance(span.item, ev.ValuePut) and not is_freed(span.item)
            found.setdefault(span.item.key, []).append(_Change(span.first, has_content))
    return found


def _freed(found: _Changes, viewers: list[_Viewer], changes: dict[str, _Changes]) -> Iterator[int]:
    """Yield the versions with content that are the newest of their key for no viewer."""
    viewers.sort(key=lambda viewer: viewer.upto)
    for key, versions in found.items():
        for place, change in enumerate(versions):
            if not change.has_content:
                continue
            following = versions[place + 1].version if place + 1 < len(versions) else END + 1
            first = bisect_left(viewers, change.version, key=lambda viewer: viewer.upto)
            last = bisect_left(viewers, following, key=lambda viewer: viewer.upto)
            if not any(_sees(viewer, key, changes) for viewer in viewers[first:last]):
                yield change.version


def _sees(viewer: _Viewer, key: str, changes: dict[str, _Changes]) -> bool:
    """Return whether no stream above changed the key."""
    return not any(
        (others := changes[stream.session].get(key)) and others[0].version <= stream.last for stream in viewer.above
    )


def drop_freed(copy: BulkWriter, commits: Iterator[Commit], time: int, random: Callable[[int], bytes]) -> None:
    """Record in a copy of a store's beginning which keys lost their value to a later scrub.

    `commits` are those of the copy.
    """
    found: dict[str, dict[str, list[tuple[int, bool]]]] = {}
    for commit in commits:
        keys = found.setdefault(commit.session, {})
        if not is_encrypted(commit.payload) and not is_foreign(commit):
            for span in spans_of(commit):
                if isinstance(span.item, (ev.ValuePut, ev.ValueDropped)):
                    keys.setdefault(span.item.key, []).append((span.first, is_freed(span.item)))
    for session in sorted(found):
        head = copy.head(session)
        if head is None or is_foreign(head) or is_encrypted(head.entry) or entry_of(head).erased:
            continue
        lost = _lost(copy, session, found)
        if lost:
            add_events(copy, head, [ev.ValueDropped(key) for key in lost], time, random(SALT_BYTES), quiet=True)


def _lost(copy: BulkWriter, session: str, found: dict[str, dict[str, list[tuple[int, bool]]]]) -> list[str]:
    """Return the keys whose newest value, as a session sees it, has lost its content."""
    newest: dict[str, bool] = {}
    for stream in ancestry(copy, session):
        for key, changes in found.get(stream.session, {}).items():
            place = bisect_right(changes, stream.last, key=lambda change: change[0])
            if place:
                newest[key] = changes[place - 1][1]
    return sorted(key for key, is_lost in newest.items() if is_lost)
