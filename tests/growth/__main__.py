"""`python -m tests.growth [WORD]`: the cost of operations with WORD in the name."""

from __future__ import annotations

import faulthandler
import sys
import tempfile
from pathlib import Path

from tests.growth.judging import compared
from tests.growth.measuring import spent
from tests.growth.place import LARGE, SMALL, built
from tests.growth.tables import BESIDE, TABLES


def main() -> int:
    """Measure and print; return 1 if an operation grows faster than its class allows."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    steep = 0
    with tempfile.TemporaryDirectory() as scratch:
        small, large = (built(Path(scratch) / str(shape.messages), shape) for shape in (SMALL, LARGE))
        print(f"{'':52} {'class':10} {'small, ms':>10} {'large, ms':>10} {'ratio':>6} {'allowed':>7}")
        for table, operations in (TABLES | BESIDE).items():
            begun = spent()
            for name, operation in operations.items():
                faulthandler.dump_traceback_later(120, exit=True)
                if word not in f"{table}: {name}":
                    continue
                try:
                    found = compared(operation, small, large, LARGE.messages / SMALL.messages)
                except Exception as error:  # noqa: BLE001  # the table goes on
                    print(f"{name:52} {type(error).__name__}: {error}"[:200])
                    steep += 1
                    continue
                steep += not found.sound
                print(
                    f"{name:52} {operation.grows.value:10} {found.small.seconds * 1e3:10.3f} "
                    f"{found.large.seconds * 1e3:10.3f} {found.ratio:6.2f} {found.allowed:7.2f}"
                    f"{'' if found.sound else '  TOO STEEP'}",
                    flush=True,
                )
            print(f"-- {table}: {spent() - begun:.1f} s")
        small.close()
        large.close()
    return int(steep > 0)


if __name__ == "__main__":
    sys.exit(main())
