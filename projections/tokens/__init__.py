"""Tokens: counting without a network, caching counts, calibrating by reported usage.

Nothing is loaded at import; the first exact count loads a vocabulary, and tiktoken when much is
counted.
"""

from __future__ import annotations

from projections.tokens.cache import CountCache
from projections.tokens.calibration import Calibration, ModelCalibration
from projections.tokens.counter import CharsCounter, Counter, TokenCounter, counter_named, frame_tokens
from projections.tokens.encodings import encoding_for
from projections.tokens.media import image_size, image_tokens, media_tokens
from projections.tokens.streaming import StreamEstimate, utf8_length

__all__ = [
    "Calibration",
    "CharsCounter",
    "CountCache",
    "Counter",
    "ModelCalibration",
    "StreamEstimate",
    "TokenCounter",
    "counter_named",
    "encoding_for",
    "frame_tokens",
    "image_size",
    "image_tokens",
    "media_tokens",
    "utf8_length",
]
