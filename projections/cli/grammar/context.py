"""The options that precede or follow every command: the store, and its keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

from projections.cli.grammar.parameters import Option

__all__ = ["Context"]


class Context(NamedTuple):
    """Values of the options that every command takes; None for those not given."""

    store: Annotated[
        Path | None,
        Option(
            "--store",
            metavar="PATH",
            help="Directory of the store [environment: EVENTLOG_STORE; default: ~/.local/share/eventlog].",
        ),
    ] = None
    key_file: Annotated[
        Path | None,
        Option(
            "--key-file",
            metavar="FILE",
            help="Key file of an encrypted store, outside of its directory; a new store is encrypted with it "
            "[environment: EVENTLOG_KEY_FILE].",
        ),
    ] = None
