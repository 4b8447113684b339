"""Run a command in a child process, so that a damaged store cannot crash the program.

LMDB trusts its pages: one flipped byte can kill the process that reads it (SIGBUS, SIGSEGV,
SIGABRT). To check all pages before each command would take as long as the store is large. So the
program forks. The child runs the command; the parent waits, passes the exit code on, and explains
a crash in words.

The two processes end together: the parent forwards signals to the child, and the kernel kills the
child when the parent is gone. Only Linux can do both; on other systems the command runs in the
program's own process.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from projections.reports.wording import DAMAGE_ADVICE

_FAULTS = frozenset({signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL})
_FORWARDED = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
_FROM_KERNEL = 0x80
"""`si_code` of a signal from the terminal, which sends it to parent and child alike."""
_DAMAGED = 4
"""`Exit.DAMAGED`; the waiting parent does not load `exits.py`."""


def guarded(command: Callable[[], int]) -> int:
    """Run a command in a child process and return its exit code.

    A signal that kills the child kills this process, too, unless it is one that damage causes.
    """
    if sys.platform != "linux":
        return command()
    signal.signal(
        signal.SIGCHLD, signal.SIG_DFL
    )  # a parent may have set it to be ignored: then no child's end is signalled
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *_FORWARDED})
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        _end_with_parent(reading)
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        return command()
    os.close(reading)
    code = os.waitstatus_to_exitcode(_awaited(child))
    if code >= 0:
        return code
    if -code not in _FAULTS:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        # Still alive: the first process of a container, or one that blocks the signal.
        return 128 - code
    sys.stderr.write(
        f"eventlog: the structure of the store may be damaged: the command ended in {signal.Signals(-code).name}; "
        f"{DAMAGE_ADVICE}\n"
    )
    return _DAMAGED


def _end_with_parent(reading: int) -> None:
    """Have the kernel kill this process when the parent, at the other end, has ended."""
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
    """Wait for the child, forward signals meanwhile, and return its wait status."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        received = signal.sigwaitinfo({signal.SIGCHLD, *_FORWARDED})
        if received.si_signo != signal.SIGCHLD and received.si_code != _FROM_KERNEL:
            with suppress(ProcessLookupError):
                os.kill(child, received.si_signo)
