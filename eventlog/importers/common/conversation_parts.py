"""Parts, calls and results of a foreign conversation, as the importers hand them over.

`conversation.py` turns them into events. Some tools write the line of a quick result before the
line of its call. The result's record is stored at once, as every record is; its events come with
the call. Held results are bounded in number and in size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import NamedTuple

import msgspec

from eventlog.events.message import CORRECTION
from eventlog.importers.common.importer import Report, Skipped
from eventlog.values import Attachment, Body, File, Json, MessageError, Model, Text, Tokens, Usage

ABORTED = MessageError("aborted", "interrupted by the user")
UNREADABLE = "no readable summary"
"""Reason of a failed compaction without a readable summary."""
COVERS_NOTHING = (
    "a compaction without a readable summary: it covers nothing, and the messages before it stay in the view"
)


class UserPart(NamedTuple):
    """Part of a user message, with the text of the record that it holds and that text's field.

    The field is one of the words that `remainder.py` knows.
    """

    kind: Text | File
    held: str = ""
    field: str = ""


class CallInput(NamedTuple):
    """Input of a call as JSON text, and the value of the record that it holds, with its field."""

    text: str
    held: object = None
    field: str = ""


class CallResult(NamedTuple):
    """Output of a call.  `note` is for the importer, which gets it back with the call."""

    output: str
    failed: bool = False
    interrupted: bool = False
    metadata: Json | None = None
    attachments: tuple[Attachment, ...] = ()
    note: object = None


class Kept(NamedTuple):
    """Messages that a compaction leaves: these, and all from `tail` on."""

    messages: tuple[str, ...] = ()
    tail: str | None = None


NOTHING_KEPT = Kept()


class OpenAnswer(msgspec.Struct, eq=False):
    """Assistant message that is not finished."""

    id: str
    time: int
    """Time of its newest record."""
    model: Model | None
    foreign: object = None
    """Its id in the file."""
    node: int = 0
    """Number of its node, in files with branches."""
    finishes: int = 0
    """How often it was finished: once on each branch."""
    calls: set[str] = msgspec.field(default_factory=set[str])
    """Ids of its calls without a result."""
    call_ids: set[str] = msgspec.field(default_factory=set[str])
    """Ids of all its calls."""
    parts: int = 0
    """Number of its parts so far."""
    reason: str | None = None
    """Finish reason, if the file gives one."""
    usage: Usage = Usage(Tokens())
    """Usage recorded for it, in files that repeat and correct it."""


class OpenCall(msgspec.Struct, eq=False):
    """Call without a result; `result` is set when the result comes."""

    part: str
    answer: OpenAnswer
    tool: str
    input: str
    result: CallResult | None = None


def purpose_of(before: Usage) -> str:
    """Return the purpose of a usage that adds to `before`: of a turn, or a correction of one."""
    return "turn" if before == Usage(Tokens()) else CORRECTION


def added(before: Usage, now: Usage) -> Usage | None:
    """Return what `now` adds to `before`; None when that is nothing.

    A message's usage is the sum of its `UsageRecorded`. A source that repeats and corrects its
    usage gives the first as it is and then differences, so no record has to wait for a later one. A
    total is only given when nothing was recorded before.
    """
    if (now.tokens, now.cost) == (before.tokens, before.cost):
        return None
    if before == Usage(Tokens()):
        return now
    old, new = before.tokens, now.tokens
    tokens = Tokens(
        new.input - old.input,
        new.output - old.output,
        new.reasoning - old.reasoning,
        new.cache_read - old.cache_read,
        new.cache_write - old.cache_write,
    )
    return Usage(tokens, None if now.cost is None else now.cost - (before.cost or Decimal(0)))


MOST = 1024
"""Results held at most."""
LARGEST = 16 * 1024 * 1024
"""Characters held at most; the newest result is held, however large it is."""
_NO_CALL = "a result for a call that the file does not have"


class EarlyResult(NamedTuple):
    """Result that came before its call; a record without a line is not reported."""

    line: int | None
    result: CallResult
    bodies: dict[bytes, bytes]
    """The bodies of its attachments."""
    size: int


class EarlyResults:
    """Results by call id; those whose calls have not come are reported."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._held: dict[str, EarlyResult] = {}
        self._size = 0

    def hold(self, call: str, line: int | None, result: CallResult, bodies: Mapping[bytes, bytes]) -> bool:
        """Hold a result until its call comes; False if another result of the call is held.

        `line` is where to report it if the call never comes, None if there is nothing to report.
        """
        if call in self._held:
            return False
        urls = [file.url for file in result.attachments]
        own = {url.digest: bodies[url.digest] for url in urls if isinstance(url, Body)}
        size = len(result.output) + sum(url.size if isinstance(url, Body) else len(url) for url in urls)
        self._held[call] = EarlyResult(line, result, own, size)
        self._size += size
        while len(self._held) > MOST or (self._size > LARGEST and len(self._held) > 1):
            self._drop(next(iter(self._held)))
        return True

    def pop(self, call: str) -> EarlyResult | None:
        """Remove and return the result of a call that has come, None if none is held."""
        held = self._held.pop(call, None)
        self._size -= held.size if held is not None else 0
        return held

    def unsettled(self) -> Iterator[Skipped]:
        """Yield a report of each result that is held, the oldest first."""
        return (Skipped(int(held.line), _NO_CALL) for held in self._held.values() if held.line is not None)

    def _drop(self, call: str) -> None:
        held = self.pop(call)
        if held is not None and held.line is not None:
            self._report.skip(held.line, _NO_CALL)
