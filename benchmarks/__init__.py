"""What the engine costs, measured beside what it could cost at best: `python -m benchmarks --short`.

Workloads (`workloads.py`) know no engine; the engine (`engine.py`) and the limits it is held against (`limits.py`) do the same
work; `streaming.py`, `turns.py`, `groups.py`, `sessions.py` put them side by side, and `cases.py` lists what can be run.
Nothing of the two packages imports this one.
"""
