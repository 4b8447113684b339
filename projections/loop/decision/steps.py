"""The steps of a loop: what `next_step` may ask for.

A step that ends the loop is false, so that a loop is `while step := …`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import msgspec

from eventlog.errors import BlockedError, WindowTooSmallError
from eventlog.session.answering import AskedCall
from eventlog.values import Json, Media, MessageError, Subtask
from projections.loop.decision.loop_state import number_in
from projections.window.prune.case import PrunePlan


@final
class PendingCall(msgspec.Struct, frozen=True):
    """A call that has no result yet."""

    part: str
    call: str
    tool: str
    input: Json
    running: bool
    allowed: bool = False
    """Whether a person was asked, and allowed it."""


@final
class RunTools(msgspec.Struct, frozen=True):
    """Run these calls of a message, record their results, and finish an open message.

    There are none if all its calls wait for a person. A finished message's were allowed by one.
    """

    message: str
    calls: tuple[PendingCall, ...]


@final
class Ask(msgspec.Struct, frozen=True):
    """Calls wait for a person; the loop ends, and goes on once run again after an answer."""

    calls: tuple[AskedCall, ...]

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def sentence(self) -> str:
        """Why the loop ends, and what goes on."""
        named = ", ".join(dict.fromkeys(call.tool for call in self.calls))
        return f"a person is to answer for {named}; `session.answer_call(message, call, answer)` lets the turn go on"


@final
class RunSubtask(msgspec.Struct, frozen=True):
    """Give this work to a sub-agent."""

    message: str
    part: str
    subtask: Subtask
    call: PendingCall | None = None
    """The `task` call of this work that a crash broke off."""


@final
class Compact(msgspec.Struct, frozen=True):
    """Carry out the compaction that was requested."""

    part: str
    message: str
    auto: bool
    overflow: bool


@final
class RequestCompaction(msgspec.Struct, frozen=True):
    """The window is full: request a compaction.  `overflow`: a provider refused a request."""

    overflow: bool
    tokens: int


@final
class ReplaceMedia(msgspec.Struct, frozen=True):
    """Name these images and documents instead of sending them: the `target` refused them."""

    media: tuple[Media, ...]
    reason: str
    target: str


@final
class Prune(msgspec.Struct, frozen=True):
    """Clear old results, arguments, thoughts and media."""

    plan: PrunePlan


@final
class CallModel(msgspec.Struct, frozen=True):
    """Call the model with the view.  `last`: no further step follows, and the view says so."""

    reply_to: str
    last: bool
    tokens: int


@final
class Promote(msgspec.Struct, frozen=True):
    """Let the oldest queued message take its place."""

    message: str


@final
class Wait(msgspec.Struct, frozen=True):
    """Another loop, this loop's own reply or an allowed tool is at work on a message."""

    reason: Literal["streaming", "another-loop", "tool"]
    message: str

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def sentence(self) -> str:
        """Why the loop ends."""
        if self.reason == "tool":
            return f"a tool that a person allowed runs for a call of message {self.message}"
        who = "this loop's own reply" if self.reason == "streaming" else "a reply of another loop"
        return f"{who} is open: {self.message}"


@final
class Blocked(msgspec.Struct, frozen=True):
    """The loop cannot go on by itself; `sentence` says why, and what would help."""

    reason: Literal["doom-loop", "max-steps", "compaction-fails", "window-too-small", "question-covered", "rate"]
    sentence: str
    too_large: tuple[str, ...] = ()
    """Messages that do not fit: once they are taken out or cut, the loop goes on."""

    def __bool__(self) -> Literal[False]:
        return False

    def error(self) -> BlockedError:
        """Return this step as an error, to be raised."""
        kind = WindowTooSmallError if self.reason == "window-too-small" else BlockedError
        return kind(self.reason, self.sentence)


@final
class Stop(msgspec.Struct, frozen=True):
    """There is nothing to do, a stop was requested, or the answer failed."""

    reason: Literal["finished", "nothing-asked", "interrupted", "aborted", "failed"]
    error: MessageError | None = None
    """The error that ended an aborted or failed answer."""
    helps: str = ""
    """Actions of the user, any one of which is needed before the question is asked again."""

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def goes_on(self) -> str:
        """The call that goes on: the failed turn's own, or the next question's."""
        retries = self.reason == "failed" and (not self.helps or "turn.retry()" in self.helps)
        return "turn.retry()" if retries else "session.turn(text, request_id)"

    @property
    def sentence(self) -> str:
        """Why the loop ends, the provider's status and text, and what goes on or helps."""
        if self.helps:
            return f"{_WHY[self.reason]}{_told(self.error)}; {self.helps}"
        then = "begins it again" if self.reason == "failed" else "asks the next question"
        return f"{_WHY[self.reason]}{_told(self.error)}; `{self.goes_on}` {then}"


_WHY = {
    "finished": "the newest question is answered",
    "nothing-asked": "no question is asked",
    "interrupted": "a stop was requested",
    "aborted": "the answer was aborted",
    "failed": "the answer failed",
}


def _told(error: MessageError | None) -> str:
    """The status and the text of an error, as the end of a clause."""
    if error is None or (error.name == "aborted" and not error.message):
        return ""
    status = number_in(error, "status")
    return f" ({error.name}{'' if status is None else f', status {status}'}): {error.message}".removesuffix(": ")


Step: TypeAlias = (
    RunTools
    | Ask
    | RunSubtask
    | ReplaceMedia
    | Compact
    | RequestCompaction
    | Prune
    | CallModel
    | Promote
    | Wait
    | Blocked
    | Stop
)
"""Next thing that the loop of an agent does."""
