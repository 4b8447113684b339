"""A process that moves a partition, and is killed before or after a step of that.

`python -m tests.support.killed_mover PARTITION SOURCE TO STEP before|after`
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from eventlog.log.postgres import move


def main(partition: int, source: str, to: str, step: str, when: str) -> None:
    """Move the partition, with the step replaced by one that kills."""
    place: Any = move if hasattr(move, step) else move._Copy
    original = getattr(place, step)

    def deadly(*arguments: Any, **named: Any) -> Any:
        if when == "after":
            original(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(place, step, deadly)
    move.move_partition(partition, source, to)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:6])
