"""`demo`: show the engine at work on a small recorded session."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from projections.cli import output
from projections.cli.import_files import report_lines
from projections.cli.screen import is_terminal, safe
from projections.cli.store_option import Context, key_file, named_store
from projections.cli.tables import print_session_stats
from projections.cli.view_text import print_view, shortened
from projections.cli.words import command
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Store

MODEL = "anthropic/claude-sonnet-4-5-20250929"
"""The model of the recorded answer."""
_KINDS = {"thinking": "reasoning", "partial_json": "call", "text": "text"}
"""Deltas of the stream, by their field."""
_PAUSE = 0.015
"""Seconds between two deltas on a terminal, so that the stream is visible."""
_LONGEST = 300
"""Characters that are printed of a part."""


@command(json=False)
def demo(context: Context) -> None:
    """Show the engine at work on a small recorded session.

    Imports the recording, streams it delta by delta into a second session, and prints the view of
    the model and the numbers. Uses a temporary store unless --store or EVENTLOG_STORE names one.
    """
    import eventlog
    from eventlog.open_log import shown

    named = named_store(context)
    # A temporary store has no keys of EVENTLOG_KEY_FILE: they would stay in that file.
    keys = key_file(context) if named is not None or context.key_file is not None else None
    with TemporaryDirectory(prefix="eventlog-demo-") as directory:
        with eventlog.open(named or Path(directory) / "store", keys=keys) as store:
            _show(store)
        output.line()
        if named is None:
            output.line("The temporary store is deleted. For a store of your own: eventlog --store PATH import FILE")
        else:
            locked = "" if keys is None else f" --key-file {keys}"
            output.line(f"Both sessions are in {shown(named)}: eventlog --store {quote(shown(named))}{locked} sessions")


def _show(store: Store) -> None:
    from eventlog.importers import import_file
    from projections.demo import answer_path, prompt
    from projections.view.model_view import ModelView

    output.heading("1. Import a recorded stream")
    report = import_file(store, answer_path())
    for line in report_lines(report):
        output.line(line.replace(f"{answer_path()}: ", ""))
    recorded = store.session(report.sessions[0])

    output.line()
    output.heading("2. Stream it again, delta by delta, as an agent would")
    live = store.create_session(title="Demo: the recorded answer, streamed")
    live.user(prompt())
    output.block(f"user: {prompt()}")
    deltas: list[str] = []
    with live.assistant(MODEL) as reply:
        reply.fill(_printed(deltas))
    output.line()
    output.line(f"[{counted(len(deltas), 'delta')} accepted; the whole turn is durable at version {live.version}]")

    output.line()
    output.heading("3. What the model would be sent next")
    view = ModelView.of(live)
    print_view(view, longest=_LONGEST)
    streamed = [message.parts for message in view.messages][1:]
    if streamed != [message.parts for message in ModelView.of(recorded).messages]:
        raise AssertionError("the view of the streamed answer differs from that of the imported one")
    output.line("the view of the streamed answer equals that of the imported one")

    output.line()
    output.heading("4. The numbers")
    print_session_stats(live)


def _printed(deltas: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the chunks of the recorded stream; print their deltas, and list the kind of each."""
    from projections.demo import chunks

    for chunk in chunks():
        for field, kind in _KINDS.items():
            if text := chunk.get("delta", {}).get(field):
                if [kind] != deltas[-1:]:
                    sys.stdout.write(f"\n{kind}: ")
                deltas.append(kind)
                sys.stdout.write(safe(shortened(text, _LONGEST)))
                if is_terminal():
                    sys.stdout.flush()
                    time.sleep(_PAUSE)
        yield chunk
