"""Erasure of whole sessions: at once out of lists, soon out of files (`gathered.py`).

A tombstone is left of an erased session: its id, the root of its hash tree, when, why, and what it
cost.  A fork that is kept goes on with what it inherited; history that no fork inherited goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from eventlog import events as ev
from eventlog.codec.batch import encode, encode_value
from eventlog.errors import CallError, ConflictError, KeyMissingError, LeaseHeldError, NotFoundError, RefusedError
from eventlog.errors.base import brief
from eventlog.history.ancestry import head_of
from eventlog.history.catalog import entry_of, evolve_entry, is_shelf
from eventlog.history.relatives import forks_of, subsessions_of
from eventlog.log.commit import Append, Head
from eventlog.maintenance.gathered import erasing
from eventlog.open_log import server_log
from eventlog.session.held_lease import unless_held
from eventlog.session.owner import is_live, owner_of, release_lease, take_lease
from eventlog.session.session_names import free_erased
from eventlog.session.shelf import check_name, find_shelf
from eventlog.validation import require

if TYPE_CHECKING:
    from eventlog.session.executor import Executor
    from eventlog.session.session import Sessions

Choice: TypeAlias = Literal["refuse", "keep", "cascade"]
_ATTEMPTS = 40


Related: TypeAlias = Callable[[str], Sequence[str]]
"""Gives the forks or the sub-sessions of a session that are not erased."""


class ErasurePlan(NamedTuple):
    """The sessions that an erasure would erase, and all that stands in its way."""

    erased: tuple[str, ...]
    """Sessions in the order in which they would be erased."""
    forks: tuple[str, ...]
    """Forks that neither are kept nor erased with the session."""
    subsessions: tuple[str, ...]
    running: tuple[str, ...]
    """Sessions among those to erase that an owner runs."""


def plan_erasure(
    store: Sessions, sessions: Sequence[str], *, forks: Choice = "refuse", subsessions: Choice = "refuse"
) -> ErasurePlan:
    """Return what an erasure would do now, with all that it would refuse."""
    of_forks, of_subsessions = related(store)
    going = erased_with(
        sessions,
        of_forks,
        of_subsessions,
        forks="keep" if forks == "refuse" else forks,
        subsessions="keep" if subsessions == "refuse" else subsessions,
    )

    def left(of: Related) -> tuple[str, ...]:
        return tuple(sorted({each for name in going for each in of(name)}.difference(going)))

    now = store.host.clock()
    return ErasurePlan(
        tuple(going),
        left(of_forks) if forks == "refuse" else (),
        left(of_subsessions) if subsessions == "refuse" else (),
        tuple(name for name in going if is_live(name, head_of(store.log, name).lease, now)),
    )


def erase(
    store: Sessions,
    session: str,
    *,
    forks: Choice = "refuse",
    subsessions: Choice = "refuse",
    reason: str = "",
    wait: float = 0.0,
    held: str | None = None,
) -> tuple[str, ...]:
    """Erase a session; return the ids of all sessions that were erased.

    Its forks, and its sub-sessions, are kept (a fork with the history it inherited), erased with
    it, or make it `RefusedError`, which names them; nothing is erased then. `LeaseHeldError` if a
    task still runs one of them after `wait` seconds, but for `held`, whose lease the caller has.
    """
    require(str, session, "an id is a str")
    if is_shelf(head_of(store.log, session)):
        raise NotFoundError("session", session)
    return erase_all(store, [session], forks=forks, subsessions=subsessions, reason=reason, wait=wait, held=held)


def erase_all(
    store: Sessions,
    sessions: Sequence[str],
    *,
    forks: Choice,
    subsessions: Choice,
    reason: str,
    wait: float,
    held: str | None = None,
) -> tuple[str, ...]:
    """Erase some sessions as `erase` does one; none is refused for another of them."""
    require(str, reason, "a reason is a str")
    for choice in (forks, subsessions):
        if choice not in ("refuse", "keep", "cascade"):
            raise CallError(f"a choice is refuse, keep or cascade, not {brief(choice)}")
    going = erased_with(sessions, *related(store), forks=forks, subsessions=subsessions)
    others = [name for name in going if name != held]
    since = time.monotonic()
    unless_held(partial(refuse_all_running, store, others), wait)
    with erasing(store):
        for name in going:
            erase_one(store, name, reason, wait=max(0.0, wait + since - time.monotonic()))
    return tuple(going)


def drop_shelf(store: Sessions, name: str, *, reason: str = "") -> None:
    """Erase the shelf of a name; `NotFoundError` if there is none."""
    require(str, reason, "a reason is a str")
    shelf, exists = find_shelf(store.log, check_name(name))
    if not exists:
        raise NotFoundError("shelf", name)
    with erasing(store):
        erase_one(store, shelf, reason)


def related(store: Sessions) -> tuple[Related, Related]:
    """Return what gives the forks and the sub-sessions of a session."""

    def ids_of(heads: Sequence[Head]) -> list[str]:
        return [head.session for head in heads if not entry_of(head).erased]

    return (
        lambda session: ids_of(forks_of(store.log, session)),
        lambda session: ids_of(subsessions_of(store.log, session)),
    )


def erased_with(
    sessions: Sequence[str], of_forks: Related, of_subsessions: Related, *, forks: Choice, subsessions: Choice
) -> list[str]:
    """Return the sessions that are erased with some, dependants first."""
    found: dict[str, None] = {}
    waiting = list(sessions)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = None
        for choice, of, word, option in (
            (forks, of_forks, "forks", "forks"),
            (subsessions, of_subsessions, "sub-sessions", "subsessions"),
        ):
            depending = of(name) if choice != "keep" else ()
            if choice == "refuse" and (others := sorted(set(depending) - found.keys() - set(sessions))):
                raise RefusedError(
                    f"session {name} has {word}: {', '.join(others)}",
                    expected=f'{word} to be kept ({option}="keep"), or erased with it ({option}="cascade")',
                    session=name,
                )
            if choice == "cascade":
                waiting += depending
    return list(reversed(found))


def refuse_all_running(store: Sessions, sessions: Sequence[str]) -> None:
    """Raise `LeaseHeldError` if any of these sessions is run."""
    for name in sessions:
        refuse_running(store, name)


def refuse_running(store: Sessions, session: str) -> None:
    """Raise `LeaseHeldError` if a session is run."""
    lease = head_of(store.log, session).lease
    if is_live(session, lease, store.host.clock()):
        owner = owner_of(lease)
        raise LeaseHeldError(session, owner.describe() if owner else "another owner", lease.until)


def erase_one(store: Sessions, session: str, reason: str, *, wait: float = 0.0) -> None:
    """Write the tombstone under a lease of its own, which fences off every other writer.

    `LeaseHeldError` if another task or owner took the lease and has it after `wait` seconds.
    Then free the session's name. Of a session whose key is gone it is not known: the next caller
    that asks for it frees it.
    """
    executor = store.registry.get(session)
    event = ev.SessionErased(reason)
    name = None
    with _running(store, executor, wait):
        for attempt in range(_ATTEMPTS):
            head = head_of(store.log, session)
            now = store.host.clock()
            entry = entry_of(head)
            name = entry.name
            append = Append(
                session=session,
                payload=encode([(now, event)], now),
                count=1,
                time=now,
                entry=encode_value(evolve_entry(entry, event)),
                expected=head.version,
                epoch=head.lease.epoch,
            )
            try:
                store.log.submit(append).wait()
                break
            except ConflictError:  # a user message came meanwhile, which needs no lease
                if attempt == _ATTEMPTS - 1:
                    raise
    store.registry.evict(session)
    on_server = server_log(store.log)
    if on_server is not None:
        from eventlog.maintenance.vacuum import empty_rows

        empty_rows(on_server, session)
    if name is not None:
        free_erased(store, name, session)


@contextmanager
def _running(store: Sessions, executor: Executor, wait: float) -> Generator[None]:
    """Hold the session's lease, also when its key is gone and it cannot be read."""
    try:
        lease = executor.acquire(wait=wait)
    except KeyMissingError:
        if not store.host.info(executor.id).locked:
            raise
        taken = take_lease(store.log, executor.id, store.host.owner, ttl=store.host.lease_ttl, clock=store.host.clock)
        try:
            yield
        finally:
            release_lease(store.log, executor.id, taken)
    else:
        try:
            yield
        finally:
            executor.leases.abandon()
            lease.unshare()
