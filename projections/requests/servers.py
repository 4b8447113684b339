"""Rules of each API and server for the messages of a request: one table for all forms.

The servers speak Chat Completions; a name that is not here gets the strictest form that still
carries texts, calls and common images. The rules are those of the vendors' documentation and of
refusals that users report.
"""

from __future__ import annotations

from typing import NamedTuple

PDF = "application/pdf"
_IMAGES = ("image/gif", "image/jpeg", "image/png", "image/webp")
_GEMINI_IMAGES = ("image/heic", "image/heif", "image/jpeg", "image/png", "image/webp")
_SOUNDS = ("audio/mp3", "audio/mpeg", "audio/wav")
_ANY_ID = r"[\x21-\x7e]+"
_PLAIN_ID = "[A-Za-z0-9_-]+"


class Rules(NamedTuple):
    """The rules of one API or server."""

    ids: str = _PLAIN_ID
    """Pattern of a call's id."""
    longest_id: int = 40
    longest_name: int = 64
    """Characters of a tool's name, which consists of `[A-Za-z0-9_-]`."""
    data: tuple[str, ...] = ()
    """MIME types that are accepted as bytes; "type/*" stands for each of a type."""
    addresses: tuple[str, ...] = ()
    """MIME types that are accepted as an address on the web, in the same way."""
    uploads: bool = False
    """Whether files are accepted by the id of an upload."""
    reasoning: bool = False
    """Whether reasoning goes back: as `reasoning_content`, as signed blocks, or as items."""
    no_reasoning: str = ""
    """Reasoning of an answer that has none, where the server refuses an answer without."""
    empty_answers: bool = False
    """Whether an answer that the view has as an empty text is accepted."""
    many_systems: bool = True
    """Whether several system messages are accepted."""
    repeats_roles: bool = True
    """Whether two messages of one role may be neighbours."""
    user_after_results: bool = True
    """Whether a user message may follow results."""
    most_images: int | None = None
    most_bytes: int | None = None
    """Characters of the base64 of one image."""
    many_images: int | None = None
    """Number of images beyond which `many_pixels` holds for each."""
    most_pixels: int = 8_000
    """Pixels of the longer edge of an image."""
    many_pixels: int = 8_000
    marks: int = 0
    """Cache breakpoints of one request."""

    def takes(self, mime: str, *, address: bool = False) -> bool:
        """Return whether a file of type `mime` is accepted as bytes, or with `address` as one.

        An image at an address has a type that is accepted as bytes, or "image/*": one not known.
        """
        accepted = self.addresses if address else self.data
        if address and mime.startswith("image/") and mime not in ("image/*", *self.data):
            return False
        return mime in accepted or f"{mime.partition('/')[0]}/*" in accepted


_OPENAI = Rules(_ANY_ID, data=(*_IMAGES, *_SOUNDS, PDF), addresses=("image/*",), uploads=True)

SERVERS: dict[str, Rules] = {
    "openai-compatible": _OPENAI._replace(reasoning=True, empty_answers=True),
    "openai": _OPENAI,
    "azure": _OPENAI._replace(data=(*_IMAGES, *_SOUNDS), uploads=False),
    "openrouter": _OPENAI._replace(addresses=("image/*", PDF), uploads=False, reasoning=True),
    "groq": Rules(data=_IMAGES, addresses=("image/*",)),
    "deepseek": Rules(reasoning=True, no_reasoning=" "),
    "mistral": Rules("[A-Za-z0-9]{9}", 9, data=_IMAGES, addresses=("image/*",), user_after_results=False),
    "gemini-compatible": Rules(data=(*_GEMINI_IMAGES, *_SOUNDS)),
    "llama.cpp": Rules(
        data=("image/gif", "image/jpeg", "image/png", *_SOUNDS),
        addresses=("image/*",),
        reasoning=True,
        many_systems=False,
        repeats_roles=False,
    ),
    "vllm": Rules(
        data=(*_IMAGES, *_SOUNDS), addresses=("image/*",), reasoning=True, many_systems=False, repeats_roles=False
    ),
    "ollama-compatible": Rules(data=("image/jpeg", "image/png", "image/webp"), many_systems=False),
}
"""Servers by name; `openai-compatible` takes what `@ai-sdk/openai-compatible` sends."""

DEFAULT = "openai-compatible"
OTHER = Rules(
    "[A-Za-z0-9]{9}",
    9,
    data=("image/jpeg", "image/png"),
    many_systems=False,
    repeats_roles=False,
    user_after_results=False,
)
"""A server without a row: the strictest rule of each kind, but for two common images."""

RESPONSES = Rules(
    _ANY_ID,
    64,
    128,
    data=(*_IMAGES, PDF),
    addresses=("image/*", "application/*", "text/*"),
    uploads=True,
    reasoning=True,
)
ANTHROPIC = Rules(
    _PLAIN_ID,
    256,
    128,
    data=(*_IMAGES, PDF, "text/*"),
    addresses=("image/*", PDF),
    uploads=True,
    reasoning=True,
    repeats_roles=False,
    most_images=100,
    most_bytes=5 * 1024 * 1024,
    many_images=20,
    many_pixels=2_000,
    marks=4,
)
GEMINI = Rules(
    _ANY_ID,
    256,
    data=(*_GEMINI_IMAGES, PDF, "audio/*", "video/*", "text/*"),
    addresses=("image/*", PDF, "audio/*", "video/*", "text/*"),
    reasoning=True,
    repeats_roles=False,
)
"""Gemini `generateContent`."""


def rules_of(server: str) -> Rules:
    """Return the rules of a server of Chat Completions, or the strictest for another `server`."""
    return SERVERS.get(server, OTHER)
