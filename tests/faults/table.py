r"""The table of faults for the README, from the counts of the tests (`tally.py`).

    EVERDELTA_SLOW=1 EVERDELTA_TALLY=faults.jsonl python -m pytest --timeout 3600 \
        tests/faults tests/eventlog/log/embedded/test_flipped_bytes.py \
        tests/eventlog/integrity/test_integrity.py tests/eventlog/integrity/test_tampering.py
    python -m tests.faults.table faults.jsonl

Add `-k "200 MB"` for the tries on stores of 200 MB only. A row is here only if its promise held
each time: a test that fails counts nothing. With `--all` every kind of fault has a row, with its
other counts.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

from tests.support.faults.encrypted_stores import SAID, said_of

ENCRYPTED = said_of("encrypted")
LARGE = said_of("200 MB")
LARGE_ENCRYPTED = said_of("encrypted 200 MB")
_KILLS = r"kill -9(: all of these| at a system call: (?!all).*| at any moment: (?!all).*| of the command: .*)"
ROWS = (
    (
        "kill -9: all of these",
        "an agent killed (`kill -9`) in streams, tools, compaction, settling, checkpoints, folds, map growth, at any moment",
        "all durable there, replay equals live, settled once, each question answered",
    ),
    ("kill -9: compaction", "of these, in a compaction", "each completed, or failed as interrupted and begun again"),
    (
        "kill -9 at a system call: (?!all).*",
        "killed at any system call that changes a file, LMDB's own too: appends, making, backup, restore, repair, vacuum, scrub, erasure, retention, work",
        "what is copied from is untouched, what is half made says so, the same command again is enough, nothing is left over",
    ),
    ("kill -9 at any moment: (?!all).*", "the same, killed at any moment", "the same"),
    ("kill -9 of the command: .*", "the command line's commands for these, killed at any moment", "the same"),
    (
        "power failure, LMDB's writes included: (?!all).*",
        "power failure under these, made up from all system calls (writes kept, lost, any of them, torn sectors; names in order)",
        "the same; what was done stays done",
    ),
    (
        "a system call fails: (?!all).*",
        "a system call of these fails, once or from then on: EIO, ENOSPC, EMFILE, short",
        "typed errors that blame no call; a repair lists no loss for it; the same command again is enough",
    ),
    (
        "power failure, appends",
        "power failure under appends (writes kept, lost, any of them, torn sectors)",
        "acknowledged ⊆ recovered, order kept, no error, the rest goes in",
    ),
    ("power failure, an agent .*", "power failure under an agent", "verifies against the last head"),
    (
        "an I/O call .*",
        "a call on the journal fails: EIO, ENOSPC, EDQUOT, EMFILE, short, late",
        "typed errors; what was refused is absent, what is unknown is settled by its request id; goes on",
    ),
    (
        "exceptions in a commit|exceptions thrown into threads|(KeyboardInterrupt|SystemExit|CancelledError) in a turn",
        "Ctrl-C and its like at any place of a turn, a commit or a wait, thrown into all threads, too",
        "the caller sees it; what was acknowledged is there, once; none waits for ever; the handle goes on",
    ),
    (
        "the disk is full below LMDB|a file system without room|no room for a backup or a restore",
        "LMDB's file cannot grow, or the file system is full, also under a backup or a restore",
        "nothing lost, no dead process, goes on when there is room",
    ),
    (
        "8 processes x 4 threads",
        "8 processes with 4 threads each for a minute, killed, stopped, stale owners: calls",
        "linearizable; no fenced writer got in",
    ),
    (
        "a byte flipped: .*",
        "one byte of a store flipped, each in turn",
        "right, or a typed error; never a wrong view, never a dead process",
    ),
    (
        "an event forged in the (store|journal)",
        "an event dropped, swapped, edited, moved or inserted in the store or its journal, each in turn",
        "found, and the first bad version named",
    ),
    (
        "an event forged with all its hashes",
        "the same with every hash made anew",
        "found against a kept head; only what was appended after it is not",
    ),
    (
        f"{_KILLS}{ENCRYPTED}",
        "an encrypted store, its key file too: the kills above",
        "the same; no committed data without its key; once vacuumed no kept key opens what was erased; each living family has its key",
    ),
    (
        rf"power failure, (appends|an agent .*|LMDB's writes included: (?!all).*){ENCRYPTED}",
        "the same: the power failures above",
        "the same",
    ),
    (
        rf"(an I/O call .*|a system call fails: (?!all).*){ENCRYPTED}",
        "the same: a call fails, as above",
        "the same; typed errors that blame no call",
    ),
    (
        f"8 processes x 4 threads{ENCRYPTED}",
        "the same: 8 processes with 4 threads each, as above: calls",
        "linearizable; no fenced writer got in",
    ),
    (
        f"a byte flipped: .*{ENCRYPTED}",
        "the same: one byte flipped",
        "right, or a typed error; never a wrong view",
    ),
    (
        f"{_KILLS}{LARGE}",
        "a store of 200 MB: an agent, work on the whole store and its commands killed, as above",
        "all durable there; it opens for writing; the same command again is enough, nothing is left over",
    ),
    (
        f"power failure, LMDB's writes included: (?!all).*{LARGE}",
        "the same: power failures, made up from all system calls",
        "the same; what was done stays done",
    ),
    (
        f"a system call fails: (?!all).*{LARGE}",
        "the same: a system call fails",
        "typed errors that blame no call; the same command again is enough",
    ),
    (
        f"a byte flipped: .*{LARGE}",
        "the same: one byte flipped, a third of them in pages that lead to others, a third in the journal and the small files",
        "right, or a typed error; never a wrong view, never a dead process",
    ),
    (
        f"{_KILLS}{LARGE_ENCRYPTED}",
        "an encrypted store of 200 MB, its key file too: the kills above",
        "the same; no committed data without its key; each living family has its key",
    ),
    (
        f"power failure, LMDB's writes included: (?!all).*{LARGE_ENCRYPTED}",
        "the same: the power failures above",
        "the same",
    ),
    (
        f"a system call fails: (?!all).*{LARGE_ENCRYPTED}",
        "the same: a system call fails",
        "the same; typed errors that blame no call",
    ),
    (
        f"a byte flipped: .*{LARGE_ENCRYPTED}",
        "the same: one byte flipped",
        "right, or a typed error; never a wrong view",
    ),
    (
        "kill -9 under a key file|a system call fails under a key file: .*",
        "a key file: each of its calls killed, half made or refused",
        "a key that was given out is there, one that was destroyed is not, and nothing is left over",
    ),
    (
        "power failure under a key file",
        "power failure under a key file, also after a program that was killed or refused",
        "the same",
    ),
)
"""The faults a row counts, the row's name and its promise; large stores have own rows."""


def _counted(lines: list[str]) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """The count of each fault tried, and the other counts."""
    tried: Counter[str] = Counter()
    found: dict[str, Counter[str]] = {}
    for line in lines:
        row: dict[str, int] = json.loads(line)
        fault = str(row.pop("fault"))
        tried[fault] += row.pop("tried")
        found.setdefault(fault, Counter()).update(row)
    return tried, found


def _store_of(text: str) -> str:
    """The end of a fault's name, or of a pattern, that names the kind of store."""
    return max((said for said in SAID.values() if text.endswith(said)), key=len)


def readme(lines: list[str]) -> str:
    """Markdown: fault, how many were tried, what held; of those that were tried."""
    tried, _ = _counted(lines)
    rows = ["| fault | tried | what held |", "|---|---:|---|"]
    for pattern, name, held in ROWS:
        count = sum(
            times
            for fault, times in tried.items()
            if re.fullmatch(pattern, fault) and _store_of(fault) == _store_of(pattern)
        )
        if count:
            rows.append(f"| {name} | {count:,} | {held} |")
    return "\n".join(rows)


def every_fault(lines: list[str]) -> str:
    """Markdown: each fault by itself, how many were tried, and what else was counted."""
    tried, found = _counted(lines)
    rows = ["| fault | tried | of these, or met on the way |", "|---|---:|---|"]
    for fault, count in tried.items():
        told = ", ".join(f"{name} {number:,}" for name, number in found[fault].items() if number)
        rows.append(f"| {fault} | {count:,} | {told} |")
    return "\n".join(rows)


def main(arguments: list[str]) -> int:
    """Print a table."""
    names = [argument for argument in arguments if argument != "--all"]
    if len(names) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    lines = Path(names[0]).read_text(encoding="utf-8").splitlines()
    print(every_fault(lines) if "--all" in arguments else readme(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
