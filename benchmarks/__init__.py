"""Costs of the calls of the pages, beside other stores that give the same guarantee.

`cases/` has a file for each case, `peers/` a file for each other library; `workloads.py` makes the
work, `engine.py` does it by the calls of the pages, `sqlite_turns.py` and `limits.py` with SQLite
and bare files. `measure.py`, `alone.py` and `children.py` measure, in this process or in one of its
own. `figures.py` has the forms of results; `report.py`, `page.py` and `baseline.py` show them.
"""
