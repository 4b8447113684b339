"""Requests have the types of the providers' own packages for TypeScript."""

from __future__ import annotations

from pathlib import Path
from random import Random

from eventlog import Store
from projections import ModelView
from tests.projections.view.test_model_view import view_of
from tests.support.edited_sessions import edited
from tests.support.history_strategies import COMMANDS, Grower
from tests.support.provider_forms import Request, requests_of
from tests.support.recorded_requests import recorded_requests, sound_request
from tests.support.request_faults import FAULTS
from tests.support.spans import Recording
from tests.support.type_checker import Literals

STRICTER = ("image_url: string; }]", '[{ type: "output_text"; text: string; }]')
"""Answered requests that `openai` refuses: no detail of an image, no annotations."""


def of_forms(imported: Store) -> list[Request]:
    """The forms of recorded, changed and generated histories."""
    found: list[Request] = []
    with_new = imported.create_session()
    views = [ModelView.of(imported.session(info.id)) for info in imported.sessions()]
    views += [ModelView.of(changed) for seed in range(4) for _, changed in edited(with_new, Random(seed), 30)]
    for view in views:
        found += requests_of(view.messages, view.system)
    for seed in range(60):
        random, grower = Random(seed), Grower()
        for _ in range(40):
            grower.do((random.choice((*COMMANDS, *("answer",) * 20)), random.randrange(60), random.choice("ab\n")))
        found += requests_of(view_of(Recording(grower.items)), ["be brief"])
    return found


def test_requests_have_the_types_of_the_packages(imported: Store, tmp_path: Path) -> None:
    """`tsc --strict` takes answered requests and all forms, and refuses each fault of types."""
    literals = Literals(tmp_path)
    answered = {literals.add(one) for one in recorded_requests()}
    made = {literals.add(one) for one in of_forms(imported)}
    faulty: dict[int | None, str] = {}
    for name, fault in FAULTS.items():
        if fault.typed:
            request = sound_request(fault.api, "openai")
            fault.change(request.body)
            faulty[literals.add(request)] = name
    complaints = literals.check()
    assert len(made) > 150
    assert {literals.lines[at]: complaints[at] for at in complaints if at in made} == {}
    surprises = [text for at in complaints if at in answered for text in complaints[at]]
    assert [text for text in surprises if not any(word in text for word in STRICTER)] == []
    assert {name for at, name in faulty.items() if at not in complaints} == set()
