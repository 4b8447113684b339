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
│   ├── UnfinishedError         an unfinished copy or restore: run it again, or delete it
│   ├── TooNewError             written by a newer program
│   └── TooOldError             written by an earlier program, in a format that is not read any more
└── StopError               this handle cannot go on: close it and open again
    ├── FencedError             the lease epoch is over; another owner runs the session
    ├── PoisonedError           a write failed, or a server lost one: what is stored is unknown
    ├── ClosedError             the store or the session handle is closed
    ├── ForkedProcessError      the handle was opened before `os.fork()`
    ├── StorageError            the system refuses the store: permission, room or I/O error
    └── UnsupportedStorageError the path is on a file system that cannot keep the promises

Errors carry fields, and never the text of a conversation. Messages cut ids at 80 characters
(`brief`); fields have them whole.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

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
    "TooOldError",
    "UnfinishedError",
    "UnknownEventError",
    "UnknownModelError",
    "UnknownOutcomeError",
    "UnknownStreamError",
    "UnsupportedStorageError",
    "WindowTooSmallError",
]


SHOWN = 80
"""Characters of an id that an error shows."""


def cut(text: str) -> str:
    """Return the text, cut at the length that an error shows."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def brief(value: object) -> str:
    """A caller's value for an error message: texts in quotes, long values cut."""
    if isinstance(value, str):
        return repr(cut(value))
    try:
        return cut(repr(value))
    except ValueError:
        return "a number of too many digits"
    except RecursionError:
        return "something nested too deep"


class EventlogError(Exception):
    """The root of the tree above."""


@contextmanager
def giving_way_to(error: BaseException | None, block: str, *kinds: type[Exception]) -> Generator[None]:
    """Keep an error at the end of a block from hiding the exception that left the block.

    `block` names the block. An `EventlogError` becomes a note of `error` if that is no `Exception`,
    or one of `kinds`.
    """
    try:
        yield
    except EventlogError as failure:
        if error is None or (isinstance(error, Exception) and not isinstance(error, kinds)):
            raise
        error.add_note(f"closing the {block} then failed, too: {failure}")


class RetryError(EventlogError):
    """Nothing is broken: read again, or wait, and retry."""


class CallError(EventlogError):
    """The call is wrong: fix it."""


class ArgumentTypeError(CallError, TypeError):
    """An argument is a single value, as a str, where a list is wanted."""


class ArgumentValueError(CallError, ValueError):
    """An argument is none of the words that are allowed."""


class DataError(EventlogError):
    """Stored data is wrong.

    `session`, `version` and `position` say where, as far as it is known.
    """

    def __init__(
        self,
        message: str,
        *,
        session: str | None = None,
        version: int | None = None,
        position: int | None = None,
    ) -> None:
        where = ", ".join(
            f"{name} {cut(value) if isinstance(value, str) else value}"
            for name, value in (("session", session), ("version", version), ("position", position))
            if value is not None
        )
        super().__init__(f"{message} ({where})" if where else message)
        self.message = message
        self.session = session
        self.version = version
        self.position = position


class StopError(EventlogError):
    """This handle cannot go on: close it and open again."""


class ConflictError(RetryError):
    """Another writer was first; nothing of this append was written.

    `expected` is the version the caller had decided against, `actual` the session's version now; of
    the value with the key `key`, if there is one, the revisions.
    """

    def __init__(self, session: str, expected: int, actual: int, key: str | None = None) -> None:
        what = "version" if key is None else f"the value of {brief(key)} at revision"
        super().__init__(f"session {cut(session)}: expected {what} {expected}, but it is at {actual}")
        self.key = key
        self.session = session
        self.expected = expected
        self.actual = actual


class LeaseHeldError(RetryError):
    """Another owner or task runs the session: `owner`, until `until` (UTC milliseconds)."""

    def __init__(self, session: str, owner: str, until: int) -> None:
        until_when = f" until {until} ms (UTC)" if until else ""
        what_to_do = "try again, wait for it (`wait=` seconds), or let its holder hand the lease over (`with lease:`)"
        super().__init__(f"session {cut(session)} is run by {owner}{until_when}: {what_to_do}")
        self.session = session
        self.owner = owner
        self.until = until


class BusyError(RetryError):
    """No room in the buffer or on the disk, a lock another process holds, or no file handle.

    The command that raises it is not committed, and will not be.
    """


class UnknownOutcomeError(RetryError):
    """The append may or may not be committed; retry with the same request id to find out."""

    def __init__(self, message: str, *, session: str | None = None, request: str | None = None) -> None:
        super().__init__(message)
        self.session = session
        self.request = request


class KeyProviderError(RetryError):
    """The key provider failed (`__cause__`): sessions of that key are not available now."""


class SummarizerError(RetryError):
    """The summarizer was not reached, failed or broke off, `attempts` times in a row.

    `status` is the HTTP status of the last answer, None if there was none.
    """

    def __init__(self, message: str, *, status: int | None = None, attempts: int = 1) -> None:
        tries = f" after {attempts} attempts" if attempts > 1 else ""
        super().__init__(f"{message}{tries}")
        self.status = status
        self.attempts = attempts


class NotFoundError(CallError):
    """Nothing has this id.  `kind` is "session", "message", "part", "body", "version" …."""

    def __init__(self, kind: str, name: str, *, session: str | None = None) -> None:
        where = f" in session {cut(session)}" if session else ""
        shown = repr(name) if kind == "store" else brief(name)  # a path is of use only whole
        super().__init__(f"no {kind} {shown}{where}")
        self.kind = kind
        self.name = name
        self.session = session


class ErasedError(NotFoundError):
    """The session was erased; its id is not used again."""

    def __init__(self, session: str) -> None:
        super().__init__("session", session)
        self.args = (f"session {cut(session)} was erased",)


class AlreadyExistsError(CallError):
    """The id is taken.  `kind` and `name` say which."""

    def __init__(self, kind: str, name: str, *, session: str | None = None) -> None:
        where = f" in session {cut(session)}" if session else ""
        super().__init__(f"{kind} {brief(name)} exists already{where}")
        self.kind = kind
        self.name = name
        self.session = session


class RefusedError(CallError):
    """The session's state does not allow the command; `expected` says what would be allowed."""

    def __init__(self, message: str, *, expected: str = "", session: str | None = None) -> None:
        super().__init__(f"{message}; expected {expected}" if expected else message)
        self.expected = expected
        self.session = session


class RequestReusedError(CallError):
    """The request id was used before in this session with other content."""

    def __init__(self, session: str, request: str) -> None:
        super().__init__(f"session {cut(session)}: request id {brief(request)} was used before with other content")
        self.session = session
        self.request = request


class LimitError(CallError):
    """`what` has the size `size`, over the documented `limit`.

    Both are in the unit that `what` names.
    """

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what}: {size} is over the limit of {limit}")
        self.what = what
        self.size = size
        self.limit = limit


class BlockedError(CallError):
    """A loop cannot go on; `reason` is a word for programs, the message says what would help."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class WindowTooSmallError(BlockedError):
    """The system prompt and the tools alone fill the model's window."""


class MessageTooLargeError(CallError):
    """A message is too large for a summary request, even alone: `tokens` over `limit`."""

    def __init__(self, message: str, tokens: int, limit: int) -> None:
        super().__init__(
            f"message {brief(message)}: a request for its summary has {tokens} tokens, over the limit of {limit}"
        )
        self.message = message
        self.tokens = tokens
        self.limit = limit


class StreamError(RetryError):
    """A provider's stream says an error in place of its answer; `said` is its text.

    `status_code` and `code` are those that it names, None and "" if none.
    """

    def __init__(self, said: str, *, status_code: int | None = None, code: str = "") -> None:
        named = ", ".join(filter(None, [code, f"status {status_code}" if status_code is not None else ""]))
        super().__init__(f"the provider's answer is an error{f' ({named})' if named else ''}: {said}")
        self.said = said
        self.status_code = status_code
        self.code = code


class SummarizerRefusedError(CallError):
    """The summarizer refused the request; `status` is the HTTP status."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class RequestTooLargeError(SummarizerRefusedError):
    """The provider refused the request because of its size."""


class UnknownStreamError(CallError):
    """A provider's answer is of an API that is not read; `api` is its name, "" if unknown.

    `chunk` is the type of the first chunk that was not known, or the names of its fields.
    """

    def __init__(self, chunk: str, api: str = "") -> None:
        whose = f"the answer is one of {api}" if api else "the answer is of an API that is not known"
        super().__init__(
            f"{whose} (chunk {brief(chunk)}); expected OpenAI Chat Completions, OpenAI Responses, Anthropic Messages or"
            " Gemini. Ask the provider for one of these, or fill the reply with the methods of `Reply`"
        )
        self.chunk = chunk
        self.api = api


class UnknownModelError(CallError):
    """The catalogue of models has no `model`; `near` are names that may be meant."""

    def __init__(self, model: str, near: Sequence[str] = (), date: str = "") -> None:
        of = f" of {date}" if date else ""
        meant = f"; did you mean {' or '.join(map(cut, near))}?" if near else ""
        what_to_do = (
            "give `limits=eventlog.Limits(context=…, output=…)`, `limits=eventlog.Limits()` for a model without limits,"
            " or add it to the catalogue (`open(models=…)`)"
        )
        super().__init__(f"the catalogue of models{of} has no {brief(model)}{meant}; {what_to_do}")
        self.model = model
        self.near = tuple(near)


class CursorError(CallError):
    """A cursor from which this store does not go on: begin again without one."""


class ReadOnlyError(CallError):
    """The store was opened for reading only, or lies on a read-only file system."""


class KeysError(CallError):
    """Wrong keys, keys for a plain store, or no keys for an encrypted one."""


class ImportFormatError(CallError):
    """The file is not of a known format or the named one, or has no conversation in it.

    `skipped` has the records without a conversation, each with its line and the reason.
    """

    def __init__(self, text: str, skipped: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(text)
        self.skipped = skipped


class DamagedError(DataError):
    """Bytes on disk are not what was written."""


class KeyMissingError(DataError):
    """The data is encrypted, and its key is gone or the store was opened without keys."""


class UnfinishedError(DataError):
    """The store at `path` is an unfinished copy; `what` names the kind of copy."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} is not a complete store: {what}, which is not finished; run that again, or delete it")
        self.path = path
        self.what = what


class _OtherProgramError(DataError):
    """Written by another version of this program."""

    _remedy = ""

    def __init__(
        self,
        message: str,
        *,
        session: str | None = None,
        version: int | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(f"{message}; {self._remedy}", session=session, version=version, position=position)
        self.message = message


class UnknownEventError(_OtherProgramError):
    """An event of an unknown kind, in a known schema version."""

    _remedy = "use the program that wrote it, or a later one"


class TooNewError(_OtherProgramError):
    """Written by a newer program: use that program, or a later one."""

    _remedy = "use the program that wrote it, or a later one"


class TooOldError(_OtherProgramError):
    """Written in a format that is not read any more: export it with the program that wrote it."""

    _remedy = "export it with the program that wrote it, and import that"


class FencedError(StopError):
    """The lease of this append is over: released, or taken by another owner.

    `deltas` and `characters` of streamed text were accepted under it and are not written.
    """

    def __init__(self, session: str, epoch: int, current: int, deltas: int = 0, characters: int = 0) -> None:
        why = "its holder released it" if epoch == current else f"the current one is {current}"
        lost = f"{deltas} accepted deltas of {characters} characters are not written; " if deltas else ""
        super().__init__(
            f"session {cut(session)}: lease epoch {epoch} is over, {why}; {lost}take a lease anew (a result of a call"
            " that the next owner settled: session.late_result)"
        )
        self.session = session
        self.epoch = epoch
        self.current = current
        self.deltas = deltas
        self.characters = characters


class PoisonedError(StopError):
    """A write failed, or a server lost one: open the store again before anything is written."""


class ClosedError(StopError):
    """The store or the session handle is closed."""


class ForkedProcessError(StopError):
    """The store was opened before `os.fork()`; open it again in the child."""


class StorageError(StopError):
    """The system refuses to open or make the store; `__cause__` is its error.

    No permission, no room, or an I/O error.
    """


class UnsupportedStorageError(StopError):
    """The path is on a file system that cannot keep the promises (a network file system)."""
