"""A session as its window sees it: the view, what a loop must know, sizes, counts, settings; and the request of the next step.

Nothing here appends; that is the window itself (`window.py`), which is made of this.  For one thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from eventlog.session.inputs import model_of
from eventlog.session.session import Session
from eventlog.validation import require, require_call, require_limits, require_or_none
from eventlog.values import Content, Limits, Model
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import Follower
from projections.tokens import CharsCounter, LogCountCache, counter_named, encoding_for
from projections.view.model_view import RENDERER, LiveView, RunningDigest, digest_of
from projections.view.options import RenderOptions, preset
from projections.view.system_prompt import two_segments
from projections.view.token_count import ViewCounter
from projections.window.compaction.digest import digest
from projections.window.hooks import Hooks, patch_of
from projections.window.limits import usable
from projections.window.loop_state import LoopState, LoopStateProjection
from projections.window.policy import ContextPolicy, decode_policy, encode_policy, policy_named, switched
from projections.window.prune.candidates import Candidates
from projections.window.prune.outline import Outline
from projections.window.retrieval.recall_calls import offers_recall
from projections.window.situation import Situation
from projections.window.sizing.sizes import TokenSizes, sizes_named
from projections.window.steps import CallModel

if TYPE_CHECKING:
    from eventlog.session.reply import Reply
    from projections.conversation.parts import Message
    from projections.tokens import Counter
    from projections.view.model_view import ModelView
    from projections.view.neutral import NeutralMessage
    from projections.window.compaction.summarizer import Summarizer
    from projections.window.sizing.sizes import Sizes

__all__ = ["LAST_STEP", "ProjectedSession", "Request"]

LAST_STEP = "This is the last step of this turn: no more tools may be called.  Say what was done, what is left to do, and how to go on."
"""Said at the end of the view of a turn's last step."""


class Request(NamedTuple):
    """What the model is to be sent for one step, hooks included."""

    messages: Sequence[NeutralMessage]
    system: tuple[str, ...]
    tools: str | None
    version: int
    """The view is that right after this version."""
    digest: bytes
    options: RenderOptions
    counted: int
    """Tokens as counted, before calibration."""
    patch: str | None
    """What hooks changed of the view."""

    @property
    def render(self) -> str:
        """How the view was rendered, as JSON: the renderer and its options."""
        return msgspec.json.encode({"renderer": RENDERER, "options": self.options}, order="deterministic").decode()


class _Settings(NamedTuple):
    """What the session has recorded, that everything else here is made from."""

    policy: str | None
    model: Model | None
    limits: Limits | None


class ProjectedSession:
    """Everything about a session that its window decides by."""

    def __init__(
        self,
        session: Session,
        policy: ContextPolicy | str | None = None,
        *,
        model: Model | str | None = None,
        limits: Limits | None = None,
        summarizer: Summarizer = digest,
        summary_model: Model | str | None = None,
        hooks: Hooks | None = None,
        options: RenderOptions | None = None,
        environment: Mapping[str, str] | None = None,
        recall: bool = False,
        checkpoint_every: int = 2_000,
    ) -> None:
        """Look at a session.  Nothing is written until something is to be done.  `CallError` for arguments of other types.

        `policy` (or the name of one), `model` and `limits` go before what the session recorded, and are recorded by `record` or
        with the first `with`.  `options` (what the provider asks for, reminders) go before the policy's preset; their model is
        the session's, and they are recorded with every step.  `summary_model` is recorded with summaries; its limits are taken for
        those of the model.  `recall` offers the model a tool that reads what truncation left out: it is added to the session's tools with the first
        `with`, and `run` answers its calls.  `environment` is `os.environ` by default (`policy.switched`).  A checkpoint is kept with every completed compaction, and
        `checkpoint_every` events.
        """
        require(Session, session, "a window is that of a Session")
        require_or_none(RenderOptions, options, "options are RenderOptions")
        require_or_none(Mapping, environment, "an environment is a mapping of names to texts")
        require_or_none(Hooks, hooks, "hooks are Hooks")
        require(int, checkpoint_every, "checkpoint_every is a number of events")
        require_call(summarizer, "a summariser is a function that is given a request")
        if policy is not None:
            require((ContextPolicy, str), policy, "a policy is a ContextPolicy, or the name of one")
        if limits is not None:
            require_limits(limits)
        self.session = session
        """The session that this is the window of."""
        self._given = _Settings(
            None if policy is None else encode_policy(policy_named(policy) if isinstance(policy, str) else policy),
            model_of(model),
            limits,
        )
        self._summarizer = summarizer
        self._summary_model = model_of(summary_model)
        self._environment = environment
        self.hooks = hooks or Hooks()
        self._given_options = options
        self._recall = recall
        self._tools: Content | None = None
        self._offers_recall = False
        self._checkpoint_every = checkpoint_every
        self._cache = LogCountCache(session.store.log.of(session.id))
        self._agenda = Follower(LoopStateProjection(), session.reader, Checkpoints(session.store.log))
        self._settings: _Settings | None = None
        self._live = LiveView(session)
        self._saved = session.version
        self._digest = RunningDigest()
        self._reply: Reply | None = None
        self.catch_up()

    # -- what is known -------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Take in what the session got since."""
        self._agenda.advance()
        self._live.catch_up()
        state = self._live.state
        recorded = _Settings(state.policy, state.model, state.limits)
        given = self._given
        settings = _Settings(
            given.policy or recorded.policy, given.model or recorded.model, given.limits or recorded.limits
        )
        if settings != self._settings:
            self._configure(settings)
        self._sizes.follow(self._live.state)
        self._sizes_ratio()
        self._outline.look(self._live.state)
        self._live.note()

    def _configure(self, settings: _Settings) -> None:
        self._settings = settings
        self.policy = switched(decode_policy(settings.policy), self._environment)
        """The policy in force, with what the environment switches off."""
        self.model = settings.model
        self.limits = settings.limits
        self.usable = usable(settings.limits, self.policy.overflow)
        """Tokens that a request may have; None: any number."""
        options = self._given_options or preset(self.policy.preset)
        self.options = msgspec.structs.replace(options, model=settings.model)
        self._live.render_with(self.options)
        name = settings.model.name if settings.model is not None else ""
        self._counter = counter_named(self.policy.counter or encoding_for(name))
        self._views = ViewCounter(self._counter, name, self._cache)
        self._sizes: Sizes = sizes_named(
            self._counter.name, self._live.state, self.options, self.session.text, cache=self._cache
        )
        self._outline = Outline(self._live.state, self.options)
        self._candidates = Candidates(self._outline, self.policy.prune.protected_tools, self._sizes)

    @property
    def agenda(self) -> LoopState:
        """What the last steps used, how compactions went, and the calibration."""
        return self._agenda.state

    @property
    def offers_recall(self) -> bool:
        """Whether the tool `recall` is among those that the session has recorded."""
        tools = self._live.state.tools
        if tools != self._tools:
            self._offers_recall = tools is not None and offers_recall(self.session.text(tools))
            self._tools = tools
        return self._offers_recall

    def _is_calibrated(self) -> bool:
        return self.policy.counter != CharsCounter.name

    @property
    def model_name(self) -> str:
        """The model that counts are calibrated for: the one given or recorded, else the newest that answered; "" if none did."""
        if self.model is not None:
            return self.model.name
        return next((found.model for found in reversed(self.agenda.opens) if not found.summary), "")

    def _sizes_ratio(self) -> None:
        if isinstance(self._sizes, TokenSizes):
            self._sizes.ratio = self.agenda.calibration.ratio(self.model_name)

    def calibrated(self, counted: int) -> int:
        """Tokens that the provider will report for a request that is counted so."""
        if not self._is_calibrated():
            return counted
        return self.agenda.calibration.apply(self.model_name, counted)

    def view(self, excluding: str | None = None) -> ModelView:
        """The view as of the last `catch_up`."""
        require_or_none(str, excluding, "the message to exclude is named by its id, a str")
        return self._live.excluding(excluding)

    @property
    def tokens(self) -> int:
        """Tokens of a request with the view as it is, calibrated."""
        view = self.view(self._open())
        return self.calibrated(self._views.count(view.messages, view.system, view.tools))

    @property
    def sizes(self) -> Sizes:
        """The sizes that planners go by."""
        return self._sizes

    @property
    def counter(self) -> Counter:
        """Who counts, before calibration."""
        return self._counter

    def new_counter(self) -> ViewCounter:
        """A counter of requests as this window counts them, before calibration; it shares the counts that are kept."""
        return ViewCounter(self._counter, self.model.name if self.model is not None else "", self._cache)

    def _fixed(self) -> int:
        view = self.view()
        return self._in_proportion(self.new_counter().count((), view.system, view.tools))

    def _in_proportion(self, counted: int) -> int:
        """Tokens that the provider will report for a piece of a request, or another one, that is counted so."""
        return round(counted * self.agenda.calibration.ratio(self.model_name)) if self._is_calibrated() else counted

    def _open(self) -> str | None:
        return self._reply.id if self._reply is not None and self._reply.is_open else None

    def situation(self, *, allow_repeats: bool = False) -> Situation:
        """What `next_step` decides on."""
        return Situation(
            self._live.state,
            self.agenda,
            self.policy,
            self.options,
            self._sizes,
            self.usable,
            cache(lambda: self.tokens),
            cache(self._fixed),
            self._outline,
            self._candidates,
            self._open(),
            allow_repeats,
        )

    def request(self, step: CallModel) -> Request:
        """What the model is to be sent for this step."""
        require(CallModel, step, "the step of a request is a CallModel")
        options = self.options
        view = self.view()
        if step.last:
            view = self._live.excluding(None, max_steps=LAST_STEP)
            options = view.options
        sent: Sequence[NeutralMessage] = view.messages
        system = view.system
        if self.hooks.messages is not None:
            sent = [*self.hooks.messages([*view.messages])]
        if self.hooks.system is not None:
            system = two_segments(self.hooks.system(view.system))
        hooked = self.hooks.messages is not None or self.hooks.system is not None
        patch = patch_of(view.messages, sent, view.system, system) if hooked else None
        digest_sent = self._digest.of(view) if patch is None else digest_of(sent, system, view.tools)
        counted = self._views.count(sent, system, view.tools)
        return Request(sent, system, view.tools, view.version, digest_sent, options, counted, patch)

    # -- helpers -------------------------------------------------------------------------------

    def _newest_user(self) -> Message | None:
        state = self._live.state
        return next(
            (
                found
                for found in reversed(state.messages.values())
                if found.user and not found.removed and not found.waiting
            ),
            None,
        )

    def _count(self, messages: Sequence[NeutralMessage], system: Sequence[str]) -> int:
        return self._in_proportion(self.new_counter().count(messages, system))
