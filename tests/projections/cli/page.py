"""Generated parts of the page of the command line: commands, exit codes, formats, schemas.

`python -m tests.projections.cli.page` writes them into the page. No tests here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from eventlog.importers import FORMATS
from projections.cli.exits import __doc__ as EXIT_CODES  # noqa: N812  # the text that lists them
from projections.cli.registry import GROUPS, load
from projections.cli.words import STORE
from tests.support.cli_runner import ROOT, SCHEMAS

PAGE: Path = ROOT / "projections" / "cli" / "README.md"
_PART = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_generated_parts(page: str) -> str:
    """Return the page with its generated parts as they are today."""
    makers = {"commands": _commands, "exit codes": _exit_codes, "formats": _formats, "schemas": _schemas}
    return _PART.sub(lambda part: part[1] + "\n".join(makers[part[2]]()) + "\n" + part[3], page)


def _commands() -> Iterator[str]:
    """Yield a row for each group, and one for each command: usage, sentence, optional options."""
    yield "| command | what it does | options |"
    yield "|---|---|---|"
    for title, names in GROUPS.items():
        yield f"| **{title}** | | |"
        for name, (_, sentence) in names.items():
            parameters = load(name).params
            arguments = [each for each in parameters if isinstance(each, click.Argument)]
            options = [each for each in parameters if isinstance(each, click.Option) and each not in STORE]
            usage = [name, *map(_argument, arguments), *(_usage(option) for option in options if option.required)]
            optional = [_option(option) for option in options if not option.required]
            shown = " ".join(f"`{option}`" for option in optional if option != "--json")
            yield f"| `{' '.join(usage)}` | {sentence} | {shown} |"


def _argument(argument: click.Argument) -> str:
    name = argument.human_readable_name + ("…" if argument.nargs < 0 else "")
    return name if argument.required else f"[{name}]"


def _usage(option: click.Option) -> str:
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    return f"{_option(option)} {option.metavar or '|'.join(choices)}"


def _option(option: click.Option) -> str:
    """Return the long name of an option; of a flag that is on, the name that turns it off."""
    return max(option.secondary_opts if option.default is True else option.opts, key=len)


def _exit_codes() -> Iterator[str]:
    """Yield the table of exit codes."""
    assert EXIT_CODES is not None
    yield "| code | meaning |"
    yield "|---|---|"
    for code, meaning in re.findall(r"^ *(\d+)  (.+)$", EXIT_CODES, re.MULTILINE):
        yield f"| {code} | {meaning} |"


def _formats() -> Iterator[str]:
    """Yield the names of the formats that can be imported."""
    yield ", ".join(f"`{name}`" for name in FORMATS) + "."


def _schemas() -> Iterator[str]:
    """Yield links to the schemas."""
    yield ", ".join(f"[{name}](../schemas/{name}.json)" for name in sorted(SCHEMAS)) + "."


if __name__ == "__main__":
    PAGE.write_text(with_generated_parts(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
