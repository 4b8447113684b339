"""The model's view of a session: selection, rendering, assembly."""
