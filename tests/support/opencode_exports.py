"""Decoded exports of OpenCode as events, without a store."""

from __future__ import annotations

import io
import json
from typing import Any

from eventlog.importers.common.importer import ImportBatch, Report
from eventlog.importers.opencode.importer import OpenCodeImporter


def events_of_export(data: dict[str, Any], report: Report | None = None) -> ImportBatch:
    """Return the whole of a decoded export as one batch."""
    file = io.BytesIO(json.dumps(data).encode())
    whole = ImportBatch(data["info"]["id"])
    for batch in OpenCodeImporter().read(file, "", report or Report("", "opencode")):
        whole.items.extend(batch.items)
        whole.items.extend(batch.snapshot or ())
        whole.bodies.update(batch.bodies)
    return whole
