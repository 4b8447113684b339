"""Errors of stored data: restore it, repair it, or use a newer program."""

from __future__ import annotations

from eventlog.errors.base import EventlogError, cut

__all__ = [
    "DamagedError",
    "DataError",
    "KeyMissingError",
    "TooNewError",
    "UnfinishedError",
    "UnknownEventError",
]


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


class DamagedError(DataError):
    """Bytes on disk are not what was written."""


class KeyMissingError(DataError):
    """The data is encrypted, and its key is gone or the store was opened without keys."""


class UnfinishedError(DataError):
    """The store at `path` is an unfinished copy; `what` names the kind of copy."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path} is not a complete store: {what}, which is not finished; run that again, or,"
            " if what it copies is lost, repair this one into a new store"
        )
        self.path = path
        self.what = what


class _OtherProgramError(DataError):
    """Written by another version of this program."""

    def __init__(
        self,
        message: str,
        *,
        session: str | None = None,
        version: int | None = None,
        position: int | None = None,
    ) -> None:
        remedy = "use the program that wrote it, or a later one"
        super().__init__(f"{message}; {remedy}", session=session, version=version, position=position)
        self.message = message


class UnknownEventError(_OtherProgramError):
    """An event of an unknown kind, in a known schema version."""


class TooNewError(_OtherProgramError):
    """Written by a newer program: use that program, or a later one."""
