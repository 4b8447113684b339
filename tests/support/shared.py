"""Where recorded sessions lie: a folder `shared` beside the checkout, or EVERDELTA_SHARED."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.missing import missing

SHARED = Path(os.environ.get("EVERDELTA_SHARED") or Path(__file__).resolve().parents[3] / "shared")


def shared_path(*parts: str) -> Path:
    """Return a path below the shared folder; skip the calling test or module without it."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        missing(f"no recorded data: {'/'.join(parts)}")
    return path
