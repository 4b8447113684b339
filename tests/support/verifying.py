"""The verification of one session, with its own report."""

from __future__ import annotations

from eventlog.integrity.heads import SessionHead, StoreHead
from eventlog.store import Store
from projections.verify.verify import SessionReport, verify


def report_of(
    store: Store, session: str, against: StoreHead | SessionHead | None = None, *, deep: bool = False
) -> SessionReport:
    """Verify a session and those that it was forked from; return the report of the session."""
    kept = StoreHead((against,)) if isinstance(against, SessionHead) else against
    return verify(store, session=session, against=kept, deep=deep).sessions[0]
