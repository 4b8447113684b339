"""Base of the events, and the version of their schema."""

from __future__ import annotations

import msgspec

SCHEMA = 1
"""Schema version that this program writes; older ones are upcast on read.

See `codec/upcast.py`.
"""


class Base(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of the events.

    Their values are in no reference cycle, so the collector need not look at them (`gc=False`).
    """
