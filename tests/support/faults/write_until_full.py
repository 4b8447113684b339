"""A program that makes a store on a full disk and writes to another one there.

Usage: `python -m tests.support.faults.write_until_full NEW OLD`.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from eventlog.errors import EventlogError
from eventlog.log.embedded.engine import open_log
from tests.support.faults.planned_appends import OPTIONS, workload


def main(new: str, old: str) -> None:
    """Write until the disk is full."""
    logging.disable()
    for path in (new, old):
        with suppress(EventlogError):
            log = open_log(path, **OPTIONS)
            for append in workload():
                try:
                    log.submit(append).wait(30)
                except EventlogError:
                    break
            log.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
