"""Processes of a contract, each of which adds batches, and may be killed at an append."""

from __future__ import annotations

import asyncio
import os
import signal
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from eventlog.log.commit import Append
from eventlog.testing.place import Place
from eventlog.testing.said import Said


class Program(NamedTuple):
    """Batches to add to the conversation of a name, in a process of its own."""

    engine: str
    path: str
    name: str
    batches: list[list[Said]]
    kill_at: int = 0
    """Number of the append at which the process dies; 0: at none."""
    behind: bool = False
    """Whether it dies when that append is durable, not before."""


class Outcome(NamedTuple):
    """Work of a process before it ended."""

    acknowledged: int
    """Batches whose add returned."""
    appends: int
    """Appends that it came to, if it was not killed."""
    was_killed: bool


def run_programs(contract: type[Any], *programs: Program) -> list[Outcome]:
    """Run programs at once, and return how each ended."""
    context = get_context("forkserver")
    context.set_forkserver_preload([contract.__module__])
    begun: list[tuple[Any, Connection]] = []
    for program in programs:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_play, args=(contract, program, theirs))
        child.start()
        theirs.close()
        begun.append((child, ours))
    return [_outcome(child, told) for child, told in begun]


def _outcome(child: Any, told: Connection) -> Outcome:
    last: tuple[int, int] = (0, 0)
    with told:
        try:
            while True:
                last = told.recv()
        except EOFError:
            child.join()
    assert child.exitcode in {0, -signal.SIGKILL}, "a program failed in its process: its error is in the output"
    return Outcome(*last, child.exitcode != 0)


def _play(contract: type[Any], program: Program, told: Connection) -> None:
    place = Place(program.engine, program.path)
    store = place.open()
    submit, appends = store.log.submit, 0

    def counted(append: Append) -> Any:
        nonlocal appends
        appends += 1
        ticket = submit(append) if appends != program.kill_at or program.behind else None
        if appends == program.kill_at:
            if ticket is not None:
                ticket.wait()
            os.kill(os.getpid(), signal.SIGKILL)
        return ticket

    store.log.submit = counted  # type: ignore[method-assign]

    async def add_all() -> None:
        tests = contract()
        chat = tests.chat(store, program.name)
        for number, batch in enumerate(program.batches, 1):
            await tests.add(chat, batch)
            told.send((number, appends))

    asyncio.run(add_all())
    place.close()
    told.send((len(program.batches), appends))
