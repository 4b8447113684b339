"""Comparison of store heads."""

from __future__ import annotations

from eventlog import StoreHead
from eventlog.integrity.heads import SessionHead
from eventlog.integrity.scrub_ledger import NAME

__all__ = ["conversations"]


def conversations(head: StoreHead) -> list[SessionHead]:
    """The heads that a scrub leaves unchanged: all but the scrub ledger's."""
    return [one for one in head.sessions if one.session != NAME]
