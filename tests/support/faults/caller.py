"""A caller that follows the errors' advice: retry, or close and reopen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from eventlog.errors import BusyError, CallError, DamagedError, EventlogError, PoisonedError, UnknownOutcomeError
from eventlog.log.commit import Append, Committed
from eventlog.log.contract import Log
from eventlog.open_log import open_log
from tests.support.faults.planned_appends import OPTIONS, compare, settle


class Caller:
    """One store through one fault until the plan is in; `heal` ends the fault."""

    def __init__(self, path: Path, plan: Sequence[Append], heal: Callable[[], None], **options: Any) -> None:
        self.path = path
        self.plan = plan
        self.heal = heal
        self.options = {**OPTIONS, **options}
        self.acknowledged: list[Committed] = []
        self.errors: Counter[str] = Counter()

    def run(self) -> None:
        """Append the whole plan, close, and compare what is on disk."""
        log = self.open()
        for append in self.plan:
            log = self._append(log, append)
        self._shut(log)
        log = open_log(self.path, keys=self.options.get("keys"), **OPTIONS)
        self._compare(log, len(self.plan))
        log.close()

    def open(self) -> Log:
        """Open the store; if refused, end the fault and open again."""
        try:
            return open_log(self.path, **self.options)
        except EventlogError as error:
            self._saw(error)
        self.heal()
        return open_log(self.path, **self.options)

    def _saw(self, error: EventlogError) -> None:
        """Check an error that came up: it must look neither like a wrong call nor like absence."""
        assert not isinstance(error, CallError), repr(error)
        self.errors[type(error).__name__] += 1

    def _append(self, log: Log, append: Append) -> Log:
        """Append until committed; return the log to go on with."""
        try:
            self.acknowledged.append(log.submit(append).wait(30))
        except BusyError as error:  # the append was not written, and the log goes on when there is space again
            self._saw(error)
            self.heal()
            self._compare(log, len(self.acknowledged))
            self.acknowledged.append(log.submit(append).wait(30))
        except (UnknownOutcomeError, PoisonedError, DamagedError) as error:
            self._saw(error)
            self._shut(log)
            log = self.open()
            self._compare(log)
            self.acknowledged.append(settle(log, append))
        return log

    def _compare(self, log: Log, exactly: int | None = None) -> None:
        """Check that the log holds what was acknowledged, and at most one unknown outcome."""
        found = compare(log, self.plan, self.acknowledged)
        least = len(self.acknowledged)
        assert found == exactly if exactly is not None else least <= found <= least + 1

    def _shut(self, log: Log) -> None:
        """Close, which may raise the last fold's error; then end the fault."""
        try:
            log.close()
        except EventlogError as error:
            self._saw(error)
        self.heal()
