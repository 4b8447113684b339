"""`ModelView` and `LiveView`: what the model would be sent, now, at any version, or live.

The public face of this folder: `conversation/` builds the state, `selection.py` picks the messages,
`part_rendering.py` and `message_rendering.py` render them, `assembly.py` puts them in sequence,
`explain.py` says why a part is shown or not.  `requests/` has the providers' forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from eventlog.history.effective_history import END
from eventlog.session.session import Session
from eventlog.validation import require, require_call, require_or_none
from projections.conversation.state import Conversation
from projections.view.assembly import Assembly
from projections.view.digest import RENDERER
from projections.view.explain import Explanation, explain
from projections.view.followed_view import Counting, Shown, TargetViews
from projections.view.kept_view import kept_view
from projections.view.messages import Messages
from projections.view.offer import offer_of
from projections.view.options import DEFAULT, RenderOptions
from projections.view.options import preset as preset_named
from projections.view.system_prompt import SystemHook, hooked, system_segments
from projections.view.targets import addressed, state_for, target_named

if TYPE_CHECKING:
    from eventlog.values import Json, Model


class SharedPrefix(NamedTuple):
    """The common beginning of two successive views: what a provider's cache can reuse."""

    messages: int
    """Equal messages at the beginning."""
    of: int
    """Messages of the later view."""
    system: bool
    """Whether system prompt, tools and format are equal, else a cache keeps nothing."""


class ModelView:
    """One view, immutable.  Made by `ModelView.of` or by a `LiveView`."""

    def __init__(
        self,
        session: Session,
        options: RenderOptions,
        shown: Shown,
        hook: SystemHook | None = None,
        *,
        differs: bool = False,
    ) -> None:
        """`differs`: a hook or the caller changed it, so that no options give it again."""
        self._session = session
        self.version: int = shown.version
        """The view is that right after this version."""
        self.options: RenderOptions = options
        self.messages: Messages = shown.messages
        self.system: tuple[str, ...] = hooked(shown.system, hook)
        """The system prompt, at most two segments."""
        self.tools: Json | None = shown.offer.tools
        """The schemas of the tools that the newest question allows, a JSON array, or None."""
        self.format: Json | None = shown.offer.format
        """The output format that the newest question asks for, as JSON, or None."""
        self.target: str = shown.target
        """The target that it is for, "" if no model is known (`eventlog.values.target_of`)."""
        self.boundary: str | None = shown.boundary
        """Part of the compaction that it begins with, or None."""
        self._counting = shown.counting or Counting(session.store.host, session.id, options)
        self._differs = differs
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

        Now costs what is new since the view before, of any caller: the store keeps what it read.
        `options` goes before `preset`. `excluding` is the message that is about to be filled.
        `hook` may change the system prompt. Raises `NotFoundError` for an unknown version or
        preset.
        """
        _require_session(session, options, hook)
        require_or_none(str, excluding, "the message that is left out is named by its id, a str")
        chosen = preset_named(preset) if options is None else options
        differs = hook is not None or excluding is not None
        if at is None:
            shown = kept_view(session).shown(session.reader, chosen, excluding)
            return cls(session, chosen, shown, hook, differs=differs)
        with session.reader.at_once():
            state, version = state_for(session, at, chosen)
        resolve = session.reader.text
        messages = Assembly(state, addressed(state, chosen), resolve).view(excluding)
        system, offer = system_segments(state, resolve), offer_of(state, resolve)
        shown = Shown(version, messages, system, offer, target_named(state, chosen), state.in_force)
        return cls(session, chosen, shown, hook, differs=differs)

    @property
    def tokens(self) -> int:
        """Tokens of a request with this view, counted for `options.model` (`tokens/`)."""
        if self._tokens is None:
            self._tokens = self._counting.counter().count(self.messages, self.system, self.tools, self.format)
        return self._tokens

    @property
    def digest(self) -> bytes:
        """SHA-256 of what the model would be sent; names the neutral form and its version."""
        if self._digest is None:
            shown = self.target, self.boundary
            self._digest = self._counting.digest.of(
                self.messages, self.system, self.tools, format=self.format, shown=shown
            )
        return self._digest

    @property
    def record(self) -> dict[str, Any]:
        """The arguments of `Reply.step` that record this view; {} if a hook changed the view."""
        if self._differs:
            return {}
        return {"view_version": self.version, "view_digest": self.digest, "render": rendering(self.options)}

    def explain(self, name: str) -> Explanation:
        """Return why a part or message is, or is not, in this view; `NotFoundError` if unknown."""
        require(str, name, "a part or message is named by its id, a str")
        return explain(self._session, self.version, self.options, name)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return f"<ModelView of {self._session.id} at {self.version}: {len(self.messages)} messages>"


class LiveView:
    """Follows a session: each new event costs O(1), each view a small tail.  For one thread.

    `options` are those of the preset `default` unless others are given.
    """

    def __init__(self, session: Session, options: RenderOptions | None = None) -> None:
        _require_session(session, options, None)
        self._session = session
        self._options = DEFAULT if options is None else options
        self._views = TargetViews(session.reader, session.store.host)
        self._followed = self._views.of(session.reader, self._options)

    @property
    def version(self) -> int:
        """Version of the newest event that was applied."""
        return self._followed.version

    def render_with(self, options: RenderOptions) -> None:
        """Give views with other options from here on."""
        require(RenderOptions, options, "options are RenderOptions")
        self._options = options
        self._followed = self._views.of(self._session.reader, options)
        self._followed.render_only(options)

    @property
    def state(self) -> Conversation:
        """The conversation as of the last `catch_up`, for planners; not to be changed."""
        return self._followed.state

    @property
    def readable(self) -> Callable[[], Conversation] | None:
        """Reads the state without opaque compactions; None if `state` has none in force."""
        if self._followed.own is None:
            return None
        options = replace(self._options, state_from=END)
        return lambda: self._views.of(self._session.reader, options).state

    @property
    def view(self) -> ModelView:
        """The view as of the last `advance`."""
        return self.excluding(None)

    def advance(self) -> ModelView:
        """Apply the events that came since, and return the view."""
        self.catch_up()
        return self.excluding(None)

    def catch_up(self) -> bool:
        """Apply the events that came since; return whether there were any."""
        before = self._followed.version
        self._followed = self._views.of(self._session.reader, self._options)
        return self._followed.version != before

    def excluding(self, message: str | None, *, max_steps: str | None = None) -> ModelView:
        """Return the view without a message; `max_steps` wins over that of the options."""
        if message is not None:
            require(str, message, "the message that is left out is named by its id, a str")
        shown = self._followed.shown(self._options, message, max_steps)
        options = self._options if max_steps is None else replace(self._options, max_steps=max_steps)
        return ModelView(self._session, options, shown, differs=message is not None)

    def save(self) -> None:
        """Store a checkpoint; the caller must be allowed to write."""
        self._followed.save()


def models_of(session: Session) -> list[Model]:
    """Return the models that the view's messages or the settings name, sorted by name."""
    require(Session, session, "a view is that of a Session")
    return kept_view(session).models(session.reader)


def rendering(options: RenderOptions) -> Json:
    """Return renderer and options, as the JSON that a step records."""
    return msgspec.json.encode({"renderer": RENDERER, "options": options}, order="deterministic").decode()


def _require_session(session: object, options: object, hook: object) -> None:
    require(Session, session, "a view is that of a Session")
    require_or_none(RenderOptions, options, "options are RenderOptions")
    require_call(hook, "a hook is a function that is given the system prompt")


def common_prefix(earlier: ModelView, later: ModelView) -> SharedPrefix:
    """Return the common beginning of two successive views."""
    for view in (earlier, later):
        require(ModelView, view, "a view is a ModelView")
    heads = [(view.system, view.tools, view.format) for view in (earlier, later)]
    same = heads[0] == heads[1]
    return SharedPrefix(earlier.messages.common(later.messages), len(later.messages), same)
