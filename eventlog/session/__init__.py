"""The handle an agent holds: what can be said and done in one session."""
