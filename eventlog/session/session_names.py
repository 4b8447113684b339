"""Sessions by name: begun once, found by all, and free again after an erasure.

A name is reserved first, by an append to its stream (`history/name_streams.py`) that exactly one
caller wins, with the id that the session will have. Then the session begins under that id, with the
name in its first append. What a caller that died has left between two appends, the next one that
meets it completes: it begins the session with the reserved id, or frees the name of an erased one.

The stream decides. What a session's own events say of its name follows it: they are appended at the
version that was read while the stream still said so, or decided anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from eventlog import events as ev
from eventlog.append.transaction import transact
from eventlog.codec.payload import NAMES, is_encrypted
from eventlog.errors import (
    AlreadyExistsError,
    CallError,
    ConflictError,
    ErasedError,
    EventlogError,
    NotFoundError,
    RefusedError,
)
from eventlog.history.ancestry import head_of
from eventlog.history.catalog import entry_of
from eventlog.history.name_streams import (
    FREE,
    Name,
    NameState,
    checked_name,
    newest_state,
    state_append,
    stream_of,
)
from eventlog.logger import kind_of, logger
from eventlog.validation import require

if TYPE_CHECKING:
    from eventlog.log.commit import Head
    from eventlog.session.session import Session, Sessions

Begin: TypeAlias = Callable[[str, ev.NameGiven], "Session"]
"""Begins a session with this id, and the event in its first append."""


def open_named(store: Sessions, name: Name, id: str | None, begin: Begin | None) -> Session:
    """Return the session with a name; one begins, with `id` or a new id, if there is none.

    Without `begin` none does: `NotFoundError`. `AlreadyExistsError` if the id is taken.
    """
    named = _Named(store, name)
    while True:
        head, state = named.read()
        if state.session is not None:
            session = named.complete(head, state, begin)
            if session is not None:
                return session
        elif begin is None:
            raise named.missing()
        else:
            if id is not None and id.startswith(NAMES):
                raise CallError(f"an id that begins with {NAMES} is that of a name, not of a session")
            if id is not None and store.log.head(id) is not None:
                head_of(store.log, id)  # `ErasedError` for an erased session, whose id is not used again
                raise AlreadyExistsError("session", id)
            named.write(head, NameState(id or store.host.new_id("ses_"), leaving=False))


def begin_named(store: Sessions, name: Name, id: str | None, begin: Begin) -> Session:
    """Begin a session with a name that no session has; else `AlreadyExistsError`."""
    begun: list[Session] = []

    def once(new: str, given: ev.NameGiven) -> Session:
        begun.append(begin(new, given))
        return begun[0]

    if open_named(store, name, id, once) not in begun:
        raise AlreadyExistsError("name", _Named(store, name).shown)
    return begun[0]


class Names:
    """Names of existing sessions: given and taken away.  Reached as `store.names`."""

    def __init__(self, store: Sessions) -> None:
        self._store = store

    def give(self, session: str, name: Name) -> None:
        """Give an existing session a name, for `Store.open_session`.

        `AlreadyExistsError` if another session has it, or is to have it: an `open_session` that
        broke off is finished by the next one. `RefusedError` if this one has another name. Needs
        no lease.
        """
        log = self._store.log
        self._store.host.require_open(writing=True)
        require(str, session, "an id is a str")
        named = _Named(self._store, name)
        while True:
            now = entry_of(head_of(log, session)).name
            if now not in {None, named.name}:
                expected = "a session without a name: free that one first"
                raise RefusedError("the session has another name", expected=expected, session=session)
            head, state = named.read()
            if state.session is None:
                named.write(head, NameState(session, leaving=False))
                continue
            if log.head(state.session) is not None:
                owner = named.complete(head, state, None)
                if owner is None:
                    continue
                if owner.id == session:
                    return
            raise AlreadyExistsError("name", named.shown)

    def free(self, name: Name) -> str:
        """Take a name from its session, for another one; return the session's id.

        The session stays. `NotFoundError` if no session has the name. Needs no lease.
        """
        self._store.host.require_open(writing=True)
        named = _Named(self._store, name)
        while True:
            head, state = named.read()
            owner = None if state.session is None else self._store.log.head(state.session)
            if state.session is None or owner is None or entry_of(owner).erased:
                raise named.missing()
            leaving = NameState(state.session, leaving=True)
            if state == leaving:  # another caller frees it
                named.complete(head, state, None)
            elif named.write(head, leaving):
                while (now := named.read())[1] == leaving:
                    named.complete(*now, None)
                return state.session


def keep_told(store: Sessions, session: Session, name: Name) -> None:
    """Let a session that was imported with a name have it; it loses it if another one has it."""
    try:
        Names(store).give(session.id, name)
    except AlreadyExistsError:
        session.executor.commit([ev.NameFreed(*name)])


def free_erased(store: Sessions, name: Name, session: str) -> None:
    """Free the name of a session that was erased; should that fail, the next caller does it."""
    try:
        named = _Named(store, name)
        head, state = named.read()
        if state.session == session:
            named.write(head, FREE)
    except EventlogError as error:
        logger().warning("the name of an erased session was not freed: %s", kind_of(error))


class _Named:
    """One name, its stream, and the session that it names."""

    def __init__(self, store: Sessions, name: Name) -> None:
        self._store = store
        self.name = checked_name(name)
        self.shown = ":".join(self.name)
        self._stream = stream_of(store.log, self.name)

    def missing(self) -> NotFoundError:
        """Return the error for a name that no session has."""
        return NotFoundError("name", self.shown)

    def read(self) -> tuple[Head | None, NameState]:
        """Return the stream's head, and what it says."""
        head = self._store.log.head(self._stream)
        return head, newest_state(head)

    def write(self, head: Head | None, state: NameState) -> bool:
        """Let the stream say something else; False if another caller was quicker."""
        self._store.host.require_open(writing=True)
        try:
            self._store.log.submit(state_append(self._stream, head, state, self._store.host.clock())).wait()
        except (AlreadyExistsError, ConflictError):
            return False
        return True

    def complete(self, head: Head | None, state: NameState, begin: Begin | None) -> Session | None:
        """Make the session what the stream says, and return it; None: read the stream again."""
        assert state.session is not None
        log = self._store.log
        owner = log.head(state.session)
        writing = not log.read_only
        if owner is None:
            if begin is None:
                raise self.missing()
            try:
                return begin(state.session, ev.NameGiven(*self.name))
            except AlreadyExistsError:
                return None  # another caller has begun it
            except ErasedError:
                if log.head(state.session) is not None:
                    return None  # and it was erased
                raise  # what it would be a fork or a sub-session of was
        entry = entry_of(owner)
        has = entry.name
        if is_encrypted(owner.entry) or not (writing or entry.erased or state.leaving):
            has = self.name  # without its key it is not known; and a reader changes nothing
        if entry.erased or state.leaving or has not in {None, self.name}:
            if not writing:
                raise self.missing()
            if entry.erased or has != self.name or self._say(head, owner, ev.NameFreed(*self.name)):
                self.write(head, FREE)
            return None
        if has is None and not self._say(head, owner, ev.NameGiven(*self.name)):
            return None
        try:
            return self._store.session(state.session)
        except ErasedError:
            return None

    def _say(self, head: Head | None, owner: Head, event: ev.NameGiven | ev.NameFreed) -> bool:
        """Append to the session what the stream says; False if either has changed since."""
        now = self._store.log.head(self._stream)
        if now is None or head is None or now.version != head.version:
            return False
        try:
            session = self._store.session(owner.session)
            transact(session.executor.writer, [(self._store.host.clock(), event)], expected=owner.version)
        except (ConflictError, ErasedError):
            return False
        return True
