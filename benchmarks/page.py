"""Write the numbers of a run into `README.md`: `python -m benchmarks.page [RUN.json]`.

Without an argument the run is `benchmarks/baseline.json`, which the page must always agree with.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.baseline import read_run
from benchmarks.cases import CASES
from benchmarks.markdown import markdown
from benchmarks.plots import PLOTS

__all__ = ["BASELINE", "PAGE", "with_numbers"]

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
BASELINE = HERE / "baseline.json"
BEGIN, END = "<!-- numbers -->\n", "<!-- end of numbers -->\n"


def with_numbers(page: str, run: Path = BASELINE) -> str:
    """Return the page with the numbers of a run between its marks."""
    figures = {figure.id: figure for case in CASES for figure in case.figures}
    drawn = [f"plots/{name}.svg" for name in PLOTS if (HERE / "plots" / f"{name}.svg").exists()]
    before, _, numbered = page.partition(BEGIN)
    _, _, after = numbered.partition(END)
    return f"{before}{BEGIN}{markdown(read_run(run), figures, drawn)}{END}{after}"


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else BASELINE
    PAGE.write_text(with_numbers(PAGE.read_text(encoding="utf-8"), chosen), encoding="utf-8")
