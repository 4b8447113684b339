"""Fault injection: I/O errors, power failures, kills, contention and hostile input.

Short with every run of the tests; with `EVERDELTA_SLOW=1` in the long form, whose figures are in
the README (`table.py`).
"""
