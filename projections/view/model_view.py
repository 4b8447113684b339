"""`ModelView` and `LiveView`: what the model would be sent, now, at any version, or live.

The public face of this folder: `conversation/` builds the state, `selection.py` picks the messages,
`part_rendering.py` and `message_rendering.py` render them, `assembly.py` puts them in sequence,
`explain.py` says why a part is shown or not.  `formats/` has the providers' forms.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from eventlog.session.session import Session
from eventlog.validation import require, require_call, require_or_none
from projections.conversation.projection import ConversationProjection
from projections.conversation.state import Conversation
from projections.replay.canonical import pack
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import Follower, replay, state_at
from projections.view.assembly import Assembly
from projections.view.explain import Explanation, explain
from projections.view.messages import Messages
from projections.view.options import RenderOptions
from projections.view.options import preset as preset_named
from projections.view.system_prompt import SystemHook, SystemPrompt, system_segments

if TYPE_CHECKING:
    from eventlog.values import Model
    from projections.view.neutral import NeutralMessage
    from projections.view.token_count import ViewCounter

__all__ = [
    "RENDERER",
    "LiveView",
    "ModelView",
    "ModelViewProjection",
    "RunningDigest",
    "SharedPrefix",
    "common_prefix",
    "digest_of",
    "models_of",
]

RENDERER = "neutral/1"
"""Name and version of the neutral form, part of every digest."""


class ModelViewProjection(ConversationProjection):
    """The projection behind the view.  Its state evicts covered messages."""

    name = "model-view"
    whole = False


PROJECTION = ModelViewProjection()


class SharedPrefix(NamedTuple):
    """The common beginning of two successive views: what a provider's cache can reuse."""

    messages: int
    """Equal messages at the beginning."""
    of: int
    """Messages of the later view."""
    system: bool
    """Whether the system prompt and the tools are the same; if not, a provider's cache keeps
    nothing.
    """


class ModelView:
    """One view, immutable.  Made by `ModelView.of` or by a `LiveView`."""

    __slots__ = ("_counting", "_digest", "_session", "_tokens", "messages", "options", "system", "tools", "version")

    def __init__(
        self,
        session: Session,
        version: int,
        options: RenderOptions,
        messages: Messages,
        *,
        system: tuple[str, ...] = (),
        tools: str | None = None,
        counting: _Counting | None = None,
    ) -> None:
        self._session = session
        self.version = version
        """The view is that right after this version."""
        self.options = options
        self.messages = messages
        self.system = system
        """The system prompt, at most two segments."""
        self.tools = tools
        """The tool schemas offered, a JSON array, or None."""
        self._counting = counting
        self._tokens: int | None = None
        self._digest: bytes | None = None

    @classmethod
    def of(
        cls,
        session: Session,
        at: int | None = None,
        options: RenderOptions | None = None,
        *,
        preset: str = "default",
        excluding: str | None = None,
        hook: SystemHook | None = None,
    ) -> ModelView:
        """The view of a session right after version `at` (now by default).

        `options` goes before `preset`. `excluding` is the message that is about to be filled.
        `hook` may change the system prompt. Raises `NotFoundError` for an unknown version or
        preset.
        """
        _require_session(session, options, hook)
        require_or_none(str, excluding, "the message that is left out is named by its id, a str")
        chosen = preset_named(preset) if options is None else options
        with session.reader.at_once():
            state, version = state_at(session, PROJECTION, at)
        resolve = session.reader.text
        return cls(
            session,
            version,
            chosen,
            Assembly(state, chosen, resolve).view(excluding),
            system=system_segments(state, resolve, hook),
            tools=None if state.tools is None else resolve(state.tools),
        )

    @property
    def tokens(self) -> int:
        """Tokens of a request with this view, counted for `options.model` (`tokens/`)."""
        if self._tokens is None:
            counting = self._counting or _Counting(self._session, self.options)
            self._tokens = counting.counter().count(self.messages, self.system, self.tools)
        return self._tokens

    @property
    def digest(self) -> bytes:
        """SHA-256 of what the model would be sent; names the neutral form and its version."""
        if self._digest is None:
            self._digest = digest_of(self.messages, self.system, self.tools)
        return self._digest

    def explain(self, name: str) -> Explanation:
        """Return why a part or message is, or is not, in this view; `NotFoundError` if unknown."""
        require(str, name, "a part or message is named by its id, a str")
        return explain(self._session, PROJECTION, self.version, self.options, name)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return f"<ModelView of {self._session.id} at {self.version}: {len(self.messages)} messages>"


class LiveView:
    """Follows a session: each new event costs O(1), each view a small tail.  For one thread."""

    def __init__(
        self,
        session: Session,
        options: RenderOptions | None = None,
        *,
        preset: str = "default",
        hook: SystemHook | None = None,
    ) -> None:
        _require_session(session, options, hook)
        self._session = session
        self._options = preset_named(preset) if options is None else options
        self._system = SystemPrompt(session.reader.text, hook)
        self._follower = Follower(PROJECTION, session.reader, Checkpoints(session.store.log))
        self._assembly = Assembly(self._follower.state, self._options, session.reader.text)
        self._counting = _Counting(session, self._options)

    @property
    def version(self) -> int:
        """Version of the newest event that was applied."""
        return self._follower.version

    def render_with(self, options: RenderOptions) -> None:
        """Give views with other options from here on."""
        require(RenderOptions, options, "options are RenderOptions")
        self._options = options
        self._assembly = Assembly(self._follower.state, options, self._session.reader.text)
        self._counting = _Counting(self._session, options)

    @property
    def state(self) -> Conversation:
        """The conversation as of the last `catch_up`, for planners; not to be changed."""
        return self._follower.state

    @property
    def view(self) -> ModelView:
        """The view as of the last `advance`."""
        return self.excluding(None)

    def advance(self) -> ModelView:
        """Apply the events that came since, and return the view."""
        self._follower.advance()
        if self._follower.renewed:
            self._renew()
        return self.excluding(None)

    def catch_up(self) -> bool:
        """Apply the events that came since; return whether there were any."""
        changed = self._follower.advance()
        if self._follower.renewed:
            self._renew()
        return changed

    def _renew(self) -> None:
        self._follower.renewed = False
        self._assembly.replace_state(self._follower.state)

    def note(self) -> None:
        """Bring the assembly up to date, so that the state records only later changes."""
        self._assembly.catch_up()

    def excluding(self, message: str | None, *, max_steps: str | None = None) -> ModelView:
        """Return the view without a message; `max_steps` wins over that of the options."""
        if message is not None:
            require(str, message, "the message that is left out is named by its id, a str")
        follower, session = self._follower, self._session
        state = follower.state
        options = self._options if max_steps is None else replace(self._options, max_steps=max_steps)
        return ModelView(
            session,
            follower.version,
            options,
            self._assembly.view(message, max_steps),
            system=self._system.of(state),
            tools=None if state.tools is None else session.reader.text(state.tools),
            counting=self._counting,
        )

    def save(self) -> None:
        """Store a checkpoint; the caller must be allowed to write."""
        self._follower.save()


def models_of(session: Session) -> list[Model]:
    """Return the models that the view's messages or the settings name, sorted by name."""
    state, _ = replay(PROJECTION, session.reader, None, Checkpoints(session.store.log))
    named = {state.model, *(message.model for message in state.messages.values())}
    return sorted((model for model in named if model is not None), key=str)


def digest_of(
    messages: Iterable[NeutralMessage], system: tuple[str, ...], tools: str | None, renderer: str | None = None
) -> bytes:
    """Return the SHA-256 of a request in its neutral form, whose version is hashed, too.

    `renderer` names that version, today's by default.
    """
    found = sha256(_head(system, tools, renderer))
    for message in messages:
        found.update(pack(message))
    return found.digest()


class RunningDigest:
    """Hashes views that follow each other; their common beginning is hashed once.

    For one thread.
    """

    def __init__(self) -> None:
        self._head = b""
        self._final = Messages([])
        self._hash = sha256()
        """Of the head and of these messages."""

    def of(self, view: ModelView) -> bytes:
        """The digest of a view."""
        head, final = _head(view.system, view.tools), view.messages.final
        done = len(self._final)
        if head != self._head or not final.begins_with(self._final):
            done, self._head, self._hash = 0, head, sha256(head)
        for message in final.since(done):
            self._hash.update(pack(message))
        self._final = final
        found = self._hash.copy()
        for message in view.messages.since(len(final)):
            found.update(pack(message))
        return found.digest()


def _head(system: tuple[str, ...], tools: str | None, renderer: str | None = None) -> bytes:
    return pack([renderer or RENDERER, system, tools])


class _Counting:
    """The counter that views of one session share; made when the first of them is counted."""

    __slots__ = ("_counter", "_options", "_session")

    def __init__(self, session: Session, options: RenderOptions) -> None:
        self._session = session
        self._options = options
        self._counter: ViewCounter | None = None

    def counter(self) -> ViewCounter:
        """The counter."""
        if self._counter is None:
            from projections.tokens import LogCountCache, TokenCounter
            from projections.view.token_count import ViewCounter

            model = self._options.model.name if self._options.model is not None else ""
            self._counter = ViewCounter(
                TokenCounter.for_model(model), model, LogCountCache(self._session.store.log.of(self._session.id))
            )
        return self._counter


def _require_session(session: object, options: object, hook: object) -> None:
    require(Session, session, "a view is that of a Session")
    require_or_none(RenderOptions, options, "options are RenderOptions")
    require_call(hook, "a hook is a function that is given the system prompt")


def common_prefix(earlier: ModelView, later: ModelView) -> SharedPrefix:
    """Return the common beginning of two successive views."""
    for view in (earlier, later):
        require(ModelView, view, "a view is a ModelView")
    same = earlier.system == later.system and earlier.tools == later.tools
    return SharedPrefix(earlier.messages.common(later.messages), len(later.messages), same)
