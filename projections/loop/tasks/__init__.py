"""Calls of `task`, and the answers of their sub-sessions."""
