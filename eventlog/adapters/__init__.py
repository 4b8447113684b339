"""Stores of agent frameworks on feeds, each imported by its own name only."""
