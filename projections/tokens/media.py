"""Tokens of images and documents, by stated rules.

Nothing is decoded: sizes come from the first bytes of PNG, JPEG, GIF and WebP.

Images, from the providers' documentation of their vision models:

* names with `claude` (Anthropic): scaled down until the long edge is at most 1,568 pixels and the
  cost at most 1,600; a token per 750 pixels.
* all other names (OpenAI, high detail): scaled down to fit 2,048 by 2,048, then until the short
  edge is at most 768; 85 tokens and 170 for each tile of 512 by 512.

An image whose size cannot be read costs what a large one does: 1,600, or 765 (four tiles). A PDF
page costs 2,000 (Anthropic gives 1,500 to 3,000), any other file 1,500 in all; a text
what its words cost (`view/token_count.py`). Models differ; calibration takes up what is left.
"""

from __future__ import annotations

import re

_PIXELS_PER_TOKEN = 750
_LONG_EDGE = 1568
_MOST_TOKENS = 1600
_TILE = 512
_TILE_BASE, _TILE_TOKENS = 85, 170
_UNKNOWN_TILES = 4
_PAGE_TOKENS = 2000
_OTHER_TOKENS = 1500
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")


def media_tokens(mime: str, data: bytes, model: str) -> int:
    """Return the tokens of an attachment for a model.  `data` are its bytes, not base64."""
    kind = mime.partition(";")[0].strip().lower()
    if kind.startswith("image/"):
        return image_tokens(image_size(data), model)
    if kind == "application/pdf":
        # Pages inside compressed object streams cannot be seen; there is at least one.
        return _PAGE_TOKENS * max(1, len(_PAGE.findall(data)))
    return _OTHER_TOKENS


def image_tokens(size: tuple[int, int] | None, model: str) -> int:
    """Return the tokens of an image of (width, height) pixels; None is an unknown size."""
    by_area = "claude" in model.lower()
    if size is None:
        return _MOST_TOKENS if by_area else _TILE_BASE + _TILE_TOKENS * _UNKNOWN_TILES
    width, height = max(1, size[0]), max(1, size[1])
    if by_area:
        scale = min(1.0, _LONG_EDGE / max(width, height))
        return min(_MOST_TOKENS, max(1, round(width * scale * height * scale / _PIXELS_PER_TOKEN)))
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    across, down = (-(-max(1, round(edge * scale)) // _TILE) for edge in (width, height))
    return _TILE_BASE + _TILE_TOKENS * across * down


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return (width, height) in pixels from an image's first bytes, None if they do not tell.

    64 KiB are enough for nearly all; a JPEG with large leading metadata needs more.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and len(data) >= 24:
        return _number(data[16:20], "big"), _number(data[20:24], "big")
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return _number(data[6:8], "little"), _number(data[8:10], "little")
    if data.startswith(b"\xff\xd8"):
        return _jpeg_size(data)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp_size(data)
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Walk the segments to the frame header (SOF0-15 but for the tables DHT, JPG and DAC)."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # markers without a body
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _number(data[at + 7 : at + 9], "big"), _number(data[at + 5 : at + 7], "big")
        else:
            at += 2 + max(2, _number(data[at + 2 : at + 4], "big"))
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """Read the first chunk: VP8 (lossy), VP8L (lossless) or VP8X (extended)."""
    if len(data) < 30:
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        return _number(data[24:27], "little") + 1, _number(data[27:30], "little") + 1
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = _number(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return _number(data[26:28], "little") & 0x3FFF, _number(data[28:30], "little") & 0x3FFF
    return None


def _number(data: bytes, order: str) -> int:
    return int.from_bytes(data, "big" if order == "big" else "little")
