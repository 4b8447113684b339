"""`eventlog audit`, `diff` and `timeline`."""

from __future__ import annotations

from pathlib import Path

import pytest

import eventlog
from eventlog.values import Limits, Model
from projections.cli.exits import Exit
from projections.loop.context.window import ContextWindow
from projections.loop.decision.steps import CallModel
from projections.requests.forms import FORMS
from tests.support.cli_runner import Cli, valid

pytestmark = pytest.mark.promise(10)


@pytest.fixture
def driven(store: Path) -> str:
    """A session with one audited step, one without a digest, and a rollback."""
    with eventlog.open(store) as opened:
        session = opened.session("ses_a1")
        session.user("Again")
        with ContextWindow(session, limits=Limits(20_000, 2_000), model=Model("acme", "one")) as window:
            step = window.next_step()
            assert isinstance(step, CallModel)
            reply, _ = window.begin(step)
            usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010, "cost": 0.25}
            reply.fill([{"choices": [{"delta": {"content": "Done"}, "finish_reason": "stop"}], "usage": usage}])
        session.user("Not this")
        session.rollback(session.version - 2)
    return "ses_a1"


def test_audit_says_which_steps_match(cli: Cli, driven: str) -> None:
    """A step with a digest matches, a step without one is unknown; neither is a fault."""
    answer = cli("audit", driven, "--json")
    assert answer.code == Exit.OK
    valid("audit", answer.json)
    assert [step["verdict"] for step in answer.json["steps"]] == ["unknown", "match"]
    assert answer.json["verdicts"] == {"match": 1, "mismatch": 0, "unknown": 1, "redacted": 0}
    assert "2 steps: 1 unknown, 1 match" in cli("audit", driven).out


def test_audit_without_a_step_says_what_records_one(cli: Cli, store: Path) -> None:
    """A reply by hand without its view leaves nothing to compare, and the command says so."""
    with eventlog.open(store) as opened:
        session = opened.create_session(id="ses_bare")
        session.user("Hello")
        with session.assistant(model="p/m") as reply:
            reply.add_text("Hi")
            reply.finish()
    answer = cli("audit", "ses_bare")
    assert answer.code == Exit.OK
    assert "0 steps: a reply that names its view" in answer.out + answer.err


def test_audit_of_one_step_shows_the_exact_request(cli: Cli, driven: str) -> None:
    """The request of a step is the view that it was sent."""
    answer = cli("audit", driven, "--step", 2, "--json")
    valid("audit", answer.json)
    (step,) = answer.json["steps"]
    view = cli("view", driven, "--at", step["view_version"], "--model", "acme/one", "--json").json
    assert answer.json["request"]["messages"] == view["messages"]
    assert '"Again"' in cli("audit", driven, "--step", 2).out
    assert cli("audit", driven, "--step", 3).code == Exit.MISSING
    without = cli("audit", driven, "--step", 1, "--json").json
    assert without["request"] is None


def test_audit_with_a_digest_that_is_not_the_views_is_a_fault(cli: Cli, store: Path) -> None:
    """A step whose digest differs from its view ends with exit code 1."""
    with eventlog.open(store) as opened:
        session = opened.session("ses_a1")
        with session.assistant() as reply:
            reply.step(view_version=3, view_digest=b"\0" * 32, render='{"renderer":"neutral/1"}')
            reply.finish()
    answer = cli("audit", "ses_a1", "--json")
    assert answer.code == Exit.FAULTS
    assert answer.json["verdicts"]["mismatch"] == 1
    assert "mismatch" in cli("audit", "ses_a1").out


def test_audit_shows_the_body_and_what_was_not_compared(cli: Cli, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step with a form shows its body; another version of the form is told, and no fault."""
    with eventlog.open(store) as opened:
        session = opened.create_session(id="ses_form")
        session.user("Hello")
        with ContextWindow(session, limits=Limits(20_000, 2_000), model=Model("acme", "one")) as window:
            step = window.next_step()
            assert isinstance(step, CallModel)
            reply, request = window.begin(step, form="anthropic")
            reply.finish()
    answer = cli("audit", "ses_form", "--step", 1, "--json")
    valid("audit", answer.json)
    assert answer.json["steps"][0]["body"] == "match"
    assert answer.json["request"]["body"] == request.body
    monkeypatch.setitem(FORMS, "anthropic", FORMS["anthropic"]._replace(number=2))
    answer = cli("audit", "ses_form", "--json")
    valid("audit", answer.json)
    assert (answer.code, answer.json["steps"][0]["body"]) == (Exit.OK, "other-version")
    assert "other-version" in cli("audit", "ses_form").out
    assert "this program has" in cli("audit", "ses_form").out


def test_diff_in_words_and_tokens(cli: Cli, driven: str) -> None:
    """`diff` lists what was added between two versions, with its tokens."""
    version = cli("view", driven, "--json").json["version"]
    answer = cli("diff", driven, 3, version, "--json")
    valid("diff", answer.json)
    assert {change["kind"] for change in answer.json["changes"]} == {"added"}
    difference = sum(change["after"] - change["before"] for change in answer.json["changes"])
    assert answer.json["tokens_first"] + difference == answer.json["tokens_second"]
    assert any(line.startswith("came: ") for line in cli("diff", driven, 3, version).out.splitlines())
    assert cli("diff", driven, 1, 10_000).code == Exit.MISSING


def test_timeline_of_a_session(cli: Cli, driven: str) -> None:
    """`timeline` lists messages, steps with fill and cost, and what was rolled back."""
    answer = cli("timeline", driven, "--json")
    assert answer.code == Exit.OK
    valid("timeline", answer.json)
    steps = [entry for entry in answer.json["entries"] if entry["kind"] == "step"]
    assert [step["tokens"] for step in steps] == [120, 1010]
    assert steps[1]["fill"] == round(1010 / 18_000, 4)
    assert steps[1]["cost"] == "0.25"
    assert [entry["kind"] for entry in answer.json["entries"] if entry.get("hidden")] == ["user"]
    text = cli("timeline", driven).out
    assert "rolled-back" in text
    assert "6%" in text
