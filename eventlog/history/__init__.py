"""Reading what is committed: lineage, streams, the catalog of sessions, checkpoints."""
