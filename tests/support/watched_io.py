"""Journal I/O each of whose calls goes through one method."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from eventlog.log.embedded.filesystem import JournalIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")


class WatchedIO(JournalIO):
    """Journal I/O whose subclass says in `call` what becomes of a call."""

    def call(self, name: str, run: Callable[..., T], *given: Any) -> T:
        """Make the call; `name` is the method, `run` makes it with what was given."""
        del name
        return run(*given)

    def open(self, path: str, flags: int) -> int:
        """Open a file."""
        return self.call("open", super().open, path, flags)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read."""
        return self.call("pread", super().pread, fd, size, offset)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        """Write."""
        return self.call("pwrite", super().pwrite, fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        """Flush."""
        self.call("fdatasync", super().fdatasync, fd)

    def rename(self, old: str, new: str) -> None:
        """Rename."""
        self.call("rename", super().rename, old, new)

    def unlink(self, path: str) -> None:
        """Remove."""
        self.call("unlink", super().unlink, path)

    def blank(self, path: str) -> None:
        """Overwrite."""
        self.call("blank", super().blank, path)

    def sync_directory(self, path: str) -> None:
        """Flush names."""
        self.call("sync_directory", super().sync_directory, path)

    def reach(self, point: str) -> None:
        """Reach a point of a fold."""
        self.call("reach", super().reach, point)
