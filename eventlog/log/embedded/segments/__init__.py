"""Segments: what was folded out of the journal into LMDB."""
