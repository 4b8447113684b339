"""Sessions in the form of Gemini: its CLI and the descendants of it."""
