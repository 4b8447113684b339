"""Hooks that change messages leave whole what they do not take out."""

from __future__ import annotations

from msgspec.structs import replace

from projections.view.neutral import Call, NeutralMessage, Result
from projections.window.policy.hooks import messages_by


def test_a_hook_changes_a_call_that_stands_alone() -> None:
    """A call without a result stays with other arguments; one that lost its result goes."""
    alone, answered = Call("c1", "bash", "secret"), Call("c2", "bash", "{}")
    result = Result("c2", "bash", "done")
    given = [NeutralMessage("assistant", (answered,)), NeutralMessage("tool", (result,))]
    given.append(NeutralMessage("assistant", (alone,)))

    def hook(messages: list[NeutralMessage]) -> list[NeutralMessage]:
        return [messages[0], replace(messages[2], parts=(replace(alone, input="***"),))]

    assert messages_by(hook, given) == [NeutralMessage("assistant", (Call("c1", "bash", "***"),))]
