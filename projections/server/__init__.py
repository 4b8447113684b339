"""Endpoints for pages, in the extra `server`: Starlette, sse-starlette."""

from projections.server.live_pages import live_app

__all__ = ["live_app"]
