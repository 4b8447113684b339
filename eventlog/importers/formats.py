"""Formats of files, and which of them a file has."""

from __future__ import annotations

from types import MappingProxyType
from typing import BinaryIO

from eventlog.errors import ImportFormatError
from eventlog.importers.aider import AIDER
from eventlog.importers.anthropic.content import PROVIDER as ANTHROPIC_PROVIDER
from eventlog.importers.anthropic.messages import AnthropicMapping
from eventlog.importers.chatgpt import CHATGPT
from eventlog.importers.claude_code.importer import CLAUDE_CODE
from eventlog.importers.cline import CLINE
from eventlog.importers.codex.importer import CODEX
from eventlog.importers.common.importer import Importer
from eventlog.importers.common.message_reader import MessageList
from eventlog.importers.common.message_shapes import ANTHROPIC, OPENAI, family_of
from eventlog.importers.event_jsonl.reader import EventJsonl
from eventlog.importers.gemini.cli import GEMINI_CLI
from eventlog.importers.gemini.qwen import QWEN_CODE
from eventlog.importers.openai.bodies import RESPONSES_BODIES
from eventlog.importers.openai.messages import OpenAIChatMapping
from eventlog.importers.opencode.database import OpenCodeDatabase
from eventlog.importers.opencode.importer import OpenCodeImporter
from eventlog.importers.opencode.storage import OpenCodeStorage
from eventlog.importers.pi import PI
from eventlog.importers.recognized import looks_like
from eventlog.importers.role_list import ROLE_LISTS
from eventlog.importers.streams.importer import STREAMS, StreamImporter
from eventlog.importers.streams.sse import kind_of_stream

__all__ = ["FORMATS", "detect", "detect_in"]

_IMPORTERS: tuple[Importer, ...] = (
    EventJsonl(),
    OpenCodeImporter(),
    OpenCodeDatabase(),
    OpenCodeStorage(),
    QWEN_CODE,
    CLAUDE_CODE,
    CODEX,
    *(StreamImporter(name) for name in STREAMS),
    RESPONSES_BODIES,
    MessageList(ANTHROPIC, ANTHROPIC_PROVIDER, AnthropicMapping()),
    MessageList(OPENAI, "", OpenAIChatMapping()),
    AIDER,
    CHATGPT,
    CLINE,
    GEMINI_CLI,
    PI,
    ROLE_LISTS,
)

FORMATS: MappingProxyType[str, Importer] = MappingProxyType({importer.name: importer for importer in _IMPORTERS})
"""The importers by the name of their format."""


def detect(start: bytes, path: str = "") -> str:
    """Return the format of a file that begins with these bytes.

    `ImportFormatError` if no importer reads it.
    """
    other = looks_like(start)
    if other is not None:
        raise ImportFormatError(f"{path or 'the file'}: looks like {other}; not a format that can be imported")
    for importer in FORMATS.values():
        if importer.detect(start, path):
            return importer.name
    known = ", ".join(FORMATS)
    stream = kind_of_stream(start)
    if stream:
        raise ImportFormatError(
            f"{path or 'the file'}: streams of the format {stream} cannot be imported (known: {known})"
        )
    raise ImportFormatError(f"{path or 'the file'}: the format is not known (known: {known})")


def detect_in(file: BinaryIO, start: bytes, path: str) -> str:
    """Return the format of a file that is at its beginning.

    A list of messages may begin late in it.
    """
    try:
        return detect(start, path)
    except ImportFormatError:
        family = "" if looks_like(start) or kind_of_stream(start) else family_of(file)
        found = next(
            (name for name, one in FORMATS.items() if isinstance(one, MessageList) and one.family == family), None
        )
        if found is None:
            raise
        return found
