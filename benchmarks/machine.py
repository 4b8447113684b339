"""The machine that is measured on, and where it has a real disk."""

from __future__ import annotations

import os
import platform
import sqlite3
import tempfile
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from eventlog.log.embedded.filesystem import filesystem_type

VOLATILE = frozenset({"tmpfs", "ramfs", "devtmpfs"})
"""File systems in memory, on which durable figures mean nothing."""
LIBRARIES = ("lmdb", "msgspec", "zstandard")


def filesystem_of(path: Path) -> str:
    """Return the type of the file system of a path; "" if the system does not say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    return filesystem_type(path.resolve(), lines)


def workplace(candidates: Iterable[Path] | None = None) -> Path:
    """Return the first usual place that is not in memory; the first of all if every one is."""
    places = [Path(tempfile.gettempdir()), Path.cwd(), Path.home()] if candidates is None else list(candidates)
    return next((place for place in places if filesystem_of(place) not in VOLATILE), places[0])


def describe(directory: Path, data: str) -> dict[str, object]:
    """Return the machine as the report names it; `data` names the imported sessions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "memory": f"{memory / 2**30:.1f} GiB",
        "filesystem": filesystem_of(directory) or "unknown",
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "libraries": {name: version(name) for name in LIBRARIES},
        "data": data,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
