"""The encodings: which one a model has, and its encoder, built once from the vocabulary in the package.

Not a counter (`counter.py`).  Imported by `counter.py` only.  Nothing is loaded at import: the first
`encoder` call imports tiktoken and reads the vocabulary (0.2 s and 50 MB that stay for o200k_base, two thirds of it tiktoken's own tables).
tiktoken's own registry is not used, because it downloads.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, NamedTuple

from eventlog.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiktoken import Encoding

__all__ = ["DEFAULT_ENCODING", "ENCODINGS", "Definition", "encoder", "encoding_for"]

DEFAULT_ENCODING = "o200k_base"
"""For every model not listed below.  For models of other makers it is an approximation that calibration corrects."""


class Definition(NamedTuple):
    """What an encoding is apart from its vocabulary, as OpenAI published it with tiktoken."""

    pattern: str
    """How text is cut into the pieces that are encoded one by one."""
    special: Mapping[str, int]
    """Tokens with a meaning to the model.  Counting takes their spellings as ordinary text."""


_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

ENCODINGS = {
    "cl100k_base": Definition(
        pattern=(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
            r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
        ),
        special={
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
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
        special={"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
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


def encoding_for(model: str, overrides: Mapping[str, str] | None = None) -> str:
    """Return the name of the encoding a model's tokens are counted with.

    Case, a fine-tune's `ft:` and everything up to the last `/` (providers, gateways) do not matter.
    `overrides` maps further beginnings of model names to encodings and goes first.
    """
    name = model.lower().rpartition("/")[2].removeprefix("ft:")
    for prefixes in (overrides or {}, _PREFIXES):
        fitting = [prefix for prefix in prefixes if name.startswith(prefix.lower())]
        if fitting:
            return prefixes[max(fitting, key=len)]
    return DEFAULT_ENCODING


_encoders: dict[str, Encoding] = {}
_loading = threading.Lock()
# A child must not find it held by a thread that it has not.
os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release)


def encoder(name: str) -> Encoding:
    """Return the encoder, loading it at the first call; threads that ask meanwhile wait for that one load.

    Raises `NotFoundError` for an unknown name and `DamagedError` if the vocabulary is not the published one.
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
    # Imported here because most programs never count: 20 ms and a native library.
    from tiktoken import Encoding

    from projections.tokens.vocabulary import read_tokens

    definition = ENCODINGS[name]
    ranks = {token: rank for rank, token in enumerate(read_tokens(name))}
    built = Encoding(
        name,
        pat_str=definition.pattern,
        mergeable_ranks=ranks,
        special_tokens=dict(definition.special),
    )
    # The native encoder has its own copy; the object keeps this one only to pickle itself, which nobody does here.
    ranks.clear()
    return built
