"""What the model sees: selection, rendering, assembly."""
