"""Run the frameworks' own tests on this store, and print its failures with reasons.

    python -m tests.upstream DIRECTORY [FRAMEWORK …]

Source distributions that have tests are downloaded into the directory and unpacked there. Needed
are the extras `test`, `frameworks` and `bench`, `hatchling` to build no wheel, and what the suites
import: `pytest-asyncio`, `pytest-mock`, `syrupy`, `redis`, `pycryptodome` and
`langgraph-checkpoint-postgres`. ADK's scenes are retold in `test_google_adk.py`, because its
distribution has no tests, as pydantic-ai's has none.
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

HERE = Path(__file__).parent


class Suite(NamedTuple):
    """Test files of a framework's distribution, and why some of its tests fail here."""

    package: str
    version: str
    plugin: str
    """Module of this folder that puts our classes in place of the framework's."""
    files: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Options of pytest."""
    reasons: tuple[tuple[str, str], ...] = ()
    """Patterns of names or errors, and what they have in common."""


INSIDE = "looks into the dicts of the framework's own store"
MEANING = "a difference: items have no search by meaning"

SUITES = (
    Suite(
        "openai_agents",
        "0.24.0",
        "openai_stores",
        ("tests/memory/test_session.py", "tests/memory/test_compaction_suffix.py"),
        ("--noconftest", "-o", "asyncio_mode=auto"),
        (
            ("connection|worker_thread", "counts SQLite's connections and threads"),
            ("corrupt", "writes broken JSON into SQLite's rows"),
            ("lock|roll.*back|post_commit", "replaces methods of SQLite's connections"),
            ("suffix_transaction", "writes triggers into the SQLite file"),
            ("closed_rejects_empty", "adding nothing asks nothing of the store, closed or not"),
            ("rejects_unknown_dictionary", "a difference: unknown fields of a settings dict are let through"),
        ),
    ),
    Suite("langgraph_checkpoint_conformance", "0.0.2", "langgraph_stores", ("tests",)),
    Suite(
        "langgraph_checkpoint",
        "4.3.2",
        "langgraph_stores",
        ("tests/test_memory.py", "tests/test_store.py"),
        reasons=(
            ("no attribute '(blobs|storage|writes)'", INSIDE),
            ("test_a?search ", "puts a checkpoint behind one that is not there"),
            ("no index for a search|no search by meaning", MEANING),
        ),
    ),
    Suite(
        "langgraph",
        "1.2.24",
        "langgraph_stores",
        ("tests",),
        ("-n", "2", "--timeout", "120"),
        reasons=(
            ("no attribute '(blobs|storage|writes)'", INSIDE),
            (
                "test_checkpoint_errors",
                "a difference: plain values that the serializer refuses are stored all the same",
            ),
            ("test_saved_checkpoint_state", "stores what tasks wrote to a checkpoint that is not put yet"),
            ("prebuilt_tool_chat|weather_subgraph|tags_stream_mode", "fails on the framework's own stores, too"),
        ),
    ),
    Suite(
        "claude_agent_sdk",
        "0.2.189",
        "claude_stores",
        (
            "tests/test_session_helpers_store.py",
            "tests/test_session_import.py",
            "tests/test_session_mutations.py",
            "tests/test_session_resume.py",
            "tests/test_session_store_anyio.py",
            "tests/test_session_store_conformance.py",
            "tests/test_session_summary.py",
            "tests/test_transcript_mirror.py",
        ),
        reasons=(
            ("no attribute '_mtimes'", INSIDE),
            (
                "concurrency|mkdtemp|eager_flush",
                "takes five turns of the loop for enough; a list here is a thread's work",
            ),
            ("fast_path", "appends of one millisecond have one time"),
        ),
    ),
)


def main(directory: Path, frameworks: list[str]) -> int:
    """Run the suites, all or some frameworks'; return how many failures have no reason."""
    unexplained = 0
    for suite in SUITES:
        if frameworks and not suite.package.startswith(tuple(frameworks)):
            continue
        tests = _fetched(suite, directory)
        paths = os.pathsep.join((str(HERE.parents[1]), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])))
        environment = {**os.environ, "PYTHONPATH": paths, "NO_DOCKER": "true", "COLUMNS": "400"}
        options = ["-q", "-rfE", "-p", suite.plugin, "-p", "no:cacheprovider", "-o", "addopts=", "--rootdir", "."]
        command = [sys.executable, "-m", "pytest", *options, *suite.options, *suite.files]
        done = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True, check=False)
        failed = re.findall(r"^(?:FAILED|ERROR) (.+)", done.stdout, re.MULTILINE)
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
    sys.exit(bool(main(Path(sys.argv[1]).resolve(), sys.argv[2:])))
