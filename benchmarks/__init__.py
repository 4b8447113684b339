"""Benchmarks: the engine beside other libraries, and beside the least that the work costs.

`python -m benchmarks --short` measures and prints; `README.md` says how and shows the numbers.

Reading order: `workloads.py` makes the work. `engine.py` and `history.py` do it with the engine,
`peers/` with other libraries, `limits.py` with bare libraries. `targets/` holds the nine targets, a
file for each, `scenarios/` what programs do all day, and the files beside this one older
comparisons; `cases.py` lists all. `measure.py` and `children.py` measure; `report.py`,
`markdown.py`, `plots.py`, `page.py` and `baseline.py` show results.
"""
