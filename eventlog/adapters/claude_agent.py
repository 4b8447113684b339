"""Session store of the Claude Agent SDK: transcripts are sessions, entries their records.

The SDK's `SessionStore` is a protocol; of the SDK only `fold_session_summary` is imported, which
makes the summaries that the SDK lists sessions by, each of the one before. They are values, kept in
the appends of what they sum up. A transcript with a sub-path is a sub-session of the main one's. A
deletion erases.

Names are `PROJECT/SESSION`, and of a sub-agent's transcript `PROJECT/SESSION/SUBPATH`. Slashes in
projects and sessions are written as in URLs, so no two keys have one name.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple

from eventlog.adapters.claude_transcript import Keep, TranscriptFeed
from eventlog.adapters.name_keys import joined, parted, session_of
from eventlog.adapters.settled import patience, patient, settled
from eventlog.adapters.unshared import erase_unshared
from eventlog.errors import CallError, NotFoundError
from eventlog.importers.claude_code.records import is_custom_title
from eventlog.importers.common.json_lines import is_object
from eventlog.records.json_value import dumped, parsed
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.validation import each, require

MAIN = "claude-agent"
"""Format of the names of main transcripts."""
SUB = "claude-agent-sub"
"""Format of the names of transcripts with a sub-path."""


class TranscriptKey(NamedTuple):
    """A key of the SDK."""

    project: str
    session: str
    subpath: str | None = None

    @classmethod
    def of(cls, key: Any) -> TranscriptKey:
        """Return the key that the SDK's dict says."""
        if not is_object(key):
            raise CallError("a session key is a dict with project_key and session_id")
        project, session, subpath = (key.get(field) for field in ("project_key", "session_id", "subpath"))
        for text in (project, session, *(() if subpath is None else (subpath,))):
            require(str, text, "project_key, session_id and subpath of a session key are str")
        if subpath == "":
            raise CallError("the subpath of a session key is empty: omit it for the main transcript")
        return cls(str(project), str(session), subpath)

    @property
    def main(self) -> TranscriptKey:
        """The key of the main transcript."""
        return TranscriptKey(self.project, self.session)

    @property
    def prefix(self) -> str:
        """How the names of the session's sub-paths begin."""
        return joined(self.project, self.session, "")

    @property
    def name(self) -> tuple[str, str]:
        """The name of the transcript's session."""
        return (MAIN, self.prefix[:-1]) if self.subpath is None else (SUB, self.prefix + self.subpath)


SUMMARY = "claude-agent/summary"
"""Key of the value: the SDK's data, and whether a person gave the session its title."""


def summary_of(session: Session) -> dict[str, Any]:
    """Return `data` and `titled` of a session; empty if it has no summary."""
    stored = session.values.get(SUMMARY)
    found: dict[str, Any] = {} if stored is None else parsed(str(stored.value))
    return found


def folding(feed: TranscriptFeed, transcript: TranscriptKey) -> Keep:
    """Return what folds entries into the summary of a main transcript, and keeps changes."""
    project, session, subpath = transcript
    if subpath is not None:
        return lambda _: {}
    try:
        from claude_agent_sdk import fold_session_summary
    except ImportError as error:
        raise CallError("the summary of a session needs the SDK: pip install claude-agent-sdk") from error
    fold: Any = fold_session_summary
    key = {"project_key": project, "session_id": session}
    known = summary_of(feed.session)
    feed.mapping.titled = known.get("titled", False)

    def keep(entries: list[Any]) -> dict[str, str | bytes]:
        nonlocal known
        before = {"session_id": session, "mtime": 0, "data": known["data"]} if known else None
        data = fold(before, key, list(filter(is_object, entries)))["data"]
        found = {"data": data, "titled": known.get("titled", False) or any(map(is_custom_title, entries))}
        if found == known:
            return {}
        known = found
        return {SUMMARY: dumped(found)}

    return keep


FEEDS = 256
"""Transcripts of which is kept where their entries are."""


class EverdeltaSessionStore:
    """Transcripts of the Claude Agent SDK in a store: pass it as `session_store`.

    `wait` is how many seconds a write waits for another task to give back a session's lease. A
    write to a transcript that this object has written or loaded, and another one has deleted since,
    is refused until it is loaded again.
    """

    def __init__(self, store: Store, *, wait: float = 30.0) -> None:
        self.store = store
        self.wait = wait
        self._feed: Callable[[Session, bool], TranscriptFeed] = lru_cache(FEEDS)(TranscriptFeed)
        self._seen: dict[TranscriptKey, str] = {}
        """Sessions of the transcripts that were written or loaded."""

    def session(self, key: Any) -> Session:
        """Return the session of a transcript, for views; `NotFoundError` if there is none."""
        return self.store.open_session(TranscriptKey.of(key).name, create=False)

    async def append(self, key: Any, entries: list[Any]) -> None:
        """Add the entries whose uuids are new, in one append; durable when this returns."""
        if told := list(each(entries, "entries are a list of JSON values")):
            await patient(self.store, partial(self._append, TranscriptKey.of(key), told), self.wait)

    async def load(self, key: Any) -> list[Any] | None:
        """Return all entries in the order in which they came, None if there are none."""
        return await settled(self._load, TranscriptKey.of(key))

    async def list_sessions(self, project_key: str) -> list[Any]:
        """Return the main transcripts of a project, each with the time of its last append."""
        return await settled(self._list, project_key)

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """Return the SDK's summaries of a project's main transcripts."""
        return await settled(self._summaries, project_key)

    async def delete(self, key: Any) -> None:
        """Erase a transcript, a main one with all its sub-paths; the key may be used again."""
        await patient(self.store, partial(self._delete, TranscriptKey.of(key)), self.wait)

    async def list_subkeys(self, key: Any) -> list[str]:
        """Return the sub-paths of a session."""
        return await settled(self._subkeys, TranscriptKey.of(key).main)

    # -- in a thread ---------------------------------------------------------------------------

    def _append(self, key: TranscriptKey, entries: list[Any]) -> None:
        """Tell the entries; those that a refused attempt has stored are taken out of the list."""
        feed = self._feed(self._begun(key, entries), key.subpath is not None)
        feed.tell(entries, lambda: folding(feed, key), wait=patience(self.wait))

    def _begun(self, key: TranscriptKey, entries: list[Any]) -> Session:
        """Return the session of a transcript, begun if there is none and none was deleted."""
        seen = self._seen.get(key)
        if seen is not None:
            return self.store.session(seen)
        parent = None
        if key.subpath is not None:
            parent = self._seen.get(key.main)
            if parent is None and (main := session_of(self.store, key.main.name)) is not None:
                parent = main.id
        found = (entry["cwd"] for entry in entries if is_object(entry) and isinstance(entry.get("cwd"), str))
        scope = key.project if parent is None else self.store.info(parent).scope
        session = self.store.open_session(key.name, scope=scope, directory=next(found, ""), parent=parent)
        try:
            if parent is not None:
                self.store.info(parent)  # it may have been deleted while this one began
        except NotFoundError:
            erase_unshared(self._feed(session, True), wait=patience(self.wait))
            raise
        self._seen[key] = session.id
        return session

    def _load(self, key: TranscriptKey) -> list[Any] | None:
        self._seen.pop(key, None)
        if (session := session_of(self.store, key.name)) is None:
            return None
        feed = self._feed(session, key.subpath is not None)
        self._seen[key] = session.id
        return [entry for _, entry in feed.shown(feed.path(hidden=True))] or None

    def _list(self, project: str) -> list[dict[str, Any]]:
        require(str, project, "a project key is a str")
        infos = self.store.sessions(format=MAIN, prefix=joined(project, ""))
        named = ((info, info.name[1]) for info in infos if info.name is not None)
        return [{"session_id": parted(name)[1], "mtime": info.updated} for info, name in named]

    def _summaries(self, project: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for listed in self._list(project):
            with suppress(NotFoundError):  # deleted meanwhile
                session = self.store.open_session(TranscriptKey(project, listed["session_id"]).name, create=False)
                if summary := summary_of(session):
                    found.append(listed | {"data": summary["data"]})
        return found

    def _subkeys(self, key: TranscriptKey) -> list[str]:
        infos = self.store.sessions(format=SUB, prefix=key.prefix)
        return [info.name[1].removeprefix(key.prefix) for info in infos if info.name is not None]

    def _delete(self, key: TranscriptKey) -> None:
        subpaths = self._subkeys(key) if key.subpath is None else []
        for subpath in subpaths:
            self._erase(key._replace(subpath=subpath))
        gone = self._erase(key)
        for subpath in self._subkeys(key) if gone and key.subpath is None else ():  # begun meanwhile
            self._erase(key._replace(subpath=subpath), gone)

    def _erase(self, key: TranscriptKey, parent: str = "") -> str:
        """Erase a transcript, of this parent if one is given; return its session or ""."""
        self._seen.pop(key, None)
        with suppress(NotFoundError):
            session = self.store.open_session(key.name, create=False)
            if not parent or session.info.parent == parent:
                erase_unshared(self._feed(session, key.subpath is not None), wait=patience(self.wait))
                return session.id
        return ""
