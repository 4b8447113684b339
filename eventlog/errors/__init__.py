"""Every error this engine raises on purpose, grouped by what the caller should do.

EventlogError
├── RetryError              nothing is broken: read again, or wait, and retry
│   ├── ConflictError           another writer was first; nothing of this append was written
│   ├── LeaseHeldError          another owner or task runs the session
│   ├── BusyError               no room, lock or file available now
│   ├── UnknownOutcomeError     unknown whether it is committed; retry with the same request id
│   ├── KeyProviderError        the key provider failed
│   ├── SummarizerError         the summarizer was not reached, failed or broke off
│   └── StreamError             a provider's stream says an error in place of its answer
├── CallError               the call is wrong: fix it
│   ├── ArgumentTypeError       one value where a list is wanted; a `TypeError`, too
│   ├── ArgumentValueError      a word that is none of those allowed; a `ValueError`, too
│   ├── NotFoundError           no such session, message, part, body or version
│   │   └── ErasedError             the session was erased
│   ├── AlreadyExistsError      the id is taken
│   ├── RefusedError            the session's state does not allow the command
│   ├── RequestReusedError      the request id was used before with other content
│   ├── LimitError              a value is over a documented limit
│   ├── MessageTooLargeError    one message alone is too large for a summary request
│   ├── SummarizerRefusedError  the summarizer refused the request
│   │   └── RequestTooLargeError    the request is too large for it
│   ├── BlockedError            a loop cannot go on by itself
│   │   └── WindowTooSmallError     system prompt and tools alone fill the model's window
│   ├── UnknownStreamError      a provider's answer is of an API that is not read
│   ├── UnknownModelError       the catalogue of models has no such model
│   ├── CursorError             the list does not go on from this cursor: begin without one
│   ├── ReadOnlyError           the store was opened for reading only
│   ├── KeysError               wrong keys, keys for a plain store, or none for an encrypted one
│   └── ImportFormatError       the file is not of a known format, or not of the named one
├── DataError               stored data is wrong: restore it, repair it, or use a newer program
│   ├── DamagedError            bytes on disk are not what was written
│   ├── KeyMissingError         the key of a session is gone, or the store was opened without keys
│   ├── UnknownEventError       an event kind that this program does not know
│   ├── UnfinishedError         an unfinished copy or restore: run it again, or repair it
│   ├── TooNewError             written by a newer program
└── StopError               this handle cannot go on: close it and open again
    ├── FencedError             the lease epoch is over; another owner runs the session
    ├── PoisonedError           a write failed or was lost, or the store was moved
    ├── ClosedError             the store or the session handle is closed
    ├── ForkedProcessError      the handle was opened before `os.fork()`
    ├── StorageError            the system refuses the store: permission, room or I/O error
    └── UnsupportedStorageError the path is on a file system that cannot keep the promises

Errors carry fields, and never the text of a conversation. Messages cut ids at 80 characters
(`brief`); fields have them whole.
"""

from __future__ import annotations

from eventlog.errors.base import EventlogError
from eventlog.errors.call import *
from eventlog.errors.data import *
from eventlog.errors.retry import *
from eventlog.errors.stop import *

__all__ = [
    "AlreadyExistsError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "BlockedError",
    "BusyError",
    "CallError",
    "ClosedError",
    "ConflictError",
    "CursorError",
    "DamagedError",
    "DataError",
    "ErasedError",
    "EventlogError",
    "FencedError",
    "ForkedProcessError",
    "ImportFormatError",
    "KeyMissingError",
    "KeyProviderError",
    "KeysError",
    "LeaseHeldError",
    "LimitError",
    "MessageTooLargeError",
    "NotFoundError",
    "PoisonedError",
    "ReadOnlyError",
    "RefusedError",
    "RequestReusedError",
    "RequestTooLargeError",
    "RetryError",
    "StopError",
    "StorageError",
    "StreamError",
    "SummarizerError",
    "SummarizerRefusedError",
    "TooNewError",
    "UnfinishedError",
    "UnknownEventError",
    "UnknownModelError",
    "UnknownOutcomeError",
    "UnknownStreamError",
    "UnsupportedStorageError",
    "WindowTooSmallError",
]
