"""List many sessions, filtered and by page, beside reading as many small raw records."""

from __future__ import annotations

from pathlib import Path

import lmdb
import msgspec

from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting
from benchmarks.measure import in_turn, timed
from eventlog.history.catalog import SessionInfo

__all__ = ["CASES"]

PAGE = 50
RAW = "a raw LMDB cursor over as many records, each decoded with msgspec"


def _listing(setting: Setting) -> dict[str, Measurement]:
    """List all sessions and one page of a scope, and read the same records from an LMDB tree."""
    count = setting.sizes.sessions
    with opened(setting.directory, "listing") as store:
        for number in range(count):
            store.create_session(title=f"Session {number}", scope=f"user {number % 7}")
    with opened(setting.directory, "listing") as store:
        records = {info.id.encode(): msgspec.msgpack.encode(info) for info in store.sessions()}
        raw = _Raw(setting.directory / "raw", records)
        samples = in_turn(
            {
                "all": lambda: [timed(lambda: sum(1 for _ in store.sessions()))],
                "page": lambda: [timed(lambda: list(store.sessions(scope="user 3", limit=PAGE)))],
                "raw": lambda: [timed(raw.read)],
            },
            setting.sizes.rounds,
        )
        raw.close()
    baseline = samples["raw"].median * 1000
    return {
        "list.all": Measurement(samples["all"].median * 1000, baseline),
        "list.page": Measurement(samples["page"].median * 1000, baseline),
    }


class _Raw:
    """Small records in one LMDB tree."""

    def __init__(self, path: Path, records: dict[bytes, bytes]) -> None:
        self._environment = lmdb.open(str(path), map_size=1 << 28)
        self._decoder = msgspec.msgpack.Decoder(SessionInfo)
        with self._environment.begin(write=True) as transaction:
            for key in sorted(records):
                transaction.put(key, records[key], append=True)

    def read(self) -> int:
        """Read and decode all records."""
        with self._environment.begin() as transaction:
            return sum(1 for _ in map(self._decoder.decode, transaction.cursor().iternext(keys=False, values=True)))

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()


CASES = (
    Case(
        "list",
        (
            Figure("list.all", "list all sessions", "ms", RAW),
            Figure("list.page", f"first {PAGE} sessions of one scope", "ms", RAW),
        ),
        _listing,
    ),
)
