"""Large texts and data by content: what becomes a body, its hash, and its packed bytes.

A text over `INLINE` characters is stored once under the SHA-256 of its UTF-8 bytes and referred to
by a `Body`; a shorter one stays inside the event, where a reference would not pay. Data over as
many bytes is stored likewise; a `Body` of data counts `BYTES` characters. The packed form
is that of `compression.py`. Where the packed bytes lie is the log's business.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from hashlib import sha256
from typing import BinaryIO

from eventlog.compression import PLAIN_MARK, ZSTANDARD_MARK, coders, pack
from eventlog.errors import CallError, DamagedError, LimitError
from eventlog.validation import require
from eventlog.values import Body, Content

INLINE = 1024
"""Longest text, in characters, and longest data, in bytes, that stays inside its event."""
BYTES = -1
"""Characters of a body that is data, which is no text."""
MAX_BODY_BYTES = 512 * 1024 * 1024
"""Largest body, in bytes of UTF-8."""

CHUNK = 1 << 20
"""Bytes read or written at a time when a body is streamed."""

SMALL = 32 * 1024
"""Largest body, in bytes, that is appended plain.

The log compresses small bodies together when it folds them, which takes less room and delays no
caller.
"""


def to_content(text: str, bodies: dict[bytes, bytes]) -> Content:
    """Return `text` itself, or a `Body` for it, whose packed bytes are added to `bodies`.

    `CallError` for what is no str.
    """
    if type(text) is not str:
        require(str, text, "a text is a str")
    if len(text) <= INLINE:
        return text
    return _stored(text.encode("utf-8", "surrogatepass"), len(text), bodies)


def to_data(data: bytes, bodies: dict[bytes, bytes]) -> bytes | Body:
    """Return `data` itself, or a `Body` for it; `to_content` of bytes."""
    require(bytes, data, "data is bytes")
    return data if len(data) <= INLINE else _stored(data, BYTES, bodies)


def _stored(data: bytes, characters: int, bodies: dict[bytes, bytes]) -> Body:
    if len(data) > MAX_BODY_BYTES:
        raise LimitError("bytes of a body", len(data), MAX_BODY_BYTES)
    digest = sha256(data).digest()
    if digest not in bodies:
        bodies[digest] = PLAIN_MARK + data if len(data) <= SMALL else pack(data)
    return Body(digest, len(data), characters)


def from_file(file: BinaryIO, bodies: dict[bytes, bytes]) -> Body:
    """Read UTF-8 text from a file object into a body, holding only the packed bytes.

    `LimitError` over `MAX_BODY_BYTES`; ValueError if it is not UTF-8.
    """
    compressor = coders()[0].compressobj()
    decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    digest, pieces, size, characters = sha256(), [ZSTANDARD_MARK], 0, 0
    while piece := file.read(CHUNK):
        require(bytes, piece, "a file of an output is binary, its pieces bytes")
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise LimitError("bytes of a body", size, MAX_BODY_BYTES)
        digest.update(piece)
        characters += len(decoder.decode(piece))
        pieces.append(compressor.compress(piece))
    characters += len(decoder.decode(b"", final=True))
    pieces.append(compressor.flush())
    bodies[digest.digest()] = b"".join(pieces)
    return Body(digest.digest(), size, characters)


def body_text(body: Body, packed: bytes) -> str:
    """Return the text of a body; `DamagedError` if the bytes are not the ones it names.

    The bytes are decoded piece by piece, so they are never all in memory beside all of the text.
    `CallError` for a body of data.
    """
    _require_text(body)
    decode = codecs.getincrementaldecoder("utf-8")("surrogatepass").decode
    text = ""
    try:
        for piece in pieces_of(body, packed):
            text += decode(piece)  # grows in place, for nothing else refers to it
    except UnicodeDecodeError as error:
        raise DamagedError(f"body {body.digest.hex()} cannot be unpacked") from error
    return text


def checked_body_text(body: Body, packed: bytes) -> str:
    """Return the text of a body whose packed bytes the log has just checked.

    A plain one is not hashed again. `DamagedError` if its size is another, `CallError` for a body
    of data.
    """
    if len(packed) != body.size + 1 or packed[:1] != PLAIN_MARK or body.characters == BYTES:
        return body_text(body, packed)
    try:
        return str(memoryview(packed)[1:], "utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise DamagedError(f"body {body.digest.hex()} cannot be unpacked") from error


def body_data(body: Body, packed: bytes) -> bytes:
    """Return the bytes of a body; `DamagedError` if they are not the ones it names."""
    return b"".join(pieces_of(body, packed))


def _require_text(body: Body) -> None:
    if body.characters == BYTES:
        raise CallError("a body of data is no text: read it as data")


def pieces_of(body: Body, packed: bytes) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a body in pieces; `DamagedError` if they are not those it names.

    Bytes may be yielded before the damage is found; the caller discards them.
    """
    method, data = packed[:1], memoryview(packed)[1:]
    if method not in {PLAIN_MARK, ZSTANDARD_MARK}:
        raise DamagedError(f"body {body.digest.hex()} is packed by an unknown method")
    digest, size = sha256(), 0
    for piece in _decompressed(body, data) if method == ZSTANDARD_MARK else (data,):
        size += len(piece)
        if size > body.size:
            break
        digest.update(piece)
        yield piece
    if size != body.size or digest.digest() != body.digest:
        raise DamagedError(f"body {body.digest.hex()} is not what was stored")


def _decompressed(body: Body, data: memoryview) -> Iterator[bytes]:
    """Yield what a zstandard frame holds; a frame that states another size is damage.

    zstandard allocates what a frame states, so the sizes are compared first.
    """
    import zstandard

    try:
        stated: int = zstandard.frame_content_size(data)
        if stated == body.size <= CHUNK:
            yield coders()[1].decompress(data, max_output_size=stated)
        elif body.size <= MAX_BODY_BYTES and stated in {-1, body.size}:
            with coders()[1].stream_reader(data) as reader:
                while piece := reader.read(CHUNK):
                    yield piece
    except (zstandard.ZstdError, ValueError) as error:
        raise DamagedError(f"body {body.digest.hex()} cannot be unpacked") from error
