"""Nine programs on one store, two of which erase, each killed again and again."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import eventlog
from eventlog.log.embedded import generations
from projections.verify.verify import verify
from tests.faults.tally import SLOW, tally
from tests.support.faults.beside_eraser import ROLES, Told, check_view, remains, take, tell, told
from tests.support.faults.large_stores import WEIGHT, fill
from tests.support.python_process import ROOT

SECONDS = 600 if SLOW else 20


class Programs:
    """The programs, each begun again when it was killed."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._running = {role: self._begin(role) for role in ROLES}
        self.kills = 0

    def _begin(self, role: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.support.faults.beside_eraser", role, str(self._place)]
        with (self._place / f"errors of {role}").open("wb") as errors, (self._place / role).open("ab") as done:
            return subprocess.Popen(command, cwd=ROOT, stdout=done, stderr=errors)

    def idle(self) -> list[str]:
        """The programs that have done nothing yet."""
        return [role for role in ROLES if not (self._place / role).stat().st_size]

    def kill(self, role: str) -> None:
        """Kill a program, which must not have ended by itself."""
        process = self._running[role]
        process.kill()
        ended = process.wait()
        errors = (self._place / f"errors of {role}").read_text(errors="replace")
        assert ended == -signal.SIGKILL, f"{role} ended by itself\n{errors[-4_000:]}"
        self.kills += 1

    def again(self, role: str) -> None:
        """Kill a program and begin it again."""
        self.kill(role)
        self._running[role] = self._begin(role)

    def end(self) -> None:
        """Kill all, those that ended by themselves as well."""
        for process in self._running.values():
            process.kill()
            process.wait()


@pytest.mark.promise(1, 2, 6, 12)
@pytest.mark.parametrize("size", ["small", *(["200 MB"] if SLOW else [])])
def test_programs_beside_one_that_erases_are_killed(tmp_path: Path, size: str) -> None:
    """Promises 1, 2, 6, 12: nothing is lost or wrong, and what was erased is in no file."""
    chance = random.Random(size)
    (tmp_path / "told").touch()
    if size == "200 MB":
        fill(tmp_path / "s", WEIGHT)
    eventlog.open(tmp_path / "s").close()
    programs = Programs(tmp_path)
    try:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until or (programs.idle() and time.monotonic() < until + 60):
            time.sleep(chance.uniform(0.3, 3.0) * (1 if size == "small" else 3))
            programs.again(chance.choice(ROLES))
        for role in ROLES:
            programs.kill(role)
    finally:
        programs.end()
    assert not programs.idle()
    known = _settled(tmp_path)
    rewritings = max(known.gone.values(), default=0)
    assert rewritings > 2
    tally(f"kill -9 of nine programs, two of which erase{'' if size == 'small' else ', at 200 MB'}", programs.kills,
          acknowledged=sum(known.said.values()), erased=len(known.gone), rewritings=rewritings)  # fmt: skip


def _settled(place: Path) -> Told:
    """Check what is left in the store, and by two rewritings and a backup later in the files."""
    with eventlog.open(place / "s") as store:
        known = told(place)
        for session in known.said:
            check_view(store, place, session)
        seen = take(store, place, 1.0)
        for session in known.said.keys() - known.begun:
            assert seen[session] == store.session(session).version, f"{session} was not followed to its end"
        for _ in range(2):
            assert not store.scrub().pending
            tell(place, "rewritten")
        known = told(place)
        store.backup(place / "b")
        assert verify(store, deep=True).sound
    assert len(generations.of(place / "s")) == 1
    for path in (place / "s", place / "b"):
        assert not remains(path) & known.secrets(2), f"{path} has erased words"
        assert remains(path), "the search for words finds nothing"
    with eventlog.open(place / "b", read_only=True) as copy:
        for session in known.said:
            check_view(copy, place, session)
    return known
