"""Encodings: which one a model has, and its encoder, built once from the package.

Nothing is loaded at import.  The first count reads the vocabulary (0.1 s for o200k_base).  More
than a few short texts import tiktoken and build its tables (0.25 s more, and 50 MB that stay, two
thirds of them tables).  tiktoken's own registry is not used, because it downloads.

A vocabulary is published as text: one line `base64(token) SPACE rank NEWLINE` per token, ranks 0,
1, 2 … in order.  `projections/vocab/NAME.ranks` holds the same facts as `zstd(table)`, where
`table` is a msgpack array of the tokens' bytes in rank order; a token's rank is its place.  Read
this way the 200,000 tokens of o200k_base become a dictionary in a quarter of the time that the text
form takes (0.055 s for 0.21).
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from eventlog.compression import ZSTANDARD_MARK, unpack
from eventlog.errors import DamagedError, NotFoundError

if TYPE_CHECKING:
    from tiktoken import Encoding

FOLDER = Path(__file__).resolve().parents[1] / "vocab"

DEFAULT_ENCODING = "o200k_base"
"""For every model not listed below. For models of other makers it is an approximation that
calibration corrects.
"""
FEW = 1 << 17
"""Characters of one encoding that a process counts in Python."""
LONGEST = 128
"""Characters of a piece that is merged in Python.

The time grows with their square, and is reckoned so.
"""


class Definition(NamedTuple):
    """An encoding without its vocabulary, as OpenAI published it with tiktoken."""

    pattern: str
    """How text is cut into the pieces that are encoded one by one."""
    ascii: str
    """The pattern for ASCII text, in the syntax of `re`."""
    table: str
    """SHA-256 (hexadecimal) of the unpacked table, checked whenever it is read."""


_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

ENCODINGS = {
    "cl100k_base": Definition(
        pattern=(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
            r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
        ),
        ascii=(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\nA-Za-z0-9]?+[A-Za-z]++|[0-9]{1,3}+| ?[^\sA-Za-z0-9]++[\r\n]*+"
            r"|\s++\Z|\s*[\r\n]|\s+(?!\S)|\s"
        ),
        table="ed0816e2b705c3b6474af6314071f4fdeebd9b5862af1ff3d3f9136711a8a00c",
    ),
    "o200k_base": Definition(
        pattern="|".join(
            (
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _CONTRACTION,
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _CONTRACTION,
                r"\p{N}{1,3}",
                r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
                r"\s*[\r\n]+",
                r"\s+(?!\S)",
                r"\s+",
            )
        ),
        ascii="|".join(
            (
                r"[^\r\nA-Za-z0-9]?[A-Z]*[a-z]+" + _CONTRACTION,
                r"[^\r\nA-Za-z0-9]?[A-Z]+[a-z]*" + _CONTRACTION,
                r"[0-9]{1,3}",
                r" ?[^\sA-Za-z0-9]+[\r\n/]*",
                r"\s*[\r\n]+",
                r"\s+(?!\S)",
                r"\s+",
            )
        ),
        table="21be86ee43e53a592c4dc0621c2eca9af6bc4c29df3c9a2161e452e4ecccab5d",
    ),
}

_PREFIXES = {
    "babbage-002": "cl100k_base",
    "davinci-002": "cl100k_base",
    "gpt-3.5": "cl100k_base",
    "gpt-35": "cl100k_base",
    "gpt-4": "cl100k_base",
    "gpt-4.": "o200k_base",
    "gpt-4o": "o200k_base",
    "text-embedding-": "cl100k_base",
}
"""Beginnings of model names; the longest that fits decides."""


def encoding_for(model: str) -> str:
    """Return the name of the encoding a model's tokens are counted with.

    Case, a fine-tune's `ft:` and everything up to the last `/` (providers, gateways) do not matter.
    """
    name = model.lower().rpartition("/")[2].removeprefix("ft:")
    fitting = [prefix for prefix in _PREFIXES if name.startswith(prefix)]
    return _PREFIXES[max(fitting, key=len)] if fitting else DEFAULT_ENCODING


class PairCounter:
    """Byte pair encoding in Python, for a process's first `FEW` characters.  Not thread-safe.

    It says how many tokens there are, not which, and only for ASCII, where the patterns need no
    Unicode tables. Without the native encoder's tables a count takes four times as long (0.35 µs a
    character), so this way is quicker at first. Both count alike.
    """

    def __init__(self, ranks: dict[bytes, int], pattern: str) -> None:
        self.ranks = ranks
        self._cut = re.compile(pattern, re.ASCII).findall
        self._left = FEW

    def count(self, text: str) -> int | None:
        """Return the tokens of a text, or None if that is for the native encoder."""
        self._left -= len(text)
        if self._left < 0 or not text.isascii():
            return None
        ranks = self.ranks
        tokens = 0
        for piece in self._cut(text):
            spelled = piece.encode()
            if spelled in ranks:
                tokens += 1
            elif len(spelled) > LONGEST:
                return None
            else:
                self._left -= len(spelled) ** 2 >> 3
                tokens += self._merged(spelled)
        return tokens

    def _merged(self, piece: bytes) -> int:
        """Merge the two neighbours of the lowest rank until no two neighbours are a token."""
        rank_of = self.ranks.get
        parts = [piece[at : at + 1] for at in range(len(piece))]
        while True:
            lowest, place = None, 0
            for at in range(len(parts) - 1):
                rank = rank_of(parts[at] + parts[at + 1])
                if rank is not None and (lowest is None or rank < lowest):
                    lowest, place = rank, at
            if lowest is None:
                return len(parts)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]


_encoders: dict[str, Encoding] = {}
_first: dict[str, PairCounter] = {}
"""Of encodings that have no encoder yet."""
_loading = threading.Lock()
# A child must not find it held by a thread that it has not.
os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release)


def count_piece(name: str, text: str, *, of: int) -> int:
    """Return the tokens of a text, or of a piece of a text that has `of` characters.

    Errors as `encoder`.
    """
    native = _encoders.get(name)
    if native is None:
        if of <= FEW and (counted := _counted_first(name, text)) is not None:
            return counted
        native = encoder(name)
    return len(native.encode_ordinary(text))


def _counted_first(name: str, text: str) -> int | None:
    definition = ENCODINGS.get(name)
    if definition is None:
        return None
    with _loading:
        if name in _encoders:
            return None
        if name not in _first:
            _first[name] = PairCounter(_ranks(name), definition.ascii)
        return _first[name].count(text)


def encoder(name: str) -> Encoding:
    """Return the encoder; the first call loads it, and other threads wait for that load.

    Raises `NotFoundError` for an unknown name and `DamagedError` if the vocabulary is not the
    published one.
    """
    found = _encoders.get(name)
    if found is not None:
        return found
    if name not in ENCODINGS:
        raise NotFoundError("encoding", name)
    with _loading:
        if name not in _encoders:
            _encoders[name] = _build(name)
        return _encoders[name]


def _build(name: str) -> Encoding:
    # Imported here because most programs never count much: 20 ms and a native library.
    from tiktoken import Encoding

    first = _first.pop(name, None)  # before its ranks are used up
    ranks = _ranks(name) if first is None else first.ranks
    # What looks like a special token is counted as ordinary text, so none is defined.
    built = Encoding(name, pat_str=ENCODINGS[name].pattern, mergeable_ranks=ranks, special_tokens={})
    # The native encoder has its own copy; the object keeps this one only to pickle itself.
    ranks.clear()
    return built


def _ranks(name: str) -> dict[bytes, int]:
    return {token: rank for rank, token in enumerate(read_tokens(name))}


def read_tokens(name: str) -> list[bytes]:
    """Return the tokens of an encoding in rank order.

    `DamagedError` when the file is missing or its content is not, bit for bit, the published
    vocabulary's.
    """
    try:
        table = unpack(ZSTANDARD_MARK + (FOLDER / f"{name}.ranks").read_bytes())
    except (OSError, ValueError) as error:
        raise DamagedError(f"the vocabulary {name} cannot be read; install the package again") from error
    if hashlib.sha256(table).hexdigest() != ENCODINGS[name].table:
        raise DamagedError(f"the vocabulary {name} is not the published one; install the package again")
    return msgspec.msgpack.decode(table, type=list[bytes])
