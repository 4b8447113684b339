"""Exit codes that scripts can use, and the line on standard error that says what to do.

      0  done
      1  done, and something is wrong: `verify`, `audit` or `repair` found a fault
      2  the call is wrong: an unknown option, an unknown file format, a command the session refuses
      3  not found: a store, a session, a version, a file, a key
      4  stored data is damaged, or written by a newer program
      5  another program was first or is at work: try again
      6  the storage failed: an I/O error, a full disk, no permission, an unsupported file system
      7  a compaction failed: what the model sees is unchanged
     70  a defect of this program (`EVENTLOG_DEBUG=1` shows where)
    130  interrupted from the keyboard
    141  the reader of the output has closed it

`classify` gives each error its code.
"""

from __future__ import annotations

import errno
import io
import os
import re
from enum import IntEnum
from typing import TYPE_CHECKING

import click

from projections.reports.wording import DAMAGE_ADVICE, KEY_ADVICE

if TYPE_CHECKING:
    from eventlog.errors import EventlogError


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


class Fault(Exception):  # noqa: N818  # of a call, and no error of the engine
    """A fault with its exit code; the text says what would be right, or what to do."""

    def __init__(self, text: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(text)
        self.code = code


class FileFault(Exception):  # noqa: N818  # wraps an error and is none of its own
    """An error and the file that it is about; `name` is what the user calls the file."""

    def __init__(self, path: str, error: Exception, name: str = "") -> None:
        super().__init__(path)
        self.path = path
        self.name: str = name or path
        self.error = error


_PIECES = (
    "`eventlog show --json` lists those there are; a piece of an id names it from 6 characters on, "
    "and a number is a version, not a piece of an id"
)
_ADVICE = {
    "store": "import something first (`eventlog import FILE`), or name another store with --store",
    "session": "`eventlog sessions` lists those there are; a piece of an id names it from 6 characters on",
    "version": "`eventlog sessions` shows the newest version of each session",
    **dict.fromkeys(("message", "message or part", "message, part or pin", "part"), _PIECES),
    "compaction": "`eventlog window` names those in force",
}
"""Advice for the kinds of `NotFoundError`."""
_FULL = ("no room", "disk is full", os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
"""Words of the errors of a full disk, which no other program makes room on."""


def classify(error: BaseException) -> tuple[Exit, str]:
    """Return the exit code of an error and its line: what happened, and what to do."""
    if isinstance(error, ImportError):
        return Exit.DEFECT, f"the installation is incomplete: {error}; install the package `everdelta` again"
    if isinstance(error, click.UsageError):
        return Exit.USAGE, _wrong_words(error)
    if isinstance(error, click.Abort):  # at a question
        return Exit.INTERRUPTED, "interrupted"
    from eventlog import errors  # the command line starts without the engine

    match error:
        case Fault():
            return error.code, str(error)
        case FileFault():
            code, text = classify(error.error)
            text = text if error.path in text or not text else f"{error.path}: {text}"
            return code, text.replace(error.path, error.name)
        case errors.ErasedError():
            return Exit.MISSING, str(error)
        case errors.NotFoundError(gone="rolled back" | "removed"):
            said = f"`eventlog explain {error.session or 'SESSION'} {error.name}` says at which version"
            return Exit.MISSING, f"{error}; {said}, and how to take a rollback back"
        case errors.NotFoundError():
            return Exit.MISSING, _with_advice(error, _ADVICE.get(error.kind, ""))
        case errors.TooNewError() | errors.UnknownEventError() | errors.UnfinishedError():
            return Exit.DAMAGED, str(error)
        case errors.DataError() if "repair" in str(error):
            return Exit.DAMAGED, _with_advice(error, "see `eventlog repair --help`")
        case errors.KeyMissingError():
            return Exit.MISSING, _with_advice(error, KEY_ADVICE)
        case errors.DataError():
            return Exit.DAMAGED, _with_advice(error, DAMAGE_ADVICE)
        case errors.BusyError() | errors.StorageError() if any(said in str(error) for said in _FULL):
            return Exit.STORAGE, _with_advice(error, "free some space, then run the command again")
        case errors.FencedError() | errors.LeaseHeldError():
            return Exit.BUSY, _with_advice(error, "try again when the other program is done")
        case errors.RetryError():
            return Exit.BUSY, _with_advice(error, "try again")
        case errors.KeysError() if "there is no key file" in str(error):
            return Exit.MISSING, str(error)
        case errors.KeysError():
            return Exit.USAGE, _with_advice(error, "keys come from --key-file, else from EVENTLOG_KEY_FILE")
        case errors.CallError():
            return Exit.USAGE, str(error)
        case errors.UnsupportedStorageError():
            return Exit.STORAGE, _with_advice(error, "choose a directory on a local disk with --store")
        case errors.StorageError(__cause__=OSError() as cause):
            return Exit.STORAGE, _with_advice(error, _remedy(cause))
        case errors.StorageError() if "the server" in str(error):
            return Exit.STORAGE, str(error)
        case errors.EventlogError():
            return Exit.STORAGE, _with_advice(error, "check the disk, then run the command again")
        case FileNotFoundError():
            return Exit.MISSING, f"{_file(error)}: there is no such file"
        case IsADirectoryError():
            return Exit.USAGE, f"{error.filename2 or _file(error)}: it is a directory; {_remedy(error)}"
        case BrokenPipeError():
            return Exit.PIPE, ""
        case OSError(errno=errno.ESPIPE) | io.UnsupportedOperation():
            return (
                Exit.USAGE,
                "a pipe cannot be read twice, as this command must; name it as -, or save its content to a file first",
            )
        case OSError():
            return Exit.STORAGE, f"{_file(error)}: {error.strerror or error}; {_remedy(error)}"
        case KeyboardInterrupt():
            return Exit.INTERRUPTED, "interrupted"
        case _:
            return Exit.DEFECT, (
                f"a defect of this program: {type(error).__name__}: {error}; "
                "please report it with what EVENTLOG_DEBUG=1 shows"
            )


def _wrong_words(error: click.UsageError) -> str:
    """Return the line for a wrong call: what was given, what is allowed, and the help to read."""
    text = re.sub(r":?\s*\n\s*", " ", error.format_message()).rstrip(".")  # choices come on lines of their own
    path = error.ctx.command_path if error.ctx is not None else "eventlog"
    return f"{text[:1].lower()}{text[1:].replace('. Did you', '; did you')}; see `{path} --help`"


def _with_advice(error: EventlogError, advice: str) -> str:
    return f"{error}; {advice}" if advice else str(error)


def _file(error: OSError) -> str:
    return str(error.filename) if error.filename else "storage"


def _remedy(error: OSError) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "check the permissions"
        case errno.ENOSPC | errno.EDQUOT:
            return "free some space, then run the command again"
        case errno.EISDIR | errno.ENOTDIR:
            return "name a file"
        case _:
            return "check the disk, then run the command again"
