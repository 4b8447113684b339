"""What the engine costs, beside what others cost and what it could cost at best.

`python -m benchmarks --short` says it.

Reading order: `workloads.py` is what is done, whoever does it; `engine.py` and `history.py` do it with the engine, `peers/` with others,
`limits.py` with the bare libraries; `targets/` holds the nine targets, a file for each, and the files beside this one the older
comparisons; `cases.py` lists all of them.  `measure.py` and `children.py` measure; `report.py`, `markdown.py`, `plots.py` and
`baseline.py` tell.  `baseline.json` and `plots/` are from one full run.
"""
