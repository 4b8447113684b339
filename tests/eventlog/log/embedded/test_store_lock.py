"""The lock by which other processes see that a store is open."""

from __future__ import annotations

from pathlib import Path

from eventlog.log.embedded.locks import Presence


def test_a_refused_look_whether_it_is_alone_keeps_the_lock(tmp_path: Path) -> None:
    """A process that asks whether it is the last, and is not, still has the store open."""
    first = Presence(tmp_path, read_only=False)
    assert first.alone
    first.share()
    second = Presence(tmp_path, read_only=False)
    assert not second.alone
    assert not first.alone_again()
    second.close()
    third = Presence(tmp_path, read_only=False)
    assert not third.alone
    third.close()
    assert first.alone_again()
    first.close()
