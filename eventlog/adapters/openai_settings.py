"""Settings of sessions of the OpenAI Agents SDK: its own class, a dict, or none."""

from __future__ import annotations

import sys
from typing import Any

from eventlog.importers.common.json_lines import is_object

__all__ = ["limit_of", "settings_of"]


def settings_of(given: Any) -> Any:
    """Return settings as the SDK's runner takes them, in a program that has imported the SDK."""
    sdk = sys.modules.get("agents.memory")
    return sdk.SessionSettings(**given or {}) if sdk is not None and (given is None or is_object(given)) else given


def limit_of(settings: Any) -> int | None:
    """Return how many items settings limit a read to, None for all."""
    found: int | None = settings.get("limit") if is_object(settings) else getattr(settings, "limit", None)
    return found
