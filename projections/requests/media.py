"""Images of a request that are over what its API takes, named by a text instead."""

from __future__ import annotations

from base64 import b64decode
from typing import Any, NamedTuple

from projections.requests.files import FileData, data_of, placeholder
from projections.requests.servers import Rules
from projections.tokens.media import image_size
from projections.view.neutral import File

__all__ = ["TooMuchMedia"]

_FIRST = 88_000
"""Characters of base64 that tell an image's size."""


class _Image(NamedTuple):
    block: dict[str, Any]
    file: File
    data: FileData | None


class TooMuchMedia:
    """Gathers the images of a request, and names those that its `rules` do not admit."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._images: list[_Image] = []

    def add(self, block: dict[str, Any], file: File) -> None:
        """Add the `block` of an image, in the order of the request."""
        self._images.append(_Image(block, file, data_of(file)))

    def name(self) -> None:
        """Turn images that are too large, and the oldest that are too many, into texts."""
        rules = self._rules
        found = [
            one
            for one in self._images
            if one.data is not None and rules.most_bytes is not None and len(one.data.base64) > rules.most_bytes
        ]
        for one in found:
            self._replace(one)
        is_crowded = rules.many_images is not None and len(self._images) > rules.many_images
        most_pixels = rules.many_pixels if is_crowded else rules.most_pixels
        for one in [one for one in self._images if _edge(one.data) > most_pixels]:
            self._replace(one)
        if rules.most_images is not None:
            for one in self._images[: max(0, len(self._images) - rules.most_images)]:
                self._replace(one)

    def _replace(self, image: _Image) -> None:
        self._images = [one for one in self._images if one is not image]
        image.block.clear()
        image.block.update({"type": "text", "text": placeholder(image.file)})


def _edge(data: FileData | None) -> int:
    """Return the longer edge of an image in pixels, 0 if its bytes do not tell it."""
    try:
        return 0 if data is None else max(image_size(b64decode(data.base64[:_FIRST])) or (0,))
    except ValueError:
        return 0
