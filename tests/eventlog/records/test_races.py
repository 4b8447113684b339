"""Several processes that name, count, tell and complete on the same sessions at once."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eventlog import Feed
from eventlog import events as ev
from eventlog import open as open_store
from projections.verify.verify import verify
from tests.faults.tally import SLOW
from tests.support.facts_racer import CALLS
from tests.support.python_process import Program, raced
from tests.support.toy_records import ToyMapping


@pytest.mark.promise(3, 4)
@pytest.mark.parametrize("encrypted", [False, True])
def test_no_command_of_many_processes_is_lost_or_done_twice(tmp_path: Path, *, encrypted: bool) -> None:
    """One session a name, one count a put, one number a record, one result a call; all wait."""
    place, keys = tmp_path / "store", [str(tmp_path / "keys")] if encrypted else []
    with open_store(place, keys=keys[0] if keys else None) as store:
        store.create_session(id="shared")
        store.create_session(id="chain")
        with suppress(KeyboardInterrupt), store.create_session(id="late").assistant("m/1", id="m") as reply:
            for number in range(CALLS):
                reply.tool("ls", call_id=f"k{number}", input={})
            raise KeyboardInterrupt
    count, seconds = (8, 20) if SLOW else (4, 1)
    racer = ["-m", "tests.support.facts_racer", place]
    said = [json.loads(told) for told in raced([Program(*racer, number, seconds, *keys) for number in range(count)])]

    def all_of(kind: str) -> list[Any]:
        return [each for one in said for each in one[kind]]

    with open_store(place, keys=keys[0] if keys else None) as store:
        shared, chain = store.session("shared"), Feed(store.session("chain"), ToyMapping())
        named = {(turn, id) for turn, id in all_of("named")}
        assert len(named) == len({turn for turn, _ in named})
        assert {info.id for info in store.sessions(format="f")} == {id for _, id in named}
        users, told = all_of("users"), dict(all_of("told"))
        added = [found.event for found in shared.events() if isinstance(found.event, ev.UserMessageAdded)]
        messages = [event.message for event in added]
        assert set(users) <= set(messages)
        assert len(messages) == len(set(messages)) == len(users) + len(told)
        counter = shared.values.get("counter")
        assert counter is not None
        assert counter.value == str(len(users))
        feed = Feed(shared, ToyMapping())
        assert feed.path() == sorted(told)
        assert [record["text"] for record in feed.read(sorted(told))] == [told[number] for number in sorted(told)]
        path = chain.path()
        assert sorted((before, number) for before, number in all_of("chain")) == list(
            zip([0, *path], path, strict=False)
        )
        results = {(call, by, version) for call, by, version in all_of("late") if by}
        assert len(results) == len({call for call, _, _ in results})
        assert verify(store, deep=True).sound
