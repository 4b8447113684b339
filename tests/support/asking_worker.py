"""A program of the attack on calls that wait: it runs the loop, or answers for calls.

Usage: `python -m tests.support.asking_worker ROLE PLACE JOURNAL SEED QUESTIONS SESSION…`. The tool
writes the part of each call that it executes to the journal, which is not in the store. A `loop`
kills itself at random moments, exits with 0 once all questions are answered, and rolls back,
redoes, forks and changes schemas between an ask and its run. An `answer` goes on until it is ended.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import eventlog
from eventlog import Allow, Deny, Edit, EventlogError, LeaseHeldError, RefusedError, Session, Store, events
from projections import CallModel, ContextWindow, RunTools

KILLED = 9
OVER = {"done", "withdrawn"}
MODEL = "openai/gpt-5"
LEASE = 1_500
"""Milliseconds after which a server gives a dead owner's lease to another."""


def opened(place: str) -> Store:
    """Open the store as each program of the attack does."""
    return eventlog.open(place, lease_ttl=LEASE if place.startswith("postgres") else 600_000)


class Looper:
    """Answers the questions of some sessions, each with calls that a person is asked for."""

    def __init__(self, store: Store, journal: str, chance: random.Random, questions: int, *, kills: float) -> None:
        self.store = store
        self.chance = chance
        self.questions = questions
        self.kills = kills
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def die(self) -> None:
        """End at once, now and then."""
        if self.chance.random() < self.kills:
            os._exit(KILLED)

    def tool(self, part: str, arguments: dict[str, Any]) -> str:
        """Execute a call: the journal has it."""
        self.die()
        os.write(self._journal, f"{json.dumps([part, arguments])}\n".encode())
        self.die()
        return "done"

    def go_on(self, session: Session, number: int) -> str:
        """Run the loop of a question as far as it goes; returns the state of its turn."""
        with session.turn(f"question {number}", f"r{number}") as turn:
            if turn.state == "failed":
                turn.retry()
            if turn.mine:
                self.loop(session, number)
        return turn.state

    def loop(self, session: Session, number: int) -> None:
        """The loop of a page; the schema of the tool changes now and then, as a deploy does."""
        tools = [{"name": "drop", "input_schema": {"type": "object", "version": self.chance.randrange(4) // 3}}]
        with ContextWindow(session, model=MODEL, tools=tools) as window:
            while step := window.next_step():
                self.die()
                match step:
                    case CallModel():
                        reply, request = window.begin(step)
                        asked = [part for each in request.messages for part in each.parts if getattr(part, "input", "")]
                        if any(f'"{session.id} {number} ' in str(getattr(part, "input", "")) for part in asked):
                            reply.add_text("done")
                            reply.finish()
                            continue
                        for call in range(1 + number % 2):
                            tool = reply.tool("drop", call_id=f"c{call}")
                            tool.stream_input(json.dumps({"name": f"{session.id} {number} {call}"}))
                        reply.end_step("tool-calls")
                    case RunTools():
                        for pending in step.calls:
                            self.die()
                            if pending.allowed:
                                self.execute(window, pending)
                            else:
                                open_reply = window.state.open_reply
                                assert open_reply is not None
                                open_reply.call(pending.part).ask("no undo")
                        window.finish()
                    case _:
                        window.perform(step)

    def execute(self, window: ContextWindow, pending: Any) -> None:
        """Run an allowed call."""
        window.run(pending, lambda arguments: self.tool(pending.part, arguments))

    def disturb(self, session: Session) -> None:
        """Roll back and redo, or fork, between an ask and its run."""
        kind = self.chance.randrange(6)
        asks = [found.version for found in session.events() if isinstance(found.event, events.CallAsked)]
        if kind == 0 and asks:
            with session.lease():
                session.rollback(self.chance.choice(asks[-3:]))
                self.die()
                if self.chance.random() < 0.7:
                    with suppress(RefusedError):  # the rollback was a redo
                        session.redo()
        elif kind == 1:
            fork = session.fork()
            with fork.turn("go on in the fork", "fork") as turn:
                if turn.mine:
                    self.loop(fork, 10_000)

    def work(self, sessions: list[str]) -> None:
        """Go on until every question of every session is answered, and nothing waits."""
        done = dict.fromkeys(sessions, 0)
        while left := [name for name in sessions if done[name] < self.questions]:
            name = self.chance.choice(left)
            session = self.store.session(name)
            try:
                while done[name] < self.questions and self.go_on(session, done[name]) in OVER:
                    done[name] += 1
                if done[name] < self.questions:
                    self.disturb(session)
            except LeaseHeldError:
                time.sleep(0.05)
        for name in sessions:
            while self.last(self.store.session(name)) not in OVER:
                time.sleep(0.01)

    def last(self, session: Session) -> str:
        """Go on with what a rollback has left pending."""
        with session.turn() as turn:
            if turn.mine:
                self.loop(session, 20_000)
        return turn.state


def answer(store: Store, chance: random.Random, sessions: list[str]) -> None:
    """Answer for what waits, beside others who do the same."""
    choices: list[Callable[[str], Any]] = [
        lambda _: Allow(),
        lambda _: Allow(),
        lambda text: Edit({**json.loads(text), "edited": chance.randrange(100)}),
        lambda _: Deny("no"),
    ]
    while os.getppid() != 1:
        name = chance.choice(sessions)
        for asked in store.session(name).asked_calls():
            time.sleep(chance.random() / 200)
            try:
                store.session(name).answer_call(
                    asked.message, asked.call, chance.choice(choices)(asked.arguments), by=f"process {os.getpid()}"
                )
            except EventlogError:
                continue  # another's answer or a rollback came first
        time.sleep(0.005)


def main() -> None:
    """Run one of the programs."""
    role, place, journal, seed, questions, *sessions = sys.argv[1:]
    chance = random.Random(int(seed))
    store = opened(place)
    if role == "answer":
        answer(store, chance, sessions)
    else:
        Looper(store, journal, chance, int(questions), kills=0.02).work(sessions)
        store.close()


if __name__ == "__main__":
    main()
