"""The renderers' requests fit the providers' own types and rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from eventlog import Store
from eventlog.values import Model
from projections.view.model_view import ModelView
from projections.view.options import DEFAULT, OPENCODE_1_18, RenderOptions
from tests.projections.view.test_model_view import view_of
from tests.support.history_strategies import histories
from tests.support.provider_forms import check
from tests.support.spans import Recording, Timed

OPTIONS = (
    DEFAULT,
    OPENCODE_1_18,
    RenderOptions(model=Model("anthropic", "claude-other"), capabilities=("text",), tool_output_limit=100),
    RenderOptions(strip_media=True, media_in_results=False, max_steps="Stop now. ", reminder=True),
)


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


@settings(max_examples=80, deadline=None)
@given(histories(max_size=60))
def test_random_histories_render_by_types_and_rules(items: list[Timed]) -> None:
    """Any history gives valid requests in every form, with any options."""
    recording = Recording(items)
    for options in OPTIONS:
        check(view_of(recording, options), ["be brief", " ", "\ud800"])
