"""Stores of agent frameworks on feeds; each is imported by its own name, and none by `eventlog`."""
