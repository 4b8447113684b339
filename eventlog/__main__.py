"""`python -m eventlog`: the same as the script `eventlog`, whose commands are those of `python -m projections`."""

from __future__ import annotations

from runpy import run_module

if __name__ == "__main__":
    run_module("projections", run_name="__main__", alter_sys=True)
