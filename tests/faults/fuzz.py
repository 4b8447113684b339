"""The coverage-guided fuzzer: `python -m tests.faults.fuzz TARGET SECONDS [DATA]`."""

from __future__ import annotations

import sys
import tempfile
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any


def main(target: str, seconds: int, data: Path) -> None:
    """Fuzz one target for a bounded time."""
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["eventlog", "projections"]):
        hostile = import_module("tests.support.faults.hostile_input")
    scratch = Path(tempfile.mkdtemp())
    for given in hostile.corpus(target, data):
        (scratch / sha256(given).hexdigest()).write_bytes(given)
    limits = [f"-max_total_time={seconds}", "-max_len=12000", "-rss_limit_mb=2048", "-timeout=20"]
    atheris.Setup(
        [sys.argv[0], *limits, "-print_final_stats=1", f"-artifact_prefix={scratch}/", str(scratch)],
        hostile.TARGETS[target],
    )
    atheris.Fuzz()  # ends the process


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3] if len(sys.argv) > 3 else "."))
