"""Counting the tokens of a view holds no second copy of a large text."""

from __future__ import annotations

import tracemalloc

from projections.tokens.counter import CharsCounter
from projections.view.neutral import NeutralMessage, Result
from projections.view.token_count import ViewCounter

CHARACTERS = 20_000_000


def test_a_large_text_is_not_copied_to_be_counted() -> None:
    """A large output is hashed piece by piece: counting takes a few pieces of memory."""
    messages = [NeutralMessage("tool", (Result("c", "bash", "x" * CHARACTERS),))]
    counter = ViewCounter(CharsCounter())
    tracemalloc.start()
    tokens = counter.count(messages)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tokens > CHARACTERS // 4
    assert most < CHARACTERS // 5
