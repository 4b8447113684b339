"""Lone surrogates in text, which UTF-8 cannot encode, escaped for storage.

In an escaped value U+10FFFF stands for an escape in every string: followed by four hexadecimal
digits for a lone surrogate, or by U+10FFFF for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

_ESCAPE = "\U0010ffff"
_TO_ESCAPE = re.compile("[\ud800-\udfff\U0010ffff]")
_LONE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile("\U0010ffff(?:\U0010ffff|([0-9a-f]{4}))")


def map_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return a plain value with every string in it changed; keys of objects stay as they are."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [map_text(item, change) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: map_text(item, change) for key, item in cast("dict[str, Any]", value).items()}
    return value


def escape(text: str) -> str:
    """Escape the lone surrogates of a text."""
    return _TO_ESCAPE.sub(lambda found: _ESCAPE + (_ESCAPE if found[0] == _ESCAPE else f"{ord(found[0]):04x}"), text)


def unescape(text: str) -> str:
    """Return the text that was escaped."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPE, text)


def readable(text: str) -> str:
    """Return a text with U+FFFD for each lone surrogate: any response can have it."""
    return text if text.isascii() else _LONE.sub("\ufffd", text)
