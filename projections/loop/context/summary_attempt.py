"""A summary in a sub-session: found again, and its events as the session takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.large_texts import to_content
from eventlog.session.inputs import stored_kind
from eventlog.values import Text
from projections.loop.task_calls import subsession_id
from projections.window.compaction.record import Begun, SummaryRecord

if TYPE_CHECKING:
    from eventlog.session.session import Session


class SummaryAttempt(NamedTuple):
    """The newest summary of a sub-session."""

    message: str
    begun: Begun
    """The compaction that it is for."""
    items: Sequence[ev.Event | DeltaRun]
    """The events of its message."""
    finished: ev.MessageFinished | None
    """None: its writer is at work, or was killed."""

    @property
    def is_lost(self) -> bool:
        """Whether it was broken off, for no reason of its own."""
        error = None if self.finished is None else self.finished.error
        return self.finished is None or (error is not None and error.name == "aborted")

    def is_stopped(self, child: Session) -> bool:
        """Whether its writer was asked to stop."""
        with child.reader.deciding() as state:
            return state.interrupt_pending(state.messages[self.message].added)

    @property
    def failure(self) -> str:
        """Why it came to nothing; "" if it is whole, or broken off."""
        error = None if self.finished is None or self.is_lost else self.finished.error
        return "" if error is None else error.message

    @property
    def text(self) -> str:
        """The text of the summary."""
        removed = {item.part for item in self.items if isinstance(item, ev.PartRemoved)}
        return "".join(text for part, text in self._texts().items() if part not in removed)

    def copied(self, marker: str, child: Session, bodies: dict[bytes, bytes]) -> Iterator[ev.Event]:
        """Yield the events of its message for the session, as the answer to `marker`.

        The costs stay in the sub-session. Large texts are put into `bodies`.
        """
        texts = self._texts()
        for item in self.items:
            match item:
                case ev.AssistantMessageStarted():
                    yield replace(item, reply_to=marker, seen=self.begun.version)
                case ev.StepStarted():
                    patch = None if item.patch is None else to_content(child.text(item.patch), bodies)
                    yield replace(item, patch=patch)
                case ev.PartStarted(kind=Text() as kind):
                    yield replace(item, kind=stored_kind(replace(kind, text=texts[item.part]), bodies))
                case ev.PartEnded() | ev.PartRemoved() | ev.StepFinished() | ev.MessageFinished():
                    yield item
                case _:
                    pass

    def _texts(self) -> dict[str, str]:
        pieces: dict[str, list[str]] = {}
        for item in self.items:
            if isinstance(item, ev.PartStarted):
                pieces[item.part] = []
            for delta in item.deltas() if isinstance(item, DeltaRun) else (item,):
                if isinstance(delta, ev.PartDelta):
                    pieces[delta.part].append(delta.text)
        return {part: "".join(found) for part, found in pieces.items()}


def summaries_id(session: str) -> str:
    """The id of the sub-session that writes the summaries of a session."""
    return subsession_id(session, f"summaries-{sha256(session.encode()).hexdigest()[:16]}")


def newest_attempt(child: Session) -> SummaryAttempt | None:
    """Return the newest summary of a sub-session; None before its first request is recorded."""
    with child.reader.deciding() as state:
        opened = ((version, names) for version, names in state.opens.newest_first(state.history) if names)
        version, (message, *_) = next(opened, (0, ("",)))
    items = [span.item for span in child.reader.spans(version - 1)] if message else []
    step = next((item for item in items if isinstance(item, ev.StepStarted)), None)
    record = None if step is None else msgspec.json.decode(step.render or "{}", type=SummaryRecord)
    if record is None or record.begun is None:
        return None
    finished = next((item for item in items if isinstance(item, ev.MessageFinished)), None)
    return SummaryAttempt(message, record.begun, items, finished)
