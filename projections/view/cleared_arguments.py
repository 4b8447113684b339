"""The arguments of a call without their large texts, which a prune cleared.

They stay one JSON object with all its keys, as every provider wants. Only texts of more than
`LARGE` characters are cut, at any depth: paths, numbers and switches stay, so that the model sees
which call it made, and on which file.  Pure.
"""

from __future__ import annotations

import json
import re

from eventlog.validation import json_value
from eventlog.values import Json

LARGE = 400
"""Characters of a text that a prune leaves as it is."""
BEGINNING = 100
"""Characters that stay of a text that is cut: they name a command, or the file of a patch."""
_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?', re.DOTALL)
"""A text in a JSON document; with the colon behind it, it is a key."""


def cleared_arguments(arguments: Json) -> Json:
    """Return the arguments with their large texts cut; as they are if they are no JSON object."""
    if len(arguments) <= LARGE or arguments.lstrip()[:1] != "{":
        return arguments
    try:
        json_value(arguments)
    except ValueError:
        return arguments
    return _TEXT.sub(_cut, arguments)


def _cut(found: re.Match[str]) -> str:
    written = found[0]
    if len(written) <= LARGE or found[1] is not None:
        return written
    text: str = json.loads(written)
    if len(text) <= LARGE:  # many escapes
        return written
    cut = f"{text[:BEGINNING]}\n[Old tool argument cleared: omitted {len(text) - BEGINNING} chars]"
    return json.dumps(cut, ensure_ascii=False)
