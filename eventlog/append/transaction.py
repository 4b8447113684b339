"""A command in an append of its own: decided, committed, or decided anew.

Used for what has terms: a request id that counts once, a version that the caller expects, the first
append of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from eventlog import events as ev
from eventlog.append.command import Command, Terms, content_digest
from eventlog.append.writer import SessionWriter
from eventlog.errors import BusyError, EventlogError, RetryError, StopError, UnknownOutcomeError
from eventlog.log.commit import Append, Committed
from eventlog.state.state import State


def transact(
    writer: SessionWriter,
    items: Sequence[tuple[int, ev.Event]],
    bodies: Mapping[bytes, bytes] | None = None,
    *,
    epoch: int = 0,
    expected: int | None = None,
    unchanged: bool = False,
    request: str | None = None,
    digest: bytes = b"",
    creates_at: int | None = None,
    then: Callable[[State], Sequence[ev.Event]] | None = None,
    returns_lease: bool = False,
) -> Committed:
    """Commit a command in an append of its own; durable when it returns.

    With `unchanged` nothing may come between the state that it is decided on and its commit.

    A `request` is its id; its content is its events without their times, or what the `digest` is
    of. One that was made before gives its first result. One that another thread has on its way is
    waited for, and is to be sent again if that one is. With `returns_lease` the append gives the
    lease back.
    """
    if request is not None:
        digest = digest or content_digest(items)

    ahead: list[Command] = []
    """The command of another thread's call with the same request id."""

    def accept() -> Command | None:
        ahead[:] = () if request is None else writer.queue.asked(request)
        if ahead:
            return None  # what is accepted of it would refuse this one, and may come to nothing
        version = expected
        if (unchanged or version is not None) and writer.is_ahead:
            return None  # another writer may be between what is committed and what is accepted
        if unchanged and version is None:
            writer.catch_up()
            version = writer.committed.state.version
        terms = Terms(request, digest, version, creates_at)
        return writer.accept(
            items, bodies, epoch=epoch, owned=True, terms=terms, then=then, returns_lease=returns_lease
        )

    try:
        # Its append must not part what another thread's pipeline appends.
        while (command := writer.undisturbed(accept)) is None:
            writer.flush()
            if ahead and isinstance(ahead[0].outcome, RetryError):
                raise ahead[0].outcome
        writer.wait(command)
    except EventlogError as error:
        if request is None or isinstance(error, (BusyError, UnknownOutcomeError)):
            raise  # asking the log now would wait as long once more
        if writer.is_ahead:
            with suppress(EventlogError):  # another thread's append of the same request may be on its way
                writer.settle()
        first = result_of(writer, request, digest)
        if first is None:
            raise
        return first
    assert isinstance(command.outcome, Committed)
    return command.outcome


def result_of(writer: SessionWriter, request: str, digest: bytes) -> Committed | None:
    """Return the result of a request id that was used before, None if it is new.

    `RequestReusedError` if that was for other content, by its `digest`.
    """
    log, session = writer.log, writer.session
    if log.request(session, request) is None:
        return None
    with suppress(StopError):  # a caller who may not write any more still learns what became of the request
        writer.settle()
    return log.submit(Append(session=session, payload=b"", count=1, time=0, request=request, digest=digest)).wait()
