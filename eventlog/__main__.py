"""Run the command line: `python -m eventlog` is the script `eventlog`."""

from __future__ import annotations

from runpy import run_module

if __name__ == "__main__":
    run_module("projections", run_name="__main__", alter_sys=True)
