"""Trace a child process's file system calls before they are made: record, refuse or kill."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Call(NamedTuple):
    """A system call about to be made."""

    process: int
    name: str
    """The call, independent of its variant: one of `CHANGES`, or "open"."""
    path: str
    """The file's current path; "" if there is none."""
    other: str = ""
    """Where a rename or a link goes."""
    offset: int = 0
    data: bytes = b""
    """Bytes that the call writes."""
    synced: bool = False
    """Whether a write is synced before it returns."""


class Ended(NamedTuple):
    """The end of the traced work."""

    status: int
    """Exit code; negative for the signal that killed the child."""
    calls: int
    """The number of calls that `decide` was asked about."""


CHANGES = frozenset(
    {"create", "write", "flush", "rename", "unlink", "rmdir", "mkdir", "truncate", "allocate", "copy", "link", "other"}
)
"""Calls that change the disk or make a change durable."""
SHORT = -1
"""Let half of a write be made."""
_X86 = {
    "write": 1, "writev": 20, "pwrite": 18, "pwritev": 296, "pwritev2": 328, "fsync": 74, "fdatasync": 75, "msync": 26,
    "open": 2, "creat": 85, "openat": 257, "rename": 82, "renameat": 264, "renameat2": 316, "unlink": 87, "unlinkat": 263,
    "rmdir": 84, "mkdir": 83, "mkdirat": 258, "truncate": 76, "ftruncate": 77, "fallocate": 285, "sendfile": 40,
    "copy_file_range": 326, "link": 86, "linkat": 265, "symlink": 88, "symlinkat": 266, "sync_file_range": 277,
}  # fmt: skip
_ARM = {
    "write": 64, "writev": 66, "pwrite": 68, "pwritev": 70, "pwritev2": 287, "fsync": 82, "fdatasync": 83, "msync": 227,
    "openat": 56, "renameat": 38, "renameat2": 276, "unlinkat": 35, "mkdirat": 34, "truncate": 45, "ftruncate": 46,
    "fallocate": 47, "sendfile": 71, "copy_file_range": 285, "linkat": 37, "symlinkat": 36, "sync_file_range": 84,
}  # fmt: skip
_NUMBERS = {"x86_64": _X86, "aarch64": _ARM}.get(platform.machine(), {}) if sys.platform == "linux" else {}
_NAMES = {number: name for name, number in _NUMBERS.items()}
_TRACEME, _CONT, _GETREGS, _SETREGS, _SETOPTIONS, _GETREGSET, _SETREGSET = 0, 7, 12, 13, 0x4200, 0x4204, 0x4205
_FORK, _VFORK, _CLONE, _EXEC, _SECCOMP = 1, 2, 3, 4, 7
"""Events that stop a traced process."""
_OPTIONS = 1 << 20 | 1 << _SECCOMP | 1 << _EXEC | 1 << _CLONE | 1 << _VFORK | 1 << _FORK
"""Report these events, and kill the traced process if the tracer dies."""
_ALL = 0x40000000  # __WALL: threads, too
_REMOVE_DIRECTORY = 0x200
_HERE = -100
_PRSTATUS, _SYSTEM_CALL = 1, 0x404


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_void_p))


_library = ctypes.CDLL(None, use_errno=True)
_library.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_library.ptrace.restype = ctypes.c_long


def _ptrace(request: int, process: int, address: int = 0, data: object = None) -> int:
    ctypes.set_errno(0)
    result: int = _library.ptrace(request, process, address, data)
    if result == -1 and ctypes.get_errno():
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace: {os.strerror(code)}")
    return result


class _Registers:
    """Number, arguments and result of the call at which a process is stopped."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._words = (ctypes.c_ulonglong * 34)()
        self._intel = _NUMBERS is _X86
        if self._intel:
            _ptrace(_GETREGS, process, 0, ctypes.byref(self._words))
            self.number: int = self._words[15]
            self.arguments: list[int] = [self._words[place] for place in (14, 13, 12, 7, 9, 8)]
        else:
            vector = _Vector(ctypes.addressof(self._words), ctypes.sizeof(self._words))
            _ptrace(_GETREGSET, process, _PRSTATUS, ctypes.byref(vector))
            self.number = self._words[8]
            self.arguments = list(self._words[:6])

    def shorten(self) -> None:
        """Shorten a write to half; a write of several pieces is made whole."""
        if _NAMES[self.number] not in {"write", "pwrite"} or self.arguments[2] < 2:
            return
        self._words[12 if self._intel else 2] = self.arguments[2] // 2
        self._store()

    def refuse(self, code: int) -> None:
        """Refuse the call with this error."""
        result = (1 << 64) - code
        if self._intel:
            self._words[15], self._words[10] = (1 << 64) - 1, result
            self._store()
            return
        number = ctypes.c_int(-1)
        vector = _Vector(ctypes.addressof(number), ctypes.sizeof(number))
        _ptrace(_SETREGSET, self._process, _SYSTEM_CALL, ctypes.byref(vector))
        self._words[0] = result
        self._store()

    def _store(self) -> None:
        if self._intel:
            _ptrace(_SETREGS, self._process, 0, ctypes.byref(self._words))
        else:
            vector = _Vector(ctypes.addressof(self._words), ctypes.sizeof(self._words))
            _ptrace(_SETREGSET, self._process, _PRSTATUS, ctypes.byref(vector))


def _install_filter() -> None:
    """Make this process and its children stop at the calls that this module knows."""
    numbers = sorted(_NAMES)
    load, equal, answer = 0x20, 0x15, 0x06
    program = [struct.pack("=HBBI", load, 0, 0, 0)]
    for place, number in enumerate(numbers):
        program.append(struct.pack("=HBBI", equal, len(numbers) - place, 0, number))
    program.append(struct.pack("=HBBI", answer, 0, 0, 0x7FFF0000))  # let it go on
    program.append(struct.pack("=HBBI", answer, 0, 0, 0x7FF00000))  # ask the tracer
    code = ctypes.create_string_buffer(b"".join(program))
    filter_ = _Filter(len(program), ctypes.addressof(code))
    zero = ctypes.c_ulong(0)
    if _library.prctl(38, ctypes.c_ulong(1), zero, zero, zero):  # no new privileges
        raise OSError(ctypes.get_errno(), "prctl")
    if _library.prctl(22, ctypes.c_ulong(2), ctypes.byref(filter_), zero, zero):  # this filter
        raise OSError(ctypes.get_errno(), "prctl")


def _memory(process: int, address: int, size: int) -> bytes:
    with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(size)


def _text(process: int, address: int) -> str:
    """A path in the memory of a process."""
    found = b""
    while b"\0" not in found:
        upto = 4096 - (address + len(found)) % 4096  # the next page may not be mapped
        found += _memory(process, address + len(found), upto)
    return os.fsdecode(found[: found.index(b"\0")])


def _vectors(process: int, address: int, count: int) -> bytes:
    pairs = struct.iter_unpack("QQ", _memory(process, address, 16 * count))
    return b"".join(_memory(process, base, length) for base, length in pairs)


def _open_file(process: int, fd: int) -> str:
    path = str(Path(f"/proc/{process}/fd/{fd}").readlink())
    return path if path.startswith("/") and not path.endswith(" (deleted)") else ""


def _state(process: int, fd: int) -> tuple[int, int]:
    """A descriptor's offset in its file, and its flags."""
    lines = Path(f"/proc/{process}/fdinfo/{fd}").read_text(encoding="ascii").splitlines()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(facts["pos"]), int(facts["flags"], 8)


def _path(process: int, directory: int, address: int) -> str:
    path = _text(process, address)
    if path.startswith("/"):
        return os.path.normpath(path)
    directory = ctypes.c_int(directory & 0xFFFFFFFF).value
    base = f"/proc/{process}/cwd" if directory == _HERE else f"/proc/{process}/fd/{directory}"
    return os.path.normpath(Path(base).readlink() / path)


def _signed(number: int) -> int:
    return ctypes.c_longlong(number).value


def _written(process: int, name: str, given: list[int]) -> Call:
    fd = given[0]
    path = _open_file(process, fd)
    if not path:
        return Call(process, "write", "")
    at, flags = _state(process, fd)
    data = _vectors(process, given[1], given[2]) if name.endswith(("v", "v2")) else _memory(process, given[1], given[2])
    if name.startswith("p"):
        at = _signed(given[3])
    elif flags & os.O_APPEND:
        at = Path(path).stat().st_size
    return Call(process, "write", path, offset=at, data=data, synced=bool(flags & os.O_DSYNC))


def _opened(process: int, path: str, flags: int) -> Call:
    there = Path(path).exists()
    if flags & os.O_CREAT and not there:
        return Call(process, "create", path)
    if flags & os.O_TRUNC and there:
        return Call(process, "truncate", path)
    return Call(process, "open", path)


def _read(process: int, registers: _Registers) -> Call:
    """The call at which a process is stopped."""
    name = _NAMES.get(registers.number, "")
    given = registers.arguments
    match name:
        case "write" | "writev" | "pwrite" | "pwritev" | "pwritev2":
            return _written(process, name, given)
        case "fsync" | "fdatasync":
            return Call(process, "flush", _open_file(process, given[0]))
        case "open":
            return _opened(process, _path(process, _HERE, given[0]), given[1])
        case "creat":
            return _opened(process, _path(process, _HERE, given[0]), os.O_CREAT | os.O_TRUNC)
        case "openat":
            return _opened(process, _path(process, given[0], given[1]), given[2])
        case "rename":
            return Call(process, "rename", _path(process, _HERE, given[0]), _path(process, _HERE, given[1]))
        case "renameat" | "renameat2":
            return Call(process, "rename", _path(process, given[0], given[1]), _path(process, given[2], given[3]))
        case "link":
            return Call(process, "link", _path(process, _HERE, given[0]), _path(process, _HERE, given[1]))
        case "linkat":
            return Call(process, "link", _path(process, given[0], given[1]), _path(process, given[2], given[3]))
        case "unlink" | "rmdir" | "mkdir":
            return Call(process, name, _path(process, _HERE, given[0]))
        case "unlinkat":
            what = "rmdir" if given[2] & _REMOVE_DIRECTORY else "unlink"
            return Call(process, what, _path(process, given[0], given[1]))
        case "mkdirat":
            return Call(process, "mkdir", _path(process, given[0], given[1]))
        case "truncate":
            return Call(process, "truncate", _path(process, _HERE, given[0]), offset=given[1])
        case "ftruncate":
            return Call(process, "truncate", _open_file(process, given[0]), offset=given[1])
        case "fallocate":
            return Call(process, "allocate", _open_file(process, given[0]), offset=given[2] + given[3])
        case "sendfile":
            return Call(process, "copy", _open_file(process, given[0]), _open_file(process, given[1]))
        case "copy_file_range":
            return Call(process, "copy", _open_file(process, given[2]), _open_file(process, given[0]))
        case "msync":
            return Call(process, "other", "")
        case _:
            return Call(process, "other", "?")


def traced(work: Callable[[], object], decide: Callable[[Call], int | None]) -> Ended:
    """Run the work in a traced child process; `decide` is asked before each of its calls."""
    main = os.fork()
    if not main:
        _be_traced(work)
    os.waitpid(main, 0)
    _ptrace(_SETOPTIONS, main, 0, _OPTIONS)
    _ptrace(_CONT, main)
    known = {main}
    calls = ended = 0
    while known:
        try:
            process, status = os.waitpid(-main, _ALL)
        except ChildProcessError:
            break
        if not os.WIFSTOPPED(status):
            known.discard(process)
            if process == main:
                ended = os.waitstatus_to_exitcode(status)
            continue
        event, sent = status >> 16, 0
        if event == _SECCOMP:
            answer = _ask(process, decide)
            if answer is None:
                for one in known:
                    _kill(one)
                continue
            calls += 1
        elif not event and process in known:
            sent = os.WSTOPSIG(status)  # a signal of the process's own: deliver it
        known.add(process)
        try:
            _ptrace(_CONT, process, 0, sent)
        except OSError as error:
            if error.errno != errno.ESRCH:  # the process was killed meanwhile
                raise
    return Ended(ended, calls)


def _ask(process: int, decide: Callable[[Call], int | None]) -> int | None:
    try:
        registers = _Registers(process)
        call = _read(process, registers)
    except OSError as error:
        if error.errno in {errno.ESRCH, errno.ENOENT, errno.EBADF}:
            return 0  # the process was killed meanwhile, or the call names a missing file
        raise
    answer = decide(call)
    if answer == SHORT:
        registers.shorten()
    elif answer:
        registers.refuse(answer)
    return answer


def _be_traced(work: Callable[[], object]) -> None:
    """Run the work as a traced child; never return."""
    status = 1
    try:
        os.setpgid(0, 0)  # so that the tracer waits for this group only
        _ptrace(_TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        _install_filter()
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - the child's only way out is `_exit`
        traceback.print_exc()
    finally:
        os._exit(status)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def may_trace() -> bool:
    """Whether this system lets a process trace its children and this module knows it."""
    if not _NUMBERS:
        return False
    try:
        return traced(lambda: None, lambda _: 0).status == 0
    except OSError:
        return False
