"""The inspector: a page in the browser for the sessions of a store, which it only reads.

`eventlog serve` opens it. The server (`app.py`, `answers.py`) gives JSON and safe HTML; the page
(`page/`) is plain modules without a build step. `README.md` has the views, keys and safeguards.
"""

from __future__ import annotations

from eventlog.errors import CallError

try:
    from projections.inspector.app import inspector
except ImportError as error:
    raise CallError("the inspector needs the extra `server`: pip install '.[server]'") from error

__all__ = ["inspector"]
