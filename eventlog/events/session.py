"""Events of a session as a whole: its beginning, settings, stops, names, values and notes."""

from __future__ import annotations

from eventlog.events.base import Base
from eventlog.values import Body, Content, Json, Limits, Model, Origin, Todo

__all__ = [
    "InterruptRequested",
    "MetadataSet",
    "NameFreed",
    "NameGiven",
    "NoteSet",
    "PartRedacted",
    "Pinned",
    "SessionArchived",
    "SessionErased",
    "SessionForked",
    "SessionRenamed",
    "SessionStarted",
    "SessionUnarchived",
    "SettingsSet",
    "Settled",
    "ShelfStarted",
    "SystemPromptSet",
    "TodosSet",
    "ToolsSet",
    "Unpinned",
    "ValueDropped",
    "ValuePut",
]

# -- session: not undone by rollback -------------------------------------------------------------


class SessionStarted(Base, frozen=True, array_like=True, tag="ss"):
    """The first event of a session that is not a fork.

    `parent` is set for a sub-agent's session.
    """

    title: str = ""
    scope: str = ""
    directory: str = ""
    agent: str = ""
    model: Model | None = None
    parent: str | None = None
    origin: Origin | None = None


class SessionForked(Base, frozen=True, array_like=True, tag="sf"):
    """The first event of a fork: it continues `parent` as that was right after version `at`.

    `parent_head` is the head of the hash tree of what it continues (`integrity/fork_anchor.py`),
    filled in when the session begins.
    """

    parent: str
    at: int
    parent_head: bytes = b""
    title: str = ""
    scope: str = ""
    origin: Origin | None = None


class SessionRenamed(Base, frozen=True, array_like=True, tag="sr"):
    """The session has a new title."""

    title: str
    part: str | None = None
    """The part that the title quotes: redacted, it takes the title along.

    `TITLES` of `history/catalog.py` if the titles before this one are redacted.
    """


class SessionArchived(Base, frozen=True, array_like=True, tag="sa"):
    """The session is put away, not erased."""


class SessionUnarchived(Base, frozen=True, array_like=True, tag="su"):
    """The session is back."""


class MetadataSet(Base, frozen=True, array_like=True, tag="md"):
    """An entry of the embedder's own metadata; `value` None removes the key."""

    key: str
    value: Json | None


# -- settings ------------------------------------------------------------------------------------


class SettingsSet(Base, frozen=True, array_like=True, tag="st"):
    """Model limits and the context policy in force from here on (None: unchanged)."""

    model: Model | None = None
    limits: Limits | None = None
    policy: Json | None = None


class SystemPromptSet(Base, frozen=True, array_like=True, tag="sp"):
    """The system prompt in force: `header` stays byte-stable across turns, `rest` may change."""

    header: Content
    rest: Content = ""


class ToolsSet(Base, frozen=True, array_like=True, tag="tl"):
    """The tool schemas offered from here on: a JSON array."""

    schemas: Content


class TodosSet(Base, frozen=True, array_like=True, tag="td"):
    """The whole list of things to do, as it is now."""

    todos: tuple[Todo, ...]


class Pinned(Base, frozen=True, array_like=True, tag="pi"):
    """A fact (`text`) or a part (`part`) that compaction must carry over.  `pin` is its id."""

    pin: str
    text: Content | None = None
    part: str | None = None


class Unpinned(Base, frozen=True, array_like=True, tag="pu"):
    """The pin is gone."""

    pin: str


# -- control: not undone -------------------------------------------------------------------------


class InterruptRequested(Base, frozen=True, array_like=True, tag="ir"):
    """A caller asks the running loop to stop."""

    reason: str = ""


class Settled(Base, frozen=True, array_like=True, tag="sx"):
    """A new owner closed what a dead owner left open; the closing events precede this one."""

    epoch: int
    reason: str = "interrupted"


class PartRedacted(Base, frozen=True, array_like=True, tag="rd"):
    """The part's content must not be shown any more, in any view of any version."""

    part: str
    reason: str = ""


class SessionErased(Base, frozen=True, array_like=True, tag="se"):
    """The session was erased; what follows is nothing."""

    reason: str = ""


# -- values, names, notes: not undone ------------------------------------------------------------


class ShelfStarted(Base, frozen=True, array_like=True, tag="sh"):
    """The first event of a shelf: a stream of values without a conversation."""

    name: str


class ValuePut(Base, frozen=True, array_like=True, tag="vp"):
    """A value under a key, as `text` or as `data`; the newest one counts.

    With neither its content was freed: a newer one had taken its place everywhere.
    """

    key: str
    text: Content | None = None
    data: bytes | Body | None = None


class ValueDropped(Base, frozen=True, array_like=True, tag="vd"):
    """The key has no value any more."""

    key: str


class NameGiven(Base, frozen=True, array_like=True, tag="ng"):
    """The session can be found by this name: a format and a key within it."""

    format: str
    key: str


class NameFreed(Base, frozen=True, array_like=True, tag="nf"):
    """The name is free for another session."""

    format: str
    key: str


class NoteSet(Base, frozen=True, array_like=True, tag="nt"):
    """The embedder's note in the session's catalog entry; an empty one removes it."""

    note: str
