"""Thread without a run: later checkpoints go on from what was before it.

A `DeltaChannel` is what was written since a stored value, so a checkpoint that came of the run
keeps what it comes of now. Its messages are those it had, without what the run did to them: the
run's records are forgotten, or, if others need them, the list is told again. A checkpoint that has
a whole list keeps it, as with other checkpointers. If what was before the run was pruned, only the
run's snapshot has it: that one stays, as a checkpoint of no run with the list of before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot  # pyright: ignore[reportPrivateUsage]  # savers store it
from msgspec.structs import replace

from eventlog.adapters.langgraph.message_list import Entry, edited
from eventlog.adapters.langgraph.stored import DELTAS, MESSAGES, Since, Stored, Write, encode, key_of, run_in
from eventlog.adapters.langgraph.thread import Thread
from eventlog.errors import NotFoundError
from eventlog.history.catalog import entry_of
from eventlog.history.relatives import heirs_of
from eventlog.records.feed import Feed
from eventlog.session.session import Session


def kin_of(session: Session) -> list[str]:
    """Return the other sessions that share a part of a session's history."""
    log, streams = session.store.log, [one.session for one in session.reader.ancestry()]
    above = [id for id in streams if (head := log.head(id)) is not None and not entry_of(head).erased]
    heirs = (heir for id in reversed(streams) for heir in heirs_of(log, id))
    return [id for id in dict.fromkeys((*above, *heirs)) if id != session.id]


def unused(thread: Thread, kin: Iterable[str], records: list[int]) -> list[int]:
    """Return those of a thread's records that none of its kin needs."""
    streams = {one.session: one.last for one in thread.session.reader.ancestry()}
    for id in kin:
        with suppress(NotFoundError):  # erased meanwhile
            other = Thread(thread.session.store.session(id), thread.given)
            shared = max(min(one.last, streams.get(one.session, 0)) for one in other.session.reader.ancestry())
            end = bisect_right(records, shared)
            if end:
                versions = [at for stored, at in other.all() if not stored.ns]
                records = outside(other.list.feed, [*versions, other.session.version], records[:end]) + records[end:]
    return records


def outside(feed: Feed, versions: Iterable[int], records: list[int]) -> list[int]:
    """Return those of some records, ascending, that no list as of some versions has."""
    for at in sorted(versions, reverse=True):
        if not records:
            break
        path = feed.path(at)
        used = set(path[bisect_left(path, records[0]) :])
        records = [number for number in records if number not in used] if used else records
    return records


Place = tuple[str, str]
"""Namespace and id of a checkpoint."""


def run_of(stored: Stored, serde: SerializerProtocol) -> str:
    """Return the run that made a checkpoint, "" if it does not say."""
    return run_in(serde.loads_typed(stored.metadata))


class Rejoined:
    """The checkpoints of a thread while a run is taken out of it."""

    def __init__(
        self, thread: Thread, run: str, places: dict[Place, Stored], staying: set[Place], revisions: dict[Place, int]
    ) -> None:
        self.thread = thread
        self.run = run
        self.places = places
        self.staying = staying
        self.revisions = revisions
        """The version that has each one's list of messages; `relist` moves some."""
        self.before: dict[Place, tuple[Stored | None, list[Write]]] = {}
        for place, stored in places.items():
            self.before[place] = thread.before(stored)
        self.kept: dict[Place, Stored] = {
            place: kept for place in sorted(places.keys() - staying) if (kept := self._snapshot(place))
        }
        """Snapshots of the run that stay, as what stays of them."""
        places.update(self.kept)
        staying.update(self.kept)
        self.since: dict[Place, Since] = {place: self._since(place) for place in sorted(staying) if self._is_cut(place)}

    def _source(self, place: Place) -> Place | None:
        found = self.before[place][0]
        return None if found is None else (found.ns, found.id)

    def _is_cut(self, place: Place) -> bool:
        source = self._source(place)
        return place in self.kept or (source is not None and source not in self.staying)

    def _snapshot(self, place: Place) -> Stored | None:
        """Return what stays of a checkpoint of the run, None if others need nothing of it."""
        stored, thread = self.places[place], self.thread
        above: list[Stored] = []
        first = place
        while (source := self._source(first)) is not None and self.places[source] not in above:
            above.append(self.places[source])
            first = source
        is_last = not any(ns == place[0] and id > place[1] for ns, id in self.staying)
        if not thread.since(*first).pruned or (is_last and stored.told == "list"):
            return None
        names = [
            name
            for name in stored.channels()
            if not any(one.has(name) for one in above) and isinstance(thread.channel(stored, name), _DeltaSnapshot)
        ]
        if not names:
            return None
        loads, dumps = thread.serde.loads_typed, thread.serde.dumps_typed
        body, metadata = loads(stored.checkpoint), loads(stored.metadata)
        deltas = {*names, *(metadata.get(DELTAS) or ())}
        versions = {name: version for name, version in body["channel_versions"].items() if name in deltas}
        return replace(
            stored,
            checkpoint=dumps(body | {"channel_versions": versions, "versions_seen": {}, "updated_channels": None}),
            metadata=dumps(
                {name: metadata[name] for name in ("source", "step", "parents", DELTAS) if name in metadata}
            ),
            values={name: value for name, value in stored.values.items() if name in names},
            told=stored.told if MESSAGES in names else "",
        )

    def _since(self, place: Place) -> Since:
        """Return what a checkpoint comes of without the run, and what others wrote on the way."""
        writes = [one for one in self.before[place][1] if one.run != self.run]
        source = self._source(place)
        while source is not None and source not in self.staying:
            found, written = self.before[source]
            own = None if found is None else run_of(found, self.thread.serde)
            writes[:0] = [one for one in written if one.run not in ("", self.run) and own in (None, one.run)]
            source = self._source(source)
        pruned = self.thread.since(*place).pruned if place in self.kept else 0
        return Since(None if source is None else source[1], writes, pruned)

    def values(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield values to put, None to drop: what checkpoints come of, and writes of others."""
        for (ns, id), since in self.since.items():
            yield key_of("s", ns, id), encode(since)
        for place, kept in self.kept.items():
            if place[0]:  # one of the root namespace is told with its list
                yield key_of("c", *place), encode(kept)
        sources = {source for place in self.places.keys() - self.staying if (source := self._source(place))}
        for source in sources & self.staying:
            by_task: dict[str, list[Write]] = {}
            for one in self.thread.writes(*source):
                by_task.setdefault(one.task, []).append(one)
            for task, writes in by_task.items():
                left = [one for one in writes if one.run != self.run]
                if len(left) < len(writes):
                    yield key_of("w", *source, task), encode(left) if left else None

    def relist(self) -> list[int]:
        """Take the run out of later lists of messages; return the records to forget for that."""
        later: list[Place] = []
        for place in sorted(place for place in self.staying if not place[0]):
            is_later = place in self.since or self._source(place) in later
            if is_later and self.places[place].told != "list":
                later.append(place)
        if not later:
            return []
        alone = None if self.kept.keys() & set(later) else self._alone(later)
        if alone is None:
            self._tell_again(later)
        return alone or []

    def _alone(self, later: list[Place]) -> list[int] | None:
        """Return the records of the run if only these lists have them, None if others do."""
        feed = self.thread.list.feed
        found: set[int] = set()
        for place in (*later, *(one for one in self.places.keys() - self.staying if not one[0])):
            source, path = self._source(place), feed.path(self.revisions[place])
            before = [] if source is None else feed.path(self.revisions[source])
            if path[: len(before)] != before:  # it changed what was before it
                return None
            if place not in self.staying:
                found.update(path[len(before) :])
        records = sorted(found)
        others = [self.revisions[place] for place in self.staying.difference(later) if not place[0]]
        left = outside(feed, others, records)
        return records if unused(self.thread, kin_of(self.thread.session), left) == records else None

    def _tell_again(self, later: list[Place]) -> None:
        lists, was = self.thread.list, dict(self.revisions)
        for place in later:
            source = self._source(place)
            since = self.since.get(place)
            left = source if since is None else None if since.id is None else ("", since.id)
            before = [] if source is None else lists.line(was[source])
            pruned = 0 if since is None else since.pruned
            base = lists.line(pruned if left is None else self.revisions[left]) if left or pruned else []
            keep = {key_of("c", *place): encode(self.places[place])}
            told = lists.tell(base, self._changed(place, before, lists.line(was[place]), base), keep)
            self.revisions[place] = self.thread.revision(*place)
            lists.keep(self.revisions[place], told)

    def _changed(self, place: Place, before: list[Entry], after: list[Entry], base: list[Entry]) -> list[Entry]:
        """Return a list changed as that of a checkpoint was from the one before it."""
        lists, loads = self.thread.list, self.thread.serde.loads_typed

        def written(line: list[Entry], writes: list[Write]) -> list[Entry]:
            return lists.written(line, [loads(one.value) for one in writes if one.channel == MESSAGES])

        writes = self.before[place][1]
        marks = [[one.mark for one in line] for line in (written(before, writes), after)]
        if (
            place not in self.kept and self.places[place].told and marks[0] != marks[1]
        ):  # a branch, of which no writes are left
            return edited(before, after, base)
        since = self.since.get(place)
        return written(base, writes if since is None else since.writes)
