"""Endpoints for pages, in the extra `server`: Starlette, sse-starlette."""

from projections.server.answers import answer_response
from projections.server.live_pages import live_app

__all__ = ["answer_response", "live_app"]
