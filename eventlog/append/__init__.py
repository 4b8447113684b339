"""From an accepted command to a durable append."""
