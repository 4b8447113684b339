"""A head of the store that the user saved earlier, as `--against` names it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from projections.cli.exits import FileFault, UsageFault

if TYPE_CHECKING:
    from eventlog import StoreHead

_DIGEST = re.compile("[0-9a-f]{64}")


def saved_head(name: str | None) -> StoreHead | None:
    """Return the head in the file of this name; None for None."""
    from eventlog import StoreHead
    from eventlog.errors import CallError

    if name is None:
        return None
    if _DIGEST.fullmatch(name) and not Path(name).exists():
        raise UsageFault("--against takes a file with the output of `eventlog head --json`, not a digest")
    try:
        return StoreHead.parse(Path(name).read_bytes())
    except CallError as error:
        raise FileFault(name, error) from error
