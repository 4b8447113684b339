"""Write the promises into `tests/README.md` and `README.md`: `python -m tests.promises`."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent
PAGE = TESTS / "README.md"
FRONT = TESTS.parent / "README.md"
BEGIN, END = "<!-- promises -->\n", "<!-- end of promises -->\n"

PROMISES = (
    "Durable means durable: what was acknowledged survives `kill -9` and power loss.",
    "Order: versions are contiguous, positions grow in commit order, ids and clocks decide nothing.",
    "Atomic: an append is visible whole or not at all.",
    "Concurrency control: one writer of a version wins, and every outcome is reported.",
    "Idempotent: a request id gives its first result, for the session's whole life.",
    "Append-only: nothing is changed or removed but by redaction and erasure, which are recorded.",
    "Replay equals live: from the first event, from a checkpoint, or followed live, a state has the same bytes.",
    "Bounded opening: opening and paging cost what they show, however long the history is.",
    "Reversible: each prune, compaction and rollback can be undone; the view is then what it was, byte for byte.",
    "Time travel: the view of every past model step is rebuilt byte for byte.",
    "Tamper-evident: any change of committed events is found against a head kept elsewhere.",
    "Never a silent loss: damaged, unknown or too new data is a typed error that names its place.",
    "Forks are isolated: nothing that happens to the parent later changes a fork, which costs one event.",
    "Bounded growth: no event repeats what is stored already.",
)

PLACES = {
    "directory": "a directory",
    "keys": "with keys",
    "server": "PostgreSQL",
    "standby": "with a synchronous standby",
}
"""Columns of the front page: the word in a mark, and the title."""
TEN = {
    "Durable": "what was acknowledged survives `kill -9` and power loss; an accepted delta waits at most a flush interval.",
    "Ordered and atomic": "versions have no gaps; an append is visible whole or not at all.",
    "One winner": "of all writers of a version exactly one wins; a writer without the lease is refused.",
    "Idempotent": "a request id gives its first result, for the session's whole life.",
    "Reversible": "rollbacks, prunes and compactions are events and can be undone byte for byte.",
    "Replay equals live": "the view of every past model step is rebuilt byte for byte.",
    "Bounded": "opening a view costs what it shows, not the length of the history.",
    "Tamper-evident": "any change of committed events is found against [a head kept elsewhere](eventlog/integrity/README.md).",
    "No silent loss": "damaged, unknown or too new data is a typed error that names its place.",
    "Erasable": "after redaction and scrub, or erasure and vacuum, no file of the store holds the content.",
}
"""The promises of the front page."""
_DEAD_ROWS = "no: dead rows and the server's journal keep bytes"
LACKS = {
    ("Erasable", "server"): f"{_DEAD_ROWS}; with keys nothing can be read",
    ("Erasable", "standby"): f"{_DEAD_ROWS}, as the standbys do; with keys nothing can be read",
}
"""Cells that do not hold, and why."""


def marks(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the promises a file proves, with the test's name; "" if the file is marked."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            yield from ((number, "") for number in _numbers(node.value))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                yield from ((number, node.name) for number in _numbers(decorator))


def _numbers(expression: ast.expr) -> Iterator[int]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise":
            yield from (int(ast.literal_eval(argument)) for argument in node.args)


def table() -> str:
    """Return the list: each promise, and how many tests prove it."""
    found = Counter(number for path in TESTS.rglob("test_*.py") for number, _ in marks(path))
    return "".join(f"{number}. {promise} ({found[number]})\n" for number, promise in enumerate(PROMISES, 1))


def with_table(page: str) -> str:
    """Return the page with the list as it is today."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def held() -> dict[tuple[str, str], int]:
    """Return the number of marks `holds` by promise and place; no place means all."""
    found: Counter[tuple[str, str]] = Counter()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.holds":
                promise, *places = (str(ast.literal_eval(argument)) for argument in node.args)
                found.update((promise, place) for place in places or PLACES)
    return found


def front_table() -> str:
    """Return the table of the front page: each promise, and whether it holds in each place."""
    found = held()
    rows = [["promise", *PLACES.values()], ["---"] * (len(PLACES) + 1)]
    for promise, sentence in TEN.items():
        cells = [LACKS.get((promise, place), "yes" if found.get((promise, place)) else "") for place in PLACES]
        rows.append([f"**{promise}**: {sentence}", *cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def with_front_table(page: str) -> str:
    """Return the front page with the table as it is today."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{front_table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    FRONT.write_text(with_front_table(FRONT.read_text(encoding="utf-8")), encoding="utf-8")
