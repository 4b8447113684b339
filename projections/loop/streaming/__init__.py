"""Chunks of streams, pauses between attempts, and the summariser over HTTP."""
