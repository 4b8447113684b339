"""Ends of calls and answers that came otherwise than asked for, and the words for them."""

from __future__ import annotations

from eventlog.streams.records import dump, is_whole
from eventlog.validation import json_value
from eventlog.values import Json

UNKNOWN = "unknown"
"""Reason of an answer whose stream ended without one."""
FILTERED = "content-filter"
"""Reason of an answer that a filter cut, and error of one that it withheld."""
WITHHELD = "the provider's content filter withheld the whole answer"
_NOT_WHOLE = "the arguments are {wrong}, and the tool did not run; call it again with {right} ones: {text}"
_QUOTED = 200
"""Characters of such arguments that the failure quotes."""


def not_whole(arguments: str) -> str:
    """Return the failure of a call whose arguments are no whole JSON object, or too deep."""
    wrong, right = "not a whole JSON object", "whole"
    try:
        json_value(arguments)
    except ValueError as error:
        if str(error).startswith("nested"):
            wrong, right = str(error), "flatter"
    return _NOT_WHOLE.format(wrong=wrong, right=right, text=arguments[:_QUOTED])


def input_of(arguments: str) -> Json:
    """Return the input of a call; arguments that are no JSON object are its member `input`."""
    return arguments or "{}" if is_whole(arguments) else dump({"input": arguments})
