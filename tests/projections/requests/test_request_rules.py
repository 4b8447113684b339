"""The rules take every answered request of the recordings, and refuse each fault in one."""

from __future__ import annotations

from random import Random

import pytest

from eventlog import Store
from projections import ModelView
from tests.support.edited_sessions import edited
from tests.support.provider_forms import check
from tests.support.recorded_requests import recorded_requests, sound_request
from tests.support.request_faults import FAULTS


def test_every_answered_request_passes() -> None:
    """No request of a recorded exchange that was answered breaks a rule."""
    seen = 0
    for request in recorded_requests():
        assert request.broken() == [], request
        seen += 1
    assert seen > 450


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if not fault.typed])
def test_each_fault_is_refused(name: str) -> None:
    """A sound request with one fault put in breaks a rule."""
    fault = FAULTS[name]
    request = sound_request(fault.api, fault.server)
    assert request.broken() == []
    fault.change(request.body)
    assert request.broken()


def test_changed_recordings_keep_the_rules(imported: Store) -> None:
    """Recorded sessions, forked and changed at random, leave requests that break no rule."""
    seen = 0
    for number, info in enumerate([*imported.sessions()][::3]):
        session = imported.session(info.id)
        if session.version > 150:
            continue
        for _, changed in edited(session.fork(), Random(number), 4):
            view = ModelView.of(changed)
            check(view.messages, view.system)
            seen += 1
    assert seen > 200
