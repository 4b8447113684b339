"""The sessions of a store: begun, named, forked, found and listed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import BinaryIO

from eventlog import events as ev
from eventlog.codec.batch import validate
from eventlog.codec.large_texts import pieces_of
from eventlog.codec.payload import is_foreign
from eventlog.errors import CallError, ErasedError
from eventlog.history.ancestry import head_of
from eventlog.history.catalog import SessionInfo, info_of, is_shelf
from eventlog.history.name_streams import Name, named_heads
from eventlog.history.session_page import SessionPage, page_of
from eventlog.session.inputs import model_of
from eventlog.session.registry import check_scope, check_session_id
from eventlog.session.session import Session, Sessions, handle_of
from eventlog.session.session_names import Names, begin_named, open_named
from eventlog.session.shelf import Shelf, open_shelf, shelf_names
from eventlog.validation import each, require, require_call, require_or_none, require_version
from eventlog.values import Body, Content, Model, Origin

PAGE = 20
"""Sessions on a page of a list."""


class SessionStore(Sessions):
    """The part of a store that begins and finds sessions."""

    def create_session(
        self,
        *,
        id: str | None = None,
        title: str = "",
        scope: str = "",
        directory: str = "",
        agent: str = "",
        model: Model | str | None = None,
        parent: str | None = None,
        origin: Origin | None = None,
        time: int | None = None,
    ) -> Session:
        """Begin a session.  `AlreadyExistsError` if the id is taken.

        `parent` makes it a sub-session of that session; `NotFoundError` if that does not exist.
        `id` is made by default. `title` and `scope` are for lists, `directory`, `agent` and `model`
        for the program. `origin` says where an imported session comes from; `time` is UTC
        milliseconds, now by default.
        """
        if parent is not None:
            self.host.require_open()
            require(str, parent, "a parent is the id of a session")
            head_of(self.log, parent)
        started = ev.SessionStarted(title, scope, directory, agent, model_of(model), parent, origin)
        return begin_session(self, started, id=id, time=time)

    def open_session(
        self,
        name: Name,
        *,
        create: bool = True,
        id: str | None = None,
        title: str = "",
        scope: str = "",
        directory: str = "",
        agent: str = "",
        model: Model | str | None = None,
        parent: str | None = None,
        origin: Origin | None = None,
        time: int | None = None,
    ) -> Session:
        """Return the session with a name, a (format, key); begin it if there is none.

        Of all tasks and processes that ask at once, one begins it, as `create_session` does, and
        all get the same session. Without `create` none begins it: `NotFoundError`. A fork does not
        inherit the name; an erasure frees it. `id`, `title`, `scope`, `directory`, `agent`,
        `model`, `parent`, `origin` and `time` are those of `create_session`.
        """
        self.host.require_open()
        require_or_none(str, id, "an id is a str")
        if id:
            check_session_id(id)
        if not create:
            return open_named(self, name, None, None)
        if parent is not None:
            require(str, parent, "a parent is the id of a session")
            head_of(self.log, parent)
        started = ev.SessionStarted(title, scope, directory, agent, model_of(model), parent, origin)
        validate(started)
        check_scope(scope)
        return open_named(
            self, name, id, lambda new, given: begin_session(self, started, id=new, time=time, then=[given])
        )

    @property
    def names(self) -> Names:
        """Commands that give an existing session a name, and take one away."""
        return Names(self)

    def fork(
        self,
        parent: Session,
        at: int,
        *,
        id: str | None = None,
        title: str | None = None,
        name: Name | None = None,
        origin: Origin | None = None,
        time: int | None = None,
        then: Sequence[ev.Event] = (),
        bodies: Mapping[bytes, bytes] | None = None,
    ) -> Session:
        """Begin a session that continues `parent` from version `at`; see `Session.fork`.

        `origin` says where an imported continuation comes from; `time` is UTC milliseconds, now by
        default. The events `then`, with their `bodies`, are in the fork's first append. `id`,
        `title` and `name` are those of `Session.fork`.
        """
        require(Session, parent, "a parent is a session's handle")
        require_version(at)
        then = each(then, "events are a list of events")
        require_or_none(Mapping, bodies, "bodies are a mapping of digests to bytes")
        info = parent.info
        forked = ev.SessionForked(parent.id, at, b"", info.title if title is None else title, info.scope, origin)
        if name is not None:
            parent.reader.resolve(at)  # before the name is reserved

            def begin(new: str, given: ev.NameGiven) -> Session:
                return begin_session(self, forked, id=new, time=time, then=[given, *then], bodies=bodies)

            return begin_named(self, name, id, begin)
        return begin_session(self, forked, id=id, time=time, then=then, bodies=bodies)

    def shelf(self, name: str) -> Shelf:
        """The shelf of a name, made if there is none: values without a conversation.

        A name has 1 to 200 bytes. A shelf is in no list of sessions.
        """
        self.host.require_open()
        return open_shelf(self, name)

    def shelves(self) -> Iterator[str]:
        """The names of all shelves; reads one small record a session or shelf."""
        self.host.require_open()
        self.log.require_keys()
        return shelf_names(self.log)

    def sessions(
        self,
        after: str = "",
        *,
        scope: str | None = None,
        parent: str | None = None,
        archived: bool | None = None,
        text: str | None = None,
        active_since: int | None = None,
        format: str | None = None,
        prefix: str = "",
        limit: int | None = None,
    ) -> Iterator[SessionInfo]:
        """Sessions in the order of their ids, after the id `after`: the cursor of a page.

        Filtered by `scope`, `parent`, `archived`, by `text` in the title (in any case), and by an
        activity at or after `active_since` (UTC milliseconds); at most `limit`. None is no filter.
        Reads one small record a session, and no event.

        With a `format` those with a name of this format whose key begins with `prefix`, in the
        order of their keys, after the key `after`. Reads what it lists; an encrypted store reads
        all sessions, and without its keys has neither names, scopes nor titles: `KeyMissingError`.
        """
        self.host.require_open()
        require(str, after, "a cursor is the id of a session")
        require(str, prefix, "a prefix is a str")
        for filter in (scope, parent, text, format):
            require_or_none(str, filter, "a scope, a parent, a text to look for and a format are str")
        require_or_none(bool, archived, "archived is True, False or None")
        for number in (active_since, limit):
            require_or_none(int, number, "active_since and limit are whole numbers")
        if limit is not None and limit < 0:
            raise CallError(f"a limit is zero or more, not {limit}")
        if format is None and prefix:
            raise CallError("a prefix is of the keys of a format: give both")
        if scope or text:
            self.log.require_keys()
        part = None if text is None else text.casefold()
        heads = self.log.heads(after) if format is None else named_heads(self.log, format, prefix, after)
        infos = (
            info
            for info in (info_of(head) for head in heads if not is_foreign(head) and not is_shelf(head))
            if not info.erased
            and (scope is None or info.scope == scope)
            and (parent is None or info.parent == parent)
            and (archived is None or info.archived == archived)
            and (part is None or part in info.title.casefold())
            and (active_since is None or info.updated >= active_since)
        )
        return islice(infos, None if limit is None else min(limit, sys.maxsize))

    def newest_sessions(
        self,
        scope: str | None = None,
        *,
        archived: bool | None = None,
        subsessions: bool | None = None,
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> SessionPage:
        """A page of sessions, newest activity first, of one `scope` or of all.

        `archived` and `subsessions` choose those that are, or those that are not; None is no
        filter. The next page begins at the `cursor` of this one, with the same filters. Names,
        archiving, metadata and redactions are no activity. A page costs what it has, however many
        sessions there are; the first request in a store of an earlier program makes an index.

        Each session comes with its `state`: a session that was written to since this store last
        looked at it is opened for that.

        Each page is as of its own request: a session with new activity moves to the front, and is
        not on later pages. Erased sessions are in no list. `CursorError` for a cursor of another
        store or list, or from before the store was rewritten or restored. A page has at most
        `limit` sessions.
        """
        self.host.require_open()
        for text in (scope, cursor):
            require_or_none(str, text, "a scope and a cursor are str")
        for choice in (archived, subsessions):
            require_or_none(bool, choice, "archived and subsessions are True, False or None")
        require(int, limit, "a limit is a whole number")
        if limit < 1:
            raise CallError(f"a page has one session or more, not {limit}")
        from eventlog.session.status import state_of

        with self.log.reading():
            return page_of(
                self.log,
                scope,
                archived=archived,
                subsessions=subsessions,
                cursor=cursor,
                limit=limit,
                state_of=partial(state_of, self.registry),
            )

    def unfinished(self) -> list[SessionInfo]:
        """Sessions with open work and without a running task; see `Session.turn`.

        A question has no answer, or a reply or compaction is open. Turns that failed or that a user
        stopped are finished. A fork counts once something was added to it, an imported session once
        it was run here. Costs what it lists and what was written since the last call; the first
        call of a store looks at every session.
        """
        from eventlog.session.status import unfinished

        self.host.require_open()
        self.log.require_keys()
        return unfinished(self.registry)

    def write_text(self, content: Content, file: BinaryIO, session: str | None = None) -> None:
        """Write the UTF-8 bytes of a content to a file object, piece by piece; see `text`."""
        require((str, Body), content, "a content is a str or a Body")
        require_or_none(str, session, "an id is a str")
        require_call(getattr(file, "write", 0), "a file is a binary file object, and its `write` a function")
        if isinstance(content, str):
            file.write(content.encode("utf-8", "surrogatepass"))
        else:
            file.writelines(pieces_of(content, self.host.packed(content, session)))


def begin_session(
    store: SessionStore,
    first: ev.SessionStarted | ev.SessionForked,
    *,
    id: str | None = None,
    time: int | None = None,
    then: Sequence[ev.Event] = (),
    bodies: Mapping[bytes, bytes] | None = None,
) -> Session:
    """Begin a session with its first event, as an importer made it, and those that follow."""
    store.host.require_open(writing=True)
    executor = store.registry.begin(first, id, time, then, bodies=bodies)
    try:
        if isinstance(first, ev.SessionForked):
            head_of(store.log, first.parent)  # erased meanwhile, what it inherits may be gone
    except ErasedError:
        from eventlog.maintenance.erase import erase

        erase(store, executor.id, reason="its parent was erased while it began")
        raise
    return handle_of(store, executor)
