"""The session service of Google ADK on the contract that every adapter keeps."""

from __future__ import annotations

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError

from eventlog import Store
from eventlog.testing import AdapterContract
from tests.adapters.adk_talk import AdkTalk
from tests.support.postgres_server import new_place


@pytest.mark.promise(1, 3, 4)
class TestGoogleAdk(AdapterContract):
    """The session service, each of whose events is an append."""

    engines = ("memory", "embedded", "encrypted", "postgres")
    refused = (StaleSessionError, AlreadyExistsError)

    def chat(self, store: Store, name: str) -> AdkTalk:
        """Return a session."""
        return AdkTalk(store, name)

    def postgres(self) -> str:
        """Return the address of an empty log."""
        return new_place()
