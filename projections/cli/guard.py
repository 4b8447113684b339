"""A command in a child process, so that damaged pages of LMDB end that process and not the one that was called.

LMDB trusts its pages.  A flipped byte in one can end the process that reads it (SIGBUS, SIGSEGV, SIGABRT), and to walk all pages
before each command costs what the store holds.  So the command runs in a fork of the program that was called, which waits for it,
passes its exit code on, and says in words what ended it.

The two end together: a signal sent to the parent is passed on to the child, and the kernel kills the child as soon as the parent
is gone.  Only where the system can do both, which is on Linux; elsewhere the command runs as it is.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

__all__ = ["guarded"]

_FAULTS = frozenset({signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL})
_PASSED_ON = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
_FROM_KERNEL = 0x80
"""`si_code` of a signal that the terminal sends, to parent and child alike."""
_DAMAGED = 4
"""As in `exits.py`, which the waiting parent does not load."""


def guarded(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; a signal that ends it ends this process, too, unless it tells of damage."""
    if sys.platform != "linux":
        return command()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as a parent may hand it down, it tells of no child's end
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *_PASSED_ON})
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        _end_with_parent(reading)
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        return command()
    os.close(reading)
    code = os.waitstatus_to_exitcode(_awaited(child))
    if code >= 0:
        return code
    if -code not in _FAULTS:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        return (
            128 - code
        )  # the first process of a container, which outlives its own signals, or one that blocks this one
    sys.stderr.write(
        f"eventlog: the structure of the store may be damaged: the command ended in {signal.Signals(-code).name}; "
        "`eventlog verify` lists all there is; restore from a copy, or save what is sound with `eventlog repair`\n"
    )
    return _DAMAGED


def _end_with_parent(reading: int) -> None:
    """Have the kernel kill this process when the other end of the pipe is closed, which the parent holds and never uses."""
    fcntl.fcntl(reading, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(reading, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    try:
        gone = not os.read(reading, 1)
    except BlockingIOError:
        gone = False
    if gone:
        os._exit(1)


def _awaited(child: int) -> int:
    """Wait for the child, and pass on what others send meanwhile; returns its wait status."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        told = signal.sigwaitinfo({signal.SIGCHLD, *_PASSED_ON})
        if told.si_signo != signal.SIGCHLD and told.si_code != _FROM_KERNEL:
            with suppress(ProcessLookupError):
                os.kill(child, told.si_signo)
