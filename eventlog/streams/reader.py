"""Readers of answers: chunks in, steps out, one reader for each API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from eventlog.streams.steps import Ended, Step


class Reader(ABC):
    """Reads the chunks of one answer of one API."""

    api: ClassVar[str]

    def __init__(self) -> None:
        self._reason = ""
        """Why the answer ended."""
        self._ids: set[str] = set()
        """Ids of its calls."""
        self._calls = 0
        """Calls that the program has to run."""

    @property
    def is_over(self) -> bool:
        """Whether the answer has its end; later chunks may tell its usage."""
        return bool(self._reason)

    @abstractmethod
    def take(self, chunk: Mapping[str, Any]) -> Iterable[Step]:
        """Return the steps of a chunk; `StreamError` for an error of the provider."""

    def end(self) -> Iterable[Step]:
        """Return what is left once the stream is over; no `Ended` for one that broke off."""
        if self._reason:
            yield Ended("tool-calls" if self._calls and self._reason == "stop" else self._reason)
