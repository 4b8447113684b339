"""Large texts by content: when a text becomes a body, its hash, and its packed bytes.

A text over `INLINE` characters is stored once under the SHA-256 of its UTF-8 bytes and referred to by a `Body`; shorter
ones stay inside the event, where a reference would not pay.  The packed form is one byte for the method (0 plain,
1 zstandard) and the data.  Where the packed bytes lie is the log's business.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from hashlib import sha256
from typing import BinaryIO

from eventlog.compression import PLAIN_MARK, ZSTANDARD_MARK, coders, pack
from eventlog.errors import DamagedError, LimitError
from eventlog.validation import require
from eventlog.values import Body, Content

__all__ = ["INLINE", "MAX_BODY_BYTES", "digests_in", "from_file", "to_content", "to_file", "unpack"]

INLINE = 1024
"""Longest text, in characters, that is kept inside its event."""
MAX_BODY_BYTES = 512 * 1024 * 1024
"""Largest body, in bytes of UTF-8."""

CHUNK = 1 << 20
"""Bytes read or written at a time when a body is streamed."""

SMALL = 32 * 1024
"""Largest body, in bytes, that is handed over plain: the log compresses small ones together when it folds them, which takes
less room, and nobody has to wait for it."""


def to_content(text: str, bodies: dict[bytes, bytes]) -> Content:
    """Return `text` itself, or a `Body` for it, whose packed bytes are added to `bodies`; `CallError` for what is no str."""
    if type(text) is not str:
        require(str, text, "a text is a str")
    if len(text) <= INLINE:
        return text
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > MAX_BODY_BYTES:
        raise LimitError("bytes of a body", len(data), MAX_BODY_BYTES)
    digest = sha256(data).digest()
    if digest not in bodies:
        bodies[digest] = PLAIN_MARK + data if len(data) <= SMALL else pack(data)
    return Body(digest, len(data), len(text))


def from_file(file: BinaryIO, bodies: dict[bytes, bytes]) -> Body:
    """Read UTF-8 text from a file object into a body, packed piece by piece; only the packed bytes are held.

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


def to_file(body: Body, packed: bytes, file: BinaryIO) -> None:
    """Write a body's bytes to a file object piece by piece; `DamagedError` if they are not the ones it names.

    What was written before the damage was seen is wrong, so the caller discards it.
    """
    if packed[:1] == PLAIN_MARK:
        file.write(unpack(body, packed).encode("utf-8", "surrogatepass"))
        return
    file.writelines(_unpacked(body, packed))


def _unpacked(body: Body, packed: bytes) -> Iterator[bytes]:
    """The bytes of a body that is compressed, piece by piece; `DamagedError`, at the latest at their end, if they are others."""
    digest, size = sha256(), 0
    with coders()[1].stream_reader(memoryview(packed)[1:]) as reader:
        while True:
            try:
                piece: bytes = reader.read(CHUNK)
            except Exception as error:
                raise DamagedError(f"body {body.digest.hex()} cannot be unpacked") from error
            size += len(piece)
            if not piece or size > body.size:
                break
            digest.update(piece)
            yield piece
    if size != body.size or digest.digest() != body.digest:
        raise DamagedError(f"body {body.digest.hex()} is not what was stored")


def unpack(body: Body, packed: bytes) -> str:
    """The text of a body; `DamagedError` if the bytes are not the ones it names."""
    data = memoryview(packed)[1:]
    if packed[:1] == ZSTANDARD_MARK:
        try:
            _refuse_bomb(body, data)
            if body.size > CHUNK:
                return _unpack_long(body, packed)
            data = coders()[1].decompress(data, max_output_size=body.size)
        except DamagedError:
            raise
        except Exception as error:
            raise DamagedError(f"body {body.digest.hex()} cannot be unpacked") from error
    elif packed[:1] != PLAIN_MARK:
        raise DamagedError(f"body {body.digest.hex()} is packed by an unknown method")
    if len(data) != body.size or sha256(data).digest() != body.digest:
        raise DamagedError(f"body {body.digest.hex()} is not what was stored")
    return str(data, "utf-8", "surrogatepass")


def _unpack_long(body: Body, packed: bytes) -> str:
    """The same of a long body, piece by piece: never are all of its bytes there beside all of its text."""
    decode = codecs.getincrementaldecoder("utf-8")("surrogatepass").decode
    text = ""
    try:
        for piece in _unpacked(body, packed):
            text += decode(piece)  # grows in place, for nothing else refers to it
    except UnicodeDecodeError as error:
        raise DamagedError(f"body {body.digest.hex()} cannot be unpacked") from error
    return text


def _refuse_bomb(body: Body, data: memoryview) -> None:
    """Raise if a frame says that it unpacks to another size: zstandard makes room for what a frame says, whatever the limit."""
    import zstandard

    said: int = zstandard.frame_content_size(data)
    if body.size > MAX_BODY_BYTES or said not in {-1, body.size}:
        raise ValueError(f"{said} bytes are not the {body.size} that were stored")


_DIGEST_BYTES = 32
_DIGEST = b"\xc4\x20"
"""How a MessagePack binary of 32 bytes begins."""


def digests_in(payload: bytes) -> set[bytes]:
    """What may be hashes of bodies in a payload: all that are, and by chance others."""
    found: set[bytes] = set()
    at = payload.find(_DIGEST)
    while at >= 0:
        found.add(payload[at + 2 : at + 34])
        at = payload.find(_DIGEST, at + 1)
    return {digest for digest in found if len(digest) == _DIGEST_BYTES}
