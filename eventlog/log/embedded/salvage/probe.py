"""Verification of LMDB's page structure, in a child process.

LMDB trusts its pages: a flipped byte in one of them can kill the process, or hide entries. So a
child (`probe_child.py`) walks them before a process relies on them: after an unclean end, for
`verify`, and where a command does not find a session. The content of the slots is not walked: it
has checksums, which are compared whenever it is read.

Where no child of this interpreter can be started (a frozen program), no fault is found and nothing
is refused.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import lmdb

from eventlog.errors import BusyError, DamagedError, StorageError
from eventlog.log.embedded.filesystem import DENIED
from eventlog.log.embedded.salvage.probe_child import UNABLE
from eventlog.log.embedded.segments.environment import LIB_VERSION, REMEDY, nobody_writes
from eventlog.log.embedded.segments.layout import TREES

_CHILD = Path(__file__).with_name("probe_child.py")
_FAULTS = frozenset({signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL})
_LIBRARY = Path(str(lmdb.__file__)).parent.parent


def probe(directory: Path, *, writing: bool = False) -> list[str]:
    """Walk the structure of the LMDB files in `directory`; return a line for each fault.

    `writing` reads the list of free pages, too, which needs that no other process writes.
    `BusyError` or `StorageError` if the system does not let the child look: then nothing is known
    of the pages.
    """
    if getattr(sys, "frozen", False) or not sys.executable:
        return []
    mode = "w" if writing else "-" if nobody_writes(directory) else "r"
    command = [sys.executable, "-I", "-S", str(_CHILD), str(_LIBRARY), str(directory), str(LIB_VERSION), mode, *TREES]
    try:
        child = subprocess.run(command, capture_output=True, check=False, text=True, errors="replace")  # noqa: S603 - our own program
    except OSError as error:
        raise BusyError(f"the structure of {directory} could not be looked at: {error.strerror}") from error
    if child.returncode < 0:
        name = signal.Signals(-child.returncode).name
        if -child.returncode not in _FAULTS:  # SIGKILL, where memory is short
            raise BusyError(f"the structure of {directory} could not be looked at: {name} ended the child that does")
        return [f"the structure of the folded part is damaged: reading it ends in {name}"]
    if child.returncode == UNABLE:
        code = int(child.stderr.strip() or errno.EIO)
        kind = StorageError if code in DENIED else BusyError
        raise kind(f"the structure of {directory} could not be looked at: {os.strerror(code)}")
    if child.returncode:
        reason = child.stderr.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
        return [f"the structure of the folded part cannot be read: {reason[0]}"]
    return [f"the structure of the folded part is damaged: {line}" for line in child.stdout.splitlines()]


def require_structure(directory: Path, *, writing: bool = False) -> None:
    """Raise `DamagedError` unless the structure holds together; other errors as in `probe`."""
    faults = probe(directory, writing=writing)
    if faults:
        raise DamagedError(f"{faults[0]}; {REMEDY}")
