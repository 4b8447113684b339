"""`view`: print the messages that the model would be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from click import Choice, option

from projections.cli import output
from projections.cli.exits import UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading_session
from projections.cli.view_text import print_view
from projections.cli.window_options import model_named
from projections.cli.words import Context, integer, paged_command

if TYPE_CHECKING:
    from projections.view.model_view import ModelView
    from projections.view.options import Capability, RenderOptions


@paged_command
@SESSION
@integer("--at", least=1, metavar="V", help="The view right after this version [default: the newest].")
@option(
    "--format",
    type=Choice(["neutral", "openai", "responses", "anthropic", "ai-sdk"]),
    default="neutral",
    help="Form of the messages: openai is OpenAI's Chat Completions, responses its Responses API, ai-sdk the "
    "ModelMessages of the AI SDK.",
)
@option("--preset", type=Choice(["default", "opencode-1.18"]), default="default", help="How the history is rendered.")
@option(
    "--model",
    metavar="ID",
    help="Model of the request, as provider/name, or the name of a model that the session has; reasoning of other "
    "models becomes text.",
)
@option(
    "--capabilities",
    metavar="LIST",
    help="What the model accepts, of text,image,pdf,audio,video; other files become text [default: all].",
)
@JSON
def run(
    context: Context,
    session: str,
    *,
    at: int | None,
    format: str,
    preset: str,
    model: str | None,
    capabilities: str | None,
    json: bool,
) -> None:
    """Print the messages that the model would be sent.

    The form of a provider includes the system prompt in the provider's place; the neutral form has
    the conversation only.
    """
    import msgspec

    from projections.view.model_view import ModelView

    options = _options(preset, capabilities)
    with reading_session(context, session) as handle:
        if model is not None:
            options = msgspec.structs.replace(options, model=model_named(handle, model))
        view = ModelView.of(handle, at, options)
        if format == "neutral" and not json:
            print_view(view)
            return
        request = _request(view, format)
        if json:
            members = request if isinstance(request, dict) else {"messages": request}
            output.document({"session": handle.id, "version": view.version, "tokens": view.tokens, **members})
        else:
            output.document(request, indent=2)


def _options(preset: str, capabilities: str | None) -> RenderOptions:
    from msgspec.structs import replace

    from projections.view.options import ALL_CAPABILITIES
    from projections.view.options import preset as preset_named

    options = preset_named(preset)
    if capabilities is not None:
        named = [word.strip() for word in capabilities.split(",") if word.strip()]
        unknown = [word for word in named if word not in ALL_CAPABILITIES]
        if unknown:
            from eventlog.errors.base import brief

            raise UsageFault(f"--capabilities knows no {brief(unknown[0])}; there are {','.join(ALL_CAPABILITIES)}")
        options = replace(options, capabilities=cast("tuple[Capability, ...]", tuple(named)))
    return options


def _request(view: ModelView, format: str) -> list[Any] | dict[str, Any]:
    """Return the messages, or the members of a request that has more than messages."""
    if format == "openai":
        from projections.requests.openai import chat_messages

        return list(chat_messages(view.messages, view.system))
    if format == "responses":
        from projections.requests.openai_responses import responses_request

        return responses_request(view.messages, view.system)
    if format == "anthropic":
        from projections.requests.anthropic import anthropic_request

        return anthropic_request(view.messages, view.system)
    if format == "ai-sdk":
        from projections.requests.ai_sdk import model_messages

        return list(model_messages(view.messages, view.system))
    import msgspec

    return [msgspec.to_builtins(message) for message in view.messages]
