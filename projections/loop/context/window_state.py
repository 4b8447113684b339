"""`WindowState`: a session as its window sees it: view, loop state, sizes, settings.

Nothing here appends; `window.py` does.  For one thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from eventlog.errors import LeaseHeldError
from eventlog.session.inputs import model_of
from eventlog.session.session import Session
from eventlog.validation import require, require_limits, require_or_none
from eventlog.values import Content, Limits, Model, Truncation, target_of
from projections.loop.context.model_request import ModelRequest
from projections.loop.decision.loop_state import LoopState, refusing
from projections.loop.decision.loop_state_projection import LoopStateProjection
from projections.loop.decision.situation import Situation
from projections.loop.decision.steps import CallModel, Prune
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import Follower
from projections.tokens.cache import CountCache
from projections.tokens.counter import CharsCounter, counter_named
from projections.tokens.encodings import encoding_for
from projections.view.digest import digest_of
from projections.view.model_view import LiveView
from projections.view.options import RenderOptions, preset
from projections.view.system_prompt import two_segments
from projections.view.token_count import ViewCounter
from projections.window.policy.hooks import Hooks, messages_by, patch_of
from projections.window.policy.limits import largest_request, usable
from projections.window.policy.policy import (
    ContextPolicy,
    decode_policy,
    encode_policy,
    policy_named,
    prices_of,
    switched,
)
from projections.window.retrieval.recall_calls import offers_recall
from projections.window.retrieval.truncation import truncate
from projections.window.sizing.sizes import TokenSizes, sizes_named

if TYPE_CHECKING:
    from eventlog.session.reply import Reply
    from projections.conversation.parts import Message
    from projections.conversation.state import Conversation
    from projections.tokens.counter import Counter
    from projections.view.model_view import ModelView
    from projections.view.neutral import NeutralMessage
    from projections.window.sizing.sizes import Sizes

LAST_STEP = "This is the last step of this turn: no more tools may be called.  Say what was done, what is left to do, and how to go on."
"""Assistant text at the end of the request for a turn's last step."""


class _Settings(NamedTuple):
    """Policy (JSON), model and limits: as given, as recorded, or as in force."""

    policy: str | None
    model: Model | None
    limits: Limits | None


class WindowState:
    """A session as its window sees it; `catch_up` applies what was appended since."""

    def __init__(
        self,
        session: Session,
        policy: ContextPolicy | str | None = None,
        *,
        model: Model | str | None = None,
        limits: Limits | None = None,
        hooks: Hooks | None = None,
        options: RenderOptions | None = None,
        environment: Mapping[str, str] | None = None,
        endpoint: str = "",
    ) -> None:
        """Read a session; the arguments are those of `ContextWindow`."""
        require(Session, session, "a window is that of a Session")
        require_or_none(RenderOptions, options, "options are RenderOptions")
        require_or_none(Mapping, environment, "an environment is a mapping of names to texts")
        require_or_none(Hooks, hooks, "hooks are Hooks")
        if policy is not None:
            require((ContextPolicy, str), policy, "a policy is a ContextPolicy, or the name of one")
        if limits is not None:
            require_limits(limits)
        require(str, endpoint, "an endpoint is named by a str")
        self.hooks: Hooks = hooks or Hooks()
        self.endpoint = endpoint
        """The caller's name of the host, region or account that is asked."""
        self.pays_for_summaries = False
        """Whether the window's summariser asks a model."""
        self.open_reply: Reply | None = None
        """The reply that the window fills at the moment; its message is left out of requests."""
        self._session = session
        self._given = _Settings(
            None if policy is None else encode_policy(policy_named(policy) if isinstance(policy, str) else policy),
            model_of(model),
            limits,
        )
        self._settings: _Settings | None = None
        self._environment = environment
        self._given_options = options
        self._tools: Content | None = None
        self._offers_recall = False
        self._cache = CountCache(session.store.log.of(session.id))
        self._loop = Follower(LoopStateProjection(), session.reader, Checkpoints(session.store.log))
        self._live = LiveView(session)
        self.catch_up()

    # -- reading -------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Apply the events that were appended since the last look."""
        self._loop.advance()
        self._live.catch_up()
        state = self._live.state
        recorded = _Settings(state.policy, state.model, state.limits)
        given = self._given
        settings = _Settings(given.policy or recorded.policy, given.model or recorded.model, self._limits(recorded))
        state_from = refusing(self.loop.targets, target_of(settings.model, self.endpoint)).state_from
        if settings != self._settings or state_from > self.options.state_from:
            self._configure(settings, state_from)
        self._sizes.update(state)
        if isinstance(self._sizes, TokenSizes):
            self._sizes.ratio = self.loop.calibration.ratio(self.model_name)

    def _limits(self, recorded: _Settings) -> Limits | None:
        """Return the limits in force: given, recorded with this model, or those of the catalogue.

        Without a given or recorded model, the newest answer's model counts. None if the session
        has named no model, or only models that the catalogue does not know.
        """
        given = self._given
        is_same = given.model is None or recorded.model in {None, given.model}
        if given.limits is not None or (recorded.limits is not None and is_same):
            return given.limits or recorded.limits
        models = self._session.store.host.models
        if given.model is not None:
            return models.limits(given.model)
        answer = self.loop.answer
        named = recorded.model or ("" if answer is None else answer.target.partition(" at ")[0])
        return models.limits(named) if named in models else None

    def save(self) -> None:
        """Store a checkpoint of the loop, and counts; the view leaves its own.

        The caller must be allowed to write.
        """
        self._loop.save()
        self.save_counts()

    def save_counts(self) -> None:
        """Store the counts of large texts; the caller must be allowed to write."""
        self._cache.flush()

    def evict_sizes(self) -> None:
        """Drop the sizes of messages that the conversation no longer holds (after a compaction)."""
        self._sizes.evict()

    def _configure(self, settings: _Settings, state_from: int) -> None:
        self._settings = settings
        self.policy: ContextPolicy = switched(decode_policy(settings.policy), self._environment)
        """The policy in force, with the switches of the environment."""
        self.model: Model | None = settings.model
        self.limits: Limits | None = settings.limits
        self.usable: int | None = usable(settings.limits, self.policy.overflow)
        """Tokens that a request may have before the conversation is compacted; None: any number."""
        options = self._given_options or preset(self.policy.preset)
        state_from = max(options.state_from, state_from)
        target = target_of(settings.model, self.endpoint) if self.endpoint else options.target
        self.options: RenderOptions = msgspec.structs.replace(
            options, model=settings.model, state_from=state_from, target=target
        )
        self._live.render_with(self.options)
        self.counter: Counter = counter_named(self.policy.counter or encoding_for(self._named_model))
        """The counter of texts, before calibration."""
        self._views = self.new_counter()
        known = None if settings.model is None else self._session.store.host.models.get(settings.model)
        self._prices = None if known is None or not known.rates else prices_of(known.rates[0])
        self._sizes: Sizes = sizes_named(
            self.counter.name, self._live.state, self.options, self._session.text, cache=self._cache
        )

    # -- state ---------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Version of the newest event that was applied."""
        return self._live.version

    @property
    def conversation(self) -> Conversation:
        """The messages of the view with their marks; not to be changed."""
        return self._live.state

    @property
    def loop(self) -> LoopState:
        """Usage of the last steps, outcomes of compactions, and the calibration."""
        return self._loop.state

    @property
    def unrecorded(self) -> tuple[Model | None, Limits | None, str | None]:
        """Model, limits and policy (JSON) in force that are not recorded so.

        Of model and policy only those that were given.
        """
        state = self._live.state
        policy, model, _ = self._given
        return (
            model if model != state.model else None,
            self.limits if self.limits != state.limits else None,
            policy if policy is not None and policy != (state.policy or encode_policy(ContextPolicy())) else None,
        )

    @property
    def offers_recall(self) -> bool:
        """Whether the tool `recall` is among those that the session has recorded."""
        tools = self._live.state.tools
        if tools != self._tools:
            self._offers_recall = tools is not None and offers_recall(self._session.text(tools))
            self._tools = tools
        return self._offers_recall

    def newest_user_message(self) -> Message | None:
        """Return the newest message of a user or of the program that is not queued."""
        state = self._live.state
        return next(
            (
                message
                for message in reversed(state.messages.values())
                if message.user and not message.removed and not message.waiting
            ),
            None,
        )

    @property
    def asks_as(self) -> tuple[str, Model | None]:
        """Agent and model of a request for a compaction: those of the newest user message."""
        like = self.newest_user_message()
        return ("", self.model) if like is None else (like.agent, like.model)

    # -- counting ------------------------------------------------------------------------------

    @property
    def model_name(self) -> str:
        """The model to calibrate for: given, recorded, else the newest that answered, else ""."""
        if self.model is not None:
            return self.model.name
        return next((message.model for message in reversed(self.loop.pending) if not message.summary), "")

    def new_counter(self) -> ViewCounter:
        """Return an uncalibrated counter that shares the cached counts of large texts."""
        return ViewCounter(self.counter, self._named_model, self._cache)

    def calibrated(self, counted: int) -> int:
        """Return the tokens that the provider is expected to report for `counted` tokens.

        What a report has beside the count is believed below half of usable, for the hidden part of
        a request. More is of other requests (a search at the provider's, a sum of steps), and less
        than half of the count, in proportion, is no whole request.
        """
        proportional = self._in_proportion(counted)
        if not self._is_calibrated:
            return proportional
        expected = self.loop.calibration.apply(self.model_name, counted)
        is_too_much = self.usable is not None and 2 * (expected - proportional) >= self.usable
        return proportional if is_too_much or 2 * expected < proportional else expected

    def count(self, messages: Sequence[NeutralMessage], system: Sequence[str]) -> int:
        """Return the calibrated tokens of a piece of a request, or of another request."""
        return self._in_proportion(self.new_counter().count(messages, system))

    @property
    def tokens(self) -> int:
        """Tokens of a request with the view as it is, calibrated."""
        view = self.view(self._filled_message)
        return self.calibrated(self._views.count(view.messages, view.system, view.tools, view.format))

    def truncation(self, output: str, part: str, *, is_error: bool = False) -> Truncation | None:
        """How the view shows the output, or the error, of a call; None if it shows all of it."""
        if is_error and self.options.whole_errors:
            return None
        return truncate(output, self.policy.truncation, self.usable, part=part if self.offers_recall else None)

    # -- the next step -------------------------------------------------------------------------

    def view(self, excluding: str | None = None) -> ModelView:
        """Return the view as of the last `catch_up`, without the message `excluding`."""
        require_or_none(str, excluding, "the message to exclude is named by its id, a str")
        return self._live.excluding(excluding)

    def situation(self, *, allow_repeats: bool = False) -> Situation:
        """Return what `next_step` and the planners decide on."""
        return Situation(
            self._live.state,
            self.loop,
            self.policy,
            self.options,
            self._sizes,
            self.usable,
            largest_request(self.limits, self.policy.overflow),
            cache(lambda: self.tokens),
            cache(self._fixed),
            self.count,
            lambda: self.view(self._filled_message).messages,
            lambda: self.view(self._filled_message).system,
            self._filled_message,
            allow_repeats,
            self._prices,
            self.pays_for_summaries,
            self._session.store.host.clock(),
            self._live.readable,
            self._is_run,
        )

    def _is_run(self) -> bool:
        """Whether an owner runs the session."""
        try:
            self._session.executor.require_no_owner()
        except LeaseHeldError:
            return True
        return False

    def prune_by_hand(self, *, inside: bool, planner: str | None) -> Prune | None:
        """Return the prune that frees enough now, however full the window is; None without one.

        The arguments are those of `ContextWindow.prune`.
        """
        require_or_none(str, planner, "a policy is the name of a planner")
        self.catch_up()
        plan = self.situation().prune_plan(inside=inside, planner=planner or self.policy.prune.by_hand)
        return None if plan is None else Prune(plan)

    def request(self, step: CallModel) -> ModelRequest:
        """Return the request to send for a step, with the changes of hooks in it."""
        require(CallModel, step, "the step of a request is a CallModel")
        options = self.options
        view = self.view()
        if step.last:
            view = self._live.excluding(None, max_steps=LAST_STEP)
            options = view.options
        sent: Sequence[NeutralMessage] = view.messages
        system = view.system
        if self.hooks.messages is not None:
            sent = messages_by(self.hooks.messages, view.messages)
        if self.hooks.system is not None:
            system = two_segments(self.hooks.system(view.system))
        hooked = self.hooks.messages is not None or self.hooks.system is not None
        patch = patch_of(view.messages, sent, view.system, system) if hooked else None
        digest = view.digest
        if patch is not None:
            digest = digest_of(sent, system, view.tools, format=view.format, shown=(view.target, view.boundary))
        counted = self._views.count(sent, system, view.tools, view.format)
        return ModelRequest(sent, system, view.tools, view.format, view.version, digest, options, counted, patch)

    # -- helpers -------------------------------------------------------------------------------

    @property
    def _named_model(self) -> str:
        return "" if self.model is None else self.model.name

    @property
    def _is_calibrated(self) -> bool:
        return self.policy.counter != CharsCounter.name

    @property
    def _filled_message(self) -> str | None:
        return self.open_reply.id if self.open_reply is not None and self.open_reply.is_open else None

    def _fixed(self) -> int:
        view = self.view()
        return self._in_proportion(self.new_counter().count((), view.system, view.tools, view.format))

    def _in_proportion(self, counted: int) -> int:
        return round(counted * self.loop.calibration.ratio(self.model_name)) if self._is_calibrated else counted
