"""Format detection over all recorded files: certain or refused by name, never empty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import eventlog
from eventlog import Store
from eventlog.errors import ImportFormatError
from eventlog.importers import FORMATS, detect, import_file
from tests.support.cli_runner import program
from tests.support.shared import shared_path

CASSETTE = "looks like a recorded HTTP cassette (YAML); not a format that can be imported"
HTTP = "looks like recorded HTTP traffic (JSON); not a format that can be imported"
TAKEN = {
    "agent_sessions_fixtures": {"codex": 9},
    "agentsview_fixtures": {"codex": 6, "openai_messages": 4},
    "anthropic_sdk": {"anthropic_sse": 5},
    "claude_code_log": {"claude_code": 4},
    "claude_code_transcripts": {"claude_code": 3},
    "claude_code_viewer": {"claude_code": 4},
    "entireio_claude_code": {"claude_code": 13},
    "entireio_codex": {"codex": 9},
    "entireio_gemini": {"gemini_cli": 3},
    "entireio_growth_series": {"claude_code": 5},
    "mini_swe_agent": {"openai_messages": 2},
    "pi_mono": {"pi": 1},
    "prism_sse": {"anthropic_sse": 7, "gemini_stream": 1, "openai_chat_sse": 10},
    "smile_zh": {"role_list": 27},
    "sse_extracted": {"anthropic_sse": 12, "openai_chat_sse": 86, "openai_responses_sse": 20},
    "swe_agent": {"openai_messages": 5},
    "tau_bench": {"openai_messages": 9},
    "vercel_ai": {"anthropic_sse": 8, "gemini_stream": 2, "openai_chat_sse": 3, "openai_responses_sse": 11},
}
"""The formats by folder, with the number of files; every other file is refused."""
REFUSED = {
    "cline": HTTP,
    "crosswoz_zh": "looks like a data set of dialogues (CrossWOZ); not a format that can be imported",
    "ellmer_cassettes": CASSETTE,
    "emollm_zh": "looks like a data set of conversations (EmoLLM); not a format that can be imported",
    "fantasy_cassettes": CASSETTE,
    "medicalgpt_zh": "looks like a data set of conversations (ShareGPT); not a format that can be imported",
    "oasst_en": "looks like a data set of conversations (OpenAssistant); not a format that can be imported",
    "opencode_recordings": HTTP,
    "openllmetry_cassettes": CASSETTE,
    "otel_contrib_cassettes": CASSETTE,
    "pydantic_ai_cassettes": CASSETTE,
    "simonw_llm_anthropic_cassettes": CASSETTE,
    "simonw_llm_cassettes": CASSETTE,
}
"""The refusal text for every file of a folder."""


def test_every_recorded_file_is_told_or_refused() -> None:
    """Each folder's files match the table's formats; all others are refused by name."""
    data = shared_path("data")
    found: dict[str, dict[str, int]] = {}
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        folder = path.relative_to(data).parts[0]
        with eventlog.open("memory:") as store:
            try:
                report = import_file(store, path)
            except ImportFormatError as error:
                said = str(error).removeprefix(f"{path}: ")
                assert said == REFUSED.get(folder, said)
                assert len(list(store.sessions())) == 0
                continue
            assert folder not in REFUSED, path
            assert all(store.info(name).events > 1 or store.info(name).fork_of for name in report.sessions), path
            assert report.sessions, path
        counts = found.setdefault(folder, {})
        counts[report.format] = counts.get(report.format, 0) + 1
    assert found == TAKEN


RECORDED = {
    "betamax": ('{"http_interactions": [], "recorded_with": "betamax/0.9"}', HTTP),
    "betamax-turned": ('{"recorded_with": "betamax/0.9", "http_interactions": []}', HTTP),
    "vcrpy-json": ('{"version": 1, "interactions": []}', HTTP),
    "vcrpy-json-turned": ('{"interactions": [], "version": 1}', HTTP),
    "har": ('{"log": {"version": "1.2", "entries": []}}', HTTP),
    "flow-mapping": ("{interactions: [{request: {}}], version: 1}", HTTP),
    "responses": ("responses:\n- response:\n    status: 200\n", CASSETTE),
    "quoted": ('"interactions":\n- request: {}\n', CASSETTE),
    "flow": ("interactions: [{request: {}}]\nversion: 1\n", CASSETTE),
    "commented": (f"# {'x' * 5_000}\ninteractions:\n- request: {{}}\n", CASSETTE),
}
"""Forms in which programs store HTTP traffic, and the refusal text for each."""


@pytest.mark.parametrize("form", RECORDED)
def test_recorded_traffic_is_refused_by_name(form: str) -> None:
    """Recorded HTTP traffic is refused by name, in each form that recorders write."""
    text, said = RECORDED[form]
    with pytest.raises(ImportFormatError, match="looks like") as refused:
        detect(text.encode())
    assert str(refused.value).endswith(said)


OTHERS: dict[str, object] = {
    "Posit Assistant": {"schemaVersion": "3", "root": {"id": "1"}, "messages": []},
    "Kiro": {"conversation_id": "k", "history": [{"user": {"content": "Hi"}, "assistant": {}}]},
    "Grok Build": {"info": {"id": "g", "cwd": "/project"}, "session_summary": "Said hello"},
    "Mistral Vibe": {"session_id": "v", "parent_session_id": None, "start_time": "2026-01-01T00:00:00Z"},
    "GitHub Copilot": {"requesterUsername": "someone", "requests": [{"message": {"text": "Hi"}}]},
    "GitHub Copilot CLI": {"type": "session.start", "data": {"sessionId": "c", "copilotVersion": "1"}},
    "claude.ai": [{"uuid": "u", "name": "Hello", "chat_messages": [{"text": "Hi", "sender": "human"}]}],
    "Open WebUI": [{"id": "1", "user_id": "u", "title": "Hello", "chat": {"history": {"messages": {}}}}],
    "LibreChat": {"conversationId": "l", "endpoint": "openAI", "title": "Hello", "messages": [{"text": "Hi"}]},
    "OpenHands": [{"id": 0, "timestamp": "2026-01-01T00:00:00", "source": "user", "message": "Hi"}],
    "SWE-bench": [{"instance_id": "one", "model_patch": "diff"}],
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_tools_are_refused_by_name(name: str, indent: int | None) -> None:
    """A file of a tool that no importer reads is refused by the tool's name, in one sentence."""
    with pytest.raises(ImportFormatError) as refused:
        detect(json.dumps(OTHERS[name], indent=indent).encode())
    assert name in str(refused.value)
    assert "not a format that can be imported" in str(refused.value)


def test_a_history_of_specstory_is_refused_by_name() -> None:
    """Markdown of SpecStory is refused by the tool's name."""
    with pytest.raises(ImportFormatError, match="SpecStory"):
        detect(b"<!-- Generated by SpecStory -->\n\n# Hello\n")


IFLOW: list[object] = [
    {"uuid": "1", "parentUuid": None, "sessionId": "session-1", "type": "user", "message": {"role": "user", "content": "Hi"}},
]  # fmt: skip
DROID: list[object] = [
    {"type": "session_start", "id": "d", "title": "Login", "cwd": "/project"},
    {"type": "message", "id": "1", "message": {"role": "user", "content": [{"type": "text", "text": "Hi"}]}},
]


@pytest.mark.parametrize(("records", "name"), [(IFLOW, "iFlow CLI"), (DROID, "Droid")], ids=["iflow", "droid"])
def test_sessions_of_other_tools_are_refused_by_name(tmp_path: Path, records: list[object], name: str) -> None:
    """The command line names the tool of a foreign session in one line, with exit code 2."""
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    done = program("--store", tmp_path / "store", "import", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert name in done.stderr
    assert "--format" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("size", [100_000, 10_000_000])
def test_a_list_that_begins_late_is_found(tmp_path: Path, size: int, indent: int | None) -> None:
    """Messages behind a large member or a large first message are detected."""
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    forms: list[object] = [
        {"tools": [{"description": 'x"[{' * (size // 4)}], "messages": messages},
        [{"role": "system", "content": "x" * size}, *messages],
    ]
    for number, form in enumerate(forms):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(form, indent=indent))
        for name in (None, "openai_messages"):
            with eventlog.open("memory:") as store:
                report = import_file(store, path, format=name)
                assert (report.format, report.messages, report.skipped) == ("openai_messages", 2, [])


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_without_a_conversation_is_an_error(tmp_path: Path, name: str) -> None:
    """A named format without a conversation is a typed error and stores nothing."""
    path = tmp_path / "other.yaml"
    path.write_text('interactions:\n- request:\n    body: |\n      data: {"type": "message_start"}\n')
    with eventlog.open("memory:") as store:
        with pytest.raises(ImportFormatError):
            import_file(store, path, format=name)
        assert not _listed(store)


def _listed(store: Store) -> list[str]:
    return [info.id for info in store.sessions()]
