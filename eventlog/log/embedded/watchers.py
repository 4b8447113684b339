"""The threads that wait for new commits, of this process and of others.

Each has a lock in a list, which a commit of this process releases. One of them at a time waits for
the mark, which other processes move: each move is written to the file as well (`Watermark.set`),
which wakes the processes that watch it, by inotify on Linux and by kqueue on macOS. Elsewhere, and
where the system says nothing, as on some file systems of containers, the watch is *deaf*, and its
caller looks again and again.
"""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eventlog.log.embedded.tail import Tail

_LONGEST_WAIT = 1.0
"""Seconds after which a thread looks at the mark, although nothing said that it moved."""
_SHORTEST_POLL = 1e-3
_LONGEST_POLL = 50e-3
_LONGER = 1.5
"""Pauses between looks where the system does not say that the mark moved."""


class Watchers:
    """The threads that wait for commits behind one tail."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._waiting: list[Any] = []
        self._watch: MarkWatch | None = None
        """Tells that another process has moved the mark; one thread at a time waits for it."""
        self._watching = Lock()

    def wait_after(self, position: int, timeout: float) -> bool:
        """Block until an event beyond `position` is committed; False after `timeout` seconds."""
        tail = self._tail
        deadline = time.monotonic() + timeout
        pause = _SHORTEST_POLL
        while True:
            waiter = Lock()
            waiter.acquire()
            self._waiting.append(waiter)
            tail.require_open()
            tail.refresh()
            if tail.position > position:
                return True
            remaining = deadline - time.monotonic()
            if remaining > 0:
                if self._watching.acquire(blocking=False):
                    self._watch_mark(remaining, pause)
                    pause = min(pause * _LONGER, _LONGEST_POLL)
                else:
                    waiter.acquire(timeout=remaining)
            with suppress(ValueError):
                self._waiting.remove(waiter)
            if remaining <= 0:
                return False

    def _watch_mark(self, remaining: float, pause: float) -> None:
        """Wait until the mark may have moved; `_watching` is held, and is released."""
        tail = self._tail
        try:
            watch = self._watch
            if watch is not None:
                said = watch.wait(min(remaining, pause if watch.deaf else _LONGEST_WAIT))
                if not said and not watch.deaf and tail.is_behind():
                    watch.deaf = not watch.drain()
            elif tail.mark is None or tail.mark.short:  # nothing was written yet
                time.sleep(min(remaining, pause))
            elif not tail.closed:  # the caller looks again: it may have moved before it was watched
                self._watch = MarkWatch(tail.mark.path)
        finally:
            self._watching.release()
            if tail.closed:
                self.close()
            self.wake()  # another thread has to watch the mark now

    def wake(self) -> None:
        """Wake all threads that wait."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.release()
        watch = self._watch
        if watch is not None and self._watching.locked():
            watch.wake()

    def close(self) -> None:
        """Release the watch of a closed tail, unless a thread waits in it, which then does."""
        if self._watching.acquire(blocking=False):
            try:
                watch, self._watch = self._watch, None
                if watch is not None:
                    watch.close()
            finally:
                self._watching.release()


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
