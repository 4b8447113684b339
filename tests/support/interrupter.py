"""Throw an exception at the n-th place in the engine where a signal may arrive."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType
from typing import Any

import eventlog

ENGINE = str(Path(eventlog.__file__).parent)


class Interrupter:
    """A profiler that throws at the n-th place where a signal may arrive."""

    def __init__(self, at: int, kind: type[BaseException]) -> None:
        self.left = at
        self.kind = kind

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Throw at this place, if it is the one in the engine."""
        code = frame.f_code
        if event not in {"call", "c_return"} or not code.co_filename.startswith(ENGINE):
            return
        if event == "call" and code.co_flags & CO_GENERATOR:  # perhaps its finalizer, where errors are not visible
            return
        self.left -= 1
        if not self.left:
            sys.setprofile(None)
            raise self.kind


def breaks_off(at: int, work: Callable[[], object]) -> bool:
    """Do a work with Ctrl-C at its n-th place; return whether it broke off."""
    sys.setprofile(Interrupter(at, KeyboardInterrupt))
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False
