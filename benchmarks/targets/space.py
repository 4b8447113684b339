"""Target 4: bytes on the disk in the directory of a closed store.

Pages, indexes, journal and locks included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from pathlib import Path
from random import Random

import lmdb

import eventlog
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import disk_bytes
from benchmarks.sessions import known_files, session_files, stream_files
from benchmarks.workloads import DELTA_CHARACTERS, in_deltas, many_streams, prose
from eventlog.importers import import_file
from eventlog.log.embedded.segments.environment import LIB_VERSION
from eventlog.log.embedded.segments.layout import TREES
from projections.transcript.transcript import Transcript

__all__ = ["CASES", "free_pages"]

LONG_ANSWER = 4096
SHORT_ANSWER = 1024
"""Bytes from which on an answer counts as long; below, as short."""
STREAMS = 10_000_000
"""Bytes of the streams; so many that what an empty store takes does not count."""
ANSWERS = 100
"""Answers of each length that are streamed."""
DAY = 86_400 * 100
"""Deltas of a day at 100 a second."""
SIMULATED_ANSWER = 2_000
LEASE_TTL = 10**12
"""Milliseconds: simulated time passes too quickly to renew a lease."""


def _imported(path: Path, files: Sequence[Path]) -> Measurement:
    with eventlog.open(path) as store:
        for file in files:
            import_file(store, file)
    return Measurement(disk_bytes(path) / 1e6, sum(file.stat().st_size for file in files) / 1e6)


def _recordings(setting: Setting) -> dict[str, Measurement]:
    sessions = session_files(setting)
    if setting.recorded is not None:
        sessions = [
            *known_files(sorted(setting.recorded.glob("entireio_c*/*.jsonl")), ("claude_code", "codex")),
        ] or sessions
    path, copies = setting.directory / "sessions", setting.directory / "copies"
    copies.mkdir()
    measured = {
        "target.4.sessions": _imported(path, sessions),
        "target.4.streams": _imported(
            setting.directory / "streams", many_streams(stream_files(setting), copies, STREAMS)
        ),
    }
    measured["target.4.journal"] = Measurement(disk_bytes(path / "journal") / 1e6)
    with eventlog.open(path) as store:
        for info in list(store.sessions()):
            Transcript(store.session(info.id)).oldest_first()
    measured["target.4.rows"] = measured["target.4.sessions"]._replace(value=disk_bytes(path) / 1e6)
    return measured


def _answers(setting: Setting) -> list[str]:
    """Return the assistants' texts of the recorded sessions, or prose."""
    texts: list[str] = []
    if setting.recorded is not None:
        with eventlog.open("memory:") as store:
            for path in session_files(setting):
                import_file(store, path)
            for info in list(store.sessions()):
                for message in Transcript(store.session(info.id)).oldest_first():
                    texts += [part.text for part in message.parts if part.kind in ("text", "reasoning", "tool")]
    return texts or [prose(Random(number), 2 * LONG_ANSWER) for number in range(ANSWERS)]


def _cut_to(texts: Sequence[str], least: int, most: int) -> list[str]:
    """Return answers of `least` to `most` bytes, from texts that are at least as long."""
    sizes = Random(9)
    long = [text for text in dict.fromkeys(texts) if len(text) >= least and text.isprintable() | ("\n" in text)]
    return [text[: sizes.randrange(least, most)] for text in long[:ANSWERS]]


def _streamed(path: Path, answers: Sequence[str]) -> float:
    """Return the bytes that streaming adds to a store, for each byte of the answers' text.

    The journal does not count: its first file exists before and is dropped afterwards.
    """
    clock = _clock()

    def stream(texts: Sequence[str]) -> int:
        with eventlog.open(path, clock=lambda: next(clock), lease_ttl=LEASE_TTL) as store:
            first = next(iter(store.sessions()), None)
            session = store.create_session() if first is None else store.session(first.id)
            for text in texts:
                with session.assistant(model="bench/mark") as reply:
                    append = reply.stream_text().append
                    for delta in in_deltas(text):
                        append(delta)
                    reply.finish()
        return disk_bytes(path) - disk_bytes(path / "journal")

    before = stream(answers[:1])
    others = answers[1:] or answers
    return (stream(others) - before) / sum(len(text.encode("utf-8", "replace")) for text in others)


def _clock() -> Iterator[int]:
    """Return a clock that passes as deltas come: 5 to 40 ms from one look to the next."""
    random = Random(10)
    return accumulate(map(random.randrange, repeat(5), repeat(40)), initial=1_767_225_600_000)  # for any thread


def _seals(setting: Setting) -> dict[str, Measurement]:
    texts = _answers(setting)
    long = _cut_to(texts, LONG_ANSWER, 3 * LONG_ANSWER)
    short = _cut_to(texts, SHORT_ANSWER, LONG_ANSWER)
    return {
        "target.4.seals.long": Measurement(_streamed(setting.directory / "long", long), 1.0),
        "target.4.seals.short": Measurement(_streamed(setting.directory / "short", short), 1.0),
    }


def free_pages(path: Path) -> tuple[int, int]:
    """Return free pages and all pages of a closed store."""
    environment = lmdb.open(str(path / "lmdb"), readonly=True, max_dbs=len(TREES), lock=False, lib_version=LIB_VERSION)
    try:
        every = int(environment.info()["last_pgno"]) + 1
        with environment.begin() as transaction:
            trees = [environment.open_db(name.encode(), txn=transaction, create=False) for name in TREES]
            stats = [environment.stat(), *(transaction.stat(tree) for tree in trees)]
        used = 2 + sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
        return every - used, every
    finally:
        environment.close()


def _a_day(setting: Setting) -> dict[str, Measurement]:
    """Stream answers of 2,000 deltas in a new session each hour, for a day.

    Folds happen while the deltas come.
    """
    path = setting.directory / "day"
    answers = max(int(DAY * setting.sizes.day / SIMULATED_ANSWER), 1)
    with eventlog.open(path) as store:
        session = store.create_session()
        for number in range(answers):
            if number and number % 180 == 0:
                session = store.create_session()
            with session.assistant(model="bench/mark") as reply:
                append = reply.stream_text().append
                for delta in in_deltas(prose(Random(number), SIMULATED_ANSWER * DELTA_CHARACTERS)):
                    append(delta)
                reply.finish()
    free, every = free_pages(path)
    return {"target.4.free": Measurement(max(free, 0), every)}


CASES = (
    Case(
        "target.4.recordings",
        (
            Figure("target.4.sessions", "recorded sessions, imported", "MB", "their JSONL", Target("<=", 0.22)),
            Figure(
                "target.4.rows", "recorded sessions, each read once: with rows", "MB", "their JSONL", Target("<=", 0.25)
            ),
            Figure(
                "target.4.streams",
                "10 MB of streams like the recorded ones, imported",
                "MB",
                "their files",
                Target("<=", 0.12),
            ),
            Figure("target.4.journal", "of that, the journal's files", "MB"),
        ),
        _recordings,
    ),
    Case(
        "target.4.seals",
        (
            Figure(
                "target.4.seals.long",
                "an answer of over 4 KB with its deltas and their times",
                "B/B",
                "its plain text",
                Target("<=", 0.65),
            ),
            Figure(
                "target.4.seals.short",
                "an answer of 1 to 4 KB with its deltas and their times",
                "B/B",
                "its plain text",
                Target("<=", 0.75),
            ),
        ),
        _seals,
    ),
    Case(
        "target.4.free",
        (
            Figure(
                "target.4.free",
                "free pages after a day of streaming (a fiftieth of one without --full)",
                "pages",
                "all pages",
                Target("<=", 0.1),
            ),
        ),
        _a_day,
    ),
)
