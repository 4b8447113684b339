"""Tests of what is folded."""
