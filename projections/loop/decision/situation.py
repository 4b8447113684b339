"""The situation that `next_step` and the planners decide on: conversation, policy, sizes.

Its questions are shared by the decision, by the window that carries plans out, and by the report
that shows them.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from projections.conversation.parts import Compaction, Message
from projections.conversation.state import Conversation
from projections.loop.decision.exchange import asks, newest_question
from projections.loop.decision.loop_state import LoopState
from projections.view.carryover_text import carried_text
from projections.view.neutral import NeutralMessage, Text
from projections.view.options import RenderOptions
from projections.view.part_rendering import QUESTION
from projections.view.selection import visible_messages
from projections.window.compaction.selection import Selection, select_tail
from projections.window.policy.policy import ContextPolicy, Prices, PrunePolicy
from projections.window.prune.case import PrunePlan
from projections.window.prune.planners import plan_prune
from projections.window.sizing.sizes import Sizes

BROKEN_OFF = ("interrupted", "taken over")
"""How a lease taker says that it closed what a dead or former owner had left open."""
SUMMARY_ROOM = 2_000
"""Tokens that are left for a summary when the tail is chosen."""


class Situation(msgspec.Struct, frozen=True):
    """The conversation and loop state now, with policy, options and sizes."""

    state: Conversation
    loop: LoopState
    policy: ContextPolicy
    """With the switches of the environment in it."""
    options: RenderOptions
    measure: Sizes
    usable: int | None
    """Tokens that a request may have before the conversation is compacted; None: any number."""
    largest: int | None
    """Tokens that a request may have where no compaction helps; None: any number."""
    request: Callable[[], int]
    """Tokens of the next request as the view is now, calibrated."""
    fixed: Callable[[], int]
    """Tokens of the system prompt and the tools alone, calibrated."""
    count: Callable[[Sequence[NeutralMessage], Sequence[str]], int]
    """Tokens of a piece of a request, calibrated."""
    view: Callable[[], Sequence[NeutralMessage]]
    """The messages of the view."""
    system: Callable[[], tuple[str, ...]]
    """The segments of the system prompt."""
    open_message: str | None = None
    """The open message that this loop is filling."""
    allow_repeats: bool = False
    """Whether identical calls in a row are nothing to stop for."""
    prices: Prices | None = None
    """The prices of the model in the catalogue, if it knows them."""
    pays_for_summaries: bool = False
    """Whether a summary asks a model."""
    time: int = 0
    """The time of the decision, in UTC milliseconds."""
    readable: Callable[[], Conversation] | None = None
    """State without opaque compactions, where the target has one in force."""
    is_run: Callable[[], bool] | None = None
    """Whether an owner runs the session, so that it may fill an open message; None: it may."""

    @property
    def summarisable(self) -> Conversation:
        """The state that a compaction is made of: a summary counts for all targets."""
        return self.state if self.readable is None else self.readable()

    @property
    def messages(self) -> list[Message]:
        """The conversation's messages that the view shows, in its order."""
        return visible_messages(self.state, self.options)

    @property
    def asked_place(self) -> int:
        """Place of the newest message of the user's or program's that asks, covered or not."""
        known, said = self.state.messages, reversed(self.loop.said)
        asked = (place for name, place in said if name and (name not in known or asks(known[name])))
        newest = newest_question(self.state)
        return next(asked, 0 if newest is None else newest.place)

    def prune_policy(self, planner: str | None = None) -> PrunePolicy:
        """The policy by which content is pruned; `planner` names another planner."""
        policy = self.policy.prune
        return msgspec.structs.replace(policy, policy=planner or policy.policy, prices=policy.prices or self.prices)

    def prune_plan(self, *, inside: bool, planner: str | None = None) -> PrunePlan | None:
        """Return the prune that is due now, inside a loop or after one.

        None if no prune is worth its cost.
        """
        return plan_prune(
            self.state,
            self.prune_policy(planner),
            self.measure,
            options=self.options,
            usable=self.usable,
            inside=inside,
            until_compaction=self._until_compaction(),
        )

    def _until_compaction(self) -> int | None:
        """Tokens until a compaction that costs nothing makes room; None if none does."""
        if self.usable is None or self.pays_for_summaries or not self.policy.overflow.auto:
            return None
        return max(0, self.usable - self.request())

    def selection(self, marker: str | None) -> Selection | None:
        """Return what the compaction of this marker message would cover; None if nothing."""
        return select_tail(
            self.summarisable,
            self.policy.compaction,
            self.measure,
            usable=self.usable,
            marker=marker,
            options=self.options,
            most=self.policy.overflow.max_messages,
            room=self._tail_room(),
        )

    def staying(self, selection: Selection, marker: str | None = None) -> list[Message]:
        """Return the messages that the view still shows behind the summary of a selection."""
        state = self.summarisable
        covered = {message.id for message in selection.head} | {selection.replay, marker}
        own = [compaction for compaction in state.compactions.values() if not compaction.is_provided]
        markers = {compaction.message for compaction in own}
        covered |= markers | {compaction.summary for compaction in own}
        return [
            message
            for message in state.messages.values()
            if not (message.id in covered or message.reply_to in markers or message.removed or message.waiting)
        ]

    def tokens_after(
        self, selection: Selection, summary: str = "", then: Sequence[str] = (), *, marker: str | None = None
    ) -> int:
        """Tokens of the first request after a compaction: what it leaves, and what it says.

        `then` are the texts of the message behind it. With neither they are the fewest tokens that
        any summary leaves.
        """
        said = [*self._summary_pair(summary)]
        if then:
            said.append(NeutralMessage("user", tuple(map(Text, then))))
        return self.fixed() + self.measure.messages(self.staying(selection, marker)) + self.count(said, ())

    def unseen_tokens(self) -> int:
        """Tokens that a request has beside all that is counted, as the provider reports them."""
        return max(0, self.request() - self.shown_tokens())

    def shown_tokens(self) -> int:
        """Tokens of the next request without what only the provider has reported."""
        return self.fixed() + self.measure.messages(self.messages)

    def _summary_pair(self, summary: str) -> tuple[NeutralMessage, NeutralMessage]:
        beside = carried_text(self.summarisable.to_carry(), self.measure.text) if self.options.carry else ""
        return NeutralMessage("user", (Text(QUESTION),)), NeutralMessage("assistant", (Text(summary), Text(beside)))

    def _tail_room(self) -> int | None:
        """Tokens that the window leaves for a tail, beside what stays in any case and a summary.

        0 once a compaction did not help; None if the window is unlimited.
        """
        if self.usable is None or self.largest is None:
            return None
        if self.loop.failed_compactions(self.usable):
            return 0
        newest = self.state.newest_user_message() if self.policy.compaction.keep_newest_user else None
        stays = self.fixed() + self.unseen_tokens() + self.count(self._summary_pair(""), ())
        stays += 0 if newest is None else self.measure.messages([newest])
        rooms = (bound - stays - min(SUMMARY_ROOM, bound // 2) for bound in (self.usable, self.largest))
        return next((room for room in rooms if room > 0), 0)

    def pending_compaction(self) -> Compaction | None:
        """The newest compaction, if it was requested and not begun, or a crash interrupted it."""
        own = [compaction for compaction in self.state.compactions.values() if not compaction.is_provided]
        newest = next(reversed(own), None)
        if newest is None or self.state.messages[newest.message].removed:
            return None
        is_due = newest.status == "requested" or (newest.status == "failed" and newest.reason in BROKEN_OFF)
        return newest if is_due else None
