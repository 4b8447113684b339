"""Random commands on feeds of two stores on one place, against plain lists of records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from eventlog import ConflictError, Feed, Forgotten, Redacted, RefusedError, Session, Store
from eventlog import events as ev
from eventlog.history.checkpoint_store import PREFIX
from eventlog.testing.file_search import files_with
from projections import Transcript
from projections.verify.verify import verify
from tests.support.engines import ENCRYPTED, ENGINES, POSTGRES, Engine
from tests.support.toy_records import ToyMapping, shown

INTERRUPTED = "[Tool execution was interrupted]"
REDACTED = "[Redacted]"
PICKS = st.integers(0, 1 << 16)
STORES = st.integers(0, 1)
KINDS = st.lists(st.sampled_from(["user", "answer", "call", "call", "result", "other"]), min_size=1, max_size=4)
NUMBERS = count(1)
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


class Told:
    """A record, in all sessions that have it."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value
        self.forgotten = False
        self.redacted = False

    @property
    def secret(self) -> str:
        """A text that only this record has."""
        return str(self.value["secret"])


Item = tuple[str, Any]
"""A record, a message of the user's own, or a late result `(call, output)`."""


class Model:
    """A session: what it says now, and what it said right after each record."""

    def __init__(self) -> None:
        self.items: tuple[Item, ...] = ()
        self.after: dict[int, tuple[Item, ...]] = {}
        self.before: dict[int, tuple[Item, ...]] = {}
        self.told: dict[int, Told] = {}

    def fork(self, at: int | None) -> Model:
        """The model of a fork, at the end or right behind a record."""
        fork = Model()
        fork.items = self.items if at is None else self.after[at]
        fork.after, fork.before, fork.told = dict(self.after), dict(self.before), dict(self.told)
        if at is not None:
            for number in list(self.told):
                if number > at:
                    del fork.after[number], fork.before[number], fork.told[number]
        return fork

    def right_after(self, number: int) -> Model:
        """Return the model of the session right after a record, as it is shown now."""
        then = Model()
        then.items, then.told = self.after[number], self.told
        return then

    def path(self) -> list[int]:
        """Numbers of the effective records."""
        return [number for kind, number in self.items if kind == "record" and not self.told[number].forgotten]

    def roll_back(self, number: int) -> None:
        """Go back to right behind a record, or to before all of them."""
        path = self.path()
        if number:
            self.items = self.after[number]
        elif path:
            self.items = self.before[path[0]]

    def add(self, numbers: Sequence[int], told: Sequence[Told]) -> None:
        """Tell records behind what it says now."""
        for number, one in zip(numbers, told, strict=True):
            self.told[number] = one
            self.before[number] = self.items
            self.items = (*self.items, ("record", number))
            self.after[number] = self.items

    def answers(self) -> dict[str, str | None]:
        """Outputs of the calls by their id, None for a call without a result."""
        outputs: dict[str, str | None] = {}
        for kind, what in self.items:
            if kind == "late":
                outputs[what[0]] = what[1]
            elif kind == "record":
                one = self.told[what]
                for call in one.value.get("calls", ()):
                    outputs[call["id"]] = None
                call = one.value.get("call", "")
                if outputs.get(call, "") is None:
                    outputs[call] = INTERRUPTED if one.forgotten else one.value["output"]
        return outputs

    def view(self) -> list[tuple[Any, ...]]:
        """The messages that a view shows of it."""
        outputs = self.answers()
        found: list[tuple[Any, ...]] = []
        for kind, what in self.items:
            if kind == "user":
                found.append(("user", what, ()))
            one = self.told[what] if kind == "record" else None
            if one is None or one.forgotten or one.value["kind"] not in {"user", "answer"}:
                continue
            text = REDACTED if one.redacted else one.value["text"]
            calls = tuple(call["id"] for call in one.value.get("calls", ()))
            found.append(("user" if one.value["kind"] == "user" else "assistant", text, calls))
            found += [("tool", outputs[call] if outputs[call] is not None else INTERRUPTED, call) for call in calls]
        return found


class Records(RuleBasedStateMachine):
    """Feeds of a few sessions, each seen by two stores."""

    engine_name = "memory"

    @initialize()
    def begin(self) -> None:
        """Open two stores and begin a session."""
        self.engine = Engine(self.engine_name)
        self.open()
        session = self.stores[0].create_session()
        self.models = {session.id: Model()}

    def open(self) -> None:
        """Open two stores on the place."""
        self.stores: list[Store] = [self.engine.open(checkpoint_events=7), self.engine.open()]
        self.feeds: dict[tuple[int, str], Feed] = {}

    def teardown(self) -> None:
        """Check all once more, as a verification does, and remove the place."""
        if hasattr(self, "engine"):
            report = verify(self.stores[0], deep=True)
            assert [session for session in report.sessions if session.problems] == []
            self.engine.close()

    def pick(self, pick: int, store: int) -> tuple[Model, Feed]:
        """A session's model and its feed in one of the stores."""
        name = sorted(self.models)[pick % len(self.models)]
        if (store, name) not in self.feeds:
            self.feeds[store, name] = Feed(self.stores[store].session(name), ToyMapping())
        return self.models[name], self.feeds[store, name]

    def make(self, kinds: list[str], model: Model) -> list[Told]:
        """Records of these kinds; results are of calls that wait."""
        made: list[Told] = []
        waiting = [call for call, output in model.answers().items() if output is None]
        for kind in kinds:
            number = next(NUMBERS)
            value: dict[str, Any] = {"kind": kind, "secret": f"secret-{number:06}-of-a-record"}
            if kind == "user":
                value["text"] = f"question {number:06} of the user"
            elif kind in {"answer", "call"}:
                value.update(kind="answer", text=f"answer {number:06} of the model", calls=[])
                if kind == "call":
                    value["calls"] = [{"id": f"c{number}", "tool": "ls", "input": {"path": f"/{number}", "deep": 1.0}}]
                    waiting.append(f"c{number}")
            elif kind == "result":
                value.update(call=waiting.pop(0) if waiting else "none", output=f"output {number:06} " * 90)
            made.append(Told(value))
        return made

    # -- telling -------------------------------------------------------------------------------

    @rule(pick=PICKS, store=STORES, kinds=KINDS)
    def add(self, pick: int, store: int, kinds: list[str]) -> None:
        """Tell records behind the newest."""
        model, feed = self.pick(pick, store)
        made = self.make(kinds, model)
        model.add(feed.add([one.value for one in made]), made)

    @rule(pick=PICKS, store=STORES, kinds=KINDS, where=PICKS)
    def add_behind(self, pick: int, store: int, kinds: list[str], where: int) -> None:
        """Tell records behind any record, or before all."""
        model, feed = self.pick(pick, store)
        after = [0, *model.told][where % (len(model.told) + 1)]
        path = model.path()
        if after != (path[-1] if path else 0):
            model.roll_back(after)
        made = self.make(kinds, model)
        model.add(feed.add([one.value for one in made], after=after), made)

    @rule(pick=PICKS, store=STORES, expected=st.integers(0, 9))
    def add_expecting(self, pick: int, store: int, expected: int) -> None:
        """A caller who does not know the newest record is refused, and nothing is written."""
        model, feed = self.pick(pick, store)
        version, made = feed.session.version, self.make(["user"], model)
        newest = (model.path() or [0])[-1]
        if expected == newest:
            model.add(feed.add([made[0].value], expected=expected), made)
            return
        with pytest.raises(ConflictError):
            feed.add([made[0].value], expected=expected)
        assert feed.session.version == version

    @rule(pick=PICKS, store=STORES, keep=PICKS, kinds=KINDS)
    def replace(self, pick: int, store: int, keep: int, kinds: list[str]) -> None:
        """Make the records a list that differs behind some place."""
        model, feed = self.pick(pick, store)
        path = model.path()
        if any(model.told[number].redacted for number in path):
            return
        keep %= len(path) + 1
        if keep < len(path):
            model.roll_back(path[keep - 1] if keep else 0)
            if not keep or any(one not in model.path() for one in path[:keep]):
                keep = len(model.path()) if keep else 0
        kept = [model.told[number].value for number in model.path()]
        made = self.make(kinds, model)
        numbers = feed.replace([*kept, *(one.value for one in made)])
        model.add(numbers[len(kept) :], made)
        assert numbers == model.path()

    @rule(pick=PICKS, store=STORES, number=PICKS)
    def user(self, pick: int, store: int, number: int) -> None:
        """A message of the user's own, which is no record."""
        model, feed = self.pick(pick, store)
        text = f"by hand {number}"
        feed.session.user(text)
        model.items = (*model.items, ("user", text))

    @rule(pick=PICKS, store=STORES)
    def take_lease(self, pick: int, store: int) -> None:
        """Another owner settles what waits for results."""
        _, feed = self.pick(pick, store)
        with feed.session.lease():
            pass

    @rule(pick=PICKS, store=STORES, where=PICKS)
    def late_result(self, pick: int, store: int, where: int) -> None:
        """A result comes after its call was settled."""
        model, feed = self.pick(pick, store)
        waiting = [call for call, output in model.answers().items() if output is None]
        waiting = [call for call in waiting if ("assistant", call) in _calls(model)]
        if not waiting:
            return
        call = waiting[where % len(waiting)]
        with feed.session.lease():
            pass
        message = _message_of(feed.session, call)
        output = f"late {next(NUMBERS):06}"
        version = feed.session.late_result(message, call, output)
        assert feed.session.late_result(message, call, output) == version == feed.session.version
        with pytest.raises(RefusedError):
            feed.session.late_result(message, call, "another")
        model.items = (*model.items, ("late", (call, output)))

    @rule(pick=PICKS, store=STORES, where=PICKS)
    def roll_back(self, pick: int, store: int, where: int) -> None:
        """Roll back to a record, as one does without a feed."""
        model, feed = self.pick(pick, store)
        if model.told:
            number = list(model.told)[where % len(model.told)]
            feed.session.rollback(feed.at(number))
            model.items = model.after[number]

    @precondition(lambda self: len(self.models) < 4)
    @rule(pick=PICKS, store=STORES, where=PICKS)
    def fork(self, pick: int, store: int, where: int) -> None:
        """Fork at a record, or at the end."""
        model, feed = self.pick(pick, store)
        places = [None, *model.told]
        at = places[where % len(places)]
        fork = feed.session.fork(None if at is None else feed.at(at))
        self.models[fork.id] = model.fork(at)

    # -- hiding --------------------------------------------------------------------------------

    @rule(pick=PICKS, store=STORES, where=PICKS, several=st.integers(1, 3))
    def forget(self, pick: int, store: int, where: int, several: int) -> None:
        """Forget some records."""
        model, feed = self.pick(pick, store)
        numbers = list(model.told)
        if numbers:
            start = where % len(numbers)
            feed.forget(numbers[start : start + several])
            for number in numbers[start : start + several]:
                model.told[number].forgotten = True

    @rule(pick=PICKS, store=STORES, where=PICKS)
    def redact(self, pick: int, store: int, where: int) -> None:
        """Redact the text of a record."""
        model, feed = self.pick(pick, store)
        numbers = [number for number, one in model.told.items() if "text" in one.value and not one.forgotten]
        if numbers:
            number = numbers[where % len(numbers)]
            feed.session.redact(_part_of(feed.session, number), search=False)
            model.told[number].redacted = True

    @precondition(lambda self: len(self.models) > 1)
    @rule(pick=PICKS)
    def erase(self, pick: int) -> None:
        """Erase a session; its forks keep what they inherited."""
        name = sorted(self.models)[pick % len(self.models)]
        self.feeds = {key: feed for key, feed in self.feeds.items() if key[1] != name}
        self.stores[0].erase(name, forks="keep")
        del self.models[name]

    # -- upkeep --------------------------------------------------------------------------------

    @rule()
    def drop_derived(self) -> None:
        """Derived data is deleted."""
        log = self.stores[0].log
        for name in self.models:
            own = log.of(name)
            own.put_derived([(key, None) for key in log.derived_keys(PREFIX)])

    @rule()
    def reopen(self) -> None:
        """Close both stores and open them again."""
        for store in self.stores:
            store.close()
        self.open()

    @precondition(lambda self: self.engine_name in {"embedded", ENCRYPTED})
    @rule()
    def scrub(self) -> None:
        """Nothing of a hidden record is in a file after a scrub, and the store verifies."""
        for store in self.stores:
            store.close()
        self.engine.open().scrub()
        told = {id(one): one for model in self.models.values() for one in model.told.values()}
        for one in told.values():
            if one.forgotten or one.redacted:
                assert files_with(self.engine.path, one.secret) == []
                assert "text" not in one.value or files_with(self.engine.path, one.value["text"]) == []
        self.engine.close_stores()
        self.open()
        report = verify(self.stores[0])
        assert [session for session in report.sessions if session.problems] == []

    @invariant()
    def same(self) -> None:
        """Records, paths and views are those of the lists."""
        if not hasattr(self, "models"):
            return
        for place, (name, model) in enumerate(sorted(self.models.items())):
            _, feed = self.pick(place, 0)
            for store in range(2):
                _, feed = self.pick(place, store)
                assert feed.path() == model.path()
                expected = [
                    Forgotten(number)
                    if model.told[number].forgotten
                    else Redacted(number)
                    if model.told[number].redacted
                    else model.told[number].value
                    for number in model.told
                ]
                assert feed.read(list(model.told)) == expected
                assert shown(self.stores[store].session(name)) == model.view()
            texts = [
                "".join(part.text for part in message.parts if part.kind == "text") for message in _transcript(feed)
            ]
            assert texts == [text for role, text, _ in model.view() if role != "tool"]
            for number in [*model.after][-3:]:
                assert shown(feed.session, at=number) == model.right_after(number).view()


def _transcript(feed: Feed) -> list[Any]:
    return list(reversed(list(Transcript(feed.session).newest_first())))


def _calls(model: Model) -> set[tuple[str, str]]:
    return {(role, call) for role, _, calls in model.view() if role == "assistant" for call in calls}


def _message_of(session: Session, call: str) -> str:
    """The newest effective message with a call of this id."""
    found = [span.item for span in session.history() if isinstance(span.item, ev.PartStarted)]
    return next(item.message for item in reversed(found) if getattr(item.kind, "call", "") == call)


def _part_of(session: Session, number: int) -> str:
    """The first part that a record begins."""
    events = [recorded.event for recorded in session.events(upto=number)]
    kept = events[-1]
    assert isinstance(kept, ev.RecordKept)
    own = events[len(events) - 1 - kept.events :]
    return next(event.part for event in own if isinstance(event, ev.PartStarted))


@pytest.mark.promise(7)
@pytest.mark.parametrize("engine", [*ENGINES, ENCRYPTED])
def test_feeds_agree_with_plain_lists(engine: str) -> None:
    """Every path, record, view and transcript is that of the list after any commands."""

    class Machine(Records):
        engine_name = engine

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=8 if engine in {"embedded", ENCRYPTED, POSTGRES} else 25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=SLOW,
            phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
        ),
    )
