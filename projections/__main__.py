"""`python -m projections`: the same as the script `eventlog`."""

from __future__ import annotations

from projections.cli import main

if __name__ == "__main__":
    main()
