"""Opening of a store: a directory, an address or memory, with clock, ids, prices, models."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eventlog.errors import CallError
from eventlog.models.catalogue import ModelCatalogue
from eventlog.open_log import is_server, open_log
from eventlog.state.committed import CHECKPOINT_EVENTS
from eventlog.store import FLUSH_INTERVAL, LEASE_TTL, Store
from eventlog.validation import require
from eventlog.values import Model, Price, Tokens

if TYPE_CHECKING:
    from eventlog.encryption.keys import KeySource

_LONGEST = 24 * 60 * 60
"""Seconds that a call may wait at most."""


def open_store(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    flush_interval: float = FLUSH_INTERVAL,
    lease_ttl: int = LEASE_TTL,
    checkpoint_events: int = CHECKPOINT_EVENTS,
    clock: Callable[[], int] | None = None,
    new_id: Callable[[str], str] | None = None,
    prices: Callable[[Model | None, Tokens], Price | None] | None = None,
    models: ModelCatalogue | None = None,
    keys: KeySource | None = None,
    busy_timeout: float = 30.0,
    connections: int | None = None,
) -> Store:
    """Open the store at `path`, made if it is not there; `memory:` is one in memory.

    With `read_only` commands raise `ReadOnlyError`.

    `keys` makes it encrypted: True for a key file beside the store, the path of one, or a provider
    (`encryption/keys.py`).

    A call waits `busy_timeout` seconds for other programs, or for a server, then it is a
    `RetryError`; all stores of a directory that a process has open take the same. `connections` is
    how many a process has to a server at most, by default 8.

    `flush_interval` in seconds, `lease_ttl` in milliseconds, `checkpoint_events` in events, a run
    of deltas as one; `clock` gives UTC milliseconds, `new_id` an id for a prefix. `models` is the
    catalogue of models, by default the one that ships: it gives windows their limits, and a usage
    that is recorded without a cost its price. A function `prices` is asked for the price instead.
    Either is asked once: the answer is stored with the usage, and never computed again.
    """
    return Store(
        open_log(path, read_only=read_only, keys=keys, **_log_options(path, busy_timeout, connections)),
        flush_interval=flush_interval,
        lease_ttl=lease_ttl,
        checkpoint_events=checkpoint_events,
        clock=clock,
        new_id=new_id,
        prices=prices,
        models=models,
    )


def _log_options(path: object, busy_timeout: float, connections: int | None) -> dict[str, Any]:
    """Return the options of the log; `CallError` for one that it cannot have."""
    require((int, float), busy_timeout, "busy_timeout is a number of seconds")
    if not 0 < busy_timeout <= _LONGEST:
        raise CallError(f"busy_timeout is more than 0 and at most {_LONGEST} seconds, not {busy_timeout}")
    if connections is None:
        return {"busy_timeout": busy_timeout}
    require(int, connections, "connections is a whole number")
    if connections < 1 or not is_server(path):
        raise CallError("connections is 1 or more, and for a store on a server: leave it out for another one")
    return {"busy_timeout": busy_timeout, "connections": connections}
