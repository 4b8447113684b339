"""`eventlog timeline`: what a step had and cost, and what freed room."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

import eventlog
from eventlog import events as ev
from projections import Transcript
from projections.cli.exits import Exit
from projections.reports.timeline import timeline
from projections.view.part_rendering import REDACTED
from tests.support.cli_runner import Cli, on_terminal, valid
from tests.support.sample_sessions import started

COSTS = ("0.02", "0.03", None, "0.0004")
PLAIN = re.compile(r"\x1b\[[0-9;]*m|\r")


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """A store with a session of four steps: the third overflows its window, then a prune."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="talk")
        session.set_settings(limits=eventlog.Limits(context=12_000, output=2_000))
        parts: list[str] = []
        for number, cost in enumerate(COSTS):
            session.user(f"Question {number} of a person who writes more than a narrow line has room for")
            with session.assistant(model="acme/one") as reply:
                call = reply.tool("bash", call_id=f"c{number}", input={"command": "ls"}, id=f"prt_{number}")
                call.succeed("a line of a result\n" * 200)
                parts.append(f"prt_{number}")
                tokens = eventlog.Tokens(4_000 + number * 3_000, 50)
                reply.finish("stop", usage=eventlog.Usage(tokens, None if cost is None else Decimal(cost)))
        session.context.prune(parts[:2], policy="by hand", freed=777)
        asked = session.user("Delete everything")
        session.rollback(before=asked)
        session.fork(id="ses_other", title="Another way")
    return tmp_path / "store"


def drawn(store: Path, columns: int) -> tuple[list[str], list[list[str]]]:
    """The header, and the lines of a timeline on a terminal of this width."""
    code, shown = on_terminal("--store", store, "timeline", "talk", columns=columns)
    assert code == Exit.OK
    header, *lines = PLAIN.sub("", shown).splitlines()
    return header.split(), [line.split() for line in lines]


def test_the_cost_of_a_step_beside_its_tokens(cli: Cli, told: Path) -> None:
    """`cost` is that of the step, as its tokens are; `spent` is the sum until then."""
    assert told
    document = cli("timeline", "talk", "--json").json
    valid("timeline", document)
    steps = [entry for entry in document["entries"] if entry["kind"] == "step"]
    assert [entry["tokens"] for entry in steps] == [4_050, 7_050, 10_050, 13_050]
    assert [entry.get("cost") for entry in steps] == list(COSTS)
    assert [entry["spent"] for entry in steps] == ["0.02", "0.05", "0.05", "0.0504"]
    assert [entry.get("what") for entry in steps] == [None, None, "overflow", "overflow"]


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_every_width_tells_how_full_the_window_was(told: Path, columns: int) -> None:
    """Window, cost and an overflow are shown at each width, and the sum is in the last line."""
    header, lines = drawn(told, columns)
    assert {"version", "time", "kind", "words", "tokens", "window", "cost"} <= set(header)
    assert ["bash" in line for line in lines if "assistant" in line] == [True] * 4
    steps = [line for line in lines if "step" in line]
    assert [next(word for word in line if word.endswith("%")) for line in steps] == ["40%", "70%", "100%", "130%"]
    assert ["overflow" in line for line in steps] == [False, False, True, True]
    assert " ".join(lines[-1]) == "4 model calls, 34,200 tokens, cost $0.0504, not known for 1 call"


def test_a_narrow_terminal_has_the_day_once(tmp_path: Path) -> None:
    """The first entry of a day has its date, and the others their hours."""
    day = 86_400_000
    times = iter([90 * 60_000, 2 * day + 60_000])
    now = [60_000]
    with eventlog.open(tmp_path / "store", clock=lambda: now[0] + 10 * 365 * day) as store:
        session = store.create_session(id="talk")
        for now[0] in times:
            session.user("Hello")
            session.rename(str(now[0]))
    _, lines = drawn(tmp_path / "store", 80)
    assert [line[1] for line in lines[:-1]] == ["1979-12-30", "01:30", "01:30", "1980-01-01", "00:01"]


def test_the_window_of_an_imported_session_is_that_of_its_replies_model(cli: Cli, tmp_path: Path) -> None:
    """Without recorded limits the catalogue's count, for the timeline and for the window."""
    with eventlog.open(tmp_path / "store") as store:
        for id, model in ("known", "openai/gpt-5"), ("unknown", "acme/one"):
            session = store.create_session(id=id)
            session.user("Hello")
            with session.assistant(model=model) as reply:
                reply.add_text("Hello")
                reply.finish(usage=eventlog.Usage(eventlog.Tokens(27_200, 0)))
        limits = store.host.models.limits("openai/gpt-5")
    entries = cli("timeline", "known", "--json").json["entries"]
    report = cli("window", "known", "--json").json
    assert report["limits"]["context"] == limits.context
    assert [entry["fill"] for entry in entries if "fill" in entry] == [round(27_200 / report["usable"], 4)]
    assert cli("window", "unknown", "--json").json["limits"] is None
    assert not any("fill" in entry for entry in cli("timeline", "unknown", "--json").json["entries"])


def test_an_overflow_is_red(told: Path) -> None:
    """How full the window was is red where it overflowed."""
    shown = on_terminal("--store", told, "timeline", "talk", columns=80)[1]
    assert re.findall(r"\x1b\[31m([^\x1b]*%)", shown) == ["100%", "130%"]


def test_prunes_rollbacks_and_forks_in_words(told: Path) -> None:
    """A prune says what it freed, and by which policy; a fork has its title."""
    lines = [" ".join(line) for line in drawn(told, 200)[1]]
    (prune,) = [line for line in lines if "pruned 1" in line]
    assert prune.endswith("777 tokens freed: 2 parts, policy 'by hand'")
    assert any("(hidden) Delete everything" in line for line in lines)
    assert any(re.search(r"rolled-back 1 to \d+$", line) for line in lines)
    assert any(re.fullmatch(r"forked at version \d+ as ses_other: Another way", line) for line in lines)


def test_other_commands_name_the_policy_alike(cli: Cli, told: Path) -> None:
    """`explain` and `window` say a policy's name as such, and `diff` what its prune recorded."""
    assert told
    (pruned,) = [entry for entry in cli("timeline", "talk", "--json").json["entries"] if entry["kind"] == "pruned"]
    version = pruned["version"]
    assert cli("explain", "talk", "prt_0").out.endswith(", policy 'by hand'\n")
    assert f"pruned at version {version}: 2 parts, policy 'by hand', 777 tokens freed\n" in cli("window", "talk").out
    document = cli("diff", "talk", version - 1, version, "--json").json
    valid("diff", document)
    assert document["prunes"] == [{"version": version, "policy": "by hand", "freed": 777}]
    cleared = sum(change["before"] - change["after"] for change in document["changes"])
    assert cleared == document["tokens_first"] - document["tokens_second"] != 777
    said = cli("diff", "talk", version - 1, version).out
    assert f"cleared: 2 parts in 2 messages, -{cleared:,} tokens\n" in said
    assert f"the prune at version {version} recorded 777 tokens freed: its policy's estimate of what" in said


@pytest.mark.parametrize("of", ["talk", "ses_fork"])
def test_words_are_shown_until_they_are_redacted(tmp_path: Path, cli: Cli, of: str) -> None:
    """A redaction takes the words beside messages, titles and errors, in earlier forks, too."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="talk")
        session.user("secret words")
        part = next(part.id for message in Transcript(session).oldest_first() for part in message.parts)
        session.append([(1, ev.SessionRenamed("secret title", part))])
        with session.assistant(model="acme/one") as reply:
            call = reply.tool("bash", call_id="c", input={"command": "ls"}, id="prt_call")
            call.fail("secret error")
            reply.finish("stop")
        session.rename("a title of its own")
        session.fork(id="ses_fork")
    shown = [entry.get("words") for entry in cli("timeline", of, "--json").json["entries"] if "words" in entry]
    assert shown == ["secret words", "secret title", "-> bash", "secret error", "a title of its own"]
    with eventlog.open(tmp_path / "store") as store:
        store.session("talk").redact(part)
        store.session("talk").redact("prt_call")
    found = cli("timeline", of, "--json").json["entries"]
    assert "secret" not in str(found)
    assert "a title of its own" in str(found)


def test_the_timeline_hides_the_titles_that_are_redacted_and_no_other(tmp_path: Path) -> None:
    """Titles before the one that was kept are hidden, in forks of before and after, too."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session()
        asked = session.user("the secret of the vault")
        session.rename("the secret")
        early = session.fork()
        session.rename("Better")
        session.redact(started(session, {asked})[0])
        session.rename("Later")
        late = session.fork()
        session.rename("Last")
        for shown, words in (
            (session, [REDACTED, REDACTED, "Better", "Later", "Last"]),
            (early, [REDACTED, ""]),
            (late, [REDACTED, REDACTED, "Better", "Later"]),
        ):
            assert [entry.words for entry in timeline(shown).entries if entry.kind == "renamed"] == words
