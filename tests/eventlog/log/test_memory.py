"""The memory log under interrupts: a broken-off append is in everywhere or nowhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.log import memory
from projections.verify.verify import verify


class Interrupter:
    """A tracer that throws at the n-th line executed in `memory.py`, as a signal would."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, _: Any) -> Interrupter | None:
        """Throw at this line, if it is the one."""
        if frame.f_code.co_filename != memory.__file__:
            return None
        if event == "line":
            self.left -= 1
            if not self.left:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def is_interrupted(command: Callable[[], object], at: int) -> bool:
    """Interrupt a command at its n-th line in the memory log; False if it has none."""
    before = sys.gettrace()
    sys.settrace(Interrupter(at))
    try:
        command()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("again", [0, 1, 5, 9, 14])
def test_an_interrupt_at_any_line_of_the_memory_log_leaves_a_sound_session(again: int) -> None:
    """Promises 1 and 12: Ctrl-C at any line, even twice, damages nothing; a retry works once."""
    place = 1
    text = "long " * 2000
    while True:
        with eventlog.open("memory:", flush_interval=1000.0) as store:
            session = store.create_session(id="s")
            session.user("before")

            def ask(session: eventlog.Session = session) -> object:
                return session.user(text, request_id="r")

            if not is_interrupted(ask, place):
                break
            if again:
                is_interrupted(ask, again)
            session.user("after")
            asked = ask()
            assert store.log.check() == [], place
            assert verify(store).sound, place
            added = [each.event for each in session.events() if isinstance(each.event, ev.UserMessageAdded)]
            assert sum(event.message == asked for event in added) == 1, place
            assert len(added) == 3, place
            assert store.log.last_positions()[0] == session.version, place
        place += 1
    assert place > 30
