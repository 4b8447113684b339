"""Translates errors of this package into those of `eventsourcing`.

Every method that callers of `eventsourcing` reach goes through it.

    ConflictError, AlreadyExistsError           IntegrityError      another insert was first
    DataError, LimitError                       DataError           stored or given data is wrong
    ReadOnlyError, UnsupportedStorageError      NotSupportedError
    ClosedError, ForkedProcessError             InterfaceError      this factory is closed
    other RetryError and StopError              OperationalError
    other CallError                             ProgrammingError

The original error is the cause (`__cause__`) of the translated one.
"""

from __future__ import annotations

from types import TracebackType

from eventsourcing import persistence as theirs

from eventlog import errors as ours

_TABLE: tuple[tuple[type[ours.EventlogError], type[theirs.PersistenceError]], ...] = (
    (ours.ConflictError, theirs.IntegrityError),
    (ours.AlreadyExistsError, theirs.IntegrityError),
    (ours.DataError, theirs.DataError),
    (ours.LimitError, theirs.DataError),
    (ours.ReadOnlyError, theirs.NotSupportedError),
    (ours.UnsupportedStorageError, theirs.NotSupportedError),
    (ours.ClosedError, theirs.InterfaceError),
    (ours.ForkedProcessError, theirs.InterfaceError),
    (ours.RetryError, theirs.OperationalError),
    (ours.StopError, theirs.OperationalError),
    (ours.CallError, theirs.ProgrammingError),
    (ours.EventlogError, theirs.PersistenceError),
)


class _Faults:
    """Context that turns an `EventlogError` into a `PersistenceError`; it has no state."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ours.EventlogError):
            for mine, their in _TABLE:
                if isinstance(error, mine):
                    raise their(str(error)) from error


FAULTS = _Faults()
