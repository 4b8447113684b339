"""Live pages: the cost of many idle ones, and the delay of another process's commits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from statistics import median
from typing import Any

import eventlog
from benchmarks.children import Worker, child
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from projections.live.aio import AsyncLive

__all__ = ["CASES", "speaks"]

PAGES = 100
"""Sessions that are followed, and written by turns."""
PACE = 0.01
"""Seconds from one message or token to the next, of all sessions."""
MOST = 10.0, 50.0
"""Milliseconds allowed from a commit to another process's client: median, 99 of 100."""
FLUSH = 100.0
"""Milliseconds of a flush interval, which a delta may wait in addition."""

_IDLE = """
import asyncio, json, sys, time
import eventlog
from projections.live.aio import AsyncLive

async def follow(store, name):
    async for _ in AsyncLive(store, name):
        pass

async def idle(path, count, seconds):
    with eventlog.open(path) as store:
        for number in range(count):
            store.create_session(id=f"s{number}").user("hello")
        tasks = [asyncio.create_task(follow(store, f"s{number}")) for number in range(count)]
        before = -1.0
        while time.process_time() - before > 0.05:  # until all have begun
            before = time.process_time()
            await asyncio.sleep(1)
        start, spent = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        share = (time.process_time() - spent) / (time.perf_counter() - start)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return share * 100

print(json.dumps(asyncio.run(idle(sys.argv[1], int(sys.argv[2]), 5.0))))
"""


@contextmanager
def speaks(path: str) -> Generator[Callable[[Any], object]]:
    """In a worker: say when it was said, in many sessions by turns, as messages or as tokens."""
    with eventlog.open(path) as store:
        sessions = [store.session(f"s{number}") for number in range(PAGES)]

        def say(asked: Any) -> object:
            spent = time.process_time()
            start = time.perf_counter()
            if asked["tokens"]:
                replies = [session.assistant("acme/one").__enter__() for session in sessions]
                texts = [reply.stream_text() for reply in replies]
                store.flush()
                says: list[Callable[[str], object]] = [text.append for text in texts]
            else:
                replies = []
                says = [session.user for session in sessions]
            due = time.perf_counter()
            for number in range(asked["count"]):
                says[number % PAGES](f"{time.perf_counter():.6f} ")
                due += PACE
                time.sleep(max(due - time.perf_counter(), 0))
            for reply in replies:
                reply.abort()
                reply.__exit__(None, None, None)
            return (time.process_time() - spent) / (time.perf_counter() - start)

        yield say


def _times_in(patches: list[dict[str, Any]]) -> Iterator[float]:
    """Yield the times that are said in new text."""
    for patch in patches:
        texts = [part["text"] for part in patch["message"].get("parts", ())] if "message" in patch else []
        for text in (*texts, patch.get("text", "")):
            for word in text.split():
                with suppress(ValueError):
                    yield float(word)


async def _followed(store: eventlog.Store, worker: Worker, asked: object) -> tuple[list[float], float, float]:
    """Follow all sessions while the worker speaks; return the delays, and both loads."""
    delays: list[float] = []
    begun: list[str] = []
    ready = asyncio.Event()

    async def follow(name: str) -> None:
        async for update in AsyncLive(store, name):
            now = time.perf_counter()
            if any("reset" in patch for patch in update.patches):
                begun.append(name)
                if len(begun) == PAGES:
                    ready.set()
            else:
                delays.extend(now - said for said in _times_in(update.patches))

    tasks = [asyncio.create_task(follow(f"s{number}")) for number in range(PAGES)]
    await ready.wait()
    spent, start = time.process_time(), time.perf_counter()
    worker.send(asked)
    theirs = await asyncio.to_thread(worker.receive)
    ours = (time.process_time() - spent) / (time.perf_counter() - start)
    await asyncio.sleep(0.5)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return sorted(delays), ours, theirs


def _following(setting: Setting) -> dict[str, Measurement]:
    path = setting.directory / "followed"
    count = setting.sizes.turns * 4
    measured: dict[str, Measurement] = {}
    with eventlog.open(path) as store:
        for number in range(PAGES):
            store.create_session(id=f"s{number}").user("hello")
        with Worker(speaks, str(path)) as worker:
            for name, tokens, waits in (("commit", False, 0.0), ("delta", True, FLUSH)):
                asked = {"tokens": tokens, "count": count}
                delays, ours, theirs = asyncio.run(_followed(store, worker, asked))
                half, slow = median(delays) * 1e3, delays[len(delays) * 99 // 100] * 1e3
                measured[f"follow.{name}"] = Measurement(half, MOST[0] + waits)
                measured[f"follow.{name}.p99"] = Measurement(slow, MOST[1] + waits)
                cells = {
                    "median ms": half,
                    "p99 ms": slow,
                    "CPU of the reader %": ours * 100,
                    "of the writer %": theirs * 100,
                }
                setting.notes.row(f"{PAGES} live pages, each followed in another process", name, cells)
    idle = child(_IDLE, str(setting.directory / "idle"), str(min(setting.sizes.sessions, 1_000)))
    measured["follow.idle"] = Measurement(idle, 1.0)
    return measured


CASES = (
    Case(
        "follow",
        (
            Figure("follow.idle", "1,000 live pages while nothing happens", "% of a core", "1 %", Target("<=", 1)),
            *(
                figure
                for name, what, waits in (
                    ("commit", "a message, from the call", 0.0),
                    ("delta", "a token, from the call", FLUSH),
                )
                for figure in (
                    Figure(
                        f"follow.{name}",
                        f"{what} to a page of another process, median",
                        "ms",
                        f"{MOST[0] + waits:g} ms",
                        Target("<=", 1),
                    ),
                    Figure(
                        f"follow.{name}.p99",
                        f"{what} to a page of another process, 99 of 100 below",
                        "ms",
                        f"{MOST[1] + waits:g} ms",
                        Target("<=", 1),
                    ),
                )
            ),
        ),
        _following,
    ),
)
