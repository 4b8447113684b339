"""The operations of imports and exports."""

from __future__ import annotations

import io
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

import eventlog
from eventlog import Store
from eventlog.importers import agent_folders, detect, follow, import_file
from projections.exports.jsonl import jsonl_lines
from projections.exports.markdown import markdown_blocks, message_markdown
from projections.exports.opencode import opencode_export, opencode_pieces
from projections.transcript.message import TranscriptMessage
from projections.transcript.transcript import Transcript
from tests.growth.operation import Table, constant, history
from tests.growth.place import Place

_FILE = "reads the file"
_ALL = "gives every event"


@contextmanager
def _empty(at: Place) -> Generator[tuple[Store, io.BytesIO]]:
    """An empty store, and the file of a long session."""
    with eventlog.open("memory:") as store:
        yield store, io.BytesIO(at.jsonl)


@contextmanager
def _known(at: Place) -> Generator[tuple[Store, io.BytesIO]]:
    """A store that has imported the whole file."""
    with _empty(at) as (store, file):
        import_file(store, file)
        yield store, io.BytesIO(at.jsonl)


@contextmanager
def _messages(at: Place) -> Generator[tuple[Store, io.BytesIO]]:
    """An empty store, and a list of as many messages as the long session has."""
    said = [
        {"role": ("user", "assistant")[number % 2], "content": f"said {number}"} for number in range(at.shape.messages)
    ]
    with eventlog.open("memory:") as store:
        yield store, io.BytesIO(msgspec.json.encode({"model": "m", "messages": said}))


def _imported(_: Place, held: tuple[Store, io.BytesIO]) -> None:
    store, file = held
    assert not import_file(store, file).skipped


@contextmanager
def _path(at: Place) -> Generator[tuple[Store, Path]]:
    """An empty store, and the path of the file of a long session."""
    with _empty(at) as (store, file), TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(file.read())
        yield store, path


def _followed(_: Place, held: tuple[Store, Path]) -> None:
    store, path = held
    for found in follow(store, [path]):
        if found is None:
            break
        assert found.error is None


@contextmanager
def _newest(at: Place) -> Generator[TranscriptMessage]:
    """The newest message of a long session."""
    yield next(iter(Transcript(at.long).newest_first()))


FILES: Table = {
    "agent_folders": constant(lambda _at, _: agent_folders()),
    "follow": history(_followed, _FILE, _path),
    "message_markdown": constant(lambda _, message: message_markdown(message), _newest),
    "detect": constant(lambda at, _: detect(at.jsonl[: 1 << 16])),
    "import_file": history(_imported, _FILE, _empty),
    "import_file, nothing is new": history(_imported, _FILE, _known),
    "import_file, a list of messages": history(_imported, _FILE, _messages),
    "jsonl_lines": history(lambda at, _: sum(map(len, jsonl_lines(at.long))), _ALL),
    "markdown_blocks": history(lambda at, _: sum(map(len, markdown_blocks(at.long))), _ALL),
    "opencode_export": history(lambda at, _: opencode_export(at.long), _ALL),
    "opencode_pieces": history(lambda at, _: sum(map(len, opencode_pieces(at.long))), _ALL),
}
