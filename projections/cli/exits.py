"""How a command ends: exit codes that scripts can use, and one line on standard error that says what to do.

    0  done
    1  done, and something is wrong: `verify` found a fault
    2  the call is wrong: an unknown option, a directory or a file of no known format, a command the session does not allow
    3  not found: a store, a session, a version, a file, a key
    4  stored data is damaged, or written by a newer program
    5  somebody else was first or is at work: try again
    6  the storage failed: an I/O error, no room, no permission, a file system that cannot keep the promises
    7  a compaction failed: what the model sees is as it was
   70  a defect of this program (`EVENTLOG_DEBUG=1` shows where)
  130  interrupted from the keyboard
  141  whoever read the output went away

Not here: what commands print when all is well (`output.py`).
"""

from __future__ import annotations

import errno
import io
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventlog.errors import EventlogError

__all__ = ["CompactionFault", "Exit", "FileFault", "OutputGone", "UsageFault", "classify"]


class Exit(IntEnum):
    """The exit codes, as listed above."""

    OK = 0
    FAULTS = 1
    USAGE = 2
    MISSING = 3
    DAMAGED = 4
    BUSY = 5
    STORAGE = 6
    COMPACTION = 7
    DEFECT = 70
    INTERRUPTED = 130
    PIPE = 141


class OutputGone(Exception):  # noqa: N818  # not an error: whoever read the output has enough
    """Nobody reads standard output any more."""


class UsageFault(Exception):  # noqa: N818  # the caller's fault, not an error of the engine
    """The command line itself is wrong; the text says what would be right."""


class CompactionFault(Exception):  # noqa: N818  # an outcome that the log holds, not an error of the engine
    """A compaction came to nothing; the text says why, and what to do."""


class FileFault(Exception):  # noqa: N818  # says where an error came up, and is none of its own
    """An error that came up with this file."""

    def __init__(self, path: str, error: Exception) -> None:
        super().__init__(path)
        self.path = path
        self.error = error


_MISSING = {
    "store": "import something first (`eventlog import FILE`), or name another place with --store",
    "session": "`eventlog sessions` lists those there are",
    "version": "`eventlog sessions` shows the newest version of each session",
    "preset": "see `eventlog view --help`",
    "message or part": "`eventlog show --json` lists those there are",
    "compaction": "`eventlog window` names those in force",
    "planner": "see `eventlog prune --help`",
}


def classify(error: BaseException) -> tuple[Exit, str]:
    """The exit code of an error and its one line: what happened, and what to do."""
    if isinstance(error, ImportError):
        return Exit.DEFECT, f"the installation is incomplete: {error}; install the package `everdelta` again"
    from eventlog import errors  # the command line starts without the engine

    match error:
        case UsageFault():
            return Exit.USAGE, str(error)
        case CompactionFault():
            return Exit.COMPACTION, str(error)
        case FileFault():
            code, text = classify(error.error)
            return code, text if error.path in text or not text else f"{error.path}: {text}"
        case errors.ErasedError():
            return Exit.MISSING, str(error)
        case errors.NotFoundError():
            return Exit.MISSING, _advised(error, _MISSING.get(error.kind, ""))
        case errors.TooNewError() | errors.UnknownEventError() | errors.TooOldError() | errors.UnfinishedError():
            return Exit.DAMAGED, str(error)
        case errors.DataError() if "repair" in str(error):
            return Exit.DAMAGED, _advised(error, "see `eventlog repair --help`")
        case errors.KeyMissingError():
            return Exit.MISSING, _advised(
                error,
                "name the key file with --key-file or EVENTLOG_KEY_FILE; a key that was destroyed does not come back",
            )
        case errors.DataError():
            return Exit.DAMAGED, _advised(
                error,
                "`eventlog verify` lists all there is; restore from a copy, or save what is sound with `eventlog repair`",
            )
        case errors.FencedError() | errors.LeaseHeldError():
            return Exit.BUSY, _advised(error, "try again when the other program is done")
        case errors.RetryError():
            return Exit.BUSY, _advised(error, "try again")
        case errors.KeysError():
            return Exit.USAGE, _advised(error, "the keys are those of --key-file, or else of EVENTLOG_KEY_FILE")
        case errors.CallError():
            return Exit.USAGE, str(error)
        case errors.UnsupportedStorageError():
            return Exit.STORAGE, _advised(error, "choose a directory on a local disk with --store")
        case errors.StorageError(__cause__=OSError() as cause):
            return Exit.STORAGE, _advised(error, _remedy(cause))
        case errors.EventlogError():
            return Exit.STORAGE, _advised(error, "check the disk, then run the command again")
        case FileNotFoundError():
            return Exit.MISSING, f"{_file(error)}: there is no such file"
        case IsADirectoryError():
            return Exit.USAGE, f"{error.filename2 or _file(error)}: it is a directory; {_remedy(error)}"
        case OutputGone() | BrokenPipeError():
            return Exit.PIPE, ""
        case OSError(errno=errno.ESPIPE) | io.UnsupportedOperation():
            return Exit.USAGE, "a file is read from its beginning more than once; save what comes from a pipe first"
        case OSError():
            return Exit.STORAGE, f"{_file(error)}: {error.strerror or error}; {_remedy(error)}"
        case KeyboardInterrupt():
            return Exit.INTERRUPTED, "interrupted"
        case _:
            return Exit.DEFECT, (
                f"a defect of this program: {type(error).__name__}: {error}; "
                "please report it with what EVENTLOG_DEBUG=1 shows"
            )


def _advised(error: EventlogError, advice: str) -> str:
    return f"{error}; {advice}" if advice else str(error)


def _file(error: OSError) -> str:
    return str(error.filename) if error.filename else "storage"


def _remedy(error: OSError) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "check the permissions"
        case errno.ENOSPC | errno.EDQUOT:
            return "make room and run the command again"
        case errno.EISDIR | errno.ENOTDIR:
            return "name a file"
        case _:
            return "check the disk, then run the command again"
