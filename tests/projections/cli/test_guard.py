"""A command whose process dies of damaged pages ends as an error, and parent with child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import eventlog
from projections.cli.exits import Exit
from tests.support.cli_runner import ROOT, Cli, program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a command runs as it is")

CHILD = """\
import os, signal, sys, time
from projections.cli.guard import guarded

def work():
    {work}
    return 3

sys.exit(guarded(work))
"""


def swell(path: Path) -> None:
    """Make the first value with its own pages 2 GB long, so that reading it kills the process."""
    data = path / "1" / "lmdb" / "data.mdb"
    pages = bytearray(data.read_bytes())
    shape = (1).to_bytes(2, sys.byteorder) + (8).to_bytes(2, sys.byteorder)
    at = next(at for slot in range(1, 99) if (at := pages.find(shape + slot.to_bytes(8, "big"))) >= 0)
    pages[at - 2 : at] = b"\xff\x7f"
    data.write_bytes(pages)


def begun(work: str) -> subprocess.Popen[str]:
    """Start a guarded program that runs this line of Python."""
    command = [sys.executable, "-c", CHILD.format(work=work)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    """The next line that the program prints."""
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.promise(12)
def test_pages_that_kill_the_reader_are_an_error_of_the_command(store: Path) -> None:
    """Promise 12: no command walks the pages of a closed store; one that dies of them says so."""
    with eventlog.open(store) as opened:
        session = opened.create_session(id="ses_c3")
        for _ in range(40):
            session.user(os.urandom(3_000).hex())
    swell(store)
    assert program("--store", store, "stats").returncode == Exit.OK, "the damage is not on its way"
    for command in (["show", "ses_c3"], ["fork", "ses_c3", "--at", "5"]):
        done = program("--store", store, *command)
        assert done.returncode == Exit.DAMAGED, done
        assert len(done.stderr.splitlines()) == 1
        assert "SIGBUS" in done.stderr


def hide(path: Path, key: bytes) -> None:
    """Remove the last entry of the leaf page with this key, so that a search does not find it."""
    data = path / "1" / "lmdb" / "data.mdb"
    pages = bytearray(data.read_bytes())
    at = pages.find(len(key).to_bytes(2, sys.byteorder) + key)
    while at >= 0:
        page = at & ~4095
        lower = int.from_bytes(pages[page + 12 : page + 14], sys.byteorder)
        pages[page + 12 : page + 14] = (lower - 2).to_bytes(2, sys.byteorder)
        at = pages.find(len(key).to_bytes(2, sys.byteorder) + key, page + 4096)
    data.write_bytes(pages)


@pytest.mark.promise(12)
def test_what_damage_hides_is_no_missing_session(store: Path, cli: Cli) -> None:
    """Promise 12: a missing session has the pages checked, and damage is reported instead."""
    hide(store, b"ses_b2")
    for command in (["show", "ses_b2"], ["sessions"], ["head"], ["rollback", "ses_b2", "--to", "1"]):
        answer = cli(*command)
        assert answer.code == Exit.DAMAGED, command
        assert answer.err
    with eventlog.open(store, read_only=True) as opened:
        assert opened.session("ses_a1").version, "what is not hidden is read"


def test_a_session_that_is_not_there_is_still_not_found(store: Path, cli: Cli) -> None:
    """In a sound store a missing session is still just not found."""
    assert cli("--store", store, "show", "ses_c3").code == Exit.MISSING


@pytest.mark.parametrize(
    ("work", "code"),
    [
        ("pass", 3),
        ("sys.exit(130)", 130),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGSEGV)", Exit.DAMAGED),
    ],
)
def test_the_end_of_the_child_is_the_end_of_the_program(work: str, code: int) -> None:
    """The program ends with the command's exit code or signal; damage signals become 4."""
    process = begun(work)
    process.communicate(timeout=60)
    assert process.returncode == code


@pytest.mark.parametrize(
    "end", [subprocess.Popen[str].kill, subprocess.Popen[str].terminate], ids=["kill", "terminate"]
)
def test_the_child_ends_with_its_parent(end: Callable[[subprocess.Popen[str]], None]) -> None:
    """When a command is killed from outside, its child ends too."""
    process = begun("print(os.getpid(), flush=True); time.sleep(60)")
    child = int(said(process))
    assert child != process.pid
    end(process)
    process.communicate(timeout=60)
    assert process.returncode < 0
    for _ in range(1_000):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    pytest.fail("the child goes on")


def test_an_interrupt_reaches_the_child_once() -> None:
    """`kill -INT` of the program interrupts the command once, which ends in order."""
    work = "signal.signal(signal.SIGINT, lambda *_: sys.exit(130)); print('ready', flush=True); time.sleep(60); sys.exit(1)"
    process = begun(work)
    assert said(process) == "ready\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


def test_a_program_that_was_begun_with_sigchld_ignored_ends() -> None:
    """A parent that ignores SIGCHLD does not change the exit code of a command."""
    begin = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    )
    for work, code in (("pass", 3), ("os.kill(os.getpid(), signal.SIGSEGV)", Exit.DAMAGED)):
        command = [sys.executable, "-c", begin, sys.executable, "-c", CHILD.format(work=work)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60)
        assert done.returncode == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_that_does_not_end_the_first_process_is_an_exit_code(number: signal.Signals) -> None:
    """The first process of a container ends as a shell would, and reports no damage."""
    outlives = "os.kill, parent = (lambda pid, number, kill=os.kill: pid == parent or kill(pid, number)), os.getpid()"
    program = CHILD.format(work=f"os.kill(os.getpid(), {int(number)})").replace("\ndef", f"\n{outlives}\ndef", 1)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert done.returncode == 128 + number
    assert not done.stderr
