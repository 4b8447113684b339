"""Commands, and the words of their calls: kinds of options, and options that are shared."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import click

from projections.cli.exits import Exit
from projections.cli.screen import paged
from projections.cli.store_option import Context, reading, reading_session, session_items, writing, writing_session

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


_TO_READ: dict[Any, Callable[..., AbstractContextManager[Any]]] = {writing: reading, writing_session: reading_session}


def command(
    opening: Callable[..., AbstractContextManager[Any]] | None = None, *, pages: bool = False, json: bool = True
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Return the decorator that makes a command of a function.

    The function takes what `opening` opens, a store or a session, else the call's `Context`; with
    a session the command has the argument SESSION. A `--dry-run` opens the store to read it.
    `json` gives the command the option `--json`.
    """
    of_session = opening in {reading_session, writing_session}

    def decorate(function: Callable[..., int | None]) -> click.Command:
        @wraps(function)
        def opened(context: Context, /, **words: Any) -> int:
            code = None  # what stays where the reader leaves the pager early
            with paged() if pages else nullcontext():
                if opening is None:
                    code = function(context, **words)
                else:
                    allowed = _TO_READ.get(opening, opening) if words.get("dry_run") else opening
                    with allowed(context, words.pop("session")) if of_session else allowed(context) as given:
                        code = function(given, **words)
            return code or Exit.OK

        called = click.pass_obj(opened)
        made = click.command(SESSION(called) if of_session else called)
        made.params += [_JSON, *STORE] if json else STORE
        return made

    return decorate


def _keep(ctx: click.Context, param: click.Parameter, value: Path | str | None) -> None:
    if value is not None:
        setattr(ctx.obj, param.name, value)


SESSION = click.argument(
    "session",
    shell_complete=session_items,
    help="Id of a session, or its beginning or end if that is unique.",
)
OPTIONAL_SESSION = click.argument(
    "session",
    required=False,
    shell_complete=session_items,
    help="Id of a session, or its unique beginning or end [default: the whole store].",
)
_JSON = click.Option(["--json"], is_flag=True, help="Print JSON; projections/schemas has the schemas.")
DRY_RUN = flag("--dry-run", help="Change nothing; print what would be done.")
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
