"""Event JSONL: the interchange form of this engine."""
