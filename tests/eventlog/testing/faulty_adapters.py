"""Adapters with one fault each, of those that their authors make."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from threading import Lock
from typing import Any

from eventlog import Store
from eventlog.testing import AdapterContract, Said
from tests.eventlog.testing.parrot import Talk, record_of


class _LosesOrder(Talk):
    """Adds each message of a write by itself, all at once."""

    async def add(self, said: Sequence[Said]) -> None:
        if len(said) == 1:
            await super().add(said)
        else:
            await asyncio.gather(*(super(_LosesOrder, self).add([one]) for one in reversed(said)))


class _WritesLate(Talk):
    """Leaves a cancelled write to its thread."""

    async def add(self, said: Sequence[Said]) -> None:
        feed, records = self.chat.feed(), [record_of(one) for one in said]
        await asyncio.to_thread(feed.add, records, wait=30.0)


class _SharesALock(Talk):
    """Has one lock for all conversations."""

    lock = Lock()

    async def add(self, said: Sequence[Said]) -> None:
        await asyncio.to_thread(self.lock.acquire)
        try:
            await super().add(said)
        finally:
            self.lock.release()


class _LosesNaN(Talk):
    """Encodes values as strict JSON, in which NaN is null."""

    async def add(self, said: Sequence[Said]) -> None:
        await super().add([Said(one.text, one.kind, one.call, self.encoded(one.data)) for one in said])

    def encoded(self, value: Any) -> Any:
        return json.loads(json.dumps(value), parse_constant=lambda _: None)


class _ErasesByPrefix(Talk):
    """Erases all conversations whose names begin as its own does."""

    async def erase(self) -> None:
        format, key = self.chat.name
        for info in list(self.chat.store.sessions(format=format, prefix=key)):
            self.chat.store.erase(info.id)


class _Grows(Talk):
    """Keeps the whole list beside the messages that it adds."""

    async def add(self, said: Sequence[Said]) -> None:
        await super().add(said)
        self.session.values.put("list", json.dumps([one.text for one in await self.read()]))


def _contract(talk: type[Talk]) -> AdapterContract:
    class Contract(AdapterContract):
        def chat(self, store: Store, name: str) -> Talk:
            return talk(store, name)

    return Contract()


FAULTS: dict[str, tuple[AdapterContract, str, str]] = {
    "lost order": (_contract(_LosesOrder), "test_messages_come_back_in_their_order", "read"),
    "late write": (_contract(_WritesLate), "test_a_cancelled_add_is_settled", "ended while its append"),
    "shared lock": (_contract(_SharesALock), "test_a_write_that_waits_holds_up_no_other_conversation", "waits for"),
    "NaN": (_contract(_LosesNaN), "test_odd_values_come_back", "came back as"),
    "prefix": (_contract(_ErasesByPrefix), "test_names_that_look_alike_are_others", "is another's"),
    "growth": (_contract(_Grows), "test_an_add_writes_as_much_in_a_long_conversation", "bytes behind"),
}
"""For each fault a contract of an adapter that has it, the test that finds it, its words."""
