"""The test cases that ship with `eventsourcing`, on a log of one partition on a server."""

from __future__ import annotations

import os
from unittest import TestCase

from eventlog.log.contract import Log
from eventlog.log.postgres.opening import open_log
from tests.eventlog.recorder import test_eventsourcing as cases
from tests.support.postgres_server import give_back, new_place


class OnServer(TestCase):
    """An empty log of one partition for each test."""

    def open(self) -> Log:
        """A log that the test's end closes and empties."""
        address = new_place(1)
        log = open_log(address)
        self.addCleanup(give_back, address, 1)
        self.addCleanup(log.close)
        return log


class TestAggregateRecorder(OnServer, cases.TestAggregateRecorder):
    """Events by originator: atomic, unique, selected by version."""


class TestApplicationRecorder(OnServer, cases.TestApplicationRecorder):
    """Notifications: contiguous, selectable, written concurrently, followed live."""


class TestTrackingRecorder(OnServer, cases.TestTrackingRecorder):
    """Positions only grow, and can be waited for."""


class TestProcessRecorder(OnServer, cases.TestProcessRecorder):
    """Events and their tracking position are recorded together or not at all."""


class TestNotifications(OnServer, cases.TestNotifications):
    """Two large inserts at the same time do not interleave."""


class TestView(OnServer, cases.TestView):
    """A view is updated together with its position, each position once."""


class TestFactory(cases.TestFactory):
    """PERSISTENCE_MODULE selects our factory, and EVENTLOG_PATH a server."""

    def path(self) -> str:
        """The address of an empty log."""
        address = new_place(1)
        self.addCleanup(give_back, address, 1)
        return address


class InEnvironment(cases.InEnvironment):
    """Cases that construct everything themselves find the address in the environment."""

    def setUp(self) -> None:
        """Give the log back after the test."""
        address = new_place(1)
        self.addCleanup(give_back, address, 1)
        super().setUp()
        os.environ["EVENTLOG_PATH"] = self.path = address


class TestExampleApplication(InEnvironment, cases.TestExampleApplication):
    """The example application runs on a server, with snapshots."""


class TestProjection(InEnvironment, cases.TestProjection):
    """A projection and the application it follows share one log."""


class TestEventSourcedProjection(InEnvironment, cases.TestEventSourcedProjection):
    """An event-sourced projection shares one log with its application."""
