"""Estimated costs of sessions whose costs were not recorded, read a slice at a time.

An imported session says tokens and models, and seldom a cost: list prices stand in for it. Its
usage is read once, and read on when the session grows. A list waits a fraction of a second at most.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from eventlog.errors import KeyMissingError, NotFoundError
from eventlog.events import UsageRecorded
from projections.reports.usage import UsageTotals

if TYPE_CHECKING:
    from eventlog import SessionInfo, Store

_SLICE = 0.15
"""Seconds that a list waits."""
_MOST = 20_000
"""Sessions that are remembered."""


class Estimates:
    """The estimated costs of the sessions of a store.  Safe across threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._known: OrderedDict[str, tuple[int, UsageTotals]] = OrderedDict()
        """By session the version up to which it was read, and its usage up to there."""

    def of(self, infos: Iterable[SessionInfo], *, wait: bool = True) -> dict[str, UsageTotals]:
        """Return the usage of those of these sessions that have unpriced calls, as time allows.

        A session that is not in the answer has to be asked for again, if it has such calls. Without
        `wait` nothing is read.
        """
        found: dict[str, UsageTotals] = {}
        end = monotonic() + _SLICE if wait else 0.0
        with self._lock:
            for info in infos:
                if info.unpriced and not info.locked and self._read(info, end):
                    found[info.id] = self._known[info.id][1]
        return found

    def _read(self, info: SessionInfo, end: float) -> bool:
        """Read the usage of a session up to a moment; return whether that is all."""
        version, sums = self._known.get(info.id) or (info.version - info.events, UsageTotals())
        if version < info.version and monotonic() < end:
            try:
                for span in self._store.session(info.id).reader.spans(version, info.version):
                    version = span.last
                    if isinstance(span.item, UsageRecorded):
                        sums.add(span.item, self._store.host.models)
                    if monotonic() > end:
                        break
            except (NotFoundError, KeyMissingError):  # erased, or its key gone, meanwhile
                return False
            self._known[info.id] = version, sums
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return info.id in self._known and version >= info.version
