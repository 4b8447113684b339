"""Views of four targets over one history, against a plain model.

The kind: a compaction that one target alone can read hides messages from that target only, through
prunes, compactions of ours and of providers, removals, rollbacks, forks, answers that broke off,
and switches back and forth.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import eventlog
from eventlog import Model, Opaque
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import target_of
from projections import LiveView, ModelView
from projections.requests.anthropic import anthropic_request
from projections.requests.gemini import gemini_request
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from projections.view.neutral import Opaque as Shown
from projections.view.neutral import Result, Text
from projections.view.options import RenderOptions
from projections.view.part_rendering import CLEARED, QUESTION

MODELS = tuple(
    Model(*names) for names in (("openai", "gpt"), ("openai", "mini"), ("anthropic", "claude"), ("google", "gemini"))
)
FORMS = (responses_request, responses_request, anthropic_request, gemini_request)


class Said(NamedTuple):
    """A message of the plain model: its words, one of them a compaction of the provider's."""

    id: str
    role: str
    words: tuple[str, ...]
    by: int = -1
    counts: bool = True
    """Whether a compaction among its words counts: its model call ended."""
    readable: bool = False
    removed: bool = False
    """Whether the compaction was taken out."""
    kept: tuple[str, ...] = ()
    """The questions that no reply had answered when it was made."""
    ours: bool = False
    """Whether it is the summary of our own compaction, of all before it but `kept`."""
    undone: bool = False
    cleared: bool = False
    question: str = ""
    """Of our summary: the part of its compaction."""


class Targets(RuleBasedStateMachine):
    """A session, a plain model of it, and the views of four targets."""

    def __init__(self) -> None:
        super().__init__()
        self.store: Store = eventlog.open("memory:")
        self.number = 0

    @initialize()
    def begin(self) -> None:
        """An empty session."""
        self.session: Session = self.store.create_session()
        self.history: list[Said] = []
        self.past: list[tuple[int, list[Said]]] = [(self.session.version, [])]
        self.live = [LiveView(self.session, RenderOptions(model=model)) for model in MODELS]

    def teardown(self) -> None:
        """Close the store."""
        self.store.close()

    # -- events ----------------------------------------------------------------------------

    def _new(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    def _done(self) -> None:
        self.past.append((self.session.version, list(self.history)))

    def _pending(self) -> tuple[str, ...]:
        """The questions behind the newest reply, which answered or stopped those before."""
        pending: list[str] = []
        for said in self.history:
            if said.role == "user":
                pending.append(said.id)
            elif said.role == "assistant" and not said.ours:
                pending.clear()
        return tuple(pending)

    @rule()
    def asks(self) -> None:
        """A question."""
        name = self._new("q")
        self.session.user(name, id=name)
        self.history.append(Said(name, "user", (name,)))
        self._done()

    @rule(by=st.integers(0, 3), compacts=st.booleans(), breaks=st.booleans())
    def answers(self, by: int, compacts: bool, breaks: bool) -> None:
        """A reply, perhaps with a compaction in its middle; one that breaks off has no end.

        Those of OpenAI are ciphers, those of Anthropic have a readable text.
        """
        compacts = compacts and by < 3
        name, before, after = self._new("a"), self._new("t"), self._new("t")
        pending = self._pending()
        words = [before]
        with self.session.assistant(MODELS[by], id=name) as reply:
            reply.step()
            reply.add_text(before)
            if compacts:
                kind = "anthropic.compaction" if by == 2 else "openai.compaction"
                data = f'{{"type":"compaction","encrypted_content":"{name}","content":"{name}"}}'
                text = f"summary {name}" if by == 2 else None
                reply.part(Opaque(kind, data, target_of(MODELS[by]), text), id=f"{name}-c")
                words.append(f"{name}-c")
            reply.add_text(after)
            words.append(after)
            if breaks:
                reply.abort()
            else:
                reply.end_step("stop")
                reply.finish()
        self.history.append(Said(name, "assistant", tuple(words), by, not breaks, compacts and by == 2, kept=pending))
        self._done()

    @rule()
    def calls(self) -> None:
        """A call with a result, which may be pruned later."""
        name = self._new("a")
        with self.session.assistant(MODELS[0], id=name) as reply:
            reply.tool("read", call_id=name, input={}, id=f"{name}-t").succeed(f"result of {name}")
            reply.finish("stop")
        self.history.append(Said(name, "call", (f"result of {name}",), 0))
        self._done()

    @precondition(lambda self: any(said.role == "call" and not said.cleared for said in self.history))
    @rule(data=st.data())
    def prunes(self, data: st.DataObject) -> None:
        """Clear the result of a call."""
        known = [place for place, said in enumerate(self.history) if said.role == "call" and not said.cleared]
        place = data.draw(st.sampled_from(known))
        self.session.context.prune([f"{self.history[place].id}-t"])
        self.history[place] = self.history[place]._replace(cleared=True)
        self._done()

    @precondition(lambda self: self.history)
    @rule()
    def compacts(self) -> None:
        """A compaction of ours, of everything but pending questions."""
        name, pending = self._new("s"), self._pending()
        with self.session.lease():
            part = self.session.context.request_compaction()
            question = self.session.reader.state().last_message
            self.session.context.start_compaction(part, through=self.history[-1].id, kept=pending)
            with self.session.assistant(MODELS[0], id=name, reply_to=question, summary=True) as reply:
                reply.add_text(name)
                reply.finish()
            self.session.context.complete_compaction(part, name)
        self.history.append(Said(name, "assistant", (name,), ours=True, kept=pending, question=part))
        self._done()

    @precondition(lambda self: any(said.ours and not said.undone for said in self.history))
    @rule()
    def undoes(self) -> None:
        """Undo the newest compaction of ours."""
        part = self.session.context.undo_compaction()
        place = next(place for place, said in enumerate(self.history) if said.question == part)
        self.history[place] = self.history[place]._replace(undone=True)
        self._done()

    @precondition(lambda self: any(self._provided(said) for said in self.history))
    @rule(data=st.data())
    def takes_out(self, data: st.DataObject) -> None:
        """Remove a compaction of the provider's."""
        known = [place for place, said in enumerate(self.history) if self._provided(said)]
        place = data.draw(st.sampled_from(known))
        self.session.remove_part(f"{self.history[place].id}-c")
        self.history[place] = self.history[place]._replace(removed=True)
        self._done()

    @staticmethod
    def _provided(said: Said) -> bool:
        return said.by >= 0 and len(said.words) == 3 and not said.removed

    @rule(data=st.data())
    def rolls_back(self, data: st.DataObject) -> None:
        """Go back to any moment."""
        version, history = data.draw(st.sampled_from(self.past))
        self.session.rollback(to=version)
        self.history = list(history)
        self._done()

    @rule()
    def forks(self) -> None:
        """Go on in a fork."""
        self.session = self.session.fork()
        self.past = [(self.session.version, list(self.history))]
        self.live = [LiveView(self.session, RenderOptions(model=model)) for model in MODELS]

    # -- views ----------------------------------------------------------------------------

    def _boundary(self, by: int) -> int | None:
        """Place of the newest compaction that counts for a target."""
        found = None
        for place, said in enumerate(self.history):
            if (said.ours and not said.undone) or (self._provided(said) and said.counts and said.readable):
                found = place
        ciphers = [
            place
            for place, said in enumerate(self.history)
            if said.by == by and len(said.words) == 3 and said.counts and not said.readable
        ]
        own = max(ciphers, default=-1)
        return own if own > (-1 if found is None else found) and not self.history[own].removed else found

    def _expected(self, by: int) -> list[str]:
        boundary = self._boundary(by)
        shown: list[str] = []
        covering = None if boundary is None else self.history[boundary]
        kept = () if covering is None else covering.kept
        if covering is not None and covering.ours:
            shown += [QUESTION, covering.id]
        for place, said in enumerate(self.history):
            if said.ours or (boundary is not None and place < boundary and said.id not in kept):
                continue
            if said.role == "call":
                shown.append(CLEARED if said.cleared else said.words[0])
                continue
            words = list(said.words)
            if place == boundary:
                words = words[1:]
                words[0] = f"[{said.id}]" if said.by == by else f"summary {said.id}" if said.readable else "?"
            elif said.by >= 0 and len(words) == 3:
                del words[1]
            shown += words
        return shown

    @invariant()
    def each_target_sees_its_own(self) -> None:
        """Views now, at a version and followed agree with the model, and can be sent."""
        for by, model in enumerate(MODELS):
            options = RenderOptions(model=model)
            view = ModelView.of(self.session, options=options)
            assert _told(view) == self._expected(by), (by, self.history)
            assert ModelView.of(self.session, self.session.version, options).digest == view.digest
            assert self.live[by].advance().digest == view.digest
            FORMS[by](view.messages)
            if view.boundary is None:
                chat_messages(view.messages)

    @invariant()
    def a_process_that_opens_it_sees_the_same(self) -> None:
        """A process with nothing in memory gives the same view."""
        self.store.host.kept.forget(self.session.id)
        options = RenderOptions(model=MODELS[self.number % 4])
        assert _told(ModelView.of(self.session, options=options)) == self._expected(self.number % 4)


def _told(view: ModelView) -> list[str]:
    """Everything that a view says, compactions of the provider's in brackets."""
    told: list[str] = []
    for message in view.messages:
        for part in message.parts:
            if isinstance(part, Shown):
                told.append("[" + part.data.split('"encrypted_content":"')[1].split('"')[0] + "]")
            elif isinstance(part, Result):
                told.append(part.output)
            elif isinstance(part, Text):
                told.append(part.text)
    return told


TestTargets = Targets.TestCase
TestTargets.settings = settings(max_examples=60, stateful_step_count=25)
