"""The promises of every engine, run on an encrypted store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.eventlog import test_subscription
from tests.eventlog.append import test_accepted_events
from tests.eventlog.maintenance import test_erase, test_redaction
from tests.eventlog.session import test_ids_and_requests, test_rollback_and_fork, test_streaming
from tests.support.engines import ENCRYPTED, Engine

FLOWS: list[Callable[[Engine], None]] = [
    test_accepted_events.test_a_long_run_keeps_checkpoints_of_its_state,
    test_accepted_events.test_many_programs_rename_at_once,
    test_rollback_and_fork.test_a_fork_continues_its_parent_and_neither_changes_the_other,
    test_ids_and_requests.test_a_repeated_request_gives_the_first_result,
    test_ids_and_requests.test_callers_bring_their_own_ids_and_find_things_by_them,
    test_streaming.test_a_full_buffer_commits_and_loses_nothing,
    test_streaming.test_accepted_deltas_are_committed_within_the_interval,
    test_streaming.test_lone_surrogates_are_kept_everywhere,
    test_subscription.test_accepted_events_are_told_before_they_are_committed,
    test_subscription.test_history_then_live_without_a_gap_or_a_duplicate,
    test_subscription.test_sessions_and_kinds_choose,
]
PLACES: list[Callable[[str, Path], None]] = [
    test_erase.test_an_erased_session_is_gone_at_once,
    test_redaction.test_a_redacted_part_is_hidden_everywhere_at_once,
]


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.__name__)
def test_what_holds_of_every_engine_holds_encrypted(flow: Callable[[Engine], None], tmp_path: Path) -> None:
    """The engine promise of the named test holds for a store with keys."""
    engine = Engine(ENCRYPTED, tmp_path)
    try:
        flow(engine)
    finally:
        engine.close()
    assert (tmp_path / "store.keys").exists()


@pytest.mark.parametrize("flow", PLACES, ids=lambda flow: flow.__name__)
def test_what_holds_in_every_place_holds_encrypted(flow: Callable[[str, Path], None], tmp_path: Path) -> None:
    """The promises of every engine, for tests that open their stores themselves."""
    flow(ENCRYPTED, tmp_path)
    assert list(tmp_path.rglob("*.keys"))
