"""Tests of a framework's own suite, run on this store: `python -m tests.upstream`."""
