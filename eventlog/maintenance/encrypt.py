"""Copies a plain store into an encrypted one, while others read and write the plain one.

Ids, versions, positions, times, appends and request ids stay as they are; only the id of a shelf
gets a keyed hash of its name. Each session begins a family of keys, or has that of the session it
was forked from (`encryption/log.py`). The hash trees
are new, because they cover ciphertext. So the old ones are checked on the way: of every session the
copied appends must give the head that the plain store has, or nothing is copied. What a scrub
removed stays removed; of erased sessions only what a fork inherited is copied.

`copy_commits.py` copies from `_EncryptingSource`, which shows the plain store as an encrypted one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.codec.batch import decode, encode
from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import FORMAT, KEY_ID_BYTES, NAMED, EncryptedValue, encode_encrypted, is_clear
from eventlog.compression import compressed_body
from eventlog.encryption.envelope import encrypt_append
from eventlog.errors import DamagedError
from eventlog.events import SessionForked
from eventlog.history.ancestry import continued
from eventlog.history.catalog import SHELF, is_shelf
from eventlog.history.name_streams import hashed_stream
from eventlog.integrity.fork_anchor import pack_prefix
from eventlog.integrity.scrub_ledger import ScrubLedger, write_record
from eventlog.log.commit import Append, Commit, Head
from eventlog.log.digests import digests_in
from eventlog.log.merkle import SALT_BYTES, TAG_BYTES, grow, leaf_of, new_leaf
from eventlog.log.merkle_check import TreeState
from eventlog.maintenance.copy_commits import copy_commits, head_at
from eventlog.maintenance.emptied import emptied, inherited_versions

if TYPE_CHECKING:
    from eventlog.codec.batch import Item
    from eventlog.encryption.family import Family
    from eventlog.encryption.key_ring import KeyRing
    from eventlog.log.append_checks import RequestResult
    from eventlog.log.embedded.bulk_writer import BulkWriter
    from eventlog.log.embedded.engine import EmbeddedLog

_GONE = bytes(KEY_ID_BYTES)
"""Name of the key, which never was, of a session of which nothing is left."""


def copy_encrypted(
    log: EmbeddedLog,
    copy: BulkWriter,
    ring: KeyRing,
    own: Family,
    upto: int,
    *,
    time: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> Counter[str]:
    """Write an empty copy, encrypted, up to a position; return the events by session.

    `own` is the key of the new store itself, `time` is now. `DamagedError` if the appends of a
    session do not give its head.
    """
    source = _EncryptingSource(log, ring, own)
    events = copy_commits(source, copy, upto, change=source.encrypted, on_progress=on_progress)
    source.require_heads(upto)
    gone: list[Head] = []
    for head in source.heads():
        is_dropped = not is_clear(head.session, head.entry) and source.is_dropped(head)
        if is_dropped and copy.head(head.session) is None:
            gone.append(replace(head, gone=True))
    if gone:
        copy.add([], {}, {}, {}, position=copy.position, gone=gone)
    write_record(copy, source.ledger, time, log.options.io.random(SALT_BYTES))
    return events


class _EncryptingSource:
    """A plain log as an encrypted one to be copied; fulfils `copy_commits.CopySource`.

    Keeps a few hundred bytes for each session.
    """

    def __init__(self, log: EmbeddedLog, ring: KeyRing, own: Family) -> None:
        self._log = log
        self._ring = ring
        self._own = own
        self._needed = inherited_versions(log)
        self._ids: dict[str, str] = {}
        """For each id of the copy that is another one there, the id here."""
        self._plain: dict[str, Head] = {}
        """The plain heads as far as was copied."""
        self._families: dict[str, Family] = {}
        self._named: dict[bytes, tuple[Family, bytes]] = {}
        """The bodies of the commit that was encrypted last: name, family and digest."""
        self._trees: dict[str, TreeState] = {}
        """The new trees of the sessions that were forked."""
        self._awaited: dict[str, list[int]] = {}
        """The versions at which they were forked that are not copied yet, the next one last."""
        self._forked: dict[tuple[str, int], bytes] = {}
        """Their heads at those that are."""
        self._streams: dict[str, str] = {}
        """For each fork the session whose stream holds the version it was forked at."""
        for head in log.heads():
            above = None if is_clear(head.session, head.entry) else continued(log, head) if head.base else None
            if above is not None:
                self._streams[head.session] = above.session
                self._awaited.setdefault(above.session, []).append(head.base)
                self._trees[above.session] = TreeState(above.base, 0, b"")
        for versions in self._awaited.values():
            versions.sort(reverse=True)
        self.ledger = ScrubLedger()
        """Appends of which nothing is left."""

    # -- the source of a copy ------------------------------------------------------------------

    def commits_after(self, after: int, limit: int) -> list[Commit]:
        """Return the plain commits after a position."""
        return self._log.commits_after(after, limit)

    def head(self, session: str) -> Head | None:
        """Return a head by its id in the copy; that of an erased session with its entry there."""
        head = self._log.head(self._ids.get(session, session))
        return None if head is None else self._as_copied(head)

    def heads(self) -> Iterator[Head]:
        """Yield all heads, as `head` returns them."""
        return map(self._as_copied, self._log.heads())

    def body(self, digest: bytes) -> bytes | None:
        """Return a large text of the commit that was encrypted last, by its new name."""
        family, plain = self._named.get(digest, (None, b""))
        packed = None if family is None else self._log.body(plain)
        if family is None or packed is None:  # bytes of the ciphertext that look like a name
            return None
        data = family.encrypt_body(digest, compressed_body(packed))
        return encode_encrypted(EncryptedValue(FORMAT, family.id, b"", data))

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id, with its digest under the session's key."""
        session = self._ids.get(session, session)
        found = self._log.request_result(session, request)
        return None if found is None else found._replace(digest=self._families[session].request(session, found.digest))

    # -- encryption ----------------------------------------------------------------------------

    def encrypted(self, commit: Commit) -> Commit | None:
        """Encrypt the next commit; None if it is not copied."""
        session = commit.session
        needed = self._needed.get(session)
        if commit.payload.startswith(NAMED):
            return self._renamed(commit)
        if needed == 0 or is_clear(session, commit.payload):
            return None
        before = self._plain.get(session)
        now = self._log.head(session)
        if now is None:
            raise DamagedError("commits without a head", session=session, version=commit.first)
        after = self._plain[session] = head_at(before, commit, now)
        if needed is not None and commit.first > needed and commit.payload:
            commit = emptied(commit)
        if not commit.payload:
            if needed is None:
                raise DamagedError("an append without content", session=session, version=commit.first)
            self._grow(commit, commit.leaf)
            return self.ledger.add(commit)
        family, payload = self._family_of(commit)
        self._named = {family.name(digest): (family, digest) for digest in digests_in(payload)}
        copied = self._id_of(now)
        append = Append(
            session=copied,
            payload=payload,
            count=commit.count,
            time=commit.time,
            messages=after.messages - (0 if before is None else before.messages),
            entry=None if before is not None and before.entry == after.entry else after.entry,
            creates_at=commit.first - 1 if before is None else None,
            epoch=commit.epoch,
            request=commit.request,
        )
        append = encrypt_append(append, family, self._own.scope_name)
        salt = self._log.options.io.random(SALT_BYTES)
        leaf = new_leaf(append, commit.first, salt)
        self._grow(commit, leaf)
        return replace(commit, session=copied, payload=append.payload, salt=salt, leaf=leaf[:TAG_BYTES])

    def _renamed(self, commit: Commit) -> Commit | None:
        """Return a commit of a name's stream under an id that does not tell the name."""
        session = hashed_stream(self._log, commit.session, self._own.scope_name)
        if session is None:
            return None
        self._ids[session] = commit.session
        append = Append(
            session=session, payload=commit.payload, count=commit.count, time=commit.time, epoch=commit.epoch
        )  # fmt: skip
        salt = self._log.options.io.random(SALT_BYTES)
        return replace(commit, session=session, salt=salt, leaf=new_leaf(append, commit.first, salt)[:TAG_BYTES])

    def _family_of(self, commit: Commit) -> tuple[Family, bytes]:
        """Return the key of a commit's session, and its payload with the new tree's hashes."""
        session = commit.session
        family = self._families.get(session)
        if family is not None:
            return family, commit.payload
        forked = None if session not in self._streams else spans_of(commit)[0].item
        if not isinstance(forked, SessionForked):
            family = self._families[session] = self._ring.make()
            return family, commit.payload
        above = self._streams[session]
        family = self._families[session] = self._families[above]
        if not forked.parent_head:
            return family, commit.payload
        anchored = replace(forked, parent_head=self._forked[above, commit.first - 1])
        return family, _with_first(commit, anchored)

    def _grow(self, commit: Commit, leaf: bytes) -> None:
        """Keep the new tree's head where a fork begins."""
        tree = self._trees.get(commit.session)
        if tree is None:
            return
        tree = TreeState(commit.last, tree.appends + 1, grow(tree.appends, tree.peaks, leaf))
        self._trees[commit.session] = tree
        awaited = self._awaited.get(commit.session, [])
        while awaited and awaited[-1] <= commit.last:
            self._forked[commit.session, awaited.pop()] = pack_prefix(tree)

    def _as_copied(self, head: Head) -> Head:
        if is_clear(head.session, head.entry):
            return head
        session = self._id_of(head)
        if head.session not in self._needed:
            return replace(head, session=session)
        family = self._families.get(head.session)
        key = _GONE if family is None else family.id
        return replace(head, session=session, entry=encode_encrypted(EncryptedValue(FORMAT, key, head.entry, b"")))

    def _id_of(self, head: Head) -> str:
        """Return the id of a session in the copy: that of a shelf has a keyed hash of its name."""
        if not is_shelf(head):
            return head.session
        number, _, name = head.session.partition(":")
        session = f"{number}:{self._own.scope_name(f'{SHELF}:{name}')}"
        self._ids[session] = head.session
        return session

    # -- checks --------------------------------------------------------------------------------

    def is_dropped(self, head: Head) -> bool:
        """Whether nothing of an erased session is copied."""
        return self._needed.get(self._ids.get(head.session, head.session)) == 0

    def require_heads(self, upto: int) -> None:
        """Raise `DamagedError` unless what was copied gives the plain log's heads."""
        for head in self._log.heads():
            found = self._plain.get(head.session)
            if found is None:
                continue
            appends, peaks = found.appends, found.peaks
            if head.position > upto:
                for commit in self._log.read(head.session, found.version, head.version):
                    appends, peaks = appends + 1, grow(appends, peaks, leaf_of(commit))
            if (appends, peaks) != (head.appends, head.peaks):
                raise DamagedError("its appends do not give its head", session=head.session, version=found.version)


def _with_first(commit: Commit, first: SessionForked) -> bytes:
    """Return the payload of a commit with another first event."""
    items: list[Item] = []
    start = commit.time
    for number, span in enumerate(spans_of(commit)):
        start = span.time if number == 0 else start
        item = span.item if number else first
        items.append(replace(item, start=span.time - start) if isinstance(item, DeltaRun) else (span.time, item))
    return encode(items, start, decode(commit.payload).messages)
