"""Tamper evidence: heads to keep elsewhere, anchors of forks, the ledger of scrubs."""
