"""Opening of a store: a directory, an address or memory, with clock, ids, prices, models."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from eventlog.models.catalogue import ModelCatalogue
from eventlog.open_log import open_log
from eventlog.state.committed import CHECKPOINT_EVENTS
from eventlog.store import FLUSH_INTERVAL, LEASE_TTL, Store
from eventlog.values import Model, Price, Tokens

if TYPE_CHECKING:
    from eventlog.encryption.keys import KeySource


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
) -> Store:
    """Open the store at `path`, made if it is not there; `memory:` is one in memory.

    With `read_only` commands raise `ReadOnlyError`.

    `keys` makes it encrypted: True for a key file beside the store, the path of one, or a provider
    (`encryption/keys.py`).

    `flush_interval` in seconds, `lease_ttl` in milliseconds, `checkpoint_events` in events, a run
    of deltas as one; `clock` gives UTC milliseconds, `new_id` an id for a prefix. `models` is the
    catalogue of models, by default the one that ships: it gives windows their limits, and a usage
    that is recorded without a cost its price. A function `prices` is asked for the price instead.
    Either is asked once: the answer is stored with the usage, and never computed again.
    """
    return Store(
        open_log(path, read_only=read_only, keys=keys),
        flush_interval=flush_interval,
        lease_ttl=lease_ttl,
        checkpoint_events=checkpoint_events,
        clock=clock,
        new_id=new_id,
        prices=prices,
        models=models,
    )
