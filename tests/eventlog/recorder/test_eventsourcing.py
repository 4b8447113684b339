"""The test cases that ship with `eventsourcing`, run on our persistence module."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import ClassVar
from unittest import TestCase, mock

from eventsourcing.application import Application
from eventsourcing.dispatch import singledispatchmethod
from eventsourcing.persistence import StoredEvent, Tracking
from eventsourcing.projection import Projection, ProjectionRunner
from eventsourcing.tests import application as application_cases
from eventsourcing.tests import persistence as cases
from eventsourcing.tests import projection as projection_cases
from eventsourcing.utils import Environment, get_topic

import eventlog
from eventlog import events as ev
from eventlog.log.contract import Log
from eventlog.log.embedded.engine import open_log
from eventlog.recorder import (
    LogAggregateRecorder,
    LogApplicationRecorder,
    LogFactory,
    LogProcessRecorder,
    LogTrackingRecorder,
    RecorderStream,
    factory,
)
from eventlog.recorder.conversations import ConversationEvent
from eventlog.recorder.factory import open_from

MODULE = "eventlog.recorder"


class OnDisk(TestCase):
    """A store directory for each test."""

    def open(self) -> Log:
        """A log that the test's end closes before it removes the directory."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        log = open_log(Path(folder.name) / "store")
        self.addCleanup(log.close)
        return log


class TestAggregateRecorder(OnDisk, cases.AggregateRecorderTestCase):
    """Events by originator: atomic, unique, selected by version."""

    def create_recorder(self) -> LogAggregateRecorder:
        """The recorder under test."""
        return LogAggregateRecorder(RecorderStream(self.open(), "app"))


class TestApplicationRecorder(OnDisk, cases.ApplicationRecorderTestCase[LogApplicationRecorder]):
    """Notifications: contiguous, selectable, written concurrently, followed live."""

    def create_recorder(self) -> LogApplicationRecorder:
        """The recorder under test."""
        return LogApplicationRecorder(RecorderStream(self.open(), "app"))

    def test_insert_subscribe(self) -> None:
        """A subscription gives what is there and what comes, in order, until it is stopped."""
        self.optional_test_insert_subscribe()


class TestTrackingRecorder(OnDisk, cases.TrackingRecorderTestCase):
    """Positions only grow, and can be waited for."""

    def create_recorder(self) -> LogTrackingRecorder:
        """The recorder under test."""
        return LogTrackingRecorder(RecorderStream(self.open(), "app"))


class TestProcessRecorder(OnDisk, cases.ProcessRecorderTestCase):
    """Events and their tracking position are recorded together or not at all."""

    def create_recorder(self) -> LogProcessRecorder:
        """The recorder under test."""
        return LogProcessRecorder(RecorderStream(self.open(), "app"))


class TestNotifications(OnDisk, cases.NonInterleavingNotificationIDsBaseCase):
    """Two large inserts at the same time do not interleave."""

    def create_recorder(self) -> LogApplicationRecorder:
        """The recorder under test."""
        return LogApplicationRecorder(RecorderStream(self.open(), "app"))


class OtherTrackingRecorder(LogTrackingRecorder):
    """A tracking recorder's subclass, for the factory to make."""


class TestFactory(cases.InfrastructureFactoryTestCase[LogFactory]):
    """PERSISTENCE_MODULE selects our factory, which makes every kind of recorder."""

    def setUp(self) -> None:
        """Name the module in the environment."""
        self.env = Environment("TestCase", {"PERSISTENCE_MODULE": MODULE, "EVENTLOG_PATH": self.path()})
        super().setUp()

    def path(self) -> str:
        """Where the store is."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name + "/store"

    def expected_factory_class(self) -> type[LogFactory]:
        """Asked for by the test case."""
        return LogFactory

    def expected_aggregate_recorder_class(self) -> type[LogAggregateRecorder]:
        """Asked for by the test case."""
        return LogAggregateRecorder

    def expected_application_recorder_class(self) -> type[LogApplicationRecorder]:
        """Asked for by the test case."""
        return LogApplicationRecorder

    def expected_tracking_recorder_class(self) -> type[LogTrackingRecorder]:
        """Asked for by the test case."""
        return LogTrackingRecorder

    def tracking_recorder_subclass(self) -> type[LogTrackingRecorder]:
        """Asked for by the test case."""
        return OtherTrackingRecorder

    def expected_process_recorder_class(self) -> type[LogProcessRecorder]:
        """Asked for by the test case."""
        return LogProcessRecorder


class InEnvironment(TestCase):
    """Cases that construct everything themselves select our module by environment variables."""

    def setUp(self) -> None:
        """Set the environment; after the test close every opened log and remove the directory."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = f"{folder.name}/store"

        def opened(env: Environment) -> Log:
            log = open_from(env)
            self.addCleanup(log.close)
            return log

        for patch in (
            mock.patch.dict(os.environ, {"PERSISTENCE_MODULE": MODULE, "EVENTLOG_PATH": self.path}),
            mock.patch.object(factory, "open_from", opened),
        ):
            patch.start()
            self.addCleanup(patch.stop)


class TestExampleApplication(InEnvironment, application_cases.ExampleApplicationTestCase):
    """The example application runs on our module, with snapshots."""

    expected_factory_topic = "eventlog.recorder.factory:LogFactory"


class CountersView(LogProcessRecorder, projection_cases.EventCountersView):
    """A materialised view in the log: each count is an event with the counted position."""

    def _count(self, name: str) -> int:
        newest = self.select_events(name, desc=True, limit=1)
        return newest[0].originator_version if newest else 0

    def _increment(self, name: str, tracking: Tracking) -> None:
        self.insert_events([StoredEvent(name, self._count(name) + 1, "counted", b"")], tracking=tracking)

    def get_created_event_counter(self) -> int:
        """Return the count of creating events."""
        return self._count("created")

    def get_subsequent_event_counter(self) -> int:
        """Return the count of other events."""
        return self._count("subsequent")

    def incr_created_event_counter(self, tracking: Tracking) -> None:
        """Count a creating event."""
        self._increment("created", tracking)

    def incr_subsequent_event_counter(self, tracking: Tracking) -> None:
        """Count another event."""
        self._increment("subsequent", tracking)


class TestView(OnDisk, projection_cases.EventCountersViewTestCase):
    """A view is updated together with its position, each position once."""

    def construct_event_counters_view(self) -> CountersView:
        """The view under test."""
        return CountersView(RecorderStream(self.open(), "view"))


class TestProjection(InEnvironment, projection_cases.AggregateEventCountersProjectionTestCase):
    """A projection follows an application on our module, and its errors are raised."""

    view_class = CountersView


class TestEventSourcedProjection(InEnvironment, projection_cases.EventSourcedProjectionTestCase):
    """An event-sourced projection keeps its events and positions on our module."""


class TestProjectionOfDecisions(InEnvironment, projection_cases.TaggedDecisionCountersProjectionTestCase):
    """A view of tagged decisions, recorded by the library's own module, is stored in our log."""

    view_class = CountersView
    env: ClassVar[dict[str, str]] = {
        "DCBAPPLICATION_PERSISTENCE_MODULE": "eventsourcing.dcb.popo",
        "MAPPER_TOPIC": "eventsourcing.dcb.msgpack:MessagePackMapper",
    }


class Chats(Application[str]):
    """The conversations of a store, as an application to follow."""

    name = "chats"


class Prompts(LogProcessRecorder):
    """A view: users' prompts by session, stored with the position read so far."""

    def add(self, session: str, text: str, tracking: Tracking) -> None:
        """Add a prompt."""
        known = self.select_events(session, desc=True, limit=1)
        version = known[0].originator_version + 1 if known else 1
        self.insert_events([StoredEvent(session, version, "prompt", text.encode())], tracking=tracking)

    def of(self, session: str) -> list[str]:
        """The prompts of a session."""
        return [event.state.decode() for event in self.select_events(session)]


class CollectPrompts(Projection[Prompts]):
    """Processes the text parts of user messages."""

    name = "prompts"
    topics = (get_topic(ev.UserMessageAdded), get_topic(ev.PartStarted))

    @singledispatchmethod
    def process_event(self, domain_event: ConversationEvent, tracking: Tracking) -> None:
        """Store a prompt; track every other event."""
        match domain_event.event:
            case ev.PartStarted(kind=eventlog.Text(text=str(text))) if text:
                self.view.add(domain_event.originator_id, text, tracking)
            case _:
                self.view.insert_tracking(tracking)


def test_a_projection_follows_our_conversations(tmp_path: Path) -> None:
    """An `eventsourcing` projection sees each prompt once: earlier, live, after a restart."""
    path = str(tmp_path / "chats")
    env = {
        "CHATS_PERSISTENCE_MODULE": "eventlog.recorder.conversations",
        "PROMPTS_PERSISTENCE_MODULE": MODULE,
        "EVENTLOG_PATH": path,
    }
    with eventlog.open(path) as store:
        first, second = store.create_session(id="first"), store.create_session(id="second")
        first.user("early")
        for prompts in (["one", "two"], ["three"]):
            with ProjectionRunner(
                application_class=Chats, projection_class=CollectPrompts, view_class=Prompts, env=env
            ) as runner:
                for text in prompts:
                    first.user(text)
                    second.user(text.upper())
                runner.wait(runner.app.recorder.max_notification_id(), timeout=60)
            runner.view.stream.log.close()
            first.user(f"after {prompts[-1]}")
        with LogFactory(Environment("prompts", env)) as made:
            view = Prompts(RecorderStream(made.log, "prompts"))
            assert view.of("first") == ["early", "one", "two", "after two", "three"]
            assert view.of("second") == ["ONE", "TWO", "THREE"]
            made.close()
