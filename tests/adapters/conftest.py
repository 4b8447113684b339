"""Tests that need the frameworks: without these none is collected."""

from __future__ import annotations

from tests.support.frameworks import are_here

collect_ignore_glob = [] if are_here() else ["test_*.py"]
