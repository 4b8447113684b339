"""`ContextWindow`: carries the steps out, for threads and for asyncio."""
