"""Heads of a store, compared.  No tests here."""

from __future__ import annotations

from eventlog import StoreHead
from eventlog.integrity.heads import SessionHead
from eventlog.integrity.scrub_ledger import NAME

__all__ = ["conversations"]


def conversations(head: StoreHead) -> list[SessionHead]:
    """The heads that a scrub leaves as they are: all but that of the record of what it left."""
    return [one for one in head.sessions if one.session != NAME]
