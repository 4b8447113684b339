"""Sessions for the tests of the window's commands: long native ones and recorded ones."""

from __future__ import annotations

from pathlib import Path

import eventlog
from eventlog.importers import import_file
from eventlog.values import Limits, Todo
from projections import ModelView
from tests.support.shared import shared_path

LIMITS = Limits(20_000, 4_000)
"""16,000 usable tokens: results beyond the newest 4,000 may go if over 2,000."""
SECRET = "xyzzy-plugh"
"""A word in every text of a `talk`."""
RECORDED = [
    "entireio_claude_code/cli__37_995ebed6e4_2_full.jsonl",
    "entireio_codex/git-sync__79_aa4e9d44f3_4_full.jsonl",
]


def talk(path: Path, *, turns: int = 6, limits: Limits | None = LIMITS) -> None:
    """Make a store with one session `talk`: turns with two long results each, these limits."""
    with eventlog.open(path) as store:
        session = store.create_session(id="talk", title="A long talk")
        session.set_settings(model=eventlog.Model("acme", "one"), limits=limits)
        session.set_system_prompt(f"You help. {SECRET}")
        session.set_tools('[{"name":"read"}]')
        session.set_todos([Todo(f"todo {SECRET}")])
        for turn in range(turns):
            session.user(f"Do the thing number {turn}, {SECRET}", id=f"u{turn}")
            with session.assistant(model="acme/one", id=f"a{turn}") as reply:
                reply.step()
                reply.stream_reasoning().append(f"I think {SECRET}")
                for number in range(2):
                    call = reply.tool(
                        "read", call_id=f"c{turn}{number}", input={"path": f"/{turn}/{SECRET}"}, id=f"p{turn}{number}"
                    )
                    call.succeed(
                        "\n".join(f"line {line} of result {turn}{number} {SECRET}" for line in range(80)),
                        title="a title",
                    )
                reply.add_text(f"Done {turn} {SECRET}")
                reply.finish("stop", usage=eventlog.Usage(eventlog.Tokens(1000 * turn + 900, 50)))


def recorded(path: Path, name: str) -> str:
    """Import a recorded session into a new store; return the id of the largest."""
    with eventlog.open(path) as store:
        import_file(store, shared_path("data", *name.split("/")))
        return max(store.sessions(), key=lambda info: info.events).id


def digest_of_view(path: Path, session: str) -> bytes:
    """Digest of what the model would be sent now."""
    with eventlog.open(path, read_only=True) as store:
        return ModelView.of(store.session(session)).digest
