"""Arguments of a call that stream as values at paths, as Gemini's `partialArgs` do."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from eventlog.streams.records import dump, objects_of, text_of

_PATH = re.compile(r"""\$(\.[^.\[\]]+|\[\d+\]|\['[^']*'\]|\["[^"]*"\])+""")
_KEY = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\[['"]([^'"]*)['"]\]""")
_VALUES = ("stringValue", "numberValue", "boolValue")


class ArgumentsAtPaths:
    """An object that is put together from values at JSON paths, such as `$.items[0].name`."""

    def __init__(self, known: dict[str, Any]) -> None:
        """`known` are the arguments that came whole."""
        self._object = known
        self._grows = ""
        """Path of the text that goes on in the next piece."""
        self._is_sound = True

    def take(self, pieces: object) -> None:
        """Put the pieces of a chunk in their places; one without a value begins or ends a text."""
        for piece in objects_of(pieces):
            path = text_of(piece.get("jsonPath"))
            goes_on = piece.get("willContinue") is True
            empty = "" if "nullValue" not in piece and (goes_on or path == self._grows) else None
            value = next((piece[name] for name in _VALUES if name in piece), empty)
            try:
                self._put(path, value)
            except (IndexError, TypeError, KeyError, ValueError):  # a place that the object does not have
                self._is_sound = False
            self._grows = path if goes_on else ""

    def text(self, *, whole: bool) -> str:
        """Return the arguments as JSON; cut if they are not `whole`, so that no tool runs."""
        text = dump(self._object)
        return text if whole and self._is_sound and not self._grows else text[:-1]

    def _put(self, path: str, value: object) -> None:
        if not _PATH.fullmatch(path):
            raise KeyError(path)
        keys = [int(index) if index else name or quoted for name, index, quoted in _KEY.findall(path)]
        place: Any = self._object
        for key, behind in pairwise(keys):
            place = _child(place, key, [] if isinstance(behind, int) else {})
        if path == self._grows and isinstance(value, str):
            value = place[keys[-1]] + value
        _child(place, keys[-1], None)
        place[keys[-1]] = value


def _child(place: Any, key: str | int, new: object) -> Any:
    """Return the value at a key; `new` is put there if it is the next one."""
    if isinstance(place, dict) is isinstance(key, int):
        raise TypeError(key)
    if isinstance(key, int) and key == len(place):
        place.append(new)
    return place[key] if isinstance(key, int) else place.setdefault(key, new)
