"""Fault injection: I/O errors, power failures, kills, contention and hostile input."""
