"""A log in front of another one, to which it leaves what it does not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from eventlog.log.commit import Commit, Committed, LeaseState
from eventlog.log.contract import Log


class FrontLog(Log):
    """A log in front of `engine` that leaves most methods to it; see `contract.Log`."""

    def __init__(self, engine: Log) -> None:
        self._engine = engine

    @property
    def engine(self) -> Log:
        """Log underneath."""
        return self._engine

    @property
    def read_only(self) -> bool:
        """Whether writing is refused."""
        return self._engine.read_only

    @property
    def clock(self) -> Callable[[], int]:
        """See `contract.Log`."""
        return self._engine.clock

    @property
    def partitions(self) -> int:
        """See `contract.Log`."""
        return self._engine.partitions

    @property
    def identity(self) -> bytes:
        """See `contract.Log`."""
        return self._engine.identity

    @property
    def stopped(self) -> bool:
        """Whether nothing more is written through this handle."""
        return self._engine.stopped

    def commits_at(self, positions: Sequence[int]) -> list[Commit | None]:
        """Return the commits as they are stored; see `contract.Log`."""
        return self._engine.commits_at(positions)

    def last_positions(self) -> tuple[int, ...]:
        """See `contract.Log`."""
        return self._engine.last_positions()

    def wait_after(self, positions: Sequence[int], timeout: float) -> bool:
        """See `contract.Log`."""
        return self._engine.wait_after(positions, timeout)

    def request(self, session: str, request: str) -> Committed | None:
        """See `contract.Log`."""
        return self._engine.request(session, request)

    def set_lease(self, session: str, state: LeaseState, *, replaces: LeaseState) -> bool:
        """See `contract.Log`."""
        return self._engine.set_lease(session, state, replaces=replaces)

    def bodies(self) -> Iterator[bytes]:
        """Yield the names under which bodies are stored; see `name`."""
        return self._engine.bodies()

    def derived_keys(self, prefix: bytes) -> list[bytes]:
        """Return the keys of derived values, unreadable ones included."""
        return self._engine.derived_keys(prefix)

    def sync(self) -> None:
        """See `contract.Log`."""
        self._engine.sync()

    def probe(self) -> list[str]:
        """See `contract.Log`."""
        return self._engine.probe()

    def close(self) -> None:
        """See `contract.Log`."""
        self._engine.close()
