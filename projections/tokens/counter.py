"""Counters of tokens: exact with a vocabulary, or OpenCode's estimate.

Counters are stateless values with a name; counts are pure functions of the name and the text.
`cache.py` stores counts, `calibration.py` corrects them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from eventlog.errors import NotFoundError
from projections.tokens.encodings import DEFAULT_ENCODING, ENCODINGS, count_piece

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE_TOKENS = 4
"""Tokens of one message's frame: its start, its role, the end of the head, its end."""
REQUEST_TOKENS = 3
"""Tokens that begin the answer."""
WINDOW = 2048
"""Characters encoded at a time.

A power of two, so that runs of one character are cut where their tokens end.
"""

CHUNK = 1 << 20
"""Characters encoded at a time, so that a large text is not held twice."""

_PER_THOUSAND = {"o200k_base": (235, 720), "cl100k_base": (235, 1190)}
"""Tokens per thousand ASCII characters and per thousand others.

Measured on English and Chinese prose, Markdown and Python: within 20 %, most within 10 %. Others
are taken for three UTF-8 bytes each, as Chinese, Japanese and Korean are.
"""

_SAFE = r"(?s:.{1,%d})(?<=[^\W_])(?=[\s!-&(-/:-@\[-`{-~\u3001\u3002\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f])"
"""The longest beginning of at most that many characters that ends in a safe cut."""


class Counter(Protocol):
    """Counts tokens.  Two counters of one name count alike, so counts are kept under the name."""

    @property
    def name(self) -> str:
        """The encoding's name, or the estimate's."""
        ...

    def count(self, text: str) -> int:
        """Return the tokens of a text; never raises on any text."""
        ...

    def estimate(self, chars: int, utf8: int) -> int:
        """Estimate the tokens of a text by its characters and UTF-8 bytes, while it streams."""
        ...


class TokenCounter:
    """Counts with one of the vocabularies, which is loaded at the first count.

    What looks like a special token is ordinary text. Surrogate pairs count as the character they
    mean and lone surrogates as U+FFFD. A text up to `WINDOW` characters is counted whole. A longer
    one is counted in windows cut where no token can cross (`split`), so the sum is exact; only a
    window without any such place (a run of letters, digits, symbols or blanks) is cut hard, which
    changes the count by at most about one token for every 2,048 characters of it. This bounds time
    and memory, and spares tiktoken the runs that take it quadratic time (up to 0.12) or overflow
    its stack (a million blanks, 0.14).
    """

    def __init__(self, encoding: str = DEFAULT_ENCODING) -> None:
        self.name = encoding

    def count(self, text: str) -> int:
        """Return the number of tokens; the first count may raise as `encoder` does."""
        length = len(text)
        if length <= WINDOW:
            return count_piece(self.name, text, of=length)
        return sum(count_piece(self.name, piece, of=length) for piece, _ in split(text, WINDOW))

    def estimate(self, chars: int, utf8: int) -> int:
        """Return about how many tokens that much text has; see `_PER_THOUSAND` for the error."""
        wide = min(chars, (utf8 - chars + 1) // 2)
        narrow_rate, wide_rate = _PER_THOUSAND.get(self.name, _PER_THOUSAND[DEFAULT_ENCODING])
        return -(-((chars - wide) * narrow_rate + wide * wide_rate) // 1000)


class CharsCounter:
    """OpenCode's estimate, `Math.round(text.length / 4)`: UTF-16 units, halves rounded up.

    The preset `opencode-1.18` decides with it; it is three to four times too low for Chinese.
    """

    name = "chars/4"

    def count(self, text: str) -> int:
        """Return a quarter of the UTF-16 units; lone surrogates are one unit each."""
        units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
        return (units + 2) // 4

    def estimate(self, chars: int, utf8: int) -> int:
        """Return the count of a text of `chars` UTF-16 units; `utf8` does not matter."""
        del utf8
        return (chars + 2) // 4


def utf8_length(text: str) -> int:
    """Return the text's UTF-8 bytes, three for each lone surrogate.

    The sum over the pieces of a text is that of the whole.
    """
    if text.isascii():
        return len(text)
    pieces = (text[at : at + CHUNK] for at in range(0, len(text), CHUNK))
    return sum(len(piece.encode("utf-8", "surrogatepass")) for piece in pieces)


def counter_named(name: str) -> Counter:
    """Return the counter that a recorded name means; raises `NotFoundError` for another."""
    if name == CharsCounter.name:
        return CharsCounter()
    if name not in ENCODINGS:
        raise NotFoundError("encoding", name)
    return TokenCounter(name)


def split(text: str, limit: int) -> Iterator[tuple[str, bool]]:
    """Yield pieces of at most `limit` characters, each with whether the cut after it is safe.

    A cut is safe between a letter or digit and a blank or a mark other than the apostrophe: in both
    encodings' patterns no piece contains such a pair, so both sides are encoded as they are in the
    whole.
    """
    if limit < 1:
        raise ValueError(f"pieces of {limit} characters")
    safe = re.compile(_SAFE % limit)
    at = 0
    while len(text) - at > limit:
        found = safe.match(text, at)
        end = found.end() if found else at + limit
        yield text[at:end], found is not None
        at = end
    yield text[at:], True


def frame_tokens(messages: int) -> int:
    """Return the tokens that the frames of so many messages add to their texts.

    The rule is published for OpenAI's chat models, and confirmed by the usage in recorded requests.
    The frame's marks are special tokens, so nothing merges across them and the sum over the
    messages is exact. Inside a message the texts are counted one by one; *one count of the whole
    request* is the count of each message's texts written one after another, plus the same frames.
    The two differ only where texts meet, by at most a token or two each.

    What a message sends: its text parts, reasoning, a tool call's name and its arguments as compact
    JSON, a tool result's output. Tool schemas and the system prompt are messages for this purpose.
    What a provider adds itself is left to calibration.
    """
    return REQUEST_TOKENS + MESSAGE_TOKENS * messages
