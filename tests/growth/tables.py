"""All tables of operations together, and the names in none of them."""

from __future__ import annotations

from eventlog import RecordBuilder
from tests.growth.names import public_operations
from tests.growth.on_asking import ASKING
from tests.growth.on_commands import COMMANDS
from tests.growth.on_files import FILES
from tests.growth.on_pages import ANSWERS, PAGES
from tests.growth.on_records import RECORDS
from tests.growth.on_reply import REPLY
from tests.growth.on_session import COLD, SESSION
from tests.growth.on_store import STORE
from tests.growth.on_turn import TURN
from tests.growth.on_values import VALUES
from tests.growth.on_views import COLD_VIEWS, FORMATS, TRANSCRIPTS, VIEWS
from tests.growth.on_window import WINDOW
from tests.growth.operation import Table

_TOLD = "tells one record, inside `Feed.add`"

TABLES: dict[str, Table] = {
    "stores": STORE,
    "sessions": SESSION,
    "cold sessions": COLD,
    "replies": REPLY,
    "calls that wait": ASKING,
    "records": RECORDS,
    "turns": TURN,
    "values": VALUES,
    "views": VIEWS,
    "transcripts": TRANSCRIPTS,
    "cold views": COLD_VIEWS,
    "formats": FORMATS,
    "windows": WINDOW,
    "files": FILES,
    "commands": COMMANDS,
    "live pages": PAGES,
}
"""The tables by what they are operations of."""
BESIDE: dict[str, Table] = {"the inspector": ANSWERS}
"""Tables of what has no public name."""


def name_of(entry: str) -> str:
    """The public name that a table entry is about."""
    return entry.partition(",")[0]


_MEASURED = {name_of(entry) for table in TABLES.values() for entry in table}
WITHOUT: dict[str, str] = {
    **{
        name: "awaits its blocking twin, which is measured"
        for name in public_operations() - _MEASURED
        if name.startswith("Async")
    },
    **{
        f"ModelCatalogue.{name}": "reads a table in memory, whatever the store holds"
        for name in ("extended", "get", "limits", "near", "price")
    },
    "SessionReader.at_once": "asks a server for one snapshot, and reads nothing",
    "Executor.leave_checkpoint": "reads what a view reads, and stores it: `ModelView.of, cold`",
    "AnthropicMapping.read": _TOLD,
    "OpenAIChatMapping.read": _TOLD,
    "OpenAIResponsesMapping.read": _TOLD,
    "RecordMapping.format": "a text",
    "summarize_with": "makes a function, which asks a model",
    "eventlog serve": "serves until it is ended; `BESIDE` has its answers",
    "RecordMapping.read": _TOLD,
    "Feed.record_of": "returns its argument; a subclass overrides it",
    "Feed.value_of": "returns its argument; a subclass overrides it",
    "Feed.seen": "returns nothing; a subclass overrides it",
    **{f"RecordBuilder.{name}": _TOLD for name in dir(RecordBuilder) if not name.startswith("_")},
}
"""Public names that are not measured, with the reason."""
