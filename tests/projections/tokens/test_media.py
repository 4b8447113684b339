"""The tokens of images and documents by the stated rules."""

from __future__ import annotations

import struct

import pytest

from projections.tokens.media import image_size, image_tokens, media_tokens

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + struct.pack(">II", 1024, 768) + b"\x08\x02\x00\x00\x00"
GIF = b"GIF89a" + struct.pack("<HH", 320, 200) + b"\x00\x00\x00"
JPEG = b"".join(
    (
        b"\xff\xd8",
        b"\xff\xe0\x00\x10JFIF" + bytes(10),
        b"\xff\xff\xc4\x00\x04\x00\x00",  # a fill byte, and a table that is no frame header
        b"\xff\xc2\x00\x11\x08" + struct.pack(">HH", 600, 800) + bytes(10),
    )
)
WEBP = b"RIFF\x00\x00\x00\x00WEBP"
WEBP_LOSSY = WEBP + b"VP8 \x00\x00\x00\x00" + b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", 550, 368)
WEBP_LOSSLESS = WEBP + b"VP8L\x00\x00\x00\x00\x2f" + struct.pack("<I", (386 - 1) | (395 - 1) << 14) + bytes(9)
WEBP_EXTENDED = WEBP + b"VP8X\x0a\x00\x00\x00\x10\x00\x00\x00" + b"\x1f\x03\x00" + b"\x57\x02\x00"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (PNG, (1024, 768)),
        (GIF, (320, 200)),
        (JPEG, (800, 600)),
        (WEBP_LOSSY, (550, 368)),
        (WEBP_LOSSLESS, (386, 395)),
        (WEBP_EXTENDED, (800, 600)),
    ],
)
def test_image_sizes_come_from_their_headers(data: bytes, size: tuple[int, int]) -> None:
    """Width and height come from the header; a header cut short gives None, never an error."""
    assert image_size(data) == size
    assert all(image_size(data[:cut]) in (None, size) for cut in range(len(data)))
    assert image_size(data[:9]) is None


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("openai/gpt-4o", (1024, 1024), 765),  # OpenAI's own two examples
        ("openai/gpt-4o", (2048, 4096), 1105),
        ("openai/gpt-4o", (512, 512), 255),
        ("openai/gpt-4o", (20_000, 1), 765),
        ("openai/gpt-4o", None, 765),
        ("anthropic/claude-sonnet-4", (200, 200), 53),  # Anthropic: 54, rounded up
        ("anthropic/claude-sonnet-4", (1000, 1000), 1333),
        ("anthropic/claude-sonnet-4", (4000, 4000), 1600),
        ("anthropic/claude-sonnet-4", None, 1600),
        ("anthropic/claude-sonnet-4", (0, 0), 1),
    ],
)
def test_images_cost_what_the_rule_says(model: str, size: tuple[int, int] | None, tokens: int) -> None:
    """Images are counted by the provider's published rule for their size."""
    assert image_tokens(size, model) == tokens


def test_other_media_have_a_stated_cost() -> None:
    """No attachment is free: images by size, PDF by page, others a fixed number."""
    pdf = b"%PDF-1.4 <</Type /Pages /Count 2>> <</Type /Page>> <</Type/Page /X 1>>"
    assert media_tokens("image/png", PNG, "gpt-4o") == image_tokens((1024, 768), "gpt-4o")
    assert media_tokens("IMAGE/PNG; x=y", b"", "claude") == 1600
    assert media_tokens("application/pdf", pdf, "gpt-4o") == 4000
    assert media_tokens("application/pdf", b"", "gpt-4o") == 2000
    assert media_tokens("audio/wav", b"", "gpt-4o") == 1500
