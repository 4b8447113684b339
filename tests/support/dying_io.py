"""A journal I/O that kills its process at one call, and a loop over all such calls."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from eventlog.log.embedded.filesystem import JournalIO

if TYPE_CHECKING:
    from typing_extensions import Buffer


class DyingIO(JournalIO):
    """Journal I/O that kills the process at the n-th call or point."""

    def __init__(self, at: int) -> None:
        self.left = at

    def _step(self) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def reach(self, point: str) -> None:
        """Reach a point, or die there."""
        del point
        self._step()

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        """Write, or die before it."""
        self._step()
        return super().pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        """Flush, or die before it."""
        self._step()
        super().fdatasync(fd)

    def rename(self, old: str, new: str) -> None:
        """Rename, or die before it."""
        self._step()
        super().rename(old, new)

    def sync_directory(self, path: str) -> None:
        """Flush names, or die before it."""
        self._step()
        super().sync_directory(path)


def survives(at: int, work: Callable[[DyingIO], object]) -> bool:
    """Run the work in a child that dies at its `at`-th call; return whether it survived."""
    child = os.fork()
    if not child:
        try:
            work(DyingIO(at))
        except BaseException as error:  # noqa: BLE001 - the child's only way out is `_exit`
            os.write(2, f"the worker failed: {error!r}\n".encode())
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or not os.WEXITSTATUS(status), f"point {at}"
    return os.WIFEXITED(status)
