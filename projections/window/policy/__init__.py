"""Policies, limits and hooks of a context window."""
