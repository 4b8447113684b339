"""The named render options: `default`, and `opencode-1.18`, which is that version's view byte for byte (spec §4.13).

Where the two differ is exactly what is written here.  Anybody may import this module.
"""

from __future__ import annotations

from eventlog.arguments import require
from eventlog.errors import NotFoundError
from projections.render_options import RenderOptions

__all__ = ["DEFAULT", "OPENCODE_1_18", "PRESETS", "preset"]

DEFAULT = RenderOptions()

OPENCODE_1_18 = RenderOptions(
    media_in_results=False,
    keep_empty_text=True,
    drop_failed=True,
    reasoning_separator="",
    show_all_compactions=True,
    interrupted_output=True,
    strip_attachments=True,
    carry=False,
)

PRESETS = {"default": DEFAULT, "opencode-1.18": OPENCODE_1_18}


def preset(name: str) -> RenderOptions:
    """The options of a preset; `NotFoundError` for another name."""
    require(str, name, "a preset is named by a str")
    try:
        return PRESETS[name]
    except KeyError:
        raise NotFoundError("preset", name) from None
