"""Generated parts of the page of the command line: commands, exit codes, formats, schemas.

`python -m tests.projections.cli.page` writes them into the page. No tests here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from eventlog.importers import FORMATS
from projections.cli.exits import __doc__ as EXIT_CODES  # noqa: N812  # the text that lists them
from projections.cli.grammar.parameters import Parameter
from projections.cli.registry import GROUPS, Command
from tests.support.cli_runner import ROOT, SCHEMAS

__all__ = ["PAGE", "with_generated_parts"]

PAGE: Path = ROOT / "projections" / "cli" / "README.md"
_PART = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_COMMON = ("--json", "--help")
"""Options that the tables leave out."""


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
        for name, sentence in names.items():
            parameters = Command(name).parameters
            arguments = [each for each in parameters if not each.is_option]
            options = [each for each in parameters if each.is_option]
            usage = [name, *map(_argument, arguments)]
            usage += [f"{option.label} {option.placeholder}" for option in options if option.is_required]
            optional = [_option(option) for option in options if not option.is_required]
            shown = " ".join(f"`{option}`" for option in optional if option not in _COMMON)
            yield f"| `{' '.join(usage)}` | {sentence} | {shown} |"


def _argument(parameter: Parameter) -> str:
    name = parameter.label + ("…" if parameter.many else "")
    return name if parameter.is_required else f"[{name}]"


def _option(option: Parameter) -> str:
    """Return the long name of an option; of a flag that is on, the name that turns it off."""
    return max(option.off if option.default is True else option.on, key=len)


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
