"""Recorders made from environment variables, as `eventsourcing` asks for them.

    PERSISTENCE_MODULE     eventlog.recorder
    EVENTLOG_PATH          directory of the store, made if absent; `memory:` for one in memory
    EVENTLOG_READ_ONLY     `y`: open it for reading only
    EVENTLOG_KEY_FILE      the file with the keys of the store, if it is encrypted

Each may be prefixed with the application's name, as always there; the name is also what keeps the
applications of one store apart. `APPLICATION_RECORDER_TOPIC`, `TRACKING_RECORDER_TOPIC` and
`PROCESS_RECORDER_TOPIC` name subclasses. There are no tables, so `CREATE_TABLE` makes no
difference.
"""

from __future__ import annotations

from typing import TypeVar

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    ProcessRecorder,
    ProgrammingError,
)
from eventsourcing.utils import Environment, EnvType, resolve_topic, strtobool

from eventlog.log.contract import Log
from eventlog.open_log import open_log
from eventlog.recorder.faults import FAULTS
from eventlog.recorder.recorders import (
    LogAggregateRecorder,
    LogApplicationRecorder,
    LogProcessRecorder,
    LogTrackingRecorder,
)
from eventlog.recorder.stream import RecorderStream

PATH = "EVENTLOG_PATH"
READ_ONLY = "EVENTLOG_READ_ONLY"
KEY_FILE = "EVENTLOG_KEY_FILE"

R = TypeVar("R", LogApplicationRecorder, LogTrackingRecorder, LogProcessRecorder)


def open_from(env: Environment) -> Log:
    """Open the log that the environment names; `OSError` if it names none."""
    path = env.get(PATH)
    if not path:
        raise OSError(f"no path of a store in the environment; looked for {', '.join(env.create_keys(PATH))}")
    with FAULTS:
        return open_log(path, read_only=strtobool(env.get(READ_ONLY, "n")), keys=env.get(KEY_FILE) or None)


class LogFactory(InfrastructureFactory[LogTrackingRecorder]):
    """Factory of one application's recorders, which share a log; `close()` closes it."""

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        self.log: Log = open_from(self.env)
        self._streams: dict[str, RecorderStream] = {}

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        """Return a recorder of events, or of another purpose (`snapshots`)."""
        return LogAggregateRecorder(self._stream(purpose))

    def application_recorder(self) -> ApplicationRecorder:
        """Return a recorder of the application's events."""
        return self._chosen(self.APPLICATION_RECORDER_TOPIC, LogApplicationRecorder)(self._stream())

    def tracking_recorder(
        self, tracking_recorder_class: type[LogTrackingRecorder] | None = None
    ) -> LogTrackingRecorder:
        """Return a recorder of tracking, of the given class if there is one."""
        chosen = tracking_recorder_class or self._chosen(self.TRACKING_RECORDER_TOPIC, LogTrackingRecorder)
        return _checked(chosen, LogTrackingRecorder)(self._stream())

    def process_recorder(self) -> ProcessRecorder:
        """Return a recorder of events and tracking."""
        return self._chosen(self.PROCESS_RECORDER_TOPIC, LogProcessRecorder)(self._stream())

    def close(self) -> None:
        """Make everything durable and close the log; the recorders cannot be used afterwards."""
        with FAULTS:
            self.log.close()

    def _stream(self, purpose: str = "events") -> RecorderStream:
        stream = self._streams.get(purpose)
        if stream is None:
            with FAULTS:
                stream = self._streams.setdefault(purpose, RecorderStream(self.log, self.env.name, purpose))
        return stream

    def _chosen(self, variable: str, default: type[R]) -> type[R]:
        topic = self.env.get(variable)
        return _checked(resolve_topic(topic), default) if topic else default


def _checked(chosen: object, base: type[R]) -> type[R]:
    if not isinstance(chosen, type) or not issubclass(chosen, base):
        raise ProgrammingError(f"{chosen!r} is not a {base.__name__}")
    return chosen
