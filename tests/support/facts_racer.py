"""Gives commands on shared sessions until a time, and prints what it was told.

Usage: `python -m tests.support.facts_racer STORE NUMBER SECONDS [KEYS]`.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

from eventlog import Feed
from eventlog import open as open_store
from eventlog.errors import ConflictError, RefusedError
from eventlog.session.session import Session
from tests.support.toy_records import ToyMapping

CALLS = 20
"""Calls of the message "m" in the session "late" that may get a late result."""


def counted(session: Session) -> None:
    """Count one more in a value that other processes count in, too."""
    while True:
        now = session.values.get("counter")
        try:
            session.values.put("counter", str(int(now.value) + 1 if now else 1), expected=now.revision if now else 0)
        except ConflictError:
            continue
        return


def chained(feed: Feed, text: str) -> tuple[int, int]:
    """Tell a record behind the newest that this process has seen; return both numbers."""
    while True:
        newest = (feed.path() or [0])[-1]
        try:
            (number,) = feed.add([{"kind": "user", "text": text}], expected=newest, wait=60)
        except ConflictError:
            continue
        return newest, number


def main(path: str, number: int, seconds: float, keys: str | None) -> None:
    """Give all commands in turn."""
    chance = random.Random(number)
    said: dict[str, list[Any]] = {"named": [], "users": [], "told": [], "chain": [], "late": []}
    with open_store(path, keys=keys) as store:
        shared, late = store.session("shared"), store.session("late")
        feed, chain = Feed(shared, ToyMapping()), Feed(store.session("chain"), ToyMapping())
        print("ready", flush=True)
        sys.stdin.readline()
        end, turn = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            turn += 1
            said["named"].append((turn, store.open_session(("f", f"name {turn}")).id))
            said["users"].append(shared.user("hi", request_id=f"{number} {turn}"))
            counted(shared)
            text = f"told {number} {turn}"
            said["told"].append((*feed.add([{"kind": "user", "text": text}], wait=60, request_id=text), text))
            said["chain"].append(chained(chain, text))
            call = f"k{chance.randrange(CALLS)}"
            try:
                said["late"].append((call, f"by {number}", late.late_result("m", call, f"by {number}")))
            except RefusedError:
                said["late"].append((call, "", 0))
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else None)
