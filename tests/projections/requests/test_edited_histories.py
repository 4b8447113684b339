"""Requests keep each provider's rules after any change of the history."""

from __future__ import annotations

import json
from random import Random

import pytest

from eventlog import Store
from projections import ModelView
from projections.requests.anthropic import anthropic_request
from projections.requests.gemini import gemini_request
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from tests.support.edited_sessions import CHANGES, KINDS, answer, edited, parts_of
from tests.support.provider_forms import check


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_thought_takes_along_what_hangs_on_it(store: Store, change: str) -> None:
    """An edited, removed or redacted thought loses signature and cipher, and its call the id."""
    session = store.create_session()
    session.user("go")
    answer(session, 1)
    before = json.dumps(responses_request(ModelView.of(session).messages))
    assert all(word in before for word in ("rs_1", "enc_rs_1", "fc_1", "final_answer"))
    CHANGES[change](session, parts_of(session, "reasoning")[0])
    messages = ModelView.of(session).messages
    check(messages)
    forms = [responses_request(messages), anthropic_request(messages), gemini_request(messages)]
    made = json.dumps([*forms, chat_messages(messages)])
    assert not any(word in made for word in ("rs_1", '"fc_1"', "thought 1"))
    assert "final_answer" in made
    session.rollback(to=1)
    assert len(ModelView.of(session)) == 0


def test_a_name_of_a_tool_is_the_same_everywhere(store: Store) -> None:
    """A tool has one name in a request, and two long names stay different."""
    session = store.create_session()
    session.user("go")
    for number, tool in enumerate(("a.b", "n" * 70, "a.b", "n" * 71)):
        answer(session, number, tool=tool)
    calls = [
        call for message in chat_messages(ModelView.of(session).messages) for call in message.get("tool_calls", ())
    ]
    names = [call["function"]["name"] for call in calls]
    assert names[0] == names[2] == "a_b"
    assert len({*names}) == 3


def test_random_changes_keep_the_rules(store: Store) -> None:
    """Edits, prunes, compactions, rollbacks and forks leave requests that all providers take."""
    done: set[str] = set()
    for seed in range(12):
        session = store.create_session()
        session.set_system_prompt("header", "rest")
        for what, changed in edited(session, Random(seed), 40):
            done.add(what)
            view = ModelView.of(changed)
            check(view.messages, view.system)
    assert done == {*KINDS}
