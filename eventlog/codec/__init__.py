"""Events as bytes, and bytes as events."""
