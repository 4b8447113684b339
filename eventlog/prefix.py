"""What a fork keeps of the session it continues: the head of that session's hash tree as it was at the fork.

It stands in the fork's first event, and so in the fork's own tree: whoever changes what a fork inherited has to change every
fork of it, too.  It is the head of the stream that holds the version which was forked at; what that stream inherited itself is
in its own first event.  An append that holds the version in its middle is in it whole.  Bytes, integers little-endian:

    version u64  |  number of appends u64  |  peaks of the tree (`log/tree.py`), 32 bytes each

Anybody may import this module.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.codec import spans_of
from eventlog.errors import DamagedError
from eventlog.events import SessionForked
from eventlog.foreign import is_foreign
from eventlog.log.rebuild import Fault, Grown, prefix_fault
from eventlog.log.tree import HASH_BYTES, grow, leaf_of, peak_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.events import Event
    from eventlog.lineage import Stream
    from eventlog.log.base import Head, Log

__all__ = ["inherited_fault", "portable", "prefix_head", "read_prefix"]

_FIELDS = Struct("<QQ")


def prefix_head(log: Log, streams: Sequence[Stream], at: int) -> bytes:
    """The head of the last of these streams, which holds version `at`, as of that; b"" if there is none.

    Costs nothing where `at` is the newest version, else a read of the stream up to there.
    """
    if not streams:
        return b""
    stream = streams[-1]
    head = log.head(stream.session)
    if head is not None and head.version == at:
        return _FIELDS.pack(at, head.appends) + head.peaks
    appends, peaks, version = 0, b"", 0
    for commit in log.read(stream.session, 0, at):
        peaks = grow(appends, peaks, leaf_of(commit))
        appends += 1
        version = commit.last
    return _FIELDS.pack(version, appends) + peaks if version >= at else b""


def read_prefix(data: bytes) -> Grown:
    """The head in these bytes; `DamagedError` if they are none."""
    if len(data) >= _FIELDS.size:
        version, appends = _FIELDS.unpack_from(data)
        peaks = data[_FIELDS.size :]
        if 0 < appends <= version < 1 << 63 and len(peaks) == HASH_BYTES * len(peak_sizes(appends)):
            return Grown(version, appends, peaks)
    raise DamagedError("the head of what was forked is none")


def portable(event: Event) -> Event:
    """The event without what holds in its own store only: another one has other salts in its trees."""
    return replace(event, parent_head=b"") if isinstance(event, SessionForked) and event.parent_head else event


def inherited_fault(log: Log, head: Head, streams: Sequence[Stream]) -> Fault | None:
    """The first thing that a fork inherited and that is not what it was at the fork, or None.

    `head` is the fork's, `streams` its ancestry.  None also for a session that is no fork, or that keeps no such head.
    What cannot be read raises.
    """
    first = next(iter(log.read(head.session, head.base, head.base + 1)), None)
    if first is None or is_foreign(first) or not first.payload or len(streams) < 2:
        return None
    event = next(iter(spans_of(first))).item
    if not isinstance(event, SessionForked) or not event.parent_head:
        return None
    kept = read_prefix(event.parent_head)
    stream = streams[-2]
    above = log.head(stream.session)
    if above is None or kept.version < event.at:
        return Fault("what it was forked from is not there", stream.first)
    commits = () if above.gone else log.read(stream.session, 0, kept.version)
    return prefix_fault(above, commits, kept, "the head that the fork keeps")
