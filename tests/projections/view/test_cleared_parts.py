"""Views and forms of providers show what was cleared by markers that each API takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import Session, Store
from eventlog.values import File
from projections import ModelView
from projections.requests.anthropic import anthropic_request
from projections.requests.gemini import gemini_request
from projections.requests.metadata import is_array, is_object
from projections.requests.openai import chat_messages
from projections.requests.openai_responses import responses_request
from projections.view.cleared_arguments import BEGINNING, LARGE, cleared_arguments
from tests.support.edited_sessions import about, parts_of
from tests.support.provider_forms import check


def _long(text: str) -> str:
    return (text + "x") * LARGE


TEXTS: st.SearchStrategy[str] = st.text(max_size=20) | st.builds(_long, st.text(max_size=3))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def cut(value: Any) -> Any:
    """The rule restated on values: large texts are cut, all else stays."""
    if isinstance(value, str) and len(value) > LARGE:
        return f"{value[:BEGINNING]}\n[Old tool argument cleared: omitted {len(value) - BEGINNING} chars]"
    if is_array(value):
        return [cut(item) for item in value]
    return {key: cut(item) for key, item in value.items()} if is_object(value) else value


@given(st.dictionaries(TEXTS, VALUES, max_size=4), st.booleans(), st.sampled_from([None, 1]))
def test_only_large_texts_of_an_object_are_cut(value: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    """Arguments stay an object with their keys, numbers and short texts."""
    written = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    found = cleared_arguments(written)
    assert json.loads(found) == cut(value)
    assert cleared_arguments(found) == found
    assert (found == written) == (cut(value) == value)


@pytest.mark.parametrize(
    "written",
    ["", "{}", "x" * 900, '["' + "x" * 900 + '"]', '{"a":"' + "x" * 900, '{"a":"' + "x" * 900 + '"}}', '"' + "x" * 900],
)
def test_other_arguments_stay_as_they_are(written: str) -> None:
    """A text that is no JSON object, such as one cut short, is not touched."""
    assert cleared_arguments(written) == written


def test_a_number_keeps_its_digits() -> None:
    """Numbers and escapes outside of large texts are copied, not written anew."""
    rest = '"n": 1.50, "big": 123456789012345678901234567890, "s": "\\u00e9\\/", "t": "\\ud800"'
    found = cleared_arguments('{"a": "' + "\\n" * 900 + '", ' + rest + "}")
    assert found.endswith(f", {rest}}}")
    assert len(found) < LARGE


def signed(session: Session, thought: str = "a thought") -> None:
    """A question with a file, and a signed answer of a thought and a large call."""
    session.user("go", files=[File("image/png", "data:image/png;base64,iVBORw0KGgo=", "shot.png")])
    with session.assistant("openai/gpt-5") as reply:
        stream = reply.stream_reasoning(metadata=about("rs_1"))
        stream.append(thought)
        stream.end()
        given: dict[str, object] = {"path": "src/a.py", "content": "line\n" * 200}
        reply.tool("write", call_id="call_1", metadata=about("fc_1"), input=given).succeed("written")
        reply.finish("tool-calls")
    session.user("go on")


def forms(session: Session) -> str:
    """All four forms of the view, as JSON; they keep the rules of their APIs."""
    messages = ModelView.of(session).messages
    check(messages)
    made = [responses_request(messages), anthropic_request(messages), gemini_request(messages)]
    return json.dumps([*made, chat_messages(messages)])


def test_cleared_arguments_take_along_what_hangs_on_them(store: Store) -> None:
    """The call stays a pair with its result and names its file; its id and signature go."""
    session = store.create_session()
    signed(session)
    before, digest = forms(session), ModelView.of(session).digest
    assert all(word in before for word in ('"fc_1"', "sig_fc_1", "rs_1", "line"))
    (call,) = parts_of(session, "tool")
    session.context.prune([], arguments=[call])
    made = forms(session)
    assert not any(word in made for word in ('"fc_1"', "sig_fc_1"))
    assert all(word in made for word in ("rs_1", "src/a.py", "written", "omitted 900 chars"))
    assert len(made) < len(before) - 3_000
    session.context.unprune([], arguments=[call])
    assert (forms(session), ModelView.of(session).digest) == (before, digest)


def test_a_cleared_thought_takes_along_what_hangs_on_it(store: Store) -> None:
    """A thought that is cleared by hand goes with its cipher, and the id of its call with it."""
    session = store.create_session()
    signed(session)
    before = forms(session)
    (thought,) = parts_of(session, "reasoning")
    session.context.prune([thought])
    made = forms(session)
    assert not any(word in made for word in ("rs_1", "a thought", '"fc_1"'))
    assert "written" in made
    session.context.unprune([thought])
    assert forms(session) == before


def test_a_cleared_file_is_named(store: Store) -> None:
    """The user's image is named where it stood, and is back after an undo."""
    session = store.create_session()
    signed(session)
    before = forms(session)
    (file,) = parts_of(session, "file")
    session.context.prune([file])
    made = forms(session)
    assert "[Attached image/png: shot.png]" in made
    assert "iVBOR" not in made
    session.context.unprune([file])
    assert forms(session) == before


@pytest.mark.parametrize("kind", ["tool", "arguments", "reasoning", "file"])
def test_clearing_follows_rollback_and_fork(store: Store, kind: str) -> None:
    """A rollback brings the content back, a redo clears it, and a fork keeps its own."""
    session = store.create_session()
    signed(session)
    whole, version = ModelView.of(session).digest, session.version
    (part,) = parts_of(session, "tool" if kind == "arguments" else kind)
    parts, calls = ([], [part]) if kind == "arguments" else ([part], [])
    session.context.prune(parts, arguments=calls)
    cleared = ModelView.of(session).digest
    assert cleared != whole
    fork = session.fork()
    session.rollback(to=version)
    assert (ModelView.of(session).digest, ModelView.of(fork).digest) == (whole, cleared)
    session.redo()
    assert ModelView.of(session).digest == cleared
    fork.context.unprune(parts, arguments=calls)
    assert (ModelView.of(session).digest, ModelView.of(fork).digest) == (cleared, whole)
    assert ModelView.of(session, version).digest == whole
