"""The address of a server: a URL, a keyword string or a service, as libpq reads it.

What libpq says of an address that it cannot read may quote a piece of a password, so none of its
words are passed on.
"""

from __future__ import annotations

import re
from contextlib import suppress

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from eventlog.errors import CallError

_SECRETS = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"})
_DEFAULTS = {
    "application_name": "everdelta",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""Defaults of the address: a host that is gone is noticed in seconds."""

_URL = re.compile(r"\w+://([^@/?]*@)?[^@/?]*(/[^@?]*)?(\?.*)?", re.DOTALL)
"""A URL without an `@` or `/` of a password that is not written as `%40` or `%2F`."""


def conninfo(address: str, *, read_only: bool) -> str:
    """Return the address with the defaults of this package.

    Of several hosts the one that takes writes is used, unless it is for reading only.
    """
    said = _read(address)
    defaults = dict(_DEFAULTS)
    if not read_only and "," in (said.get("host") or said.get("hostaddr") or ""):
        defaults["target_session_attrs"] = "read-write"
    return make_conninfo(address, **{name: value for name, value in defaults.items() if name not in said})


def shown(address: str) -> str:
    """Return the address without passwords, as a keyword string."""
    return make_conninfo("", **{name: value for name, value in _read(address).items() if name not in _SECRETS})


def _read(address: str) -> dict[str, str]:
    said: dict[str, str] | None = None
    if _URL.fullmatch(address) or "://" not in address:
        with suppress(Error):
            said = {name: str(value) for name, value in conninfo_to_dict(address).items()}
    if said is None:
        raise CallError(
            "libpq cannot read this as the address of a server: give postgresql://USER@HOST:PORT/DATABASE with / : @ ? %"
            " in a name or password as %2F %3A %40 %3F %25, or keywords as in `host=HOST dbname=DATABASE`, or"
            " service=NAME; a directory of such a name is ./name"
        )
    return said
