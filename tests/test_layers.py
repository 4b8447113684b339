"""Imports go one way: a table of layers, and no circle of files or folders."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOPS = ("eventlog", "projections")

LAYERS: dict[str, str] = {
    "eventlog": """
        errors values bell os_fork logger compression | events ids validation | log models streams | codec | history | integrity state
        | append encryption following | session subscription open_log | maintenance recorder search | session_store | store | open_store aio telemetry importers | records | adapters testing | __init__
        | __main__
    """,
    "projections": """
        replay tokens | conversation | view | requests transcript | window verify live | reports | loop | exports | server | inspector | __init__ demo
        | cli | __main__
    """,
    "eventlog.log": "commit digests worker | contract ticket | front | lists merkle validation | append_checks merkle_check | check | memory embedded postgres | __init__",
    "eventlog.log.embedded": """
        filesystem locks part_lists | options watermark generations journal | memtable | segments | lookup directory
        salvage | check bulk_writer tail | batch derived watchers | group_commit | partition | registry | engine | rewriting
    """,
    "eventlog.log.postgres": """
        address clock faults once_read options rows statements schema | connections batch | acknowledged derived bodies session_lists follower tables
        | reader | attempt | group_commit | engine | opening
    """,
    "eventlog.session": """
        owner inputs open_work_cache kept tool_functions | host | liveness held_lease reader | lease_keeper failure | executor outcome empty_answers | registry text_stream context rollback values asking
        | redact status tool_call turn | reply_commands | filling | reply subsessions settings_commands | message_commands answering | session | shelf session_names
    """,
    "eventlog.state": """
        facts run | chunk | stored_facts | archive version_log | fact_store | state | waiting_calls stored | settling rules evolve | decide loader
        | committed
    """,
    "eventlog.append": "metrics delta_buffer lease_claim command | pending backoff | accepted_commands | queue | writer bulk | transaction pipeline flusher own_appends",
    "eventlog.importers": """
        common | anthropic openai opencode event_jsonl streams receipts
        | aider chatgpt claude_code cline codex gemini pi role_list watched_files | reconcile formats | one_file | growing_file
        | followed_files | __init__
    """,
    "eventlog.search": "spacing said file | hit rows | asked commit_rows sight | catch_up read usage | results | search",
    "eventlog.adapters": """
        settled unshared odd_values signed name_keys claude_uuids
        | pydantic_messages framework_feed langgraph claude_nodes | pydantic_entries google_adk_events openai_feed | google_adk_keys
        | google_adk google_adk_artifacts openai_agents pydantic_ai claude_transcript | claude_agent
    """,
    "eventlog.adapters.langgraph": """
        items records stored | messages | message_list sturdy | thread | reading threads | rejoined | removal | item_store saver | __init__
    """,
    "eventlog.testing": "file_search said | place | worker | contract | __init__",
    "eventlog.aio": "awaiting subscription | reply turn | session | __init__",
    "eventlog.records": "json_value state_questions | index read unseen | told | forget | feed",
    "projections.view": """
        cleared_arguments neutral options | constraints messages opening_words selection targets | part_rendering token_count | carryover_text system_prompt offer
        | message_rendering digest | assembly explain | followed_view | kept_view | model_view
    """,
    "projections.live": "patches | open_messages | page_changes | live_session | aio | answer | protocols",
    "projections.loop.context": """
        model_request | summary_run continuation | window_state compaction_run summary_attempt
        | by_hand background_summary refused_request offered_tools open_reply | running_task retrying
        | window summarize_with | report aio
    """,
    "projections.loop": "task_calls | decision | context | __init__",
    "projections.window": "policy sizing | prune compaction retrieval | __init__",
    "projections.cli": """
        exits screen guard | import_files output | amounts times short_ids | confirm holders view_text message_text live_text
        | store_option tables | words | registry window_options | commands app | __init__
    """,
}
"""Layers of a package, lowest first: a room imports from earlier rows only."""

APART = {"projections": ("eventlog.state", "eventlog.append")}
"""Methods that a package calls on a session or store instead of importing it."""

OUTSIDE = {
    "sqlite3": ("eventlog.importers.opencode.database", "eventlog.search", "projections.exports.sqlite"),
    "lmdb": ("eventlog.log.embedded.segments", "eventlog.log.embedded.salvage"),
    "zstandard": (
        "eventlog.codec.large_texts",
        "eventlog.compression",
        "eventlog.log.embedded.segments",
        "eventlog.testing.file_search",
    ),
    "psycopg": ("eventlog.log.postgres",),
    "psycopg_pool": ("eventlog.log.postgres",),
    "cryptography": ("eventlog.encryption.family",),
    "opentelemetry": ("eventlog.telemetry",),
    "eventsourcing": ("eventlog.recorder",),
    "google": (
        "eventlog.adapters.google_adk",
        "eventlog.adapters.google_adk_artifacts",
        "eventlog.adapters.google_adk_events",
    ),
    "claude_agent_sdk": ("eventlog.adapters.claude_agent",),
    "langchain_core": ("eventlog.adapters.langgraph",),
    "langgraph": ("eventlog.adapters.langgraph",),
    "pytest": ("eventlog.testing.contract",),
    "pydantic": (
        "eventlog.adapters.google_adk_artifacts",
        "eventlog.adapters.google_adk_events",
        *(f"eventlog.adapters.pydantic_{end}" for end in ("ai", "conversations", "entries")),
    ),
    "pydantic_ai": tuple(f"eventlog.adapters.pydantic_{end}" for end in ("ai", "conversations", "entries")),
    "click": ("projections.cli",),
    "rich": ("projections.cli",),
    "tiktoken": ("projections.tokens",),
    "tiktoken_ext": ("projections.tokens",),
    "starlette": ("projections.server", "projections.inspector"),
    "sse_starlette": ("projections.server",),
    "markdown_it": ("projections.exports",),
    "nh3": ("projections.exports",),
    "pygments": ("projections.inspector",),
    "uvicorn": ("projections.cli.commands.serve",),
}
"""The rooms that may import each outside library; msgspec is allowed everywhere."""


def module_of(path: Path) -> str:
    """The name under which a file is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {module_of(path): path for top in TOPS for path in sorted((ROOT / top).rglob("*.py"))}
PACKAGES = sorted(module for module, path in FILES.items() if path.name == "__init__.py")


@cache
def imports_of(module: str) -> frozenset[str]:
    """Every module that a file imports, inside functions and for types too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            name = node.module or ""
            found.update(f"{name}.{alias.name}" if f"{name}.{alias.name}" in FILES else name for alias in node.names)
    return frozenset(found)


def inside(name: str, package: str) -> bool:
    """Whether a module is a package, or in it."""
    return name == package or name.startswith(f"{package}.")


def room_of(module: str, package: str) -> str:
    """The file or folder of a package that contains a module."""
    return "__init__" if module == package else module.removeprefix(f"{package}.").partition(".")[0]


def arrows(package: str) -> dict[str, dict[str, str]]:
    """Imports between rooms of a package, with an example of each."""
    found: dict[str, dict[str, str]] = {}
    for module in FILES:
        if inside(module, package):
            room = found.setdefault(room_of(module, package), {})
            for name in imports_of(module):
                if inside(name, package) and room_of(name, package) != room_of(module, package):
                    room.setdefault(room_of(name, package), f"{module} imports {name}")
    return found


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Nodes of a circle; empty if there is none."""
    left = {node: set(ahead) & set(graph) for node, ahead in graph.items()}
    while free := [node for node, ahead in left.items() if not ahead]:
        for node in free:
            del left[node]
        for ahead in left.values():
            ahead.difference_update(free)
    return sorted(left)


@pytest.mark.parametrize("package", sorted(LAYERS))
def test_rooms_import_what_stands_below_them(package: str) -> None:
    """Every room of a package is in the table once and imports from earlier rows only."""
    rows = [row.split() for row in LAYERS[package].split("|")]
    level = {room: number for number, row in enumerate(rows) for room in row}
    assert sum(map(len, rows)) == len(level)
    found = arrows(package)
    assert set(level) | {"__init__"} == set(found) | {"__init__"}
    wrong = [
        why
        for room, below in found.items()
        for other, why in below.items()
        if room in level and other in level and level[other] >= level[room]
    ]
    assert not wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_has_a_circle(package: str) -> None:
    """The files and folders of a package do not import each other in a circle."""
    assert not circle(arrows(package))


def test_no_files_import_each_other_in_a_circle() -> None:
    """No file of the two packages imports itself through others."""
    assert not circle({module: imports_of(module) for module in FILES})


def test_eventlog_knows_no_projections() -> None:
    """`eventlog` never imports `projections`, and neither imports tests or benchmarks."""
    for module in FILES:
        first = {name.partition(".")[0] for name in imports_of(module)}
        assert not first & {"tests", "benchmarks"}, module
        assert not (inside(module, "eventlog") and "projections" in first), module


def test_projections_ask_sessions_and_not_their_state() -> None:
    """`projections` imports neither command state nor the write path."""
    for package, others in APART.items():
        for module in FILES:
            for name in imports_of(module) if inside(module, package) else ():
                assert not any(inside(name, other) for other in others), (module, name)


def test_outside_libraries_are_known_where_the_table_says() -> None:
    """Each outside library is imported by the rooms of the table only."""
    for module in FILES:
        for name in imports_of(module):
            rooms = OUTSIDE.get(name.partition(".")[0])
            assert rooms is None or any(inside(module, room) for room in rooms), (module, name)


def test_a_circle_is_found() -> None:
    """The search for circles finds one, also behind acyclic nodes."""
    assert circle({"a": "b", "b": "c", "c": "b", "d": ""}) == ["a", "b", "c"]
    assert not circle({"a": "bc", "b": "c", "c": ""})
