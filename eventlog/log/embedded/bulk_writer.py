"""A store that is written from another's commits: what backup, restore, repair, vacuum and scrub have in common.

It has positions, versions, salts and leaves as they were, so its heads are those of the original.  Everything goes straight
into the folded part, in transactions that each add whole commits in the order of their positions; the journal is made last,
and begins behind them.  So what was broken off is an older state of the same history, and can be gone on with.

Not here: where the commits come from and what becomes of them (`eventlog/maintenance/copy_commits.py`).  The caller sees to it
that nobody else uses the directory.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from eventlog.errors import CallError
from eventlog.log.embedded.directory import forget_unbegun, write_format
from eventlog.log.embedded.filesystem import sync_directory
from eventlog.log.embedded.journal.frames import FILE_HEADER_BYTES, address_of
from eventlog.log.embedded.journal.journal import Journal
from eventlog.log.embedded.memtable import MemtablePart
from eventlog.log.embedded.options import Options
from eventlog.log.embedded.segments.fold import begin_store, write_copied
from eventlog.log.embedded.segments.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from eventlog.log.contract import Commit, Head
    from eventlog.log.rules import RequestResult

__all__ = ["BulkWriter"]

START = address_of(1, FILE_HEADER_BYTES)
"""Where the journal of a copy begins."""


class BulkWriter:
    """The content of a store directory, being written.  `lmdb/` and `journal/` in `directory`, and nothing else."""

    def __init__(self, directory: Path, options: Options) -> None:
        self._directory = directory
        self._options = options
        for name in ("lmdb", "journal"):
            (directory / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._refuse_written_to()
        forget_unbegun(directory / "lmdb")
        self._segments = Segments(directory / "lmdb", read_only=False, map_bytes=options.map_bytes)
        try:
            begin_store(self._segments, START)
            folded = self._segments.folded()
        except BaseException:
            self._segments.close()
            raise
        if folded.address != START:
            self._segments.close()
            raise CallError(f"{directory} was written to after it was copied")
        self.position = folded.position
        """Position of the last event that was copied."""

    def _refuse_written_to(self) -> None:
        journal = self._directory / "journal"
        logs = sorted(path.name for path in journal.glob("*.log"))
        if logs and (logs != ["0000000001.log"] or Journal.has_frames(journal, 1, self._options.io)):
            raise CallError(f"{self._directory} was written to after it was copied")

    @property
    def page_bytes(self) -> int:
        """Size of a page, for the file `format`."""
        return self._segments.environment.page_bytes

    def head(self, session: str) -> Head | None:
        """The session's head as it was copied."""
        return self._segments.head(session)

    def last_commit(self) -> Commit | None:
        """The commit that was copied last; None if there is none, or if it was dropped."""
        found = self._segments.commits_after(self.position - 1, 1) if self.position else []
        return found[0] if found else None

    def commits_after(self, after: int, limit: int) -> list[Commit]:
        """What was copied of what comes after a position; see `contract.Log`."""
        return self._segments.commits_after(after, limit)

    def has_body(self, digest: bytes) -> bool:
        """Whether a body was copied."""
        return self._segments.has_body(digest)

    def begin(self) -> None:
        """From here on it is no store, until `finish`: the journal is taken away."""
        for path in (self._directory / "journal").iterdir():
            path.unlink()
        sync_directory(self._directory / "journal")

    def add(
        self,
        commits: Sequence[Commit],
        heads: Mapping[str, Head],
        requests: Mapping[tuple[str, str], RequestResult],
        bodies: Mapping[bytes, bytes],
        *,
        position: int,
        gone: Sequence[Head] = (),
    ) -> None:
        """Add commits, all behind what is there, in the order of positions, and what belongs to them, in one transaction.

        `heads` has the head of every session of `commits` after them.  `position` is where the copy is then: that of the
        last event, those that were dropped counted.  `gone`: heads of sessions whose events are no more.
        """
        generation = MemtablePart()
        for commit in commits:
            generation.commits.setdefault(commit.session, []).append(commit)
        generation.heads.update(heads)
        generation.requests.update(requests)
        generation.bodies.update(bodies)
        generation.position = position
        self._options.io.reach("copy: add")
        write_copied(self._segments, generation, gone)
        self.position = position
        self._options.io.reach("copy: added")

    def add_derived(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Add derived values."""
        from eventlog.log.embedded.segments.fold import write_derived

        write_derived(self._segments, dict(items))

    def finish(self, format_in: Path | None, identity: str = "", encryption: str = "") -> None:
        """Make the journal, and `format_in`, if it is given, a store of this identity and encryption; all is on disk then."""
        page = self.page_bytes
        self._segments.close()
        shutil.rmtree(self._directory / "journal")
        (self._directory / "journal").mkdir(mode=0o700)
        Journal.create(self._directory / "journal", self._options.io, self._options.journal_bytes, self.position)
        for name in ("lmdb", "journal", ""):
            sync_directory(self._directory / name)
        if format_in is not None:
            for name in ("open", "lock", "turn"):
                os.close(os.open(format_in / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            (format_in / "mark").unlink(missing_ok=True)
            write_format(format_in, page, identity, encryption)

    def close(self) -> None:
        """Let go of it as it is; harmless behind `finish`."""
        self._segments.close()
