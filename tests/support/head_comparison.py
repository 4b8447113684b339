"""Comparison of store heads."""

from __future__ import annotations

from eventlog import StoreHead
from eventlog.codec.payload import LEDGER
from eventlog.integrity.heads import SessionHead


def conversations(head: StoreHead) -> list[SessionHead]:
    """The heads that a scrub leaves unchanged: all but the scrub ledger's."""
    return [one for one in head.sessions if one.session != LEDGER]
