"""Endpoints for pages, in the extra `server`: Starlette, sse-starlette."""

from eventlog.errors import CallError

try:
    from projections.server.answers import answer_response
    from projections.server.live_pages import live_app
except ImportError as error:
    raise CallError("a server needs the extra `server`: pip install '.[server]'") from error

__all__ = ["answer_response", "live_app"]
