"""Documents that commands print equal the output of `json`, for texts of any length."""

from __future__ import annotations

import json
from typing import Any

import pytest

from projections.cli import output

LONG = 'a "long" text\n\\ with é, 漢, 😀, \ud83d\ude00, \ud83d and \u202e. ' * 20_000
HIDDEN = [("\u202e", "\\u202e"), ("\ud83d", "\\ud83d"), ("\ude00", "\\ude00")]
VALUES: list[Any] = [
    {"text": LONG, "few": [LONG[:100], 1, 1.5, None, True], "none": [], "empty": {}, "in": {"a": [{"b": ()}]}},
    [LONG, [[], {}], LONG[1:]],
    LONG,
    [],
    {},
    None,
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_a_document_in_pieces_is_that_made_whole(
    capsys: pytest.CaptureFixture[str], value: Any, indent: int | None
) -> None:
    """A document that is printed in pieces equals the one that `json` makes."""
    output.document(value, indent=indent)
    whole = json.dumps(value, ensure_ascii=False, indent=indent)
    for character, shown in HIDDEN:
        whole = whole.replace(character, shown)
    assert capsys.readouterr().out == whole + "\n"
