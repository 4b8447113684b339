"""Waiting for the watermark to move: the system says when another process writes it.

Each move is written to the file as well (`Watermark.set`), which wakes the processes that watch it:
by inotify on Linux and by kqueue on macOS. Elsewhere, and where the system says nothing, as on some
file systems of containers, the watch is *deaf*, and its caller looks again and again.
"""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from typing import Any

_IN_MODIFY = 0x2
_EVENT_BYTES = 4096


class MarkWatch:
    """Wakes one thread at a time when the file is written, or when `wake` is called."""

    def __init__(self, path: str) -> None:
        self.deaf: bool = False
        """Whether the system does not say when the file is written: waits are to be short."""
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._file = -1
        """The inotify instance, or on macOS the file."""
        self._queue: Any = None
        self._poll: Any = None
        try:
            self._begin(path)
        except (OSError, AttributeError):  # as many watches as the system allows, or another system
            self.deaf = True

    def _begin(self, path: str) -> None:
        if sys.platform == "linux":
            self._file = _inotify(path)
        elif hasattr(select, "kqueue"):
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._queue = _kqueue(self._file, self._read)
            return
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)
        if self._file >= 0:
            self._poll.register(self._file, select.POLLIN)
        else:
            self.deaf = True

    def wait(self, timeout: float) -> bool:
        """Block until something says that the file was written; False after `timeout` seconds."""
        if self._queue is not None:
            woken = bool(self._queue.control(None, 8, timeout))
        elif self._poll is not None:
            woken = bool(self._poll.poll(timeout * 1000))
        else:
            woken = bool(select.select([self._read], [], [], timeout)[0])
        self.drain()
        return woken

    def drain(self) -> bool:
        """Forget what was said so far; return whether something was."""
        said = False
        for file in (self._read, self._file if self._queue is None else -1):
            with suppress(BlockingIOError):
                while file >= 0 and os.read(file, _EVENT_BYTES):
                    said = True
        return said

    def wake(self) -> None:
        """Wake the thread that waits, or that waits next."""
        with suppress(BlockingIOError):  # it is awake already
            os.write(self._write, b"\0")

    def close(self) -> None:
        """Release the file descriptors."""
        if self._queue is not None:
            self._queue.close()
        for file in (self._file, self._read, self._write):
            if file >= 0:
                os.close(file)
        self._file = self._read = self._write = -1


def _inotify(path: str) -> int:
    """Return a file descriptor that can be read once a file is written."""
    import ctypes

    system = ctypes.CDLL(None, use_errno=True)
    file: int = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if file < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    if system.inotify_add_watch(file, os.fsencode(path), _IN_MODIFY) < 0:
        error = ctypes.get_errno()
        os.close(file)
        raise OSError(error, "inotify_add_watch", path)
    return file


def _kqueue(file: int, pipe: int) -> Any:  # pragma: no cover  # macOS
    """Return a queue with an event once a file is written, or a pipe."""
    module: Any = select
    queue = module.kqueue()
    clear = module.KQ_EV_ADD | module.KQ_EV_CLEAR
    written = module.kevent(file, module.KQ_FILTER_VNODE, clear, module.KQ_NOTE_WRITE | module.KQ_NOTE_EXTEND)
    queue.control([written, module.kevent(pipe, module.KQ_FILTER_READ, module.KQ_EV_ADD)], 0)
    return queue
