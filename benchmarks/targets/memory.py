"""Target 8: memory, each figure in a process of its own.

Measured while a view of a long history is opened, and while a large file is imported. The peak is
the kernel's `VmHWM`; where it is missing the case reports zero. The view's own share is the
difference to opening and viewing a session of one turn in the same process, which loads all code.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

import eventlog
from benchmarks.children import child
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.history import EVENTS_A_TURN, begun, compacted, extend, small_turns
from benchmarks.workloads import generated_session, turns
from projections.view.model_view import LiveView, ModelView

__all__ = ["CASES"]

TAIL = 130
"""Turns of the view: 600 KB."""
MOST = 200.0
"""MB that an import may take in all."""
RECORD = 5_750
"""Bytes of a turn in the generated file."""

_TOP = """
import sys, json
def top():
    with open("/proc/self/status") as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")), 0)
"""
_VIEW = (
    _TOP
    + """
import eventlog
from projections.view.model_view import ModelView
def show(path):
    with eventlog.open(path) as store:
        return list(ModelView.of(store.session(next(iter(store.sessions())).id)).messages)
show(sys.argv[1])
base = top()
shown = show(sys.argv[2])
print(json.dumps(top() - base))
"""
)
_IMPORT = (
    _TOP
    + """
import eventlog
from eventlog.importers import import_file
with eventlog.open(sys.argv[1]) as store:
    import_file(store, sys.argv[2])
print(json.dumps(top()))
"""
)


def _view(setting: Setting) -> dict[str, Measurement]:
    small, path = setting.directory / "small", setting.directory / "long"
    with eventlog.open(small) as store:
        begun(store, small_turns(1))
    with eventlog.open(path) as store:
        before = setting.sizes.events[-1] // EVENTS_A_TURN
        session = store.session(begun(store, small_turns(before)))
        compacted(session)
        extend(store, session.id, turns(TAIL, seed=11), first=before)
        live = LiveView(session)
        live.advance()
        live.save()
        size = len(msgspec.msgpack.encode(list(ModelView.of(session).messages)))
    return {"target.8.view": Measurement(child(_VIEW, str(small), str(path)) / 1e6, size / 1e6)}


def _import(setting: Setting) -> dict[str, Measurement]:
    file: Path = generated_session(setting.directory / "large.jsonl", setting.sizes.import_bytes // RECORD)
    taken = child(_IMPORT, str(setting.directory / "imported"), str(file))
    return {"target.8.import": Measurement(taken / 1e6, MOST)}


CASES = (
    Case(
        "target.8.view",
        (
            Figure(
                "target.8.view",
                "memory for the view of the longest history (1,000,000 events with --full), opened cold",
                "MB",
                "the view's bytes",
                Target("<=", 4),
            ),
        ),
        _view,
    ),
    Case(
        "target.8.import",
        (
            Figure(
                "target.8.import",
                "memory of a process that imports a large file (500 MB with --full)",
                "MB",
                f"{MOST:.0f} MB",
                Target("<=", 1),
            ),
        ),
        _import,
    ),
)
