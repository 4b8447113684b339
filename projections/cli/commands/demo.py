"""`demo`: show the engine at work on a small recorded session."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from projections.cli import output
from projections.cli.import_report import report_lines
from projections.cli.screen import is_terminal, safe
from projections.cli.stats_tables import print_session_stats
from projections.cli.store_option import Context, key_file, named_store
from projections.cli.view_text import print_view, shortened
from projections.cli.words import command
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Store

MODEL = "anthropic/claude-sonnet-4-5-20250929"
"""The model of the recorded answer."""
KINDS = {"thinking": "reasoning", "partial_json": "call", "text": "text"}
"""Deltas of the stream, by their field."""
PAUSE = 0.015
"""Seconds between two deltas on a terminal, so that the stream is visible."""
LONGEST = 300
"""Characters that are printed of a part."""


@command(json=False)
def demo(context: Context) -> None:
    """Show the engine at work on a small recorded session.

    Imports the recording, streams it delta by delta into a second session, and prints the view of
    the model and the numbers. Uses a temporary store unless --store or EVENTLOG_STORE names one.
    """
    with _directory(named_store(context)) as path:
        import eventlog
        from eventlog.open_log import shown

        with eventlog.open(path, keys=_keys(context)) as store:
            _show(store)
        output.line()
        if named_store(context) is None:
            output.line("The temporary store is deleted. For a store of your own: eventlog --store PATH import FILE")
        else:
            keys = key_file(context)
            locked = "" if keys is None else f" --key-file {keys}"
            output.line(f"Both sessions are in {shown(path)}: eventlog --store {quote(shown(path))}{locked} sessions")


def _keys(context: Context) -> Path | None:
    """Return the key file.

    For a temporary store EVENTLOG_KEY_FILE is ignored: its keys would stay in that file.
    """
    return key_file(context) if context.key_file is not None or named_store(context) is not None else None


@contextmanager
def _directory(named: Path | str | None) -> Generator[Path | str]:
    if named is not None:
        yield named
    else:
        with TemporaryDirectory(prefix="eventlog-demo-") as directory:
            yield Path(directory) / "store"


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
    printer = _DeltaPrinter()
    with live.assistant(MODEL) as reply:
        reply.fill(printer.printed())
    printer.end()
    output.line(f"[{counted(printer.deltas, 'delta')} accepted; the whole turn is durable at version {live.version}]")

    output.line()
    output.heading("3. What the model would be sent next")
    view = ModelView.of(live)
    print_view(view, longest=LONGEST)
    streamed = [message.parts for message in view.messages][1:]
    if streamed != [message.parts for message in ModelView.of(recorded).messages]:
        raise AssertionError("the view of the streamed answer differs from that of the imported one")
    output.line("the view of the streamed answer equals that of the imported one")

    output.line()
    output.heading("4. The numbers")
    print_session_stats(live)


class _DeltaPrinter:
    """Prints deltas as they stream, with a line for each run of one kind."""

    def __init__(self) -> None:
        self._kind = ""
        self.deltas = 0

    def printed(self) -> Iterator[dict[str, Any]]:
        """Yield the chunks of the recorded stream, and print their deltas."""
        from projections.demo import chunks

        for chunk in chunks():
            name = chunk.get("content_block", {}).get("name")
            if name:
                self._delta("call", f"{name} ")
            for field, kind in KINDS.items():
                if text := chunk.get("delta", {}).get(field):
                    self.deltas += 1
                    self._delta(kind, text)
            yield chunk

    def _delta(self, kind: str, text: str) -> None:
        if kind != self._kind:
            self.end()
            self._kind = kind
            sys.stdout.write(f"{kind}: ")
        sys.stdout.write(safe(shortened(text, LONGEST)))
        if is_terminal():
            sys.stdout.flush()
            time.sleep(PAUSE)

    def end(self) -> None:
        """End the line."""
        if self._kind:
            sys.stdout.write("\n")
