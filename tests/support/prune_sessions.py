"""Conversations to prune, and their sizes in letters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from hypothesis import strategies as st

from eventlog.values import Content
from projections.conversation.parts import (
    CompactionPart,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    StepPart,
    TextPart,
    ToolPart,
)
from projections.conversation.state import Conversation
from projections.view.neutral import NeutralMessage
from projections.view.options import DEFAULT
from projections.window.policy.policy import PrunePolicy
from projections.window.prune.case import PrunePlan
from projections.window.prune.planners import PLANNERS, plan_prune
from projections.window.sizing.sizes import Sizes


class Letters(Sizes):
    """Sizes that count each letter as a token, and a thousand per attachment."""

    def __init__(self) -> None:
        super().__init__(Conversation(whole=False), DEFAULT, lambda content: cast("str", content))

    def messages(self, messages: Sequence[Message]) -> int:
        """Letters of texts and of results."""
        return sum(
            sum(map(len, map(self.text, part.pieces))) if isinstance(part, TextPart) else self.counted(part)
            for message in messages
            for part in message.parts
            if isinstance(part, (TextPart, ToolPart, ReasoningPart, FilePart))
        )

    def sent(self, message: Message) -> int:
        """Letters of one message."""
        return self.messages([message])

    def _count_message(self, sent: Sequence[NeutralMessage]) -> int:
        raise AssertionError(sent)

    def _count_text(self, content: Content) -> int:
        return len(self.text(content))

    def _count_part(self, part: ToolPart | ReasoningPart | FilePart) -> int:
        """Letters of the output and the attachments, of a thought, or of a file's address."""
        if isinstance(part, ReasoningPart):
            return sum(map(self._count_text, part.pieces))
        if isinstance(part, FilePart):
            return self._count_text(part.file.url)
        return self._count_text(part.result) + 1_000 * len(part.attachments)


def conversation(messages: Sequence[Message]) -> Conversation:
    """A state that holds these messages."""
    state = Conversation(whole=False)
    for message in messages:
        state.add_message(message)
        for part in message.parts:
            state.where[part.id] = (message, part)
    return state


class Talk:
    """Builds a conversation message by message; tool parts are named t0, t1 and so on."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.count = 0

    def user(self, text: str = "go on", *, synthetic: bool = False) -> Talk:
        """A user message."""
        self._add([TextPart(f"u{len(self.messages)}", pieces=[text])], user=True).synthetic = synthetic
        return self

    def step(self, *parts: Part) -> Talk:
        """An assistant message."""
        self._add([StepPart(f"s{len(self.messages)}"), *parts], user=False)
        return self

    def tool(self, size: int = 10, tool: str = "bash", **fields: Any) -> ToolPart:
        """A call with a result, or an error, of that size; its own input by default."""
        given = fields.pop("input", {"n": self.count})
        part = ToolPart(f"t{self.count}", call="c", tool=tool, status="completed", output="x" * size)
        part.input = json.dumps(given)
        for name, value in fields.items():
            setattr(part, name, value)
        if part.status == "failed":
            part.output, part.error = "printed", part.output
        self.count += 1
        return part

    def compaction(self) -> Talk:
        """Add the marker and the summary of a compaction that covers everything before."""
        marker = self._add([CompactionPart(f"c{len(self.messages)}")], user=True)
        summary = self._add([TextPart(f"x{len(self.messages)}", pieces=["sum"])], user=False)
        summary.summary, summary.reply_to = True, marker.id
        return self

    def _add(self, parts: list[Part], *, user: bool) -> Message:
        index = len(self.messages)
        message = Message(f"m{index}", user, index + 1, 0, parts, finished=None if user else 1)
        self.messages.append(message)
        return message


def plan(
    messages: Sequence[Message] | Conversation, policy: PrunePolicy, usable: int | None = None, *, inside: bool = False
) -> PrunePlan | None:
    """The prune plan for these messages."""
    state = messages if isinstance(messages, Conversation) else conversation(messages)
    return plan_prune(state, policy, Letters(), options=DEFAULT, usable=usable, inside=inside)


def parts_of(found: PrunePlan | None) -> tuple[str, ...]:
    """The planned parts, none without a plan."""
    return found.parts if found is not None else ()


TOOLS = st.sampled_from(["bash", "read", "edit", "skill"])
INPUTS = st.sampled_from([{"filePath": "/a"}, {"filePath": "/b"}, {"filePath": "/a", "offset": 5}, {"command": "ls"}])
STATES = st.sampled_from(["completed"] * 6 + ["failed", "running"])


@st.composite
def talks(draw: st.DrawFn) -> list[Message]:
    """Conversations of turns with steps, calls of every kind, and synthetic messages."""
    talk = Talk()
    for _ in range(draw(st.integers(0, 5))):
        talk.user(synthetic=draw(st.sampled_from([False, False, False, True])))
        for _ in range(draw(st.integers(0, 4))):
            talk.step(
                *[
                    talk.tool(
                        draw(st.integers(0, 60)),
                        draw(TOOLS),
                        input=draw(INPUTS),
                        status=draw(STATES),
                        pruned=draw(st.sampled_from([False, False, False, True])),
                        removed=draw(st.sampled_from([False] * 9 + [True])),
                        redacted=draw(st.sampled_from([False] * 9 + [True])),
                    )
                    for _ in range(draw(st.integers(0, 3)))
                ]
            )
    return talk.messages


policies = st.builds(
    PrunePolicy,
    policy=st.sampled_from(sorted(PLANNERS)),
    protect=st.integers(0, 150),
    minimum=st.integers(0, 100),
    turns=st.integers(0, 3),
    steps=st.none() | st.integers(0, 3),
    expected_turns=st.integers(0, 100),
)
rooms = st.none() | st.integers(0, 1_000)


def tools_of(messages: Sequence[Message]) -> Iterator[tuple[int, ToolPart]]:
    """The calls with the index of their message, oldest first."""
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolPart):
                yield index, part
