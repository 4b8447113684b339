"""A log that keeps ciphertext in another log, over any engine (`log/contract.py`).

On the way in, payload, catalog entry, bodies and derived values are encrypted, the names of bodies and the digests of requests are keyed; on
the way out they come back.  Whoever is above sees what was appended; the engine, and all that is done to its files, sees ciphertext
(`codec/payload.py`), which the hash trees cover (`Commit.stored`).  Ids, times, counts and sizes stay as they are.

A session that begins begins a *family* with a key of its own, unless it is a fork: then it has its parent's, so that what it inherits can
be read, and texts that both have are stored once.  A sub-session is a family of its own.  What belongs to no session has the store's own key.

What was sealed with a key that is gone is handed out sealed: heads can be listed, hashes checked, copies made, and looking
inside is `KeyMissingError` (`codec/batch.py`).  Such a log cannot be written to without the session's key.

In clear are the tombstones of erased sessions, to be read when the key is gone, and the record of what was emptied
(`integrity/scrub_ledger.py`).

`SessionBodies` is what belongs to one session: bodies and derived values under its family's key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.codec.payload import DESTROYED, FORMAT, SealedValue, is_sealed, mark, sealed_value
from eventlog.encryption.envelope import (
    buried,
    entry_of,
    is_burial,
    is_tombstone,
    opened_commit,
    opened_head,
    resealed,
    said_on,
    sealed_append,
)
from eventlog.errors import DataError, EventlogError, KeyMissingError, NotFoundError
from eventlog.integrity.scrub_ledger import is_record
from eventlog.log.contract import Append, BodyStore, Commit, Committed, Head, LeaseState, Log, Ticket
from eventlog.log.merkle import HASH_BYTES
from eventlog.log.validation import size_of, validate_derived_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eventlog.encryption.family import Family
    from eventlog.encryption.key_ring import KeyRing

__all__ = ["EncryptedLog", "SessionBodies"]

_FAMILIES = 16_384
"""Sessions whose family is remembered."""
_ENTRIES_KEPT = 1024
"""Sessions whose catalog entry is remembered."""


class EncryptedLog(Log):
    """An engine, and the keys to what it keeps.  `own` is the store's own key, None without keys."""

    def __init__(self, engine: Log, ring: KeyRing, own: Family | None) -> None:
        self._engine = engine
        self._ring = ring
        self._own = own
        self._families: dict[str, bytes] = {}
        self._beginning: dict[str, Ticket] = {}
        self._entries_kept: dict[str, tuple[bytes, bytes]] = {}
        """Of sessions whose heads were asked for: the catalog entry as it is stored, and as it was given."""

    def __repr__(self) -> str:
        return f"<EncryptedLog over {self._engine!r}>"

    @property
    def engine(self) -> Log:
        """The log underneath, which has ciphertext."""
        return self._engine

    @property
    def read_only(self) -> bool:
        """Whether writing is refused."""
        return self._engine.read_only

    @property
    def stopped(self) -> bool:
        """Whether nothing more is written through this handle."""
        return self._engine.stopped

    # -- writing -------------------------------------------------------------------------------

    def submit(self, append: Append) -> Ticket:
        """Encrypt an append and queue it.  `KeyMissingError` comes through the ticket, as everything that the log has to say."""
        size_of(append)
        if self._engine.read_only:
            return self._engine.submit(append)  # which says so
        id = self._family_of(append.session)
        if self._ring.empty:
            return self._refused(append, self.missing(append.session))
        if id is not None and is_burial(append):
            return self._engine.submit(buried(append, id, self._opened_for(append)))
        begins = append.creates_at is not None
        if id is None and not begins:
            return self._refused(append, NotFoundError("session", append.session))
        family = self._beginning_family(append.entry) if id is None else self._ring.find(id)
        if family is None:
            return self._refused(append, self.missing(append.session))
        ticket = self._engine.submit(sealed_append(append, family, self._opened_for(append)))
        if begins and id is None:
            pending = {session: other for session, other in self._beginning.items() if not other.done()}
            self._beginning = {**pending, append.session: ticket}
        return ticket

    def _refused(self, append: Append, error: EventlogError) -> Ticket:
        """An append that cannot go in, for what else there is to say of it; nothing of its content leaves this place.

        Not even as a request: without the key nobody can tell whether the content is the same.
        """
        check = self._opened_for(append)

        def refuse(others: Sequence[Commit]) -> None:
            if check is not None:
                check(others)
            raise error

        return self._engine.submit(
            replace(append, payload=b"", entry=None, bodies=(), request=None, digest=b"", check=refuse)
        )

    def _opened_for(self, append: Append) -> Callable[[Sequence[Commit]], None] | None:
        """The append's check, given what others committed as they said it."""
        check = append.check
        return None if check is None else lambda others: check([self.opened(commit) for commit in others])

    def _beginning_family(self, entry: bytes | None) -> Family | None:
        """The family of a session that begins with this catalog entry: its parent's if it is a fork; None if that key is gone."""
        said = said_on(entry)
        id = None if said is None or said.fork_of is None else self._family_of(said.fork_of)
        return self._ring.make() if id is None else self._ring.find(id)

    def _family_of(self, session: str) -> bytes | None:
        """The id of a session's key; None if there is no such session."""
        id = self._families.get(session)
        if id is not None:
            return id
        head = self._engine.head(session)
        ticket = self._beginning.get(session)
        if head is None and ticket is not None:
            with suppress(Exception):  # whoever waits for it is told
                ticket.wait()
            head = self._engine.head(session)
        if head is None:
            return None
        if len(self._families) >= _FAMILIES:
            self._families = {}
        if is_record(session, head.entry):
            return None
        id = self._families[session] = entry_of(head).key
        return id

    # -- reading -------------------------------------------------------------------------------

    def read(self, session: str, after: int = 0, upto: int | None = None, *, reverse: bool = False) -> Iterator[Commit]:
        """The commits of a session, decrypted; see `contract.Log`."""
        return map(self.opened, self._engine.read(session, after, upto, reverse=reverse))

    def commits_after(self, after: int, limit: int = 1000) -> list[Commit]:
        """The commits behind a position, decrypted; see `contract.Log`."""
        return [self.opened(commit) for commit in self._engine.commits_after(after, limit)]

    def head(self, session: str) -> Head | None:
        """The session's head, its catalog entry decrypted: once for each catalog entry, for heads are asked for often."""
        head = self._engine.head(session)
        if head is None:
            return None
        known = self._entries_kept.get(session)
        if known is None or head.entry != known[0]:
            opened = self._opened_head(head)
            if len(self._entries_kept) >= _ENTRIES_KEPT:
                self._entries_kept = {}
            self._entries_kept[session] = head.entry, opened.entry
            return opened
        return replace(head, entry=known[1])

    def heads(self, after: str = "") -> Iterator[Head]:
        """All heads by session id, their catalog entries decrypted."""
        return map(self._opened_head, self._engine.heads(after))

    def opened(self, commit: Commit) -> Commit:
        """A commit as it was appended; as it is stored if its key is gone.  `DamagedError` if it is not what was sealed here."""
        return opened_commit(commit, self._ring)

    def _opened_head(self, head: Head) -> Head:
        return opened_head(head, self._ring)

    def _sealed_heads(self) -> Iterator[Head]:
        """The heads as they are stored, without that of the record of what was emptied, which no key is for."""
        return (head for head in self._engine.heads() if not is_record(head.session, head.entry))

    def last_position(self) -> int:
        """See `contract.Log`."""
        return self._engine.last_position()

    def wait_after(self, position: int, timeout: float) -> bool:
        """See `contract.Log`."""
        return self._engine.wait_after(position, timeout)

    def request(self, session: str, request: str) -> Committed | None:
        """See `contract.Log`."""
        return self._engine.request(session, request)

    def set_lease(self, session: str, state: LeaseState, *, replaces: LeaseState) -> bool:
        """See `contract.Log`."""
        return self._engine.set_lease(session, state, replaces=replaces)

    # -- what belongs to a session, or to none -----------------------------------------------------

    def of(self, session: str) -> BodyStore:
        """The bodies and derived values of a session's family."""
        return SessionBodies(self, session)

    def family(self, session: str) -> Family | None:
        """The family of a session; None if its key is gone, or there is no such session."""
        id = self._family_of(session)
        return None if id is None else self._ring.find(id)

    def name(self, digest: bytes) -> bytes:
        """What a body is called that belongs to no session."""
        return self.named(self._own, digest)

    def named(self, family: Family | None, digest: bytes) -> bytes:
        """What a family calls a body; without a key there is none of that name."""
        return bytes(HASH_BYTES) if family is None else family.name(digest)

    def body(self, digest: bytes) -> bytes | None:
        """The packed bytes of a body, whosesoever it is: every family is asked, so `of` is the better way."""
        for id in dict.fromkeys(entry_of(head).key for head in self._sealed_heads()):
            family = self._ring.find(id)
            found = None if family is None else self.body_of(family, digest)
            if found is not None:
                return found
        return None

    def body_of(self, family: Family, digest: bytes) -> bytes | None:
        """The packed bytes of a body of a family."""
        name = family.name(digest)
        stored = self._engine.body(name)
        if stored is None:
            return None
        return family.open_body(name, sealed_value(stored).data)

    def bodies(self) -> Iterator[bytes]:
        """The names under which bodies are stored; see `name`."""
        return self._engine.bodies()

    def get_derived(self, key: bytes) -> bytes | None:
        """A derived value that belongs to no session, or to any whose key is there."""
        return self._opened_derived(key, self._engine.get_derived(key))

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write derived values that belong to no session; without keys nothing is written but what is deleted."""
        self.put_derived_of(self._own, items)

    def put_derived_of(self, family: Family | None, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write derived values of a family."""
        validate_derived_keys(items)
        sealed: list[tuple[bytes, bytes | None]] = []
        for key, value in items:
            if value is None:
                sealed.append((key, None))
            elif family is not None:
                sealed.append((key, mark(SealedValue(FORMAT, family.id, b"", family.seal_derived(key, value)))))
        self._engine.put_derived(sealed)

    def derived_keys(self, prefix: bytes) -> list[bytes]:
        """The keys of derived values, those included that cannot be read."""
        return self._engine.derived_keys(prefix)

    def scan_derived(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Derived values by key order: those that can be read."""
        found = ((key, self._opened_derived(key, stored)) for key, stored in self._engine.scan_derived(prefix))
        return [(key, value) for key, value in found if value is not None]

    def _opened_derived(self, key: bytes, stored: bytes | None) -> bytes | None:
        """One that cannot be read is as good as none: it is disposable."""
        if stored is not None:
            with suppress(DataError):
                sealed = sealed_value(stored)
                family = self._ring.find(sealed.key)
                return None if family is None else family.open_derived(key, sealed.data)
        return None

    # -- keys that go, and content that does -------------------------------------------------------

    def forget_keys(self) -> None:
        """Destroy the keys of all families of which every session is erased.

        Tombstones are committed before anybody looks here for who is left; see `may_lose_key`.  What a service confirmed is noted
        among the derived values, so that it is not asked again; it is where the note was lost, which does no harm.
        """
        if self._ring.empty:
            return
        cards = [entry_of(head) for head in self._sealed_heads()]
        alive = {sealed.key for sealed in cards if not _is_buried(sealed)}
        noted = {key.removeprefix(DESTROYED) for key in self._engine.derived_keys(DESTROYED)}
        notes: list[tuple[bytes, bytes]] = []
        failure: EventlogError | None = None
        for id in {sealed.key for sealed in cards} - alive:
            if id in noted and self._ring.lasting:
                self._ring.forget(id)  # another handle had it destroyed
                continue
            try:
                self._ring.destroy(id)
                notes.append((DESTROYED + id, b"\1"))
            except EventlogError as error:  # the others can still go
                failure = failure or error
        self._entries_kept = {}
        if notes:
            with suppress(EventlogError):
                self._engine.put_derived(notes)
        if failure is not None:
            raise failure

    def may_lose_key(self, parent: str) -> bool:
        """Whether a session is erased, so that whoever looked for survivors may have missed what was forked from it since."""
        head = self._engine.head(parent)
        return head is not None and not is_record(parent, head.entry) and _is_buried(entry_of(head))

    def stored_changes(
        self, changes: Mapping[str, Callable[[Commit], Commit]]
    ) -> dict[str, Callable[[Commit], Commit]]:
        """Changes of what was appended as changes of what is stored (`maintenance/vacuum.py`)."""
        return {session: partial(self._resealed, change) for session, change in changes.items()}

    def _resealed(self, change: Callable[[Commit], Commit], stored: Commit) -> Commit:
        opened = self.opened(stored)
        if is_sealed(opened.payload):
            return stored  # nobody can read what is in it, and so nobody can take something out
        changed = change(opened)
        if changed is opened or (stored.emptied and changed.payload == opened.payload):
            return stored  # sealed anew it would look like another
        return resealed(stored, changed, self._ring)

    # -- the rest ------------------------------------------------------------------------------

    def sync(self) -> None:
        """See `contract.Log`."""
        self._engine.sync()

    def probe(self) -> list[str]:
        """See `contract.Log`."""
        return self._engine.probe()

    def check(self) -> list[str]:
        """See `contract.Log`: of what is stored no key is needed, and what heads say must be what was sealed."""
        wrong = self._engine.check()
        for head in self._engine.heads():
            try:
                self._opened_head(head)
            except DataError as error:
                wrong.append(str(error))
        return wrong

    def require_keys(self) -> None:
        """Raise `KeyMissingError` if the store was opened without keys."""
        if self._ring.empty:
            raise KeyMissingError("the store is encrypted, and was opened without its keys")

    def missing(self, session: str) -> KeyMissingError:
        """Why a session cannot be read or written."""
        if self._ring.empty:
            return KeyMissingError("it is encrypted, and the store was opened without its keys", session=session)
        return KeyMissingError("its key is gone", session=session)

    def close(self) -> None:
        """See `contract.Log`."""
        self._engine.close()


def _is_buried(entry: SealedValue) -> bool:
    return not entry.data and is_tombstone(entry.clear)


class SessionBodies(BodyStore):
    """Fulfils `log.contract.Belongings`."""

    def __init__(self, log: EncryptedLog, session: str) -> None:
        self._log = log
        self._session = session

    @property
    def read_only(self) -> bool:
        """Whether writing is refused."""
        return self._log.read_only

    def name(self, digest: bytes) -> bytes:
        """What a body is called here; without a key there is none of that name."""
        return self._log.named(self._log.family(self._session), digest)

    def body(self, digest: bytes) -> bytes | None:
        """The packed bytes of a body, or None; `KeyMissingError` if the session's key is gone."""
        family = self._log.family(self._session)
        if family is None:
            raise self._log.missing(self._session)
        try:
            found = self._log.body_of(family, digest)
        except DataError as error:
            raise type(error)(f"body {digest.hex()}: {error.message}", session=self._session) from error
        return self._log.body(digest) if found is None else found  # it may be another session's: a sub-session's, say

    def get_derived(self, key: bytes) -> bytes | None:
        """A derived value, or None."""
        return self._log.get_derived(key)

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write derived values under the key of the session's family."""
        self._log.put_derived_of(self._log.family(self._session), items)

    def derived_keys(self, prefix: bytes) -> list[bytes]:
        """The keys of derived values, those included that cannot be read."""
        return self._log.derived_keys(prefix)

    def scan_derived(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Derived values by key order: those that can be read."""
        return self._log.scan_derived(prefix)
