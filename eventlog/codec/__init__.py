"""Events to bytes and back."""
