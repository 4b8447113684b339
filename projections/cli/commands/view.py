"""`view`: what the model would be sent, now or at an earlier version, neutral or as a provider takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from projections.cli import output
from projections.cli.exits import UsageFault
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading, session_of
from projections.cli.window_options import model_named
from projections.reports.wording import counted

if TYPE_CHECKING:
    from projections.view.model_view import ModelView
    from projections.view.neutral import File, NeutralPart
    from projections.view.options import Capability, RenderOptions

__all__ = ["print_view", "register", "shortened"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("view")(_view)


def _view(
    context: typer.Context,
    session: SESSION,
    *,
    at: Annotated[
        int | None,
        typer.Option("--at", min=1, metavar="VERSION", help="The view right after this version [default: now]."),
    ] = None,
    format: Annotated[
        Literal["neutral", "openai", "responses", "anthropic", "ai-sdk"],
        typer.Option(
            "--format",
            help="The messages' form; openai is Chat Completions, responses OpenAI's Responses API, ai-sdk ModelMessages.",
        ),
    ] = "neutral",
    preset: Annotated[
        Literal["default", "opencode-1.18"], typer.Option("--preset", help="How history is rendered.")
    ] = "default",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="ID",
            help="The model to be sent to: reasoning of another is text.  As provider/name; the name alone will do for a "
            "model that the session has.",
        ),
    ] = None,
    capabilities: Annotated[
        str | None,
        typer.Option(
            "--capabilities",
            metavar="LIST",
            help="What the model takes, of text,image,pdf,audio,video; other files become a text [default: all].",
        ),
    ] = None,
    json: JSON = False,
) -> None:
    """Print the messages the model would be sent.

    The providers' forms have the system prompt where the provider has it; the neutral form has the conversation only.
    """
    import msgspec

    from projections.view.model_view import ModelView

    options = _options(preset, capabilities)
    with reading(context) as store:
        handle = session_of(store, session)
        if model is not None:
            options = msgspec.structs.replace(options, model=model_named(handle, model))
        view = ModelView.of(handle, at, options)
        if format == "neutral" and not json:
            print_view(view)
            return
        request = _request(view, format)
        if json:
            name = handle.id
            members = request if isinstance(request, dict) else {"messages": request}
            output.document({"session": name, "version": view.version, "tokens": view.tokens, **members})
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
            from eventlog.errors import brief

            raise UsageFault(f"--capabilities knows no {brief(unknown[0])}; there are {','.join(ALL_CAPABILITIES)}")
        options = replace(options, capabilities=cast("tuple[Capability, ...]", tuple(named)))
    return options


def _neutral(view: ModelView) -> list[Any]:
    import msgspec

    return [msgspec.to_builtins(message) for message in view.messages]


def _request(view: ModelView, format: str) -> list[Any] | dict[str, Any]:
    """The messages, or the members of a request that has more than messages."""
    if format == "openai":
        from projections.formats.openai import chat_messages

        return list(chat_messages(view.messages, view.system))
    if format == "responses":
        from projections.formats.openai_responses import responses_request

        return responses_request(view.messages, view.system)
    if format == "anthropic":
        from projections.formats.anthropic import anthropic_request

        return anthropic_request(view.messages, view.system)
    if format == "ai-sdk":
        from projections.formats.ai_sdk import model_messages

        return list(model_messages(view.messages, view.system))
    return _neutral(view)


def print_view(view: ModelView, *, longest: int | None = None) -> None:
    """Print a view for people; `longest` is how many characters are shown of a part."""
    from projections.view.neutral import Result

    for segment in view.system:
        output.heading("system")
        output.block(shortened(segment, longest))
    for message in view.messages:
        output.heading(message.role)
        for part in message.parts:
            if longest is None and isinstance(part, Result):
                output.block(part.output, "<! " if part.error else "<- ")
                for file in part.files:
                    output.block("<- " + _file(file))
            else:
                output.block(shortened(_said(part), longest))
    output.heading(f"{counted(len(view.messages), 'message')}, {counted(view.tokens, 'token')}, version {view.version}")


def shortened(text: str, longest: int | None) -> str:
    """The text, cut with a note of its length if it is longer."""
    if longest is None or len(text) <= longest:
        return text
    return f"{text[:longest]}… ({counted(len(text), 'character')})"


def _said(part: NeutralPart) -> str:
    from projections.view.neutral import Call, File, Reasoning, Result

    match part:
        case Reasoning():
            return output.marked(part.text, "~ ")
        case Call():
            return output.safe(f"-> {part.tool}({part.input}) [{part.call}]", one_line=True)
        case Result():
            files = "".join("\n<- " + _file(file) for file in part.files)
            return output.marked(part.output, "<! " if part.error else "<- ") + files
        case File():
            return _file(part)
        case _:
            return part.text


def _file(file: File) -> str:
    return output.safe(f"file {file.mime} {file.filename or ''}".rstrip(), one_line=True)
