"""Forks and sub-sessions of a session, read from lists."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.history.ancestry import ancestry
from eventlog.history.catalog import entry_of, is_session
from eventlog.history.relatives import forks_of, heirs_of, subsessions_of
from tests.support.engines import ENCRYPTED, ENGINES, Engine

STEPS = st.lists(
    st.tuples(st.sampled_from(["begin", "say", "fork", "fork early", "child", "erase", "reopen"]), st.integers(0, 20)),
    max_size=14,
)


@pytest.mark.parametrize("mode", [*ENGINES, ENCRYPTED])
def test_relatives_are_those_that_all_heads_say(mode: str) -> None:
    """Forks, heirs and sub-sessions are those found by a look at every session."""

    @settings(max_examples=40 if mode == "memory" else 5)
    @given(STEPS)
    def agree(steps: list[tuple[str, int]]) -> None:
        engine = Engine(mode)
        try:
            store = engine.open()
            begun: list[str] = []
            for number, (step, pick) in enumerate(steps):
                alive = [info.id for info in store.sessions()]
                name = alive[pick % len(alive)] if alive else ""
                if step == "begin" or not alive:
                    store.create_session(id=f"s{number}").user("hi")
                elif step == "say":
                    store.session(name).user("more")
                elif step.startswith("fork"):
                    session = store.session(name)
                    session.fork(1 if step == "fork early" else None, id=f"s{number}")
                elif step == "child":
                    store.session(name).subsession(id=f"s{number}")
                elif step == "erase":
                    store.erase(name, forks="keep", subsessions="keep")
                else:
                    store = engine.open()
                begun = [head.session for head in store.log.heads() if is_session(head)]
                entries = {head.session: entry_of(head) for head in store.log.heads() if is_session(head)}
                living = [id for id, entry in entries.items() if not entry.erased]
                for id in begun:
                    assert [head.session for head in forks_of(store.log, id)] == [
                        one for one in begun if entries[one].fork_of == id
                    ]
                    assert [head.session for head in subsessions_of(store.log, id)] == [
                        one for one in living if entries[one].parent == id
                    ]
                    assert heirs_of(store.log, id) == [
                        one
                        for one in living
                        if one != id and any(stream.session == id for stream in ancestry(store.log, one))
                    ]
        finally:
            engine.close()

    agree()
