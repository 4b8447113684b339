"""Tests of the steps of a compaction."""
