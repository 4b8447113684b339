"""Log that stores ciphertext in another log, over any engine (`log/contract.py`).

It encrypts payloads, catalog entries, bodies and derived values, and keys the names of bodies and
the digests of requests; readers get them back as they were appended.  The engine and its files have
ciphertext only (`codec/payload.py`), which the hash trees cover (`Commit.stored`).  Ids, times,
counts and sizes stay as they are.

A new session begins a *family* with a key of its own.  A fork has its parent's key, so that it can
read what it inherits, and texts of both are stored once.  A sub-session is a family of its own.
Derived values and bodies of no session have the store's own key.

Ciphertext whose key is gone is returned as it is stored: heads can be listed, hashes checked and
copies made, but decoding it is `KeyMissingError` (`codec/batch.py`), and the session cannot be
written to.

Three things stay in clear: the tombstones of erased sessions, to be read when the key is gone, the
scrub ledger (`integrity/scrub_ledger.py`), and the streams of names, whose ids are keyed hashes
(`history/name_streams.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.codec.payload import (
    FORMAT,
    EncryptedValue,
    decode_encrypted_value,
    encode_encrypted,
    is_clear,
)
from eventlog.encryption.change import StoredChange
from eventlog.encryption.envelope import (
    decrypt_commit,
    decrypt_head,
    encrypt_append,
    encrypt_tombstone,
    entry_of,
    is_tombstone_append,
    read_entry,
)
from eventlog.encryption.unused_keys import destroy_unused_keys, encrypted_heads
from eventlog.errors import AlreadyExistsError, DataError, KeyMissingError, NotFoundError
from eventlog.log.commit import Append, Commit, Head, Ticket
from eventlog.log.contract import GROWING, STAMP_BYTES, BodyStore, HeadReader, Log, Place
from eventlog.log.front import FrontLog
from eventlog.log.merkle import HASH_BYTES
from eventlog.log.ticket import refused
from eventlog.log.validation import size_of, validate_derived_keys

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from eventlog.encryption.family import Family
    from eventlog.encryption.key_ring import KeyRing

_MAX_FAMILIES = 16_384
"""Sessions whose family is cached."""
_MAX_ENTRIES = 1024
"""Sessions whose catalog entry is cached."""


class EncryptedLog(FrontLog):
    """An engine and the keys to its content; `own` is the store's own key, None without keys."""

    def __init__(self, engine: Log, ring: KeyRing, own: Family | None) -> None:
        super().__init__(engine)
        self._ring = ring
        self._own = own
        self._families: dict[str, bytes] = {}
        self._pending: dict[str, Ticket] = {}
        self._entries: dict[str, tuple[bytes, bytes]] = {}
        """Catalog entries by session, as stored and as decrypted."""

    def __repr__(self) -> str:
        return f"<EncryptedLog over {self._engine!r}>"

    @property
    def key_file(self) -> Path | None:
        """The file that has the keys; None if something else gives them."""
        return self._ring.key_file

    @contextmanager
    def reading(self) -> Generator[HeadReader]:
        """See `contract.Log`."""
        with self._engine.reading() as heads:
            yield _OpenedHeads(self, heads)

    # -- writing -------------------------------------------------------------------------------

    def submit(self, append: Append) -> Ticket:
        """Encrypt an append and queue it; a missing key is an error of the ticket."""
        size_of(append)
        if self._engine.read_only:
            return self._engine.submit(append)  # which refuses it
        if is_clear(append.session, append.payload):
            return self._engine.submit(append)
        id = self._family_of(append.session)
        if self._ring.empty:
            return self._without_key(append, exists=id is not None)
        if id is not None and is_tombstone_append(append):
            return self._engine.submit(encrypt_tombstone(append, id))
        begins = append.creates_at is not None
        if id is None and not begins:
            return refused(append, NotFoundError("session", append.session))
        if append.quiet:
            append = self._at_last_activity(append)
        family = self._new_family(append.entry) if id is None else self._ring.find(id)
        if family is None:
            return self._without_key(append, exists=id is not None)
        ticket = self._engine.submit(encrypt_append(append, family, self.scope_name))
        if begins and id is None:
            pending = {session: other for session, other in self._pending.items() if not other.done()}
            self._pending = {**pending, append.session: ticket}
        return ticket

    def _without_key(self, append: Append, *, exists: bool) -> Ticket:
        """Refuse an append that cannot be encrypted, and a session that is there to begin anew."""
        begun = exists and append.creates_at is not None
        return refused(append, AlreadyExistsError("session", append.session) if begun else self.missing(append.session))

    def _at_last_activity(self, append: Append) -> Append:
        """Return a quiet append with the time that it will have: the ciphertext is bound to it.

        Activity of another handle that is committed meanwhile does not count.
        """
        head = self._engine.head(append.session)
        return append if head is None else replace(append, time=head.updated, quiet=False)

    def _new_family(self, entry: bytes | None) -> Family | None:
        """Return the family of a session that begins: its parent's if it is a fork.

        None if the parent's key is gone.
        """
        said = read_entry(entry)
        id = None if said is None or said.fork_of is None else self._family_of(said.fork_of)
        return self._ring.make() if id is None else self._ring.find(id)

    def _family_of(self, session: str) -> bytes | None:
        """Return the id of a session's key; None if there is no such session."""
        id = self._families.get(session)
        if id is not None:
            return id
        head = self._engine.head(session)
        ticket = self._pending.get(session)
        if head is None and ticket is not None:
            with suppress(Exception):  # its own waiter gets the error
                ticket.wait()
            head = self._engine.head(session)
        if head is None:
            return None
        if len(self._families) >= _MAX_FAMILIES:
            self._families = {}
        if is_clear(session, head.entry):
            return None
        id = self._families[session] = entry_of(head).key
        return id

    # -- reading -------------------------------------------------------------------------------

    def read(self, session: str, after: int = 0, upto: int | None = None, *, reverse: bool = False) -> Iterator[Commit]:
        """Yield the decrypted commits of a session; see `contract.Log`."""
        return map(self.decrypt, self._engine.read(session, after, upto, reverse=reverse))

    def commits_after(self, after: int, limit: int = 1000, *, partition: int = 0) -> list[Commit]:
        """Return the decrypted commits after a position; see `contract.Log`."""
        return [self.decrypt(commit) for commit in self._engine.commits_after(after, limit, partition=partition)]

    def head(self, session: str) -> Head | None:
        """Return the session's head; its catalog entry is decrypted once and cached."""
        head = self._engine.head(session)
        return None if head is None else self.opened(session, head)

    def opened(self, session: str, head: Head) -> Head:
        """Return a head of the engine with its catalog entry decrypted."""
        known = self._entries.get(session)
        if known is None or head.entry != known[0]:
            opened = self._decrypt_head(head)
            if len(self._entries) >= _MAX_ENTRIES:
                self._entries = {}
            self._entries[session] = head.entry, opened.entry
            return opened
        return replace(head, entry=known[1])

    def heads(self, after: str = "") -> Iterator[Head]:
        """Yield all heads by session id, with decrypted catalog entries."""
        return map(self._decrypt_head, self._engine.heads(after))

    def newest(self, lists: Sequence[bytes], *, before: Place | None = None, limit: int) -> list[Head]:
        """Return heads of the named lists with decrypted catalog entries; see `contract.Log`."""
        return [self._decrypt_head(head) for head in self._engine.newest(lists, before=before, limit=limit)]

    def scope_name(self, scope: str) -> str:
        """Return the keyed hash of a scope, "" without the store's own key.

        `KeyMissingError` if the log was opened without keys.
        """
        if scope:
            self.require_keys()
        return "" if self._own is None else self._own.scope_name(scope)

    def decrypt(self, commit: Commit) -> Commit:
        """Decrypt a commit; a commit whose key is gone stays as it is stored.

        `DamagedError` if its ciphertext was changed, or was encrypted for another place.
        """
        return decrypt_commit(commit, self._ring)

    def _decrypt_head(self, head: Head) -> Head:
        return decrypt_head(head, self._ring)

    def of(self, session: str) -> BodyStore:
        """Return the bodies and derived values of a session's family."""
        return SessionBodies(self, session)

    def family(self, session: str) -> Family | None:
        """Return the family of a session; None without its key, or without such a session."""
        id = self._family_of(session)
        return None if id is None else self._ring.find(id)

    def name(self, digest: bytes) -> bytes:
        """Return the stored name of a body that belongs to no session."""
        return self.named(self._own, digest)

    def named(self, family: Family | None, digest: bytes) -> bytes:
        """Return a family's name for a body; without a key a name that no body has."""
        return bytes(HASH_BYTES) if family is None else family.name(digest)

    def body(self, digest: bytes) -> bytes | None:
        """Return the packed bytes of a body of any family; `of` asks only the right one."""
        for id in dict.fromkeys(entry_of(head).key for head in encrypted_heads(self._engine)):
            family = self._ring.find(id)
            found = None if family is None else self.body_of(family, digest)
            if found is not None:
                return found
        return None

    def body_of(self, family: Family, digest: bytes) -> bytes | None:
        """Return the packed bytes of a family's body, or None."""
        name = family.name(digest)
        stored = self._engine.body(name)
        if stored is None:
            return None
        return family.decrypt_body(name, decode_encrypted_value(stored).data)

    def get_derived(self, key: bytes) -> bytes | None:
        """Return a derived value of no session, or of any session whose key is there."""
        return self._decrypt_derived(key, self._engine.get_derived(key))

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write derived values that belong to no session; without keys only delete them."""
        self.put_derived_of(self._own, items)

    def put_derived_of(self, family: Family | None, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write derived values of a family."""
        validate_derived_keys(items)
        encrypted: list[tuple[bytes, bytes | None]] = []
        for key, value in items:
            if value is None:
                encrypted.append((key, None))
            elif family is not None:
                stamp = value[:STAMP_BYTES] if key.startswith(GROWING) else b""  # in clear, for the engine compares it
                data = family.encrypt_derived(key, value)
                encrypted.append((key, stamp + encode_encrypted(EncryptedValue(FORMAT, family.id, b"", data))))
        self._engine.put_derived(encrypted)

    def scan_derived(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the readable derived values by key order."""
        found = ((key, self._decrypt_derived(key, stored)) for key, stored in self._engine.scan_derived(prefix))
        return [(key, value) for key, value in found if value is not None]

    def _decrypt_derived(self, key: bytes, stored: bytes | None) -> bytes | None:
        """Decrypt a derived value; None for an unreadable one, since it is disposable."""
        if stored is not None:
            with suppress(DataError):
                encrypted = decode_encrypted_value(stored[STAMP_BYTES:] if key.startswith(GROWING) else stored)
                family = self._ring.find(encrypted.key)
                return None if family is None else family.decrypt_derived(key, encrypted.data)
        return None

    # -- keys that go, and content that does -------------------------------------------------------

    def forget_keys(self) -> None:
        """Destroy the keys of all families of which every session is erased."""
        try:
            destroy_unused_keys(self._engine, self._ring)
        finally:
            self._entries = {}

    def stored_changes(
        self, changes: Mapping[str, Callable[[Commit], Commit]]
    ) -> dict[str, Callable[[Commit], Commit]]:
        """Turn changes of appended commits into changes of stored ones."""
        return {session: StoredChange(change, self._ring) for session, change in changes.items()}

    # -- the rest ------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """See `contract.Log`; also decrypt every head's catalog entry that a key is there for."""
        wrong = self._engine.check()
        for head in self._engine.heads():
            try:
                self._decrypt_head(head)
            except DataError as error:
                wrong.append(str(error))
        return wrong

    def require_keys(self) -> None:
        """Raise `KeyMissingError` if the store was opened without keys."""
        if self._ring.empty:
            raise KeyMissingError("the store is encrypted, and was opened without its keys")

    def missing(self, session: str) -> KeyMissingError:
        """Return the error for a session that cannot be read or written."""
        if self._ring.empty:
            return KeyMissingError("it is encrypted, and the store was opened without its keys", session=session)
        return KeyMissingError("its key is gone", session=session)


class _OpenedHeads:
    """A reader of the engine's heads that decrypts their catalog entries."""

    def __init__(self, log: EncryptedLog, heads: HeadReader) -> None:
        self._log = log
        self._heads = heads

    def head(self, session: str) -> Head | None:
        """Return the session's head with its catalog entry decrypted."""
        head = self._heads.head(session)
        return None if head is None else self._log.opened(session, head)


class SessionBodies(BodyStore):
    """Bodies and derived values of one session; fulfils `log.contract.BodyStore`."""

    def __init__(self, log: EncryptedLog, session: str) -> None:
        self._log = log
        self._session = session

    @property
    def read_only(self) -> bool:
        """Whether writing is refused."""
        return self._log.read_only

    def name(self, digest: bytes) -> bytes:
        """Return the session's name for a body; without a key a name that no body has."""
        return self._log.named(self._log.family(self._session), digest)

    def body(self, digest: bytes) -> bytes | None:
        """Return a body's packed bytes, or None; `KeyMissingError` without the session's key."""
        family = self._log.family(self._session)
        if family is None:
            raise self._log.missing(self._session)
        try:
            found = self._log.body_of(family, digest)
        except DataError as error:
            raise type(error)(f"body {digest.hex()}: {error.message}", session=self._session) from error
        # It may belong to another session, as a sub-session's does.
        return self._log.body(digest) if found is None else found

    def get_derived(self, key: bytes) -> bytes | None:
        """Return a derived value, or None."""
        return self._log.get_derived(key)

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write derived values under the key of the session's family."""
        self._log.put_derived_of(self._log.family(self._session), items)

    def derived_keys(self, prefix: bytes) -> list[bytes]:
        """Return the keys of derived values, unreadable ones included."""
        return self._log.derived_keys(prefix)

    def scan_derived(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the readable derived values by key order."""
        return self._log.scan_derived(prefix)
