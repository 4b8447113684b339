"""Who runs a session, and who has a store open: process, host, task and time, for errors.

The program of a process, and since when it runs, is known of processes of this machine only.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from projections.cli.exits import Exit, Fault
from projections.cli.times import local

if TYPE_CHECKING:
    from eventlog import Store
    from eventlog.errors import LeaseHeldError
    from eventlog.session.session import Sessions

_WORDS = 60
"""Characters of a program's name, and of a question, that are shown."""


@contextmanager
def naming_holders(store: Store, path: Path | str) -> Generator[None]:
    """Say of an error who holds what is busy, and what to do about it."""
    from eventlog.errors import BusyError, LeaseHeldError

    try:
        yield
    except LeaseHeldError as error:
        raise Fault(_runner(store, error), Exit.BUSY) from error
    except BusyError as error:
        others = list(_processes_with(path)) if isinstance(path, Path) else []
        if not others:
            raise
        raise Fault(
            f"{error}: {', '.join(others)}; end {'it' if len(others) == 1 else 'them'}, then run the command again",
            Exit.BUSY,
        ) from error


def _runner(store: Store, error: LeaseHeldError) -> str:
    """Return who runs a session, with what it answers, until when, and what to do."""
    until = f"; its lease ends at {local(error.until)} unless it goes on" if error.until else ""
    who = _owner(store, error.session) or error.owner
    return (
        f"session {error.session} is run by {who}{_task(store, error.session)}{until}: wait until it is done, or stop "
        "that program, then run the command again"
    )


def runner(store: Sessions, session: str) -> str | None:
    """Return who runs a session, and what it answers; None for a session that is not run."""
    from eventlog.session.status import state_of

    head = store.log.head(session)
    if head is None or state_of(store.registry, head, store.info(session)) != "running":
        return None
    return f"{_owner(store, session) or 'another process'}{_task(store, session)}"


def _owner(store: Sessions, session: str) -> str | None:
    """Return the process that has the lease of a session, as far as its owner is named."""
    from eventlog.session.owner import owner_of

    head = store.log.head(session)
    owner = None if head is None else owner_of(head.lease)
    if owner is None:
        return None
    is_here = owner.host == os.uname().nodename
    return f"{_process(owner.process) if is_here else f'process {owner.process}'} on host {owner.host}"


def _task(store: Sessions, session: str) -> str:
    """Return what the runner of a session does: the question it answers, and since when."""
    from eventlog.errors import EventlogError
    from projections.transcript.transcript import Transcript
    from projections.view.opening_words import opening

    with suppress(EventlogError):
        newest = Transcript(store.session(session)).page(2)
        if newest and newest[0].role == "assistant" and newest[0].finished is None:
            reply, *asked = newest
            words = "".join(part.text for part in asked[0].parts if part.kind == "text") if asked else ""
            question = f" {opening(words, _WORDS)!r}" if words else ""
            return f", which answers{question} in {reply.id} since {local(reply.created)}"
    return ""


def _processes_with(path: Path) -> Iterator[str]:
    """Yield the other processes of this machine that have a store open."""
    presence = str((path / "open").resolve())
    for place in Path("/proc").glob("[0-9]*"):
        if int(place.name) == os.getpid():
            continue
        with suppress(OSError):
            if any(os.readlink(fd) == presence for fd in (place / "fd").iterdir()):  # noqa: PTH115  # of many files
                yield f"{_process(int(place.name))} on host {os.uname().nodename}"


def _process(number: int) -> str:
    """Return a process with its program, and since when it runs."""
    place = Path(f"/proc/{number}")
    try:
        words = place.joinpath("cmdline").read_text(errors="replace").split("\0")
        ticks = int(place.joinpath("stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19])
        boot = next(
            int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime ")
        )
    except (OSError, ValueError, IndexError, StopIteration):  # not Linux, or it has just ended
        return f"process {number}"
    since = local((boot + ticks // os.sysconf("SC_CLK_TCK")) * 1000)
    return f"process {number} ({_program(words)}, since {since})"


def _program(words: list[str]) -> str:
    """Return the program and its script or module; other arguments may be secrets."""
    from eventlog.errors.base import cut

    names = [Path(words[0]).name]
    if len(words) > 2 and words[1] == "-m":
        names += words[1:3]
    elif len(words) > 1 and not words[1].startswith("-"):
        names.append(Path(words[1]).name)
    return cut(" ".join(names))[:_WORDS]
