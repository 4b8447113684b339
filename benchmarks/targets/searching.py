"""Search over many texts: making the index, its size, and the first page of hits.

The texts are prose of 50,000 words, of which the common ones are as common as in English, 600
characters each on average, in sessions of 500. Each has a word of its own.
"""

from __future__ import annotations

from itertools import accumulate
from random import Random

import eventlog
from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import disk_bytes, in_turn, timed
from eventlog import events as ev
from eventlog.codec.batch import encode, pack
from eventlog.history.catalog import CatalogEntry
from eventlog.log.contract import Append

__all__ = ["CASES", "fill"]

WORDS = 50_000
A_SESSION = 500
"""Texts of a session."""
AN_APPEND = 20
RARE = 997
"""Every so many texts say a word that is asked for: fewer than 1,000 hits in a GB."""
PAGE = 20
BUILD, QUICK, RANKED, LIVE = 3.0, 50.0, 1_000.0, 1_000.0
"""MB a second; milliseconds of a page newest first, of a ranked one, after a commit."""
_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def words(random: Random) -> list[str]:
    """Return different words, the shorter ones first, which will be the common ones."""
    found: dict[str, None] = {}
    while len(found) < WORDS:
        length = 2 + len(found).bit_length() // 2 + random.randrange(3)
        found["".join(random.choices(_LETTERS, k=min(length, 11)))] = None
    return list(found)


def fill(store: eventlog.Store, size: int) -> int:
    """Write texts of this many characters in all; return how many there are."""
    random = Random(21)
    vocabulary = words(random)
    weights = list(accumulate(1 / (rank + 2.7) for rank in range(WORDS)))
    pool = random.choices(vocabulary, cum_weights=weights, k=400_000)
    texts = written = 0
    while written < size:
        session = f"s{texts // A_SESSION:06}"
        first: list[ev.Event] = [ev.SessionStarted("Talk", f"user {texts // A_SESSION % 7}")]
        for start in range(0, A_SESSION, AN_APPEND):
            events = [*first]
            for number in range(texts, texts + AN_APPEND):
                begin = random.randrange(len(pool) - 400)
                length = int(random.lognormvariate(4.3, 0.8)) + 3
                rare = " halcyon" if number % RARE == 0 else ""
                text = f"{' '.join(pool[begin : begin + length])}{rare} only{number}."
                written += len(text)
                events += [
                    ev.UserMessageAdded(f"m{number}"),
                    ev.PartStarted(f"m{number}", f"p{number}", eventlog.Text(text)),
                ]
            time = 1_700_000_000_000 + texts * 2_000
            store.log.submit(
                Append(
                    session=session,
                    payload=encode([(time + place * 1_000, event) for place, event in enumerate(events)], time),
                    entry=pack(CatalogEntry("Talk", f"user {texts // A_SESSION % 7}")),
                    count=len(events),
                    messages=AN_APPEND,
                    time=time,
                    creates_at=0 if first else None,
                )
            )
            first = []
            texts += AN_APPEND
            if start % 100 == 0:
                store.log.sync()
    store.log.sync()
    return written


def _searching(setting: Setting) -> dict[str, Measurement]:
    """Make the index of a store, and ask it, also after a commit."""
    with opened(setting.directory, "searching") as store:
        size = fill(store, setting.sizes.import_bytes)
    with opened(setting.directory, "searching") as store:
        seconds = timed(lambda: store.search("halcyon", wait=None))
        vocabulary = words(Random(21))
        common = f"{vocabulary[3]} {vocabulary[8]}"
        session = store.create_session()

        def live() -> float:
            session.user("fresh as paint")
            took = timed(lambda: found.append(len(store.search("fresh paint", limit=1).hits)))
            assert found[-1] == 1
            return took

        found: list[int] = []
        samples = in_turn(
            {
                "rare": lambda: [timed(lambda: store.search("halcyon", limit=PAGE))],
                "all": lambda: [timed(lambda: store.search("halcyon", limit=1_000))],
                "common": lambda: [timed(lambda: store.search(common, limit=PAGE))],
                "scope": lambda: [timed(lambda: store.search(common, scope="user 3", kinds=["user"], limit=PAGE))],
                "ranked": lambda: [timed(lambda: store.search(common, ranked=True, limit=PAGE))],
                "live": lambda: [live()],
            },
            max(setting.sizes.rounds, 3),
        )
    index = disk_bytes(setting.directory / "searching" / "derived")
    return {
        "search.build": Measurement(size / seconds / 1e6, BUILD),
        "search.size": Measurement(index / 1e6, size / 1e6),
        "search.rare": Measurement(samples["rare"].median * 1000, QUICK),
        "search.all": Measurement(samples["all"].median * 1000),
        "search.common": Measurement(samples["common"].median * 1000, QUICK),
        "search.scope": Measurement(samples["scope"].median * 1000, QUICK),
        "search.ranked": Measurement(samples["ranked"].median * 1000, RANKED),
        "search.live": Measurement(samples["live"].median * 1000, LIVE),
    }


CASES = (
    Case(
        "search",
        (
            Figure("search.build", "text that a search index takes in", "MB/s", "3 MB/s", Target(">=", 1)),
            Figure("search.size", "a search index on disk", "MB", "its text", Target("<=", 1)),
            Figure("search.rare", f"first {PAGE} hits of a rare word", "ms", "50 ms", Target("<=", 1)),
            Figure("search.all", "all hits of that word on one page", "ms"),
            Figure("search.common", f"newest {PAGE} hits of two common words", "ms", "50 ms", Target("<=", 1)),
            Figure(
                "search.scope", f"newest {PAGE} hits of two common words in a scope", "ms", "50 ms", Target("<=", 1)
            ),
            Figure("search.ranked", f"best {PAGE} hits of two common words", "ms", "1 s", Target("<=", 1)),
            Figure("search.live", "finding what was just committed", "ms", "1 s", Target("<=", 1)),
        ),
        _searching,
    ),
)
