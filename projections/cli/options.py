"""Arguments and options that several commands share."""

from __future__ import annotations

from click import argument, option

from projections.cli.store_option import session_items
from projections.cli.words import flag

SESSION = argument(
    "session",
    shell_complete=session_items,
    help="Id of a session, or its beginning or end if that is unique.",
)
OPTIONAL_SESSION = argument(
    "session",
    required=False,
    shell_complete=session_items,
    help="Id of a session, or its unique beginning or end [default: the whole store].",
)
JSON = flag("--json", help="Print JSON; projections/schemas has the schemas.")
DRY_RUN = flag("--dry-run", help="Change nothing; print what would be done.")
YES = flag("--yes", "-y", help="Erase without asking; needed without a terminal.")
REASON = option("--reason", default="", help="Why; the text is recorded.")
AGAINST = option("--against", metavar="FILE", help="File with an earlier output of `eventlog head --json`.")
