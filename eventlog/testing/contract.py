"""The contract: tests that hold for every adapter, on every engine.

A subclass in a test module gives the conversation of an adapter; pytest finds the tests in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest

from eventlog.errors import EventlogError
from eventlog.importers.openai.messages import OpenAIChatMapping
from eventlog.records.feed import Feed
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from eventlog.testing.place import PATIENCE, Place, holding
from eventlog.testing.said import ODD_VALUES, Chat, Said, is_same, user, words_of
from eventlog.testing.worker import Program, run_programs

NAME = "chat"
ALIKE = (*["chat", "chat/1", "chat%2F1", "chat:1", "Chat", "cha", "chaté", "chaté"], "chat ", "c" * 300, "c" * 301)
"""Names of which one begins another, or would be it if they were quoted, cut or folded."""
WORKERS, ROUNDS = 4, 4
SIZES = (60, 480)
"""Messages before the writes that are measured."""


def _in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(*args: Any, **given: Any) -> None:
        asyncio.run(test(*args, **given))

    return run


class AdapterContract:
    """Tests of an adapter.  A subclass gives `chat`; attributes describe its framework."""

    engines: ClassVar[Sequence[str]] = ("memory", "embedded", "encrypted")
    """Engines to run on; `postgres` with a `postgres` method."""
    refused: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors by which the framework refuses a writer that has not read the newest message."""
    has_calls: ClassVar[bool] = True
    """Whether messages may be calls and results."""
    has_data: ClassVar[bool] = True
    """Whether a user's message carries `Said.data`."""
    shows_words: ClassVar[bool] = True
    """Whether the adapter's mapping tells what messages mean, so that the view shows them."""

    def chat(self, store: Store, name: str) -> Chat:
        """Return the conversation of a name, made by a worker of its own."""
        raise NotImplementedError

    def postgres(self) -> str:
        """Return the address of an empty log on a PostgreSQL server."""
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test on each engine."""
        metafunc.parametrize("place", self.engines, indirect=True)

    @pytest.fixture
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Place]:
        """Give a place for stores on the engine of the test."""
        place = Place(request.param, self.postgres() if request.param == "postgres" else str(tmp_path / "store"))
        yield place
        place.close()

    async def add(self, chat: Chat, said: Sequence[Said]) -> None:
        """Add messages; a writer that is refused for what it has not read reads and adds again."""
        for _ in range(1000):
            try:
                return await chat.add(said)
            except self.refused:
                await chat.read()
        raise AssertionError("a writer that reads before each attempt is refused forever")

    # -- order, and what comes back ----------------------------------------------------------------

    @_in_loop
    async def test_messages_come_back_in_their_order(self, place: Place) -> None:
        """Messages of several adds are read, by any object, and shown in the order of the adds."""
        said = [user(*(f"{batch} {number}" for number in range(batch % 3 + 1))) for batch in range(7)]
        chat = self.chat(place.open(), NAME)
        assert await chat.read() == [], "a conversation that nobody has begun has messages"
        for batch in said:
            await chat.add(batch)
        await self._has(place, [one for batch in said for one in batch])

    @_in_loop
    async def test_odd_texts_come_back(self, place: Place) -> None:
        """Lone surrogates, NUL, line ends and large texts come back as they were."""
        said = user("a\ud800b", "NUL \x00 in it", "a\r\nb\u2028c", "\ufeffbegin", "large " * 20_000, "\U0001f99c")
        await self.chat(place.open(), NAME).add(said)
        await self._has(place, said)

    @pytest.mark.parametrize("kind", ODD_VALUES)
    @_in_loop
    async def test_odd_values_come_back(self, place: Place, kind: str) -> None:
        """Values that encoders lose come back: NaN, minus zero, surrogates, depth."""
        if not self.has_data:
            pytest.skip("messages of this framework carry no values")
        told = Said("said", data=ODD_VALUES[kind])
        await self.chat(place.open(), NAME).add([told])
        (found,) = await self.chat(place.open(), NAME).read()
        assert is_same(found.data, told.data), f"{told.data!r:.200} came back as {found.data!r:.200}"

    # -- races ------------------------------------------------------------------------------------

    def test_threads_lose_nothing(self, place: Place) -> None:
        """Threads with event loops of their own add at once: all is in, each add in one piece."""
        store = place.open()
        with ThreadPoolExecutor(WORKERS) as pool:
            adding = [pool.submit(asyncio.run, self._adds(self.chat(store, NAME), one)) for one in range(WORKERS)]
            for one in adding:
                one.result()
        asyncio.run(self._has_rounds(place))

    @pytest.mark.parametrize("objects", [1, WORKERS])
    @_in_loop
    async def test_tasks_lose_nothing(self, place: Place, objects: int) -> None:
        """Tasks with one object, or one each, add at once: all is in, each add in one piece."""
        chats = [self.chat(place.open(), NAME) for _ in range(objects)]
        await asyncio.gather(*(self._adds(chats[worker % objects], worker) for worker in range(WORKERS)))
        await self._has_rounds(place)

    def test_processes_lose_nothing(self, place: Place) -> None:
        """Processes add at once: all is in, each add in one piece."""
        if not place.is_shared:
            pytest.skip("other processes cannot open it")
        place.open().close()
        run_programs(type(self), *(Program(place.engine, place.path, NAME, _rounds(one)) for one in range(WORKERS)))
        asyncio.run(self._has_rounds(place))

    @_in_loop
    async def test_of_two_runs_that_begin_alike_none_is_lost(self, place: Place) -> None:
        """Two workers read the same, then add: what is refused is not in, all else is."""
        chats = [self.chat(place.open(), NAME) for _ in range(2)]
        await chats[0].add(user("asked"))
        for chat in chats:
            await chat.read()
        added: list[str] = []
        for number, chat in enumerate(chats):
            try:
                await chat.add(user(f"{number}"))
                added.append(f"{number}")
            except self.refused:
                continue
        assert added, "both writers of one state are refused"
        await self._has(place, user("asked", *added))
        await self.add(chats[1], user("again"))
        await self._has(place, user("asked", *added, "again"))

    @_in_loop
    async def test_a_write_that_waits_holds_up_no_other_conversation(self, place: Place) -> None:
        """While an add is on its way to the log, another conversation is read and added to."""
        store = place.open()
        slow, other = self.chat(store, NAME), self.chat(store, "other")
        await slow.add(user("begun"))
        await other.add(user("begun"))
        with holding(store, slow.session.id) as held:
            adding = asyncio.ensure_future(slow.add(user("slow")))
            await asyncio.to_thread(held.entered.wait, PATIENCE)
            quick = asyncio.ensure_future(self._add_and_read(other))
            await asyncio.wait({quick}, timeout=PATIENCE / 2)
            was_quick = quick.done()
            held.goes_on.set()
            await asyncio.gather(adding, quick)
        assert was_quick, "an add to one conversation waits for an add to another one"

    # -- ends -------------------------------------------------------------------------------------

    def test_what_was_acknowledged_survives_a_kill(self, place: Place) -> None:
        """Killed at any append, a process has lost no add that returned, and left none in part."""
        if not place.is_shared:
            pytest.skip("other processes cannot open it")
        batches = [user("asked", "and more"), user("again", "and again")]
        place.open().close()
        (whole,) = run_programs(type(self), Program(place.engine, place.path, "whole", batches))
        for at in range(1, whole.appends + 1):
            for behind in (False, True):
                name = f"killed {at} {behind}"
                (died,) = run_programs(type(self), Program(place.engine, place.path, name, batches, at, behind))
                assert died.was_killed or at == whole.appends, "the process was to die"
                asyncio.run(self._goes_on(place, name, batches, died.acknowledged))

    @_in_loop
    async def test_a_cancelled_add_is_settled(self, place: Place) -> None:
        """A cancelled add ends when what it stores is decided, and nothing changes afterwards."""
        store = place.open()
        chat = self.chat(store, NAME)
        await chat.add(user("asked"))
        with holding(store, chat.session.id) as held:
            adding = asyncio.ensure_future(chat.add(user("cancelled")))
            await asyncio.to_thread(held.entered.wait, PATIENCE)
            adding.cancel()
            await asyncio.wait({adding}, timeout=0.2)
            was_late = adding.done() and not held.left.is_set()
            held.goes_on.set()
            await asyncio.wait({adding}, timeout=PATIENCE)
            assert not was_late, "a cancelled add ended while its append was on its way to the log"
        await self._has(place, user("asked", "cancelled"))

    @_in_loop
    async def test_a_superseded_worker_is_refused(self, place: Place) -> None:
        """An add under a lease that another worker took over raises, and leaves nothing."""
        old, new = self.chat(place.open(), NAME), self.chat(place.open(), NAME)

        async def take_over() -> None:
            await new.read()
            with new.session.lease(take_over=True):
                await new.add(user("new"))

        await old.add(user("asked"))
        with pytest.raises(EventlogError), old.session.lease():  # noqa: PT012 - the block is the lease's
            await old.read()
            with ThreadPoolExecutor(1) as another:  # which does not inherit the lease
                another.submit(asyncio.run, take_over()).result()
            await self.add(old, user("late"))
        await self._has(place, user("asked", "new"))

    @_in_loop
    async def test_a_late_result_completes_its_call(self, place: Place) -> None:
        """A result that comes when its call was settled as interrupted is read, and shown once."""
        if not self.has_calls:
            pytest.skip("messages of this framework are no calls")
        asked = [Said("look"), Said('{"at": "the bowl"}', "call", "c1")]
        result = Said("one cracker", "result", "c1")
        chat = self.chat(place.open(), NAME)
        await chat.add(asked)
        with self.chat(place.open(), NAME).session.lease(take_over=True):
            pass
        await chat.add([result])
        assert await self.chat(place.open(), NAME).read() == [*asked, result]
        if self.shows_words:
            assert words_of(chat.session) == ["look", "one cracker"]

    # -- removal ----------------------------------------------------------------------------------

    @_in_loop
    async def test_an_erased_conversation_is_gone(self, place: Place) -> None:
        """After an erasure nothing is read, and after a scrub no file has a text."""
        store = place.open()
        chat = self.chat(store, NAME)
        await chat.erase()
        await chat.add(user("secret-said", "secret-large " * 3000))
        await chat.erase()
        assert await chat.read() == []
        assert await self.chat(store, NAME).read() == []
        if place.files is not None:
            store.scrub()
            left = [text for text in ("secret-said", "secret-large") if files_with(place.files, text)]
            assert not left, f"a file of the store still has {left[0]!r}"
        await self.add(chat, user("anew"))
        await self._has(place, user("anew"))

    @_in_loop
    async def test_a_late_write_brings_nothing_back(self, place: Place) -> None:
        """A write behind another worker's erasure raises, or begins a conversation anew."""
        late, other = self.chat(place.open(), NAME), self.chat(place.open(), NAME)
        await late.add(user("asked"))
        await other.erase()
        try:
            await late.add(user("late"))
        except Exception:  # noqa: BLE001 - any error says that it is refused
            await self._has(place, [])
            await late.read()
            await late.add(user("late"))
        await self._has(place, user("late"))

    @_in_loop
    async def test_a_forgotten_message_is_left_out(self, place: Place) -> None:
        """A message that `Feed.forget` hides is not read; the others are, and more can be added."""
        chat = self.chat(place.open(), NAME)
        for text in ("kept", "secret", "kept too"):
            await chat.add(user(text))
        feed = Feed(chat.session, OpenAIChatMapping())  # which is told no record
        feed.forget([feed.path()[_place_of(feed, "secret")]])
        fresh = self.chat(place.open(), NAME)
        assert [one.text for one in await fresh.read()] == ["kept", "kept too"]
        await self.add(fresh, user("more"))
        assert [one.text for one in await chat.read()] == ["kept", "kept too", "more"]

    # -- names and growth --------------------------------------------------------------------------

    @_in_loop
    async def test_names_that_look_alike_are_others(self, place: Place) -> None:
        """No name is taken for another, when it is read, added to or erased."""
        store = place.open()
        for name in ALIKE:
            await self.chat(store, name).add(user(f"to {name}"))
        for place_of, gone in enumerate(ALIKE):
            for name in ALIKE[place_of:]:
                assert await self.chat(store, name).read() == user(f"to {name}"), f"{name!r:.20} is another's"
            await self.chat(store, gone).erase()

    @_in_loop
    async def test_an_add_writes_as_much_in_a_long_conversation(self, place: Place) -> None:
        """The bytes that an add writes do not grow with the messages that are there."""
        store, numbers = place.open(), count(10_000)
        wrote: list[int] = []

        chat = self.chat(store, NAME)
        for before, size in zip((0, *SIZES), SIZES, strict=False):
            await chat.add(user(*(f"message {next(numbers)}" for _ in range(size - before))))
            start = store.metrics()
            for _ in range(8):
                await chat.add(user(f"message {next(numbers)}"))
            end = store.metrics()
            wrote.append(end.payload_bytes + end.body_bytes - start.payload_bytes - start.body_bytes)
        assert wrote[1] < 1.5 * wrote[0], f"{wrote[0]} bytes behind {SIZES[0]} messages, {wrote[1]} behind {SIZES[1]}"

    # -- helpers ----------------------------------------------------------------------------------

    async def _has(self, place: Place, said: list[Said]) -> None:
        """A new object reads these messages, and the view shows them."""
        chat = self.chat(place.open(), NAME)
        found = [one.text for one in await chat.read()]
        assert found == [one.text for one in said], (
            f"read {str(found)[:200]}, not {str([one.text for one in said])[:200]}"
        )
        if self.shows_words and said:
            shown = words_of(chat.session)
            assert shown == found, f"the view shows {str(shown)[:200]}, not {str(found)[:200]}"

    async def _adds(self, chat: Chat, worker: int) -> None:
        for batch in _rounds(worker):
            await self.add(chat, batch)

    async def _has_rounds(self, place: Place) -> None:
        """All workers' adds are in, each in one piece, those of a worker in their order."""
        found = [one.text for one in await self.chat(place.open(), NAME).read()]
        pairs = list(zip(found[::2], found[1::2], strict=True))
        for worker in range(WORKERS):
            own = [list(pair) for pair in pairs if pair[0].startswith(f"{worker} ")]
            wanted = [[one.text for one in batch] for batch in _rounds(worker)]
            assert own == wanted, f"of worker {worker} is read {own}, not {wanted}"
        await self._has(place, user(*found))

    @staticmethod
    async def _add_and_read(chat: Chat) -> None:
        await chat.add(user("quick"))
        await chat.read()

    async def _goes_on(self, place: Place, name: str, batches: list[list[Said]], acknowledged: int) -> None:
        """A killed program's conversation has whole batches, and takes the others."""
        chat = self.chat(place.open(), name)
        found = await chat.read()
        stored = next((size for size in range(3) if found == [one for batch in batches[:size] for one in batch]), -1)
        assert stored >= 0, f"a killed add is there in part: {[one.text for one in found]}"
        assert stored >= acknowledged, f"{acknowledged} adds returned, {stored} are there"
        for batch in batches[stored:]:
            await self.add(chat, batch)
        assert await self.chat(place.open(), name).read() == [one for batch in batches for one in batch]


def _place_of(feed: Feed, text: str) -> int:
    """Return the place of the first record that has a text."""
    return next(place for place, record in enumerate(feed.read(feed.path())) if text in repr(record))


def _rounds(worker: int) -> list[list[Said]]:
    return [user(f"{worker} {number} a", f"{worker} {number} b") for number in range(ROUNDS)]
