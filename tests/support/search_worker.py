"""A program that writes messages and searches for them, until it is killed or done.

`python -m tests.support.search_worker DIRECTORY NAME COUNT`. It prints a line once it searches.
"""

from __future__ import annotations

import sys

import eventlog


def main(directory: str, name: str, count: int) -> None:
    """Write messages of a session that all say "common", and search after each."""
    with eventlog.open(directory) as store:
        session = store.create_session()
        for number in range(count):
            session.user(f"common {name}x{number} 共同")
            found = store.search(f"{name}x{number}", wait=None)
            assert len(found.hits) == 1, (name, number)
            assert not found.behind or found.hits
            if not number:
                print("searching", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
