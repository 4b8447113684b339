"""`ModelRequest`: the request for one step, in the neutral form and a provider's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from eventlog.errors import CallError
from projections.requests.forms import digest
from projections.view.model_view import rendering
from projections.view.options import RenderOptions

if TYPE_CHECKING:
    from projections.requests.forms import RequestForm
    from projections.view.neutral import NeutralMessage


class ModelRequest(NamedTuple):
    """The request for one step of the loop, with the changes of hooks in it."""

    messages: Sequence[NeutralMessage]
    system: tuple[str, ...]
    tools: str | None
    """The schemas of the tools that the question allows, a JSON array, or None."""
    format: str | None
    """The output format that the question asks for, as JSON, or None."""
    version: int
    """The request shows the session right after this version."""
    digest: bytes
    """SHA-256 of messages, system prompt, tools and format."""
    options: RenderOptions
    counted: int
    """Tokens as counted, before calibration."""
    patch: str | None
    """How the request differs from the view because of hooks, as JSON."""
    form: RequestForm | None = None
    """The provider's form that was asked for, or None."""
    formed: dict[str, Any] | None = None
    """Messages and system prompt in that form, or None; see `body`."""

    @property
    def record(self) -> dict[str, Any]:
        """The arguments of `Reply.step` that record this request."""
        return {
            "view_version": self.version,
            "view_digest": self.digest,
            "render": rendering(self.options),
            "counted": self.counted,
            "patch": self.patch,
            "form": None if self.form is None else self.form.record,
            "body_digest": None if self.formed is None else digest(self.formed),
        }

    @property
    def body(self) -> dict[str, Any]:
        """Messages and system prompt in the provider's form, for the client: `**request.body`.

        `CallError` if no form was asked for.
        """
        if self.formed is None:
            raise CallError('the request has no form: name one, as in `window.begin(step, form="anthropic")`')
        return self.formed

    def in_form(self, form: RequestForm | None) -> ModelRequest:
        """Return the request with its body in a form; itself for None."""
        if form is None:
            return self
        return self._replace(form=form, formed=form.body(self.messages, self.system))
