"""The words of a call: kinds of options, and the options that every command takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import click

from projections.cli.exits import Exit
from projections.cli.pager import paged

COMPLETION = "_EVENTLOG_COMPLETE"
"""Variable that the script of a shell sets: the words are not run, but completed."""
PATH = click.Path(path_type=Path)
"""The name of a file or directory, which a shell completes."""


class Place(click.Path):
    """A directory, or the address of a PostgreSQL server, in which no password may be."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the address as it is, a directory as a `Path`."""
        if not re.search("[:=]", str(value)):  # else it needs the engine, which starts slower
            return super().convert(value, param, ctx)
        from eventlog.open_log import has_password, is_server

        if has_password(value):
            self.fail(
                "an address on the command line has no password, for others can read it there: give service=NAME of"
                " ~/.pg_service.conf, a file PGPASSFILE, or the whole address in EVENTLOG_STORE",
                param,
                ctx,
            )
        return value if is_server(value) else super().convert(value, param, ctx)


PLACE = Place(path_type=Path)
_Decorator: TypeAlias = Callable[[Any], Any]


class Context:
    """The store and the key file that a call names on either side of its command."""

    store: Path | str | None = None
    key_file: Path | None = None


class Number(click.ParamType[int]):
    """A whole number from `least` on; no version, size or count has more than 18 digits."""

    name = "number"

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number that a word is."""
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", str(value)) or int(value) < self.least:
            self.fail(f"{value!r} is no whole number from {self.least} on", param, ctx)
        return int(value)


def integer(*names: str, least: int = 0, metavar: str = "N", **settings: Any) -> _Decorator:
    """Return the decorator for an option with a whole number."""
    return click.option(*names, type=Number(least), metavar=metavar, **settings)


def flag(*names: str, help: str) -> _Decorator:
    """Return the decorator for an option without a value."""
    return click.option(*names, is_flag=True, help=help)


class Command(click.Command):
    """A command of the program; `pages` sends its output through a pager on a terminal."""

    pages = False

    def invoke(self, ctx: click.Context) -> int:
        """Run the command and return its exit code."""
        code = None  # what stays where the reader leaves the pager early
        with paged() if self.pages else nullcontext():
            code = super().invoke(ctx)
        return code or Exit.OK


def command(function: Callable[..., int | None]) -> Command:
    """Return the command that calls a function with the call's `Context` and its parameters."""
    made = click.command(cls=Command)(click.pass_obj(function))
    made.params += STORE
    return made


def paged_command(function: Callable[..., int | None]) -> Command:
    """Return the command whose output goes through a pager on a terminal."""
    made = command(function)
    made.pages = True
    return made


def _keep(ctx: click.Context, param: click.Parameter, value: Path | str | None) -> None:
    if value is not None:
        setattr(ctx.obj, param.name, value)


STORE: list[click.Parameter] = [
    click.Option([name], type=kind, metavar=metavar, expose_value=False, callback=_keep, help=help)
    for name, kind, metavar, help in (
        (
            "--store",
            PLACE,
            "PATH",
            (
                "Directory of the store, or address of a PostgreSQL server, without a password "
                "[environment: EVENTLOG_STORE; default: ~/.local/share/eventlog]."
            ),
        ),
        (
            "--key-file",
            PATH,
            "FILE",
            (
                "Key file of an encrypted store, outside of its directory; a new store is encrypted with it "
                "[environment: EVENTLOG_KEY_FILE]."
            ),
        ),
    )
]
"""The options that every command takes."""
