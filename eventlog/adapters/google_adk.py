"""Session service of Google ADK: sessions are found by name, their events are records.

State of a session is values in the appends of its events. State that sessions share (`app:`,
`user:`) is on a shelf of the app, so an event with such state is two appends: first the shelf's,
with the event itself, then the session's, with the event's id as request id. What a kill leaves
between the two, the next append to the session completes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any
from uuid import uuid4

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session as AdkSession

from eventlog.adapters.google_adk_events import AdkFeed, event_of, record_of
from eventlog.adapters.google_adk_keys import FORMAT, Key, contents_of, text_of
from eventlog.adapters.name_keys import joined, parted
from eventlog.adapters.settled import patience, patient, settled
from eventlog.adapters.unshared import erase_unshared
from eventlog.errors import ConflictError, NotFoundError, RequestReusedError
from eventlog.importers.common.json_lines import is_object
from eventlog.session.session import Session
from eventlog.store import Store

FEEDS = 256
"""Sessions of which is kept where their events are."""
BEGUN = "adk/begun"
"""Value of a session that was created: its first state, and when that was."""
NOTHING: GetSessionConfig = GetSessionConfig(num_recent_events=0)


class EverdeltaSessionService(BaseSessionService):
    """Sessions of Google ADK in a store: pass it to a `Runner` as `session_service`.

    `wait` is how many seconds a write waits for another task to give back a session's lease. An
    event of a session object that lacks newer events is refused with ADK's `StaleSessionError`.
    """

    def __init__(self, store: Store, *, wait: float = 30.0) -> None:
        self.store = store
        self.wait = wait
        self._feed: Callable[[Session], AdkFeed] = lru_cache(FEEDS)(AdkFeed)

    def session(self, app_name: str, user_id: str, session_id: str) -> Session:
        """Return the session itself, for views and leases; `NotFoundError` if there is none."""
        return self.store.open_session(Key(app_name, user_id, session_id.strip()).name, create=False)

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> AdkSession:
        """Begin a session; `AlreadyExistsError` of ADK if there is one of this id."""
        key = Key(app_name, user_id, (session_id or "").strip() or str(uuid4()))
        return await settled(self._create, key, state or {})

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> AdkSession | None:
        """Return a session with its events, or those that `config` asks for."""
        return await settled(self._get, Key(app_name, user_id, session_id.strip()), config or GetSessionConfig())

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of an app or one of its users, without events, last active last."""
        return ListSessionsResponse(sessions=await settled(self._list, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Erase a session; state that it shares with others stays."""
        await patient(self.store, partial(self._delete, Key(app_name, user_id, session_id.strip())), self.wait)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return what sessions of a user share, without the prefix of the keys."""
        shared = await settled(self._shared, Key(app_name, user_id, ""))
        return {name.removeprefix("user:"): value for name, value in shared.items() if name.startswith("user:")}

    async def append_event(self, session: AdkSession, event: Event) -> Event:
        """Store an event, durable when this returns; a partial one is none."""
        if event.partial:
            return event
        marker = await patient(self.store, partial(self._append, session, event), self.wait)
        is_told = any(one.id == event.id and one == event for one in session.events)
        session._storage_update_marker = marker  # noqa: SLF001
        session.last_update_time = event.timestamp
        return event if is_told else await super().append_event(session=session, event=event)

    # -- in a thread ---------------------------------------------------------------------------

    def _create(self, key: Key, state: dict[str, Any]) -> AdkSession:
        session = self.store.open_session(key.name, scope=key.scope)
        own, shared = key.parted(state)
        begun = text_of({"state": own, "time": self.store.host.clock() / 1000})
        try:
            session.values.put(BEGUN, begun, expected=0)
        except ConflictError:
            raise AlreadyExistsError(f"Session with id {key.session} already exists.") from None
        self._share(key, shared)
        made = self._get(key, GetSessionConfig())
        assert made is not None
        return made

    def _found(self, key: Key) -> tuple[Session, dict[str, Any]] | None:
        """Return a session that was created, with what is kept of that."""
        with suppress(NotFoundError):
            session = self.store.open_session(key.name, create=False)
            if (begun := session.values.get(BEGUN)) is not None:
                return session, contents_of(begun)
        return None

    def _get(self, key: Key, config: GetSessionConfig) -> AdkSession | None:
        if (found := self._found(key)) is None:
            return None
        session, begun = found
        feed = self._feed(session)
        try:
            newest = feed.path(newest=1, hidden=True)
            events = _events(feed, feed.path(newest=config.num_recent_events, hidden=True))
            last = events[-1:] or _events(feed, newest)
            state = begun["state"] | dict(map(contents_of, session.values.items("adk/state/"))) | self._shared(key)
        except NotFoundError:  # erased meanwhile
            return None
        if (since := config.after_timestamp) is not None:
            events = events[max((at for at, one in enumerate(events, 1) if one.timestamp < since), default=0) :]
        time = last[0].timestamp if last else begun["time"]
        made = AdkSession(
            id=key.session, app_name=key.app, user_id=key.user, state=state, events=events, last_update_time=time
        )
        made._storage_update_marker = _marker(session, newest)  # noqa: SLF001
        return made

    def _list(self, app: str, user: str | None) -> list[AdkSession]:
        prefix = joined(app, "") if user is None else joined(app, user, "")
        infos = self.store.sessions(format=FORMAT, prefix=prefix)
        keys = [Key(*parted(info.name[1])) for info in infos if info.name is not None]
        found = [made for key in keys if (made := self._get(key, NOTHING)) is not None]
        return sorted(found, key=lambda one: (one.last_update_time, one.user_id, one.id))

    def _delete(self, key: Key) -> None:
        if (found := self._found(key)) is None:
            return
        session, feed = found[0], self._feed(found[0])

        def erase(_: object) -> None:
            self.store.shelf(key.shelf).values.drop(_pending(session))
            erase_unshared(feed, wait=0.0)

        session.executor.writing(erase, lazily=False, wait=patience(self.wait))

    def _append(self, told: AdkSession, event: Event) -> str:
        """Store an event, unless that was done; return the marker of the session behind it."""
        key = Key(told.app_name, told.user_id, told.id)
        if (found := self._found(key)) is None:
            raise SessionNotFoundError(f"Session {key.session} not found.")
        session, feed = found[0], self._feed(found[0])
        record = record_of(event)
        own, shared = key.parted(record["actions"].get("stateDelta", {}))
        record["actions"]["stateDelta"] = own | shared
        keep = {key.place(name): text_of([name, value]) for name, value in own.items()}
        pending = self.store.shelf(key.shelf).values.get

        def tell(_: object = None) -> str:
            effective, newest = feed.path(newest=1), feed.path(newest=1, hidden=True)
            if not _is_seen(feed, newest, told):
                if newest and feed.read(newest) == [record]:  # it is told again
                    return _marker(session, newest)
                raise StaleSessionError(f"Session {key.session} has newer events than were read: get it again.")
            if (left := pending(_pending(session))) is not None:
                effective = self._tell(feed, effective, *contents_of(left))
            if shared:
                self._share(key, shared, {_pending(session): text_of([event.id, record, keep])})
            return _marker(session, self._tell(feed, effective, event.id, record, keep))

        while True:
            try:
                return session.executor.writing(tell, lazily=False, wait=patience(self.wait)) if shared else tell()
            except ConflictError:  # another event was told meanwhile: this one may be stale
                continue

    def _tell(self, feed: AdkFeed, newest: list[int], id: str, record: Any, keep: dict[str, str]) -> list[int]:
        """Append an event and its state behind the newest one, or before the target of a rewind.

        Returns the number of the newest event, which is another one if this was done before.
        """
        after = None
        if (target := record["actions"].get("rewindBeforeInvocationId")) is not None:
            path = feed.path()
            values = feed.read(path)
            at = next((at for at, one in enumerate(values) if is_object(one) and one["invocationId"] == target), 0)
            after = path[at - 1] if at else 0
        given: dict[str, Any] = {"after": after, "expected": newest[0] if newest else 0, "keep": keep}
        try:
            told = feed.add([record], request_id=id, wait=patience(self.wait), **given)
        except RequestReusedError:  # another event with the same id
            told = feed.add([record], wait=patience(self.wait), **given)
        return max(told, newest)

    def _shared(self, key: Key) -> dict[str, Any]:
        values = self.store.shelf(key.shelf).values
        return dict(
            contents_of(one)
            for place in (key.place("app:"), key.place("user:"))
            for one in values.items(place.rpartition("/")[0] + "/")
        )

    def _share(self, key: Key, state: dict[str, Any], more: dict[str, str] | None = None) -> None:
        """Put state on the shelf, in one append."""
        shelf = self.store.shelf(key.shelf)
        with shelf.pipeline():
            for name, value in state.items():
                shelf.values.put(key.place(name), text_of([name, value]))
            for name, text in (more or {}).items():
                shelf.values.put(name, text)


def _events(feed: AdkFeed, numbers: list[int]) -> list[Event]:
    return [event_of(record) for _, record in feed.shown(numbers)]


def _is_seen(feed: AdkFeed, newest: list[int], told: AdkSession) -> bool:
    """Whether a session object has the newest event; one from elsewhere has no marker."""
    if told._storage_update_marker is not None:  # noqa: SLF001
        return told._storage_update_marker == _marker(feed.session, newest)  # noqa: SLF001
    return [one.id for one in _events(feed, newest)] == [one.id for one in told.events[-1:]]


def _marker(session: Session, newest: list[int]) -> str:
    return f"{session.id}:{newest[0] if newest else 0}"


def _pending(session: Session) -> str:
    return f"pending/{session.id}"
