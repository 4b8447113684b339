"""Errors after which nothing is broken: read again, or wait, and retry."""

from __future__ import annotations

from time import gmtime, strftime

from eventlog.errors.base import EventlogError, brief, cut

__all__ = [
    "BusyError",
    "ConflictError",
    "KeyProviderError",
    "LeaseHeldError",
    "RetryError",
    "StreamError",
    "SummarizerError",
    "UnknownOutcomeError",
]


class RetryError(EventlogError):
    """Nothing is broken: read again, or wait, and retry."""


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
        until_when = strftime(" until %Y-%m-%d %H:%M:%S UTC", gmtime(until / 1000)) if until else ""
        what_to_do = (
            "try again, wait for it (`wait=` seconds), stop its answer (`session.interrupt()`), or let its holder hand "
            "the lease over (`with lease:`)"
        )
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
