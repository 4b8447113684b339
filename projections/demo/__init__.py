"""A small recorded answer, to be imported and to be streamed again.

`README.md` says where the recording is from, and its licence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

__all__ = ["answer_path", "chunks", "prompt"]


def answer_path() -> Path:
    """Return the file with the recorded stream of the answer."""
    return Path(str(files("projections.demo") / "answer.sse"))


def chunks() -> Iterator[dict[str, Any]]:
    """Yield the chunks of the recorded stream, as its provider's client gives them."""
    for line in answer_path().read_text(encoding="utf-8").splitlines():
        if line.startswith("data: "):
            yield json.loads(line[6:])


def prompt() -> str:
    """Return the user's question."""
    return (files("projections.demo") / "prompt.txt").read_text(encoding="utf-8").strip()
