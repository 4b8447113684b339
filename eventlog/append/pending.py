"""The append on its way to the log: its commands, and what it makes of the session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.append.command import Command, Terms, limit_append
from eventlog.append.lease_claim import LeaseClaim, LeaseStatus
from eventlog.codec.batch import Batch, Entry, encode_batch, encode_value
from eventlog.codec.deltas import DeltaRun
from eventlog.events import SCHEMA
from eventlog.history.catalog import CATALOG_EVENTS, QUIET_EVENTS, CatalogEntry, evolve_entry
from eventlog.history.effective_history import has_seen
from eventlog.log.commit import Append, Committed, LeaseState, Ticket
from eventlog.state.committed import CommittedState
from eventlog.state.state import GOES_ON, State

_NO_ENTRY = CatalogEntry()
_NO_EVENTS = Batch(SCHEMA, 0, False, [])
_NO_TERMS = Terms()


class PendingAppend(msgspec.Struct, eq=False):
    """The append that is on its way: its commands, and what it makes of the session."""

    commands: list[Command]
    append: Append | None = None
    first: int = 0
    """Version of its first event, if no other writer comes between."""
    last: int = 0
    entry: CatalogEntry = _NO_ENTRY
    batch: Batch = _NO_EVENTS
    claim: LeaseClaim | None = None
    """The lease whose record goes in with it."""
    ticket: Ticket | None = None
    """None until the log has it: an interrupt may come between."""
    outcome: Committed | Exception | None = None
    is_retried_later: bool = False
    """Whether it failed, and some of its commands are tried again, once that may work."""

    def events(self) -> Iterator[tuple[int, ev.Event]]:
        """Yield its events with their versions, deltas left out."""
        version = self.first
        for entry in self.batch.entries:
            if isinstance(entry, DeltaRun):
                version += entry.count
            else:
                yield version, entry.event
                version += 1

    @property
    def is_conditional(self) -> bool:
        """Whether it is to go in as it is decided, or not at all."""
        terms = self.commands[0].terms
        return terms is not None and terms.is_conditional

    def is_done(self) -> bool:
        """Return whether there is an outcome, or one can be found out at once."""
        return self.outcome is not None or self.ticket is None or self.ticket.done()

    def found(self, committed: CommittedState) -> Committed | None:
        """Return what the log has of it: it may have been handed over, or not."""
        append, log = self.append, committed.log
        if append is None:
            return None
        log.sync()
        mine = append.payload, append.count, append.epoch  # the payload has the times
        for commit in log.read(append.session, committed.certain):
            if (commit.payload, commit.count, commit.epoch) == mine:
                return Committed(append.session, commit.first, commit.last, commit.position)
        return None

    def wait(self) -> None:
        """Block until the outcome is known."""
        if self.outcome is None and self.ticket is not None:
            try:
                self.outcome = self.ticket.wait()
            except Exception as error:
                if not self.ticket.done():
                    raise  # a signal handler waits inside this thread's own commit, whose outcome is to come
                self.outcome = error

    async def waited(self) -> None:
        """Wait as `wait` does, without blocking the event loop."""
        if self.outcome is None and self.ticket is not None:
            try:
                self.outcome = await self.ticket
            except Exception as error:  # noqa: BLE001 - the writer raises it to those who wait for the commands
                self.outcome = error

    def prepare(
        self, committed: CommittedState, last: int, claim: LeaseClaim | None, record: LeaseState | None
    ) -> Append:
        """Make one append of the commands, decided up to version `last`, with a lease record."""
        commands, entry = self.commands, committed.entry
        first = commands[0].items[0]
        start = first.start if isinstance(first, DeltaRun) else first[0]
        entries: list[Entry | DeltaRun] = []
        events: list[ev.Event] = []
        finish: ev.MessageFinished | None = None
        bodies: dict[bytes, bytes] = {}
        last_time, count, messages, epoch = start, 0, committed.uncounted, 0
        for command in commands:
            messages += command.messages
            if command.epoch:
                epoch = command.epoch
            if command.bodies:
                bodies.update(command.bodies)
            for item in command.items:
                if isinstance(item, DeltaRun):
                    count += item.count
                    time = item.last_time()
                    entries.append(item if item.start == 0 == start else replace(item, start=item.start - start))
                else:
                    count += 1
                    time, event = item
                    entries.append(Entry(time - start, event))
                    events.append(event)
                    kind = type(event)
                    if kind in CATALOG_EVENTS:
                        entry = evolve_entry(entry, event)
                    elif isinstance(event, ev.MessageFinished):
                        finish = event
                last_time = max(last_time, time)
        quiet = len(events) == count and QUIET_EVENTS.issuperset(map(type, events))
        if quiet:
            forgets = any(type(event) is ev.RecordForgotten for event in events)  # perhaps the answer
            is_answered = entry.answered == last - count > 0 and not forgets
        else:
            state = committed.state
            is_answered = finish is not None and state.version == last and _is_answered(state, finish)
        if is_answered:
            entry = replace(entry, answered=last)
        self.batch = Batch(SCHEMA, start, False, entries, messages)
        payload = encode_batch(self.batch)
        limit_append(payload, bodies)
        terms = commands[0].terms
        new_entry = entry is not committed.entry
        replaces = None
        if claim is not None and record is not None:
            self.claim, epoch = claim, record.epoch
            replaces = claim.replaces if claim.status is LeaseStatus.CLAIMED else None
        terms = terms or _NO_TERMS
        self.first, self.last, self.entry = last - count + 1, last, entry
        self.append = Append(
            session=committed.session,
            payload=payload,
            count=count,
            time=last_time,
            quiet=quiet,
            messages=messages,
            entry=encode_value(entry) if new_entry or terms.creates_at is not None else None,
            bodies=tuple(bodies.items()),
            creates_at=terms.creates_at,
            expected=None if terms.creates_at is not None else last - count,
            epoch=epoch,
            lease=record,
            replaces=replaces,
            request=terms.request,
            digest=terms.digest,
        )
        return self.append


def record_of(claim: LeaseClaim, rest: Sequence[Command]) -> LeaseState | None:
    """Return the lease record that goes in with the next append.

    The lease is not given back before `rest`, which was accepted under it.
    """
    if claim.is_returning and not any(command.epoch == claim.state.epoch for command in rest):
        return None if claim.status is LeaseStatus.LOST else LeaseState(claim.state.epoch, b"", 0)
    return claim.state if claim.status is LeaseStatus.CLAIMED else None


def end_of_append(commands: Sequence[Command], most: int) -> int:
    """Return how many commands the next append takes: one, or up to a weight of `most`.

    A command with terms of its own goes alone. A pipeline, with what lies between its commands, is
    never parted, so that one alone may weigh more than `most`.
    """
    ends = {id(command.unit): place for place, command in enumerate(commands) if command.unit is not None}
    weight = start = end = 0
    while start < len(commands):
        alone = commands[0].terms is not None or commands[start].terms is not None
        for place, command in enumerate(islice(commands, start, None), start):
            if place > end:
                break
            end = max(end, ends.get(id(command.unit), place))
            weight += command.weight
        if start and (alone or weight > most):
            return start
        start = end = end + 1
    return len(commands)


def _is_answered(state: State, finish: ev.MessageFinished) -> bool:
    """Whether nothing is left to do once this reply finished; False if that is not certain.

    It is, if a plain answer is the newest message, has seen the newest question, and nothing
    else was ever begun or queued.
    """
    if finish.error is not None or finish.reason in GOES_ON or finish.message != state.last_message:
        return False
    facts = state.hot_messages.get(finish.message)
    if facts is None or facts.summary or state.now(facts.changes) != "finished":
        return False
    if state.queued or not state.history.holds(facts.added) or state.open_messages():
        return False
    if any(not has_seen(facts.added, facts.seen, version) for version, _ in state.users.recent[-1:]):
        return False
    return state.open_compaction() is None and all(part.kind != "tool" for part in facts.parts.values())
