"""Our persistence module beyond the library's own test cases (`test_eventsourcing.py`)."""

from __future__ import annotations

import ast
import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID

import msgspec
import pytest
from eventsourcing.persistence import (
    DataError,
    InfrastructureFactory,
    IntegrityError,
    InterfaceError,
    JSONTranscoder,
    Notification,
    NotSupportedError,
    ProgrammingError,
    StoredEvent,
    Tracking,
    WaitInterruptedError,
)
from eventsourcing.utils import get_topic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eventlog
from eventlog.codec.payload import FOREIGN
from eventlog.errors import CallError, ClosedError, DamagedError, LimitError, ReadOnlyError, TooNewError
from eventlog.log.commit import Append, Commit, Ticket
from eventlog.log.contract import Log
from eventlog.log.embedded.engine import open_log
from eventlog.log.memory import MemoryLog
from eventlog.recorder import LogAggregateRecorder, LogFactory, LogProcessRecorder, RecorderStream, index
from eventlog.recorder.batch import batch_of, pack
from eventlog.recorder.conversations import ConversationEvent, ConversationMapper, ConversationRecorder
from tests.support.sample_sessions import begin, run_together

NAME = "eventsourcing:events:app"


@pytest.fixture(params=["memory", "disk"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """A log of either engine."""
    opened: Log = open_log(tmp_path / "store") if request.param == "disk" else MemoryLog()
    yield opened
    opened.close()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrink blocks to four versions and few cached pieces: a short stream has many levels."""
    monkeypatch.setattr(index, "BLOCK", 4)
    monkeypatch.setattr(index, "_RECENT", 3)


def process(log: Log, application: str = "app") -> LogProcessRecorder:
    """A recorder with its own index, as in a new process."""
    return LogProcessRecorder(RecorderStream(log, application))


def event(originator: UUID | str, version: int, state: bytes = b"state", topic: str = "topic") -> StoredEvent:
    """A stored event."""
    return StoredEvent(originator, version, topic, state)


NAMES = ["a", "b", str(UUID(int=7)), "d", "e"]
INSERTS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-2, 30)), max_size=5),
        st.none() | st.integers(0, 60),
    ),
    max_size=40,
)


def twin(name: str) -> UUID | str:
    """The id as a UUID where it is one."""
    return UUID(name) if len(name) == 36 else name


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(inserts=INSERTS, again=st.sets(st.integers(0, 39)), lost=st.integers(0, 2), bounds=st.data())
def test_recorder_equals_a_plain_model(
    inserts: list[tuple[list[tuple[str, int]], int | None]], again: set[int], lost: int, bounds: st.DataObject
) -> None:
    """Events, notifications and tracking equal a list's after any inserts, refusals, losses."""
    log = MemoryLog()
    recorder, other = process(log), process(log)
    versions: dict[str, dict[int, StoredEvent]] = {name: {} for name in NAMES}
    notified: list[Notification] = []
    position = 0
    tracked: int | None = None
    for number, (places, tracking) in enumerate(inserts):
        events = [event(twin(name), version, bytes([number])) for name, version in places]
        taken = any(version in versions[name] for name, version in places)
        late = tracking is not None and tracked is not None and tracking <= tracked
        position_after = position + max(len(events), 1 if tracking is not None else 0)
        arguments: dict[str, Any] = {} if tracking is None else {"tracking": Tracking("up", tracking)}
        if taken or late or len(set(places)) < len(places):
            with pytest.raises(IntegrityError):
                recorder.insert_events(events, **arguments)
        else:
            ids = recorder.insert_events(events, **arguments)
            assert ids == list(range(position + 1, position + len(events) + 1))
            for offset, one in enumerate(events, position + 1):
                versions[str(one.originator_id)][one.originator_version] = one
                notified.append(Notification(**vars(one), id=offset))
            position = position_after
            tracked = tracking if tracking is not None else tracked
        if number in again:
            recorder, other = other, process(log)
            derived = [key for key, _ in log.scan_derived(b"")]
            log.put_derived([(key, None) for key in derived[number % 3 :: 3] if lost])
    for reader in (recorder, other, process(log)):
        if lost == 2:
            log.put_derived([(key, b"\0" * 9) for key, _ in log.scan_derived(b"")])
        assert reader.select_notifications(None, 1000) == notified
        assert reader.max_notification_id() == (notified[-1].id if notified else None)
        assert reader.max_tracking_id("up") == tracked
        for name in NAMES:
            gt, lte = (bounds.draw(st.none() | st.integers(-3, 31)) for _ in range(2))
            desc, limit = bounds.draw(st.booleans()), bounds.draw(st.none() | st.integers(0, 5))
            expected = [
                versions[name][version]
                for version in sorted(versions[name], reverse=desc)
                if (gt is None or version > gt) and (lte is None or version <= lte)
            ]
            assert reader.select_events(twin(name), gt=gt, lte=lte, desc=desc, limit=limit) == expected[:limit]


class CountingLog(MemoryLog):
    """A log that counts the events read."""

    events = 0

    def read(self, session: str, after: int = 0, upto: int | None = None, *, reverse: bool = False) -> Iterator[Commit]:
        """Count and pass on."""
        for commit in super().read(session, after, upto, reverse=reverse):
            self.events += commit.count
            yield commit


@pytest.mark.usefixtures("small_blocks")
def test_opening_reads_less_than_a_block() -> None:
    """A new process inserts and looks up by reading fewer events than one block."""
    log = CountingLog()
    writer = process(log)
    for number in range(203):
        writer.insert_events([event(f"o{number % 20}", number)], tracking=Tracking("up", number + 1))
    log.events = 0
    fresh = process(log)
    assert fresh.max_tracking_id("up") == 203
    fresh.insert_events([event("o1", 1000)])
    with pytest.raises(IntegrityError):
        fresh.insert_events([event("o7", 7)])
    assert log.events == 203 % 4 + 1  # the commit at the position of the last derived value is read, too
    assert len(fresh.select_events("o1", desc=True, limit=1)) == 1
    assert log.events == 203 % 4 + 2


@pytest.mark.usefixtures("small_blocks")
def test_an_index_of_another_history_is_not_used() -> None:
    """Derived values that describe another stream of the same name are dropped."""
    old, new = MemoryLog(), MemoryLog()
    for log, name in ((old, "old"), (new, "new")):
        for number in range(20):
            process(log).insert_events([event(name, number)], tracking=Tracking("up", number + 1))
    new.put_derived([(key, None) for key, _ in new.scan_derived(b"")])
    new.put_derived(old.scan_derived(b""))
    fresh = process(new)
    assert fresh.select_events("old") == []
    assert [one.originator_version for one in fresh.select_events("new")] == list(range(20))


class HurriedLog(MemoryLog):
    """A log in which another append goes in right before the first one."""

    before: Callable[[], object] | None = None

    def submit(self, append: Append) -> Ticket:
        """Let the other append go first."""
        before, self.before = self.before, None
        if before is not None:
            before()
        return super().submit(append)


@pytest.mark.parametrize(("other", "wins"), [("a", False), ("b", True)])
def test_two_may_begin_a_stream(other: str, *, wins: bool) -> None:
    """The second to start a stream is checked against the first and may still go in."""
    log = HurriedLog()
    log.before = lambda: process(log).insert_events([event(other, 1)])
    if wins:
        assert process(log).insert_events([event("a", 1)]) == [2]
    else:
        with pytest.raises(IntegrityError):
            process(log).insert_events([event("a", 1)])


def _claim(path: str, start: Any, results: Any) -> None:
    log = open_log(path)
    recorder = process(log)
    start.wait()
    won = 0
    for version in range(40):
        try:
            recorder.insert_events([event("shared", version)], tracking=Tracking("up", version + 1))
        except IntegrityError:
            continue
        won += 1
    results.put(won)
    log.close()


def test_processes_share_a_stream(tmp_path: Path) -> None:
    """Three processes race for versions: each is recorded once and known to its process."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(3), context.Queue()
    workers = [context.Process(target=_claim, args=(str(tmp_path / "store"), start, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    won = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert sum(won) == 40
    log = open_log(tmp_path / "store")
    assert [one.originator_version for one in process(log).select_events("shared")] == list(range(40))
    log.close()


def test_a_subscription_has_no_gap(log: Log) -> None:
    """Followers of four writers, some filtered, get every notification once, in order, live."""
    recorder = process(log)

    def follow(topics: Sequence[str], last: int) -> list[Notification]:
        with process(log).subscribe(gt=0, topics=topics) as subscription:
            return list(islice(subscription, last))

    followers = [begin(partial(follow, (), 400)), begin(partial(follow, ["even"], 200))]

    def write(writer: int) -> None:
        for version in range(50):
            recorder.insert_events([event(f"{writer}", 2 * version + odd, b"", ["even", "odd"][odd]) for odd in (0, 1)])

    run_together(4, write)
    everything, wanted = [follower.result(30) for follower in followers]
    assert [one.id for one in everything] == list(range(1, 401))
    assert [one.id for one in wanted] == [one.id for one in everything if one.topic == "even"]


def test_a_subscription_that_waits_can_be_stopped(log: Log) -> None:
    """`stop()` from another thread ends a waiting subscription."""
    subscription = process(log).subscribe()
    waiting = begin(lambda: list(subscription))
    subscription.stop()
    assert waiting.result(60) == []


def test_a_wait_is_woken(log: Log) -> None:
    """`wait()` returns once another recorder records the position, and can be interrupted."""
    waiting, interrupt = process(log), Event()
    with ThreadPoolExecutor(2) as pool:
        patient = pool.submit(waiting.wait, "up", 3, 30)
        process(log).insert_tracking(Tracking("up", 3))
        patient.result(60)
        interrupted = pool.submit(waiting.wait, "up", 4, 30, interrupt)
        interrupt.set()
        with pytest.raises(WaitInterruptedError):
            interrupted.result(10)


def test_applications_do_not_mix(log: Log) -> None:
    """Applications in one store have their own ids, versions, snapshots and tracking."""
    ours, theirs = process(log, "ours"), process(log, "theirs")
    snapshots = LogAggregateRecorder(RecorderStream(log, "ours", "snapshots"))
    assert ours.insert_events([event("a", 1)], tracking=Tracking("up", 5)) == [1]
    assert theirs.insert_events([event("a", 1), event("b", 1)]) == [1, 2]
    assert snapshots.insert_events([event("a", 1, b"snapshot")]) is None
    assert theirs.max_tracking_id("up") is None
    assert [one.state for one in snapshots.select_events("a")] == [b"snapshot"]
    assert [one.state for one in ours.select_events("a")] == [b"state"]


def test_a_store_keeps_everything_when_it_is_closed(tmp_path: Path) -> None:
    """A reopened store gives the same events, notifications and tracking."""
    env = {"PERSISTENCE_MODULE": "eventlog.recorder", "EVENTLOG_PATH": str(tmp_path / "store")}
    made: InfrastructureFactory[Any] = InfrastructureFactory.construct(env)
    recorder = made.process_recorder()
    uuid = UUID(int=5)
    recorder.insert_events([event(uuid, 1), event("text", 1)], tracking=Tracking("up", 9))
    before = recorder.select_notifications(None, 10)
    made.close()
    with pytest.raises(InterfaceError) as closed:
        recorder.insert_events([event("text", 2)])
    assert isinstance(closed.value.__cause__, ClosedError)
    again: InfrastructureFactory[Any] = InfrastructureFactory.construct({**env, "EVENTLOG_READ_ONLY": "y"})
    recorder = again.process_recorder()
    assert recorder.select_notifications(None, 10) == before
    assert [one.originator_id for one in before] == [uuid, "text"]
    assert recorder.max_tracking_id("up") == 9
    with pytest.raises(NotSupportedError) as refused:
        recorder.insert_events([event("text", 2)])
    assert isinstance(refused.value.__cause__, ReadOnlyError)
    again.close()


def test_conversations_do_not_see_streams(log: Log) -> None:
    """A store lists, finds and opens its conversations only, no recorder streams."""
    recorder = process(log)
    recorder.insert_events([event("a", 1)])
    with eventlog.Store(log) as store:
        store.create_session(id="chat", title="Chat").user("hello")
        recorder.insert_events([event("a", 2)])
        assert [info.id for info in store.sessions()] == ["chat"]
        with pytest.raises(eventlog.errors.NotFoundError):
            store.session(NAME)
        with pytest.raises(eventlog.errors.NotFoundError):
            store.info(NAME)
        assert {recorded.session for recorded in store.subscribe(timeout=0)} == {"chat"}
        assert log.check() == []


def test_conversations_are_notifications(log: Log) -> None:
    """Each event of each conversation is one notification, and the mapper restores it."""
    process(log).insert_events([event("a", 1)])
    with eventlog.Store(log) as store:
        sessions = [store.create_session(id=name) for name in ("one", "two")]
        for session in sessions:
            session.user("hello")
            with session.assistant(model="test/model") as reply:
                text = reply.stream_text()
                for number in range(700):
                    text.append(f"token {number} ")
                reply.finish("stop")
        process(log).insert_events([event("a", 2)])
        fork = sessions[0].fork(at=5)
        fork.user("again")
        expected = sorted(
            (
                recorded
                for session in (*sessions, fork)
                for recorded in session.events()
                if recorded.session == session.id
            ),
            key=lambda recorded: recorded.position,
        )
        recorder = ConversationRecorder(log)
        found = recorder.select_notifications(None, 10_000)
        assert [one.id for one in found] == [recorded.position for recorded in expected]
        mapper = ConversationMapper(JSONTranscoder())
        assert [mapper.to_domain_event(one) for one in found] == [
            ConversationEvent(recorded.session, recorded.version, recorded.time, recorded.event)
            for recorded in expected
        ]
        assert recorder.max_notification_id() == expected[-1].position
        deltas = recorder.select_notifications(
            start=20, stop=60, limit=30, topics=[get_topic(eventlog.events.PartDelta)]
        )
        assert deltas == [one for one in found if 20 <= one.id <= 60 and one.topic.endswith("PartDelta")][:30]
        inherited = recorder.select_events(fork.id, gt=1, lte=5, desc=True)
        assert [one.originator_version for one in inherited] == [5, 4, 3, 2]
        assert recorder.select_events("a") == []
        with pytest.raises(NotSupportedError):
            recorder.insert_events([event("one", 10_000)])


def test_the_bytes_of_a_batch_are_frozen() -> None:
    """The encoding of format 1 is these bytes, and they are read back."""
    events = [event(UUID(int=1), 0, b"s", "t"), event("x", -1, b"", "t"), event(UUID(int=1), 1 << 40, b"s", "u")]
    payload = pack(events, Tracking("up", 3))
    golden = (
        "c1c1 98 01 92a2757003"
        " 92 c4117500000000000000000000000000000001 c4027478"
        " 92a174a175 93000100 9300ffcf0000010000000000 93000001 93c40173c400c40173"
    )
    assert payload == bytes.fromhex(golden)
    batch = batch_of(Commit("s", 1, 3, 1, 0, 0, payload))
    assert [batch.event(number) for number in range(3)] == events
    assert batch.versions == [0, -1, 1 << 40]
    assert batch.tracking == ("up", 3)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (FOREIGN + msgspec.msgpack.encode([2, "anything", "else"]), TooNewError),
        (FOREIGN + msgspec.msgpack.encode([1, None, [], [], [0], [1], [0], [b""]]), DamagedError),
        (FOREIGN + msgspec.msgpack.encode([1, None, [b"x"], ["t"], [0], [1], [0], [b""]]), DamagedError),
        (FOREIGN + msgspec.msgpack.encode([1, None, [b"u123"], ["t"], [0], [1], [0], [b""]]), DamagedError),
        (FOREIGN + msgspec.msgpack.encode([1, None, [b"tx"], ["t"], [0, 0], [1], [0], [b""]]), DamagedError),
        (FOREIGN, DamagedError),
        (msgspec.msgpack.encode([1, None, [b"tx"], ["t"], [0], [1], [0], [b""]]), DamagedError),
        (b"", DamagedError),
    ],
    ids=["too new", "no originator", "unknown kind", "short id", "columns", "nothing", "no mark", "empty"],
)
def test_what_cannot_be_read_is_a_typed_error(log: Log, payload: bytes, error: type[Exception]) -> None:
    """A damaged or newer batch is `DataError` that names stream, version and position."""
    process(log).insert_events([event("a", 1)])
    log.submit(Append(session=NAME, payload=payload, count=1, time=0)).wait()
    for call in (
        lambda: process(log).select_events("a"),
        lambda: process(log).select_notifications(None, 10),
        lambda: process(log).insert_events([event("a", 2)]),
        lambda: next(process(log).subscribe(gt=1)),
    ):
        with pytest.raises(DataError) as caught:
            call()
        cause = caught.value.__cause__
        assert isinstance(cause, error)
        assert isinstance(cause, eventlog.errors.DataError)
        assert (cause.session, cause.version, cause.position) == (NAME, 2, 2)


def test_wrong_calls_are_programming_errors() -> None:
    """Texts, names and classes that cannot be stored are refused with typed errors."""
    log = MemoryLog()
    with pytest.raises(ProgrammingError):
        process(log).insert_events([event("\ud800", 1)])
    with pytest.raises(ProgrammingError):
        process(log).insert_events([event("a", 1 << 70)])
    with pytest.raises(DataError) as caught:
        process(log, "x" * 300).insert_events([event("a", 1)])
    assert isinstance(caught.value.__cause__, LimitError)
    assert log.last_positions() == (0,)
    with pytest.raises(OSError, match="EVENTLOG_PATH"):
        LogFactory({})
    made = LogFactory({"EVENTLOG_PATH": "memory:", "APPLICATION_RECORDER_TOPIC": get_topic(LogAggregateRecorder)})
    with pytest.raises(ProgrammingError):
        made.application_recorder()
    with pytest.raises(ProgrammingError):
        made.aggregate_recorder("a:b")


def test_the_library_is_optional() -> None:
    """`import eventlog` and `import projections` work without `eventsourcing`."""
    script = "import sys, eventlog, projections; print(any(m.split('.')[0] == 'eventsourcing' for m in sys.modules))"
    root = Path(eventlog.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "False"
    named: set[str] = set()
    for package in ("eventlog", "projections"):
        for file in (root / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module or ""]
                if any(name.split(".")[0] == "eventsourcing" for name in names):
                    named.add(file.parent.relative_to(root).as_posix())
    assert named == {"eventlog/recorder"}


def test_notifications_need_one_order() -> None:
    """A log of several partitions is refused where ids are positions, and records otherwise."""
    log = MemoryLog(partitions=4)
    with pytest.raises(CallError, match="4 partitions"):
        ConversationRecorder(log)
    assert process(log).insert_events([event("a", 1)]) == [1]
    with process(log).subscribe(gt=0) as subscription:
        assert next(subscription).id == 1


def test_threads_insert_in_one_row(log: Log) -> None:
    """Threads that insert at once all go in, but one for each version that several bring."""
    recorder = process(log)
    outcomes: list[object] = []

    def insert(number: int) -> None:
        for version in range(1, 41):
            try:
                outcomes.append(recorder.insert_events([event("shared", version), event(f"own {number}", version)]))
            except IntegrityError:
                recorder.insert_events([event(f"own {number}", version)])

    run_together(6, insert)
    assert len(outcomes) == 40
    assert [found.originator_version for found in recorder.select_events("shared")] == list(range(1, 41))
    for number in range(6):
        assert [found.originator_version for found in recorder.select_events(f"own {number}")] == list(range(1, 41))
    assert len(process(log).select_notifications(1, 1_000)) == 7 * 40
