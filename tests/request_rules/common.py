"""Rules of every provider: JSON that can be sent, ids used once, sound media."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard

Object = dict[str, Any]

NAME = r"[a-zA-Z0-9_-]{1,64}"
MAGIC = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF"}
"""Beginnings of images: one whose bytes are of another type than named is refused."""


def is_object(value: object) -> TypeGuard[Object]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def objects(value: object) -> list[Object]:
    """The objects of an array; of another value, none."""
    return [item for item in value if is_object(item)] if is_array(value) else []


def inside(value: Any) -> Iterator[Object]:
    """Every object within a JSON value, itself included, in order."""
    if is_object(value):
        yield value
    for item in value.values() if is_object(value) else value if is_array(value) else ():
        yield from inside(item)


def unsendable(body: object) -> list[str]:
    """A sentence if the body has a lone surrogate or a number that is none."""
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return ["the body has a lone surrogate"]
    except ValueError:
        return ["the body has a number that JSON has not"]
    return []


def twice(what: str, names: Iterable[Any]) -> list[str]:
    """A sentence for each name that is there more than once."""
    return [f"{what} {name!r} is there {count} times" for name, count in Counter(names).items() if count > 1]


def unfit(what: str, name: object, pattern: str) -> list[str]:
    """A sentence if a name is no text of the pattern."""
    fits = isinstance(name, str) and re.fullmatch(pattern, name)
    return [] if fits else [f"{what} {name!r} is not {pattern}"]


def not_arguments(text: object) -> list[str]:
    """A sentence if arguments are no JSON text of an object."""
    try:
        fits = isinstance(text, str) and is_object(json.loads(text))
    except ValueError:
        fits = False
    return [] if fits else [f"the arguments {text!r:.40} are no JSON object"]


def blank(text: object) -> bool:
    """Whether a text is missing or has nothing but white space."""
    return not isinstance(text, str) or not text.strip()


def bad_data(kind: str, data: object) -> list[str]:
    """Sentences about bytes that are empty, no base64, or of another type than named."""
    try:
        start = base64.b64decode(data, validate=True)[:8] if isinstance(data, str) else b""
    except ValueError:
        return [f"the data of {kind} is no base64"]
    if not start:
        return [f"the data of {kind} is empty"]
    found = [mime for mime, magic in MAGIC.items() if start.startswith(magic)]
    return [f"the data of {kind} is {found[0]}"] if kind.startswith("image/") and found not in ([], [kind]) else []


def data_url(url: object) -> tuple[str, str] | None:
    """The type and the data of a `data:` address in base64; None for any other."""
    found = re.fullmatch(r"data:([^;,]+);base64,(.*)", url, re.DOTALL) if isinstance(url, str) else None
    return None if found is None else (found[1], found[2])


def bad_address(url: object) -> list[str]:
    """A sentence if an address is none that a provider can load, or is one of an SVG."""
    fits = isinstance(url, str) and re.fullmatch(r"https?://\S+(?<!\.svg)", url)
    return [] if fits else [f"the address {url!r:.40} cannot be loaded"]
