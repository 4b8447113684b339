"""A program whose LMDB file cannot grow, refused at every size in turn.

Usage: `python -m tests.support.faults.full_disk DIRECTORY FIRST STEP`.
"""

from __future__ import annotations

import json
import logging
import resource
import shutil
import sys
from collections import Counter
from pathlib import Path

from eventlog.log.embedded.generations import files_of
from tests.support.faults.caller import Caller
from tests.support.faults.planned_appends import workload

PAGE = 4096
JOURNAL = 32 << 10
"""Bytes of a journal file, as in `planned_appends.py`."""


def limit(size: int) -> None:
    """Limit every file to this number of bytes."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


def main(directory: Path, first: int, step: int) -> None:
    """Raise the limit until no write fails."""
    logging.disable()
    errors: Counter[str] = Counter()
    pages, tried, failed = first, 0, 0
    while True:
        path = directory / "store"
        Caller(path, (), lambda: None).run()
        limit(max(pages * PAGE, JOURNAL + PAGE))
        caller = Caller(path, workload(), lambda: limit(resource.RLIM_INFINITY))
        caller.run()
        caller.heal()
        longest = (files_of(path) / "lmdb" / "data.mdb").stat().st_size
        shutil.rmtree(path)
        errors += caller.errors
        failed += bool(caller.errors)
        tried += 1
        pages += step
        if pages * PAGE > longest:
            break
    print(json.dumps({"tried": tried, "failed": failed, **errors}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
