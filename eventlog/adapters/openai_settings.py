"""Settings of sessions of the OpenAI Agents SDK: its own class, a dict, or none."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

from eventlog.errors import ArgumentTypeError
from eventlog.errors.base import brief
from eventlog.importers.common.json_lines import is_object

__all__ = ["limit_of", "settings_of"]


def settings_of(given: Any) -> Any:
    """Return settings as the SDK's runner takes them, in a program that has imported the SDK.

    `ArgumentTypeError` for a setting that the SDK does not have.
    """
    if not (given is None or is_object(given)):
        return given
    sdk = sys.modules.get("agents.memory")
    known = ["limit"] if sdk is None else [field.name for field in fields(sdk.SessionSettings)]
    if unknown := [name for name in given or {} if name not in known]:
        raise ArgumentTypeError(f"a session has the settings {', '.join(known)}, not {brief(unknown[0])}")
    return given if sdk is None else sdk.SessionSettings(**given or {})


def limit_of(settings: Any) -> int | None:
    """Return how many items settings limit a read to, None for all."""
    found: int | None = settings.get("limit") if is_object(settings) else getattr(settings, "limit", None)
    return found
