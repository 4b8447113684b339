"""The table of `projections/requests/README.md`, made from the rules in code.

`python -m tests.support.requests_page` writes it into the page.
"""

from __future__ import annotations

from pathlib import Path

from projections.requests.servers import ANTHROPIC, GEMINI, OTHER, RESPONSES, SERVERS, Rules

PAGE = Path(__file__).resolve().parents[2] / "projections" / "requests" / "README.md"
_HEAD = "| sent to | call ids | names | files as bytes | files at addresses | reasoning | system messages | one role twice | user behind results |"
_ROWS = {
    **{f"`{name}`": rules for name, rules in SERVERS.items()},
    "another server": OTHER,
    "OpenAI Responses": RESPONSES,
    "Anthropic Messages": ANTHROPIC,
    "Gemini `generateContent`": GEMINI,
}


def _files(types: tuple[str, ...]) -> str:
    return ", ".join(kind.removeprefix("image/").removeprefix("application/") for kind in types) or "no"


def _row(name: str, rules: Rules) -> str:
    cells = (
        name,
        f"≤ {rules.longest_id}, `{rules.ids}`",
        f"≤ {rules.longest_name}",
        _files(rules.data),
        _files(
            tuple(kind.replace("image/*", "images").replace("application/*", "documents") for kind in rules.addresses)
        ),
        *("yes" if found else "no" for found in (rules.reasoning,)),
        "many" if rules.many_systems else "one",
        *("yes" if found else "no" for found in (rules.repeats_roles, rules.user_after_results)),
    )
    return f"| {' | '.join(cells)} |"


def with_table(page: str) -> str:
    """Return the page with the table of the rules in place of the one that it has."""
    before, _, rest = page.partition("| sent to |")
    after = rest.partition("\n\n")[2]
    rows = [_HEAD, "|" + "---|" * (_HEAD.count("|") - 1), *(_row(name, rules) for name, rules in _ROWS.items())]
    return f"{before}{chr(10).join(rows)}\n\n{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
