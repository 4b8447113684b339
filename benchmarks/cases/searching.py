"""Search over many texts: making the index, its size, and the first page of hits.

The texts are prose of 50,000 words, of which the common ones are as common as in English, 600
characters each on average, in sessions of 500. Each has a word of its own.
"""

from __future__ import annotations

from itertools import accumulate
from random import Random

import eventlog
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import disk_bytes, in_turn, timed

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


def _words(random: Random) -> list[str]:
    """Return different words, the shorter ones first, which will be the common ones."""
    found: dict[str, None] = {}
    while len(found) < WORDS:
        length = 2 + len(found).bit_length() // 2 + random.randrange(3)
        found["".join(random.choices(_LETTERS, k=min(length, 11)))] = None
    return list(found)


def _fill(store: eventlog.Store, size: int) -> int:
    """Write texts of this many characters in all; return how many there are."""
    random = Random(21)
    vocabulary = _words(random)
    weights = list(accumulate(1 / (rank + 2.7) for rank in range(WORDS)))
    pool = random.choices(vocabulary, cum_weights=weights, k=400_000)
    texts = written = 0
    session = store.create_session()
    while written < size:
        if texts % A_SESSION == 0:
            session = store.create_session(title="Talk", scope=f"user {texts // A_SESSION % 7}")
        with session.pipeline():
            for number in range(texts, texts + AN_APPEND):
                begin = random.randrange(len(pool) - 400)
                length = int(random.lognormvariate(4.3, 0.8)) + 3
                rare = " halcyon" if number % RARE == 0 else ""
                text = f"{' '.join(pool[begin : begin + length])}{rare} only{number}."
                written += len(text)
                session.user(text)
        texts += AN_APPEND
    return written


def _searching(setting: Setting) -> dict[str, Measurement]:
    """Make the index of a store, and ask it, also after a commit."""
    with eventlog.open(setting.directory / "searching") as store:
        size = _fill(store, setting.sizes.text)
    with eventlog.open(setting.directory / "searching") as store:
        seconds = timed(lambda: store.search("halcyon", wait=None))
        vocabulary = _words(Random(21))
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
                "common": lambda: [timed(lambda: store.search(common, limit=PAGE))],
                "scope": lambda: [timed(lambda: store.search(common, scope="user 3", kinds=["user"], limit=PAGE))],
                "ranked": lambda: [timed(lambda: store.search(common, ranked=True, limit=PAGE))],
                "live": lambda: [live()],
            },
            max(setting.sizes.rounds, 3),
        )
    index = disk_bytes(setting.directory / "searching" / "1" / "derived")
    return {
        "search.build": Measurement(size / seconds / 1e6, BUILD),
        "search.size": Measurement(index / 1e6, size / 1e6),
        "search.rare": Measurement(samples["rare"].median * 1000, QUICK),
        "search.common": Measurement(samples["common"].median * 1000, QUICK),
        "search.scope": Measurement(samples["scope"].median * 1000, QUICK),
        "search.ranked": Measurement(samples["ranked"].median * 1000, RANKED),
        "search.live": Measurement(samples["live"].median * 1000, LIVE),
    }


FIFTY = "50 ms"

CASE = Case(
    "search",
    (
        Figure("search.build", "text that a search index takes in", "MB/s", "3 MB/s", Target(">=", 1)),
        Figure("search.size", "a search index on disk", "MB", "its text", Target("<=", 1)),
        Figure("search.rare", f"first {PAGE} hits of a rare word", "ms", FIFTY, Target("<=", 1)),
        Figure("search.common", f"newest {PAGE} hits of two common words", "ms", FIFTY, Target("<=", 1)),
        Figure("search.scope", f"newest {PAGE} hits of two common words in a scope", "ms", FIFTY, Target("<=", 1)),
        Figure("search.ranked", f"best {PAGE} hits of two common words", "ms", "1 s", Target("<=", 1)),
        Figure("search.live", "finding what was just committed", "ms", "1 s", Target("<=", 1)),
    ),
    _searching,
)
