"""Any arguments: a documented exit code, one line of explanation, never a traceback."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import eventlog
from projections.cli.app import run
from projections.cli.exits import Exit
from projections.cli.registry import COMMANDS, load
from tests.faults.tally import SLOW, tally

EXAMPLES = 800 if SLOW else 70
ODD = ["", "-", "--", "0", "-1", "1", "999999999999999999999", "nan", "1e9", "é\u202e", "\ud800", "a b", "*", "--help", "a" * 300, "\x1b[31m", "[red]", "%s", "{}"]  # fmt: skip
"""Unexpected words; none of them names a file outside the test's own directory."""
NOT_RUN = {"demo", "serve"}
"""A command whose two seconds are tested elsewhere, and one that goes on until Ctrl-C."""


def grammar() -> dict[str, list[str]]:
    """The options of every command."""
    return {
        name: sorted(
            option
            for each in load(name).params
            for option in (*each.opts, *each.secondary_opts)
            if option.startswith("-")
        )
        for name in COMMANDS
        if name not in NOT_RUN
    }


GRAMMAR = grammar()


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """A command line: a command, some of its options, and random words."""
    name = draw(st.sampled_from(sorted(GRAMMAR)))
    words = st.sampled_from(
        ["ses_a1", "ses_b2", "ses_", "m1", "file", "store", "new", "no such", "2", "3", "opencode", "jsonl", "recency"]
    )
    options = st.sampled_from([*GRAMMAR[name], "--json", "--help"])
    odd = st.sampled_from(ODD) | st.text(st.characters(exclude_characters="/\0"), max_size=8)
    rest = draw(st.lists(words | words | options | odd, max_size=6))
    return [name, *rest] if draw(st.integers(0, 9)) else [*rest, name]


def harmless(arguments: Sequence[str]) -> bool:
    """Whether the command line makes no network request, and ends."""
    endless = {"--summarizer", "--follow", "-f"}.intersection(arguments)
    return not endless and not any(word.startswith("http") for word in arguments)


def test_any_arguments_end_in_a_documented_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any words give a documented exit code, no defect (70) and no traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENTLOG_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").write_text('{"role":"user","content":"hi"}\n')
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="ses_a1", title="Fix it")
        session.user("The tests fail", id="m1")
        with session.assistant(model="acme/one") as reply:
            reply.tool("bash", call_id="c1", input={"command": "ls"}).succeed("x" * 3000)
            reply.finish("stop")
        store.create_session(id="ses_b2")
    codes: Counter[str] = Counter()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=not SLOW,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
    )
    @example(["show", "no such"])
    @given(lines().filter(harmless))
    @example(["show", "no such"])
    def fuzz(arguments: list[str]) -> None:
        capsys.readouterr()
        code = run(arguments)
        told = capsys.readouterr()
        assert code in {
            Exit.OK,
            Exit.FAULTS,
            Exit.USAGE,
            Exit.MISSING,
            Exit.DAMAGED,
            Exit.BUSY,
            Exit.STORAGE,
            Exit.COMPACTION,
        }, told.err
        assert "Traceback" not in told.err
        assert code in {Exit.OK, Exit.FAULTS} or told.err.strip(), "it failed, and said nothing"
        codes[Exit(code).name.lower()] += 1

    fuzz()
    assert set(codes) >= {"ok", "usage", "missing"}, codes
    tally("random command lines", EXAMPLES, **codes)
