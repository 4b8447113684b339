"""Importing again: stored events are found, new ones appended, differences forked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

import eventlog
from eventlog import Store
from eventlog import events as ev
from eventlog.errors import LeaseHeldError
from eventlog.importers import Report, import_file
from eventlog.importers.common.importer import ImportBatch
from eventlog.importers.common.remainder import emit
from eventlog.importers.common.target import BATCH_EVENTS
from eventlog.importers.reconcile import reconcile
from eventlog.values import Origin, Text
from tests.support.export_sessions import jsonl
from tests.support.import_counts import recorded
from tests.support.shared import shared_path


def record(number: int, text: str, *, parent: int | None = -1) -> dict[str, Any]:
    """Make the record of a line: a prompt when the number is odd, an answer when it is even."""
    kind = "user" if number % 2 else "assistant"
    message: dict[str, Any] = {"role": kind, "content": [{"type": "text", "text": text}]}
    if kind == "assistant":
        message |= {"id": f"msg_{number}", "model": "claude-x"}
    before = number - 1 if parent == -1 else parent
    return {
        "type": kind,
        "uuid": f"r{number}",
        "parentUuid": f"r{before}" if before else None,
        "sessionId": "s",
        "timestamp": f"2026-01-01T00:00:{number % 60:02d}Z",
        "message": message,
    }


def write(path: Path, *records: dict[str, Any]) -> Path:
    """Write a file of records, one a line."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def talk(*texts: str) -> list[dict[str, Any]]:
    """Make a conversation of these texts."""
    return [record(number, text) for number, text in enumerate(texts, start=1)]


def effective(store: Store, session: str) -> list[ev.Event]:
    """Return the events of a session's effective history behind its beginning or fork."""
    events = [found.event for span in store.session(session).history() for found in span.events()]
    return [event for event in events if not isinstance(event, (ev.SessionStarted, ev.SessionForked, ev.RolledBack))]


def said(store: Store, session: str) -> list[str]:
    """Return the texts of a session's effective history."""
    kinds = [event.kind for event in effective(store, session) if isinstance(event, ev.PartStarted)]
    return [store.text(kind.text) for kind in kinds if isinstance(kind, Text)]


def test_same_content_elsewhere_is_the_same_session(store: Store, tmp_path: Path) -> None:
    """A copied file is found by its session's id, not its path, and adds nothing."""
    first = import_file(store, write(tmp_path / "a.jsonl", *talk("a", "b")))
    again = import_file(store, write(tmp_path / "b.jsonl", *talk("a", "b")))
    assert (first.sessions, again.sessions, again.events) == (["s"], ["s"], 0)


def test_a_shorter_file_adds_nothing(store: Store, tmp_path: Path) -> None:
    """An older copy of a file is a prefix of the stored events and adds nothing."""
    import_file(store, write(tmp_path / "a.jsonl", *talk("a", "b", "c")))
    assert import_file(store, write(tmp_path / "a.jsonl", *talk("a", "b"))).events == 0
    assert said(store, "s") == ["a", "b", "c"]


def test_changed_content_forks_at_the_last_common_version(store: Store, tmp_path: Path) -> None:
    """A changed file forks at the last common version; the fork is found again and grows."""
    path = tmp_path / "a.jsonl"
    import_file(store, write(path, *talk("a", "b", "c", "d")))
    before = store.info("s")
    report = import_file(store, write(path, *talk("a", "b", "C", "D")))
    assert report.sessions == ["s~2"]
    fork = store.info("s~2")
    assert (fork.fork_of, report.events, fork.origin and fork.origin.foreign_id) == ("s", fork.events, "s")
    assert (said(store, "s"), store.info("s")) == (["a", "b", "c", "d"], before)
    assert said(store, "s~2") == ["a", "b", "C", "D"]
    assert import_file(store, path).events == 0
    assert import_file(store, write(path, *talk("a", "b", "c", "d"))).events == 0
    grown = import_file(store, write(path, *talk("a", "b", "C", "D", "E")))
    assert (grown.sessions, said(store, "s~2")[-1], len(list(store.sessions()))) == (["s~2"], "E", 2)
    third = import_file(store, write(path, *talk("a", "b", "C", "X")))
    assert (third.sessions, store.info("s~3").fork_of, said(store, "s~3")) == (["s~3"], "s~2", ["a", "b", "C", "X"])


def test_natively_continued_sessions_are_forked_when_the_file_grows(store: Store, tmp_path: Path) -> None:
    """A session continued natively is unchanged; the grown file becomes a fork."""
    path = write(tmp_path / "a.jsonl", *talk("a", "b"))
    import_file(store, path)
    store.session("s").user("said here")
    assert import_file(store, path).events == 0
    report = import_file(store, write(path, *talk("a", "b", "c")))
    assert report.sessions == ["s~2"]
    assert said(store, "s") == ["a", "b", "said here"]
    assert said(store, "s~2") == ["a", "b", "c"]
    assert import_file(store, path).events == 0


def test_a_first_record_that_differs_is_another_session(store: Store, tmp_path: Path) -> None:
    """A file with nothing in common becomes a session of its own, found again later."""
    path = tmp_path / "a.jsonl"
    import_file(store, write(path, *talk("a")))
    report = import_file(store, write(path, *({**found, "cwd": "/elsewhere"} for found in talk("x"))))
    assert (report.sessions, store.info("s~2").fork_of) == (["s~2"], None)
    assert import_file(store, path).events == 0


def test_somebody_elses_session_of_that_name_is_left_alone(store: Store, tmp_path: Path) -> None:
    """A native session that has the foreign id by chance is not taken for the import."""
    store.create_session(id="s", title="mine")
    path = write(tmp_path / "a.jsonl", *talk("a"))
    assert import_file(store, path).sessions == ["s~2"]
    assert (store.info("s").version, import_file(store, path).events) == (1, 0)


def test_versions_in_a_fork_are_translated(store: Store, tmp_path: Path) -> None:
    """A branch in a diverged file goes to the right place in the fork's shifted versions."""
    path = tmp_path / "a.jsonl"
    import_file(store, write(path, *talk("a", "b", "c", "d")))
    changed = [*talk("a", "b", "C", "D", "e", "f"), record(7, "e2", parent=4), record(8, "f2")]
    report = import_file(store, write(path, *changed))
    main, branch = report.sessions
    assert said(store, main) == ["a", "b", "C", "D", "e2", "f2"]
    assert said(store, branch) == ["a", "b", "C", "D", "e", "f"]
    with eventlog.open("memory:") as alone:
        import_file(alone, path)
        assert effective(store, main) == effective(alone, "s")
    assert (main, store.info(branch).fork_of) == ("s~2", "s~2")
    assert [source.record for source in emit([store.session(main)], store.text)] == changed
    assert import_file(store, path).events == 0
    more = [*changed, record(9, "f3", parent=6), record(10, "g3")]
    report = import_file(store, write(path, *more))
    assert said(store, main) == ["a", "b", "C", "D", "e", "f", "f3", "g3"]
    assert import_file(store, path).events == 0


def test_large_imports_are_appended_in_bounded_batches(store: Store) -> None:
    """Each append of an import is bounded, and an import that fails half-way completes later."""

    def batches(stop: int) -> Iterator[ImportBatch]:
        for start in range(0, stop, 700):
            batch = ImportBatch("s")
            if start == 0:
                batch.add(0, ev.SessionStarted(origin=Origin("test", "s")))
            for number in range(start, min(start + 700, stop)):
                batch.add(number, ev.ForeignKept(f"line:{number}", batch.content("x" * number)))
            yield batch
        if stop == 5_000:
            raise OSError("the disk with the file is gone")

    with pytest.raises(OSError, match="gone"):
        reconcile(store, batches(5_000), Report("", "test"), None)
    assert 1 < store.info("s").version <= 5_001
    report = Report("", "test")
    reconcile(store, batches(5_001), report, None)
    assert store.info("s").version == 5_002
    counts = [commit.count for commit in store.log.read("s")]
    assert max(counts) <= BATCH_EVENTS
    assert len(counts) < 20
    kept = [found.event for found in store.session("s").events() if isinstance(found.event, ev.ForeignKept)]
    assert [len(store.text(event.data)) for event in kept] == list(range(5_001))


def raced(format: str, directory: Path) -> Path:
    """Write a file that several imports read at once, longer than one append of an import."""
    if format == "claude_code":
        return write(directory / "a.jsonl", *talk(*map(str, range(400))), record(401, "again", parent=10))
    path = directory / "events.jsonl"
    with eventlog.open("memory:") as store:
        session = store.create_session(id="s")
        for number in range(60):
            session.user(f"say {number}")
        path.write_bytes(jsonl(session))
    return path


@pytest.mark.parametrize("format", ["claude_code", "event_jsonl"])
def test_imports_of_one_file_at_once_store_it_once(format: str, tmp_path: Path) -> None:
    """Imports of one file at once all give its sessions, and each event is stored once."""
    path = raced(format, tmp_path)
    with eventlog.open("memory:") as alone:
        expected = import_file(alone, path)
    for attempt in range(6):
        directory, together = tmp_path / f"store {attempt}", Barrier(3)
        eventlog.open(directory).close()

        def run(directory: Path = directory, together: Barrier = together) -> Report:
            with eventlog.open(directory) as store:
                together.wait()
                return import_file(store, path)

        with ThreadPoolExecutor(3) as pool:
            reports = [future.result() for future in [pool.submit(run) for _ in range(3)]]
        with eventlog.open(directory) as store:
            assert [report.sessions for report in reports] == [expected.sessions] * 3
            assert sum(info.events for info in store.sessions()) == expected.events
            assert sorted(info.id for info in store.sessions()) == sorted(expected.sessions)
            assert import_file(store, path).events == 0


@pytest.mark.parametrize("format", ["claude_code", "event_jsonl"])
def test_an_import_that_another_one_overtakes_goes_on(format: str, tmp_path: Path) -> None:
    """An import that finds the rest of its file stored meanwhile ends as a repeated one."""
    path = raced(format, tmp_path)
    eventlog.open(tmp_path / "store").close()
    others: list[Report] = []
    with eventlog.open(tmp_path / "store") as store, eventlog.open(tmp_path / "store") as other:

        def overtake(done: int, size: int | None) -> None:
            del done, size
            if not others:
                others.append(Report("", ""))
                others[0] = import_file(other, path)

        report = import_file(store, path, on_progress=overtake)
        assert report.sessions == others[0].sessions
        assert import_file(store, path).events == 0
        with eventlog.open("memory:") as alone:
            assert import_file(alone, path).events == sum(info.events for info in store.sessions())
        assert sorted(info.id for info in store.sessions()) == sorted(report.sessions)


def test_a_session_that_is_being_run_is_not_written(tmp_path: Path) -> None:
    """An import that would append is refused while a native writer holds the lease."""
    path = write(tmp_path / "a.jsonl", *talk("a"))
    with eventlog.open(tmp_path / "store") as native, eventlog.open(tmp_path / "store") as importing:
        import_file(native, path)
        with native.session("s").lease():
            assert import_file(importing, path).events == 0
            version = native.info("s").version
            with pytest.raises(LeaseHeldError):
                import_file(importing, write(path, *talk("a", "b")))
            assert native.info("s").version == version
        assert import_file(importing, path).sessions == ["s"]
        assert said(native, "s") == ["a", "b"]


def test_importing_in_any_order_is_stable(store: Store) -> None:
    """Recorded files that share sessions, imported in two orders, add nothing when repeated."""
    files = recorded(shared_path("data"), "claude_code_jsonl")
    for path in reversed(files):
        import_file(store, path)
    for path in files:
        assert import_file(store, path).events == 0, path.name


def test_a_call_that_a_fork_repeats_is_counted_once(store: Store, tmp_path: Path) -> None:
    """A file that is edited near its beginning, and grows, counts its calls once."""

    def written(first: str, answers: int) -> Path:
        records = talk(first, *(f"text {number}" for number in range(2 * answers - 1)))
        for number, answer in enumerate(records[1::2], start=1):
            answer["message"]["usage"] = {"input_tokens": 1000 * number, "output_tokens": 1}
        return write(tmp_path / "talk.jsonl", *records)

    def spent() -> tuple[int, int]:
        return sum(info.calls for info in store.sessions()), sum(info.tokens for info in store.sessions())

    import_file(store, written("a secret", 3))
    assert spent() == (3, 6003)
    for first in ("a ******", "nothing"):
        assert import_file(store, written(first, 3)).events
        assert spent() == (3, 6003)
        assert not import_file(store, written(first, 3)).events
    assert import_file(store, written("nothing", 4)).events < 20
    assert spent() == (4, 10004)
    assert len(list(store.sessions())) == 3
