"""The renderers' requests fit the providers' own types and rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

import eventlog
from eventlog import Store
from eventlog.errors import ImportFormatError
from eventlog.importers import import_file
from eventlog.values import Model
from projections.requests.openai import chat_messages
from projections.view.model_view import ModelView
from projections.view.options import DEFAULT, OPENCODE_1_18, RenderOptions
from tests.projections.view.test_model_view import view_of
from tests.support.history_strategies import histories
from tests.support.import_counts import recorded
from tests.support.parity import scenarios
from tests.support.provider_forms import CHAT, check, checked
from tests.support.shared import shared_path
from tests.support.spans import Recording, Timed

OPTIONS = (
    DEFAULT,
    OPENCODE_1_18,
    RenderOptions(model=Model("anthropic", "claude-other"), capabilities=("text",), tool_output_limit=100),
    RenderOptions(strip_media=True, media_in_results=False, max_steps="Stop now. ", reminder=True),
)


def files(folder: Path) -> Iterator[Path]:
    """Recorded Claude Code sessions, streams, and the last two exports of parity scenarios."""
    data = shared_path("data")
    shared_path("parity")
    yield from recorded(data, "claude_code_jsonl", "claude_web_json", "sse_raw")
    yield from sorted((data / "sse_extracted").glob("*.sse"))
    for scenario in scenarios():
        for name, export in [*scenario.exports()][-2:]:
            path = folder / f"{scenario.name}-{name}.json"
            path.write_text(json.dumps(export))
            yield path


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of every recorded session that can be imported."""
    with eventlog.open("memory:") as store:
        for path in files(tmp_path_factory.mktemp("exports")):
            try:
                import_file(store, path)
            except ImportFormatError:
                continue
        assert len([*store.sessions()]) > 150
        yield store


@pytest.mark.parametrize("options", OPTIONS, ids=["default", "opencode-1.18", "other-model", "no-media"])
def test_recorded_sessions_render_by_types_and_rules(imported: Store, options: RenderOptions) -> None:
    """The view of every recorded session is valid by official types and providers' rules."""
    seen = 0
    for info in imported.sessions():
        session = imported.session(info.id)
        for at in {session.version, session.version // 2 or 1 if options is DEFAULT else session.version}:
            view = ModelView.of(session, at, options)
            check(view.messages, view.system)
            seen += len(view.messages)
    assert seen > 1_000


def test_chat_messages_are_of_the_official_type(imported: Store) -> None:
    """Chat Completions messages fit the types of `openai`, but for `reasoning_content`."""
    for info in imported.sessions():
        checked(CHAT, chat_messages(ModelView.of(imported.session(info.id)).messages))


@settings(max_examples=80, deadline=None)
@given(histories(max_size=60))
def test_random_histories_render_by_types_and_rules(items: list[Timed]) -> None:
    """Any history gives valid requests in every form, with any options."""
    recording = Recording(items)
    for options in OPTIONS:
        check(view_of(recording, options), ["be brief", " ", "\ud800"])
