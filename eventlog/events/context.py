"""Events of what the model is shown: prunes, media, compactions and rollbacks."""

from __future__ import annotations

from eventlog.events.base import Base
from eventlog.values import Model

__all__ = [
    "CompactionCompleted",
    "CompactionFailed",
    "CompactionRequested",
    "CompactionStarted",
    "CompactionUndone",
    "MediaReplaced",
    "MediaRestored",
    "Pruned",
    "Restored",
    "RolledBack",
]


class Pruned(Base, frozen=True, array_like=True, tag="cp"):
    """Results of calls, thoughts and files are cleared from the view; `freed` in tokens.

    A tool part in `parts` loses its result, a reasoning part its text, and a file is named instead
    of sent. The tool parts `arguments` lose their large arguments.
    """

    parts: tuple[str, ...]
    policy: str = ""
    freed: int = 0
    arguments: tuple[str, ...] = ()


class Restored(Base, frozen=True, array_like=True, tag="cr"):
    """The pruned content of these parts is back, and the arguments of the calls `arguments`."""

    parts: tuple[str, ...]
    arguments: tuple[str, ...] = ()


class MediaReplaced(Base, frozen=True, array_like=True, tag="cm"):
    """An image or document is named in the view instead of being sent, because it was refused.

    `part` is a file, or a call in whose result it is; `mime` and `name` say which one, and are
    shown. It is so for requests to `target` ("provider/model"), or for all if that is empty.
    """

    part: str
    mime: str
    name: str
    reason: str = ""
    target: str = ""


class MediaRestored(Base, frozen=True, array_like=True, tag="cv"):
    """The images and documents of this part are sent again, to `target` or, if empty, to all."""

    part: str
    target: str = ""


class CompactionRequested(Base, frozen=True, array_like=True, tag="cq"):
    """A compaction is due.  It leaves a compaction part `part` in the user message `message`."""

    message: str
    part: str
    auto: bool = False
    overflow: bool | None = None


class CompactionStarted(Base, frozen=True, array_like=True, tag="cs"):
    """A compaction covers every message up to `through`, in order; the tail begins at `tail`.

    Both are message ids. `through` None: everything before the tail is covered, and without a tail
    everything before the compaction's own message. The messages `kept` are not covered, wherever
    they stand.
    """

    part: str
    through: str | None = None
    tail: str | None = None
    tokens_before: int | None = None
    model: Model | None = None
    prompt_digest: bytes | None = None
    kept: tuple[str, ...] = ()


class CompactionCompleted(Base, frozen=True, array_like=True, tag="cc"):
    """The summary message stands for the covered set from here on."""

    part: str
    summary: str
    tokens_after: int | None = None


class CompactionFailed(Base, frozen=True, array_like=True, tag="cf"):
    """The compaction came to nothing and hides nothing."""

    part: str
    reason: str = ""
    summary: str | None = None


class CompactionUndone(Base, frozen=True, array_like=True, tag="cu"):
    """The completed compaction no longer hides anything, and its own messages show no more."""

    part: str


class RolledBack(Base, frozen=True, array_like=True, tag="rb"):
    """The effective history is again the one right after version `to`."""

    to: int
