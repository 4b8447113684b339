"""System messages of LangChain: as in `tests/eventlog/records/test_system_messages.py`."""

from __future__ import annotations

from typing import Any

import pytest

from eventlog import RecordMapping
from eventlog.adapters.langgraph.messages import LangChainMapping
from tests.eventlog.records import test_system_messages as scenes

globals().update({name: scene for name, scene in vars(scenes).items() if name.startswith("test_")})


def message(role: str, text: str) -> Any:
    """Return a message of LangChain, as it is stored."""
    return {"kind": {"system": "SystemMessage", "user": "HumanMessage"}[role], "content": text}


@pytest.fixture
def told() -> tuple[RecordMapping, scenes.Make]:
    """Give the mapping of LangChain's messages, and what makes one."""
    return LangChainMapping(), message
