"""The reducer of a live page: the newest messages first, then the patches.

A page that applies every patch shows what `Transcript` gives, also after it missed some: a cursor
names a version, and any process tells from the log what came after it. Events of messages
that are being filled are applied in memory (`open_messages.py`). A message that is complete is
compared with what the transcript showed before. What cannot be told as patches, as a rollback, is
a reset with the newest page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from eventlog import events as ev
from eventlog.codec.decoded import decode_commit
from eventlog.codec.payload import is_encrypted
from eventlog.errors import ErasedError, NotFoundError
from eventlog.history.ancestry import forked_from, head_of
from eventlog.history.catalog import entry_of
from eventlog.history.forgotten import forgotten_in
from eventlog.log.commit import Commit, Head
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.validation import require, require_or_none
from projections.live.open_messages import OpenMessages
from projections.live.page_changes import PageChanges
from projections.live.patches import Update, encoded, message_patches, new_part, part_set
from projections.transcript.message import TranscriptMessage
from projections.transcript.message_json import Form, Json, page_json, part_json
from projections.transcript.transcript import Transcript

LIMIT = 50
"""Messages of the first page."""
LONGEST = 200_000
"""Characters of a text that a page is sent."""
MOST_PATCHES = 1_000
MOST_BYTES = 1 << 20
"""Most patches, and their bytes, that a page is sent at once; it is reset instead.

A page that is read has as many bytes at most, or one message.
"""
FARTHEST = 100_000
"""Most versions that a page is brought forward by; it is reset instead."""
_RESHAPING = (ev.RolledBack, ev.RecordForgotten)


class LiveSession:
    """Tells a page of a session what changed.  For one thread at a time; it never waits.

    `after` is the cursor of the page; without one, or with one that leads nowhere, the first update
    is a reset, with the newest `limit` messages, texts of at most `longest` characters. With
    `provisional` updates have text that this store has accepted and not committed.
    """

    def __init__(
        self,
        store: Store,
        session: str,
        after: str | None = None,
        *,
        limit: int = LIMIT,
        longest: int = LONGEST,
        provisional: bool = True,
    ) -> None:
        require(Store, store, "a live session is one of a Store")
        require(str, session, "a session is named by its id, a str")
        require_or_none(str, after, "a cursor is a str that a page was sent")
        self.session = session
        self.gone: bool = False
        """Whether the session is erased: nothing more comes."""
        self._store = store
        self._after = after
        self._limit = limit
        self._form = Form(longest)
        self._provisional = provisional
        self._version = 0
        """Version of the page; 0 before the first update."""
        self._tag = b""
        """From the leaf of the commit that has this version."""
        self._hidden = b""
        """From what the sessions that it was forked from hide."""
        self._open = self._no_messages()

    @property
    def is_ahead(self) -> bool:
        """Whether this store has accepted something of the session that is not committed."""
        return self._provisional and self._store.registry.is_ahead(self.session)

    def advance(self) -> Update | None:
        """Return what changed since the last call; None if nothing did.

        `NotFoundError` if there is no such session.
        """
        if self.gone:
            return None
        try:
            return self._advanced(head_of(self._store.log, self.session))
        except ErasedError:
            self.gone = True
            self._open = self._no_messages()
            return Update.of(None, [{"gone": "erased"}])

    def _advanced(self, head: Head) -> Update | None:
        hidden = self._hidden_above(head)
        patches: list[Json] = []
        if not self._version:
            if not self._resume(head, hidden):
                return self._reset()
            patches = list(self._open.ends())
            head = head_of(self._store.log, self.session)  # to read a session commits what it has accepted
        elif hidden != self._hidden:
            return self._reset()
        moved = head.version > self._version
        if moved:
            found = self._committed(head)
            if found is None:
                return self._reset()
            patches += found
        if self._provisional:
            accepted = self._store.registry.accepted(self.session, self._version)
            if accepted is not None:
                patches += self._open.expect(accepted)
        if not patches and not moved:
            return None
        update = Update.of(self._cursor() if moved else None, patches)
        if len(patches) > MOST_PATCHES or len(update.data) > MOST_BYTES:
            return self._reset()
        return update

    # -- the beginning of a page

    def _reset(self) -> Update:
        """Return the newest page, from which on patches count."""
        head = self._store.log.head(self.session)
        if head is not None:
            self._hidden = self._hidden_above(head)
        session = self._store.session(self.session)
        transcript = Transcript(session)
        page = page_of(session, transcript, self._form, self._limit)
        self._begin(session, transcript.version, page["messages"])
        return Update.of(self._cursor(), [{"reset": page}])

    def _resume(self, head: Head, hidden: bytes) -> bool:
        """Go on where the caller's cursor stands; False if that cannot be told."""
        version, _, tag = (self._after or "").partition(".")
        if not version.isdecimal() or not head.base < int(version) <= head.version:
            return False
        if head.version - int(version) > FARTHEST:
            return False
        self._hidden = hidden
        session = self._store.session(self.session)
        transcript = Transcript(session, int(version))
        self._begin(session, int(version), map(self._form.message, transcript.page(self._limit)))
        if self._cursor().partition(".")[2] != tag:
            self._version = 0
            return False
        return True

    def _begin(self, session: Session, version: int, messages: Iterable[Json]) -> None:
        self._open = self._no_messages()
        self._open.load(session, version, messages)
        self._version = version
        commit = next(self._store.log.read(self.session, version - 1, version), None)
        self._tag = b"" if commit is None else commit.leaf[:4]

    def _no_messages(self) -> OpenMessages:
        store, session = self._store, self.session
        return OpenMessages(self._form, lambda content: store.text(content, session))

    def _cursor(self) -> str:
        return f"{self._version}.{blake2b(self._tag + self._hidden, digest_size=4).hexdigest()}"

    def _hidden_above(self, head: Head) -> bytes:
        """Return a digest of what the sessions hide that this one was forked from."""
        if not head.base:
            return b""
        log = self._store.log
        above = [entry_of(parent).redacted for parent, _ in forked_from(log, self.session)][1:]
        return blake2b(repr((above, forgotten_in(log, self.session))).encode(), digest_size=8).digest()

    # -- what is committed

    def _committed(self, head: Head) -> list[Json] | None:
        """Return the patches of what was committed up to now; None if none can tell it."""
        if head.version - self._version > FARTHEST:
            return None
        before = self._version
        step = PageChanges(self._open)
        last: Commit | None = None
        for commit in self._store.log.read(self.session, before):
            last = commit
            decoded = None if is_encrypted(commit.payload) else decode_commit(commit, before)
            for span in () if decoded is None else decoded.spans():
                if isinstance(span.item, _RESHAPING):
                    return None
                step.take(span)
        if last is None:
            return []
        self._version, self._tag = last.last, last.leaf[:4]
        step.grow()
        patches = [*self._without_redacted(step)]
        patches += ({"message": message} for message in self._open.documents())
        if step.touched or step.parts or step.covers:
            patches += self._compared(step, before)
        patches += self._open.let_go()
        return patches

    def _without_redacted(self, step: PageChanges) -> Iterator[Json]:
        """Yield the patches of open messages; a part that was redacted comes as it is now."""
        waiting = dict.fromkeys(step.redacted)
        for patch in step.patches:
            name = patch.get("part")
            if name not in step.redacted:
                yield patch
            elif "of" in patch and (part := self._open.part(name)) is not None:
                waiting.pop(name)
                yield new_part(patch["of"], part)
        for name in waiting:
            message = self._open.message_of(name)
            if message is not None and message not in self._open.born and (part := self._open.part(name)) is not None:
                yield part_set(name, part)

    def _compared(self, step: PageChanges, before: int) -> Iterator[Json]:
        """Yield what changed of complete messages, compared with the transcript before."""
        session = self._store.session(self.session)
        state = session.reader.state()
        for part in step.parts:
            owner = state.parts.get(part)
            if owner is not None:
                step.touched.setdefault(owner.message)
        then, now = Transcript(session, before), Transcript(session, self._version)
        covers = step.covers
        for name in step.touched:
            facts = state.messages.get(name)
            found = None if facts is None else _message_at(now, name, facts.added)
            if found is None:
                continue
            after = self._form.message(found)
            old = _message_at(then, name, facts.added) if facts is not None else None
            if old is None:
                yield {"message": after}
            else:
                yield from message_patches(self._form.message(old), after, step.redacted)
            if found.removed and not (old is not None and old.removed):
                covers = covers or found.summary
            covers = covers or any(
                part.removed and part.kind == "compaction" and part.id in step.parts for part in found.parts
            )
            covers = covers or (found.removed and any(part.kind == "compaction" for part in found.parts))
            self._open.load(session, self._version, [after])
        if covers:
            yield from self._covered(then, now)

    def _covered(self, then: Transcript, now: Transcript) -> Iterator[Json]:
        """Yield which of the newest messages are covered now, and drop the older ones."""
        covered = {message.id: message.covered for message in then.page(self._limit)}
        page = now.page(self._limit)
        for message in page:
            if covered.get(message.id, "") != message.covered:
                fields = self._form.message(message)
                del fields["parts"]
                yield {"message": fields}
                if message.id in self._open:
                    self._open.cover(message.id, message.covered)
        if len(page) == self._limit:
            yield {"drop": page[-1].version}


def page_of(session: Session, transcript: Transcript, form: Form, limit: int, before: int | None = None) -> Json:
    """Return a page of a transcript, the oldest message first, as `show --json` prints it.

    It has `limit` messages at most, and `MOST_BYTES` or one message.
    """
    messages: list[Json] = []
    size, more = 0, None
    for message in transcript.newest_first(before):
        shown = form.message(message)
        size += len(encoded(shown))
        if messages and (len(messages) == limit or size > MOST_BYTES):
            more = messages[-1]["version"]
            break
        messages.append(shown)
    return page_json(session.id, transcript.version, reversed(messages), more)


def part_of(session: Session, name: str) -> Json:
    """Return a part with its whole texts; `NotFoundError` if no message shows it."""
    state = session.reader.state()
    facts = state.parts.get(name)
    owner = None if facts is None else state.messages.get(facts.message)
    found = None if facts is None or owner is None else _message_at(Transcript(session), facts.message, owner.added)
    for part in () if found is None else found.parts:
        if part.id == name:
            return {**part_json(part), "cut": False}
    raise NotFoundError("part", name, session=session.id)


def _message_at(transcript: Transcript, name: str, added: int) -> TranscriptMessage | None:
    """Return a message that began at a version; None if it is not in the transcript."""
    if added > transcript.version:
        return None
    found = transcript.page(1, added + 1)
    return found[0] if found and found[0].id == name else None
