"""Run the frameworks' own tests on this store, and print its failures with reasons.

    python -m tests.upstream DIRECTORY

Source distributions that have tests are downloaded into the directory and unpacked there; needed
are `pytest-asyncio` and, to build no wheel, `hatchling`. LangGraph's and Claude's suites are
packages of their own, which `tests/adapters` runs; ADK's scenes are retold there
(`test_google_adk.py`), because its distribution has no tests, as pydantic-ai's has none.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

__all__ = ["main"]

HERE = Path(__file__).parent


class Suite(NamedTuple):
    """Test files of a framework's distribution, and why some of its tests fail here."""

    package: str
    version: str
    files: tuple[str, ...]
    reasons: tuple[tuple[str, str], ...]
    """Patterns of names, and what they have in common."""


SUITES = (
    Suite(
        "openai_agents",
        "0.24.0",
        ("tests/memory/test_session.py", "tests/memory/test_compaction_suffix.py"),
        (
            ("connection|worker_thread", "counts SQLite's connections and threads"),
            ("corrupt", "writes broken JSON into SQLite's rows"),
            ("lock|roll.*back|post_commit", "replaces methods of SQLite's connections"),
            ("suffix_transaction", "writes triggers into the SQLite file"),
            ("closed_rejects_empty", "adding nothing asks nothing of the store, closed or not"),
            ("rejects_unknown_dictionary", "a difference: unknown fields of a settings dict are let through"),
        ),
    ),
)


def main(directory: Path) -> int:
    """Run all suites; return how many failures have no reason."""
    unexplained = 0
    for suite in SUITES:
        tests = _fetched(suite, directory)
        environment = {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}{os.pathsep}{HERE}"}
        options = [
            "-q",
            "-rf",
            "-p",
            "own_stores",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-o",
            "asyncio_mode=auto",
        ]
        command = [sys.executable, "-m", "pytest", *options, "--noconftest", "--rootdir", ".", *suite.files]
        done = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True, check=False)
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        told = [next((why for pattern, why in suite.reasons if re.search(pattern, name)), "") for name in failed]
        print(f"{suite.package} {suite.version}: {(done.stdout.splitlines() or [done.stderr])[-1]}")
        for reason, count in Counter(told).most_common():
            print(f"| {count} | {reason or '**no reason is known**'} |")
        unexplained += told.count("") + (done.returncode > 1)
        print(*(name for name, reason in zip(failed, told, strict=True) if not reason), sep="\n")
    return unexplained


def _fetched(suite: Suite, directory: Path) -> Path:
    """Return where the source distribution of a suite is unpacked."""
    place = directory / f"{suite.package}-{suite.version}"
    if not place.exists():
        wanted = f"{suite.package}=={suite.version}"
        options = ["--no-deps", "--no-build-isolation", "--no-binary", ":all:", "-q", "-d", str(directory)]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, wanted], check=True)
        with tarfile.open(directory / f"{place.name}.tar.gz") as archive:
            archive.extractall(directory, filter="data")
    return place


if __name__ == "__main__":
    sys.exit(bool(main(Path(sys.argv[1]).resolve())))
