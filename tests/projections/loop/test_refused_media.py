"""An image or document that a provider refuses ends no conversation."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import RefusedError
from eventlog.session.session import Session
from eventlog.values import Attachment, File, Limits, Media, MessageError, Model
from projections import ModelView
from projections.loop import CallModel, ContextWindow, ModelRequest, RunTools, Step, Stop, refusal
from projections.reports.visibility import explain_part
from projections.view.neutral import File as SentFile
from projections.view.neutral import Result
from projections.view.options import RenderOptions

CLAUDE, GPT = Model("anthropic", "claude-sonnet-4-5"), Model("openai", "gpt-5")


class ProviderError(Exception):
    """An error as the providers' packages raise it."""

    def __init__(self, text: str, status: int = 400, code: str | None = None) -> None:
        super().__init__(text)
        self.status_code = status
        self.code = code


def png(width: int = 1, height: int = 1, *, fill: str = "", size: int = 0) -> str:
    """The data URL of an image of these pixels; `fill` makes it another one, `size` larger."""
    head = b"\x89PNG\r\n\x1a\n" + bytes(4) + b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return "data:image/png;base64," + b64encode(head + fill.encode() + bytes(size)).decode()


def sent(request: ModelRequest) -> list[str]:
    """The names of the files in a request."""
    files = [part for message in request.messages for part in message.parts if isinstance(part, SentFile)]
    results = [part for message in request.messages for part in message.parts if isinstance(part, Result)]
    return [file.filename or "" for file in (*files, *(file for result in results for file in result.files))]


def run(
    session: Session, refuses: Callable[[ModelRequest], Exception | None], model: Model = CLAUDE
) -> tuple[list[str], list[list[str]], Step]:
    """Run a loop; returns its steps, the files of each request, and the last step."""
    steps: list[str] = []
    files: list[list[str]] = []
    with ContextWindow(session, model=model, limits=Limits(900_000, 4_000), environment={}) as window:
        for _ in range(20):
            step = window.next_step()
            steps.append(type(step).__name__)
            if isinstance(step, CallModel):
                reply, request = window.begin(step)
                files.append(sent(request))
                error = refuses(request)
                if error is not None:
                    reply.abort(refusal(error))
                else:
                    reply.add_text("seen")
                    reply.finish()
            elif step and not isinstance(step, RunTools):
                window.perform(step)
            else:
                return steps, files, step
    raise AssertionError(f"no end: {steps}")


def any_file(text: str) -> Callable[[ModelRequest], Exception | None]:
    """Refuse every request that has a file."""
    return lambda request: ProviderError(text) if sent(request) else None


REFUSALS = [
    "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6553600 bytes > 5242880 bytes",
    "messages.38.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
    "messages.3.content.0.image.source.base64: Could not process image",
    "messages.1.content.0.pdf.source.base64.data: The PDF specified was not valid.",
    "A maximum of 100 PDF pages may be provided.",
    "Invalid image data",
    "Too many images in request. Max is 100.",
    "You uploaded an unsupported image. Please make sure your image is valid.",
    "Invalid base64 image_url.",
    "Error while downloading https://example.org/a.png. image_url is unreachable",
    "Timeout while downloading image from https://example.org/a.png",
    "Unable to process input image. Please retry or report in https://developers.generativeai.google",
    "Unsupported MIME type: image/svg+xml",
    "Provided image is not valid.",
    "This model does not support image input",
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    "m is not a multimodal model",
    "Failed to load image: cannot identify image file",
    "messages.0.content.1: Image does not match the provided media type image/jpeg",
    "The image was specified using the image/jpeg media type, but does not match the provided media type",
    "No endpoints found that support image input",
]
NOT_FOUND = [
    "models/gemini-2.5-flash-image is not found for API version v1beta",
    "The model `gpt-image` does not exist, an image is not made",
    "No endpoints found for acme/vision",
]
OTHERS = [
    "prompt is too long: 210000 tokens > 200000 maximum",
    "This model's maximum context length is 128000 tokens",
    "messages: text content blocks must be non-empty",
    "Invalid API key",
    "Request exceeds the maximum size",
    "tool_use ids must be unique",
    "max_tokens: 900000 > 64000",
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_refusals_are_not_taken_for_media(text: str) -> None:
    """A refusal for the size or the form of a request is none of its media."""
    assert refusal(ProviderError(text)).name != "media"
    assert refusal(ProviderError(REFUSALS[0], 500)).name != "media"


def test_a_router_without_a_server_for_media_says_not_found() -> None:
    """That no server of the model takes images is a refusal of media; a missing model is none."""
    assert refusal(ProviderError("No endpoints found that support image input", 404)).name == "media"
    for text in NOT_FOUND:
        assert refusal(ProviderError(text, 404)).name == "unknown-model"


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refused_image_is_named_and_the_request_sent_again(session: Session, text: str) -> None:
    """The question is answered in the same loop, and so is the next one; the event says why."""
    session.user("look", files=[File("image/png", png(), "shot.png")])
    steps, files, step = run(session, any_file(text))
    assert steps == ["CallModel", "ReplaceMedia", "CallModel", "Stop"]
    assert files == [["shot.png"], []]
    assert step == Stop("finished")
    (event,) = [found.event for found in session.events() if isinstance(found.event, ev.MediaReplaced)]
    assert (event.mime, event.name, event.target) == ("image/png", "shot.png", "anthropic/claude-sonnet-4-5")
    assert text in event.reason
    said = [part for message in ModelView.of(session).messages for part in message.parts]
    assert "[Attached image/png: shot.png]" in [getattr(part, "text", "") for part in said]
    session.user("and now?")
    assert run(session, any_file(text))[::2] == (["CallModel", "Stop"], Stop("finished"))


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("messages.0.content.1.image.source.base64", "a.png"),
        ("messages.2.content.1.image.source", "b.png"),
        ("messages.2.content.2.image.source", "c.png"),
        ("messages[2].content[1].image_url", "b.png"),
    ],
)
def test_the_media_that_a_refusal_names_go_first(session: Session, path: str, named: str) -> None:
    """A place in the request names one of several images; the others are sent again."""
    session.user("one", files=[File("image/png", png(fill="a"), "a.png")])
    with session.assistant(CLAUDE) as reply:
        reply.add_text("seen")
        reply.finish()
    session.user("two", files=[File("image/png", png(fill=name), f"{name}.png") for name in "bc"])

    def refuses(request: ModelRequest) -> Exception | None:
        return ProviderError(f"{path}: Could not process image") if named in sent(request) else None

    _, files, step = run(session, refuses)
    assert files == [["a.png", "b.png", "c.png"], [name for name in ("a.png", "b.png", "c.png") if name != named]]
    assert step == Stop("finished")


def test_else_those_that_break_the_rules_of_the_model_go(session: Session) -> None:
    """Images over 5 MB, and over 2,000 pixels among more than twenty, are named first."""
    files = [File("image/png", png(fill=str(number)), f"{number}.png") for number in range(22)]
    files[3] = File("image/png", png(2_001, 10), "3.png")
    files[5] = File("image/png", png(size=4_000_000), "5.png")
    session.user("look", files=files)
    session.user("and this", files=[File("image/png", png(fill="new"), "new.png")])
    _, found, step = run(
        session, lambda request: ProviderError("Invalid image") if {"3.png", "5.png"} & {*sent(request)} else None
    )
    assert [len(names) for names in found] == [23, 21]
    assert step == Stop("finished")


def test_else_those_of_the_newest_message_and_then_all(session: Session) -> None:
    """An unnamed refusal takes the newest images, a second one all, and a third ends the turn."""
    session.user("one", files=[File("image/png", png(fill="a"), "a.png")])
    session.user("two", files=[File("application/pdf", "data:application/pdf;base64,JVBERg==", "b.pdf")])
    session.user("three")
    _, files, step = run(session, any_file("Invalid image data"), GPT)
    assert files == [["a.png", "b.pdf"], ["a.png"], []]
    assert step == Stop("finished")
    session.user("four", files=[File("image/png", png(fill="d"), "d.png")])
    _, files, step = run(session, lambda _request: ProviderError("Invalid image data"), GPT)
    assert files == [["d.png"], []]
    assert isinstance(step, Stop)
    assert (step.reason, "Invalid image data" in step.sentence) == ("failed", True)
    session.user("five")
    assert run(session, any_file("Invalid image data"), GPT)[2] == Stop("finished")


def test_an_image_in_a_result_is_named_behind_its_output(session: Session) -> None:
    """The result keeps its text; only the refused attachment of several is named."""
    session.user("look")
    with session.assistant(CLAUDE) as reply:
        call = reply.tool("shot", call_id="c", input="{}")
        call.succeed("two", attachments=[Attachment("image/png", png(fill=name), f"{name}.png") for name in "ab"])
        reply.finish("tool-calls")
    session.context.replace_media([Media(call.id, "image/png", "b.png")])
    (result,) = [
        part for message in ModelView.of(session).messages for part in message.parts if isinstance(part, Result)
    ]
    assert result.output == "two\n[Attached image/png: b.png]"
    assert [file.filename for file in result.files] == ["a.png"]
    assert run(session, any_file("Invalid image data"))[1] == [["a.png"], []]


@pytest.mark.promise(9)
def test_a_replacement_is_undone_by_a_rollback_and_by_a_command(session: Session) -> None:
    """The view is byte-equal to that before, in a fork and for another model too."""
    session.user("look", files=[File("image/png", png(), "a.png")])
    before, version = ModelView.of(session).digest, session.version
    (part,) = [found.event.part for found in session.events() if isinstance(found.event, ev.PartStarted)][1:]
    media = [Media(part, "image/png", "a.png")]
    session.context.replace_media(media, reason="refused", target="anthropic/claude-sonnet-4-5")
    replaced = ModelView.of(session)
    assert replaced.digest != before
    assert replaced.explain(part).reason == "media-replaced"
    found = explain_part(session, part)
    assert (found.cause is not None and found.cause.kind, found.cause and found.cause.what) == ("media", "refused")
    assert ModelView.of(session.fork()).digest == replaced.digest
    options = RenderOptions(model=GPT)
    assert ModelView.of(session, options=options).digest == ModelView.of(session, version, options).digest
    session.context.restore_media([part])
    assert ModelView.of(session).digest == before
    with pytest.raises(RefusedError):
        session.context.restore_media([part])
    session.context.replace_media(media)
    assert ModelView.of(session).digest == replaced.digest
    session.rollback(version)
    assert ModelView.of(session).digest == before
    session.redo()
    assert ModelView.of(session).digest == replaced.digest


def test_a_redaction_reaches_the_name_of_a_refused_file(tmp_path: Path) -> None:
    """After a scrub neither the name nor the provider's words about it are on disk."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session()
        session.user("look", files=[File("image/png", png(), "secret-name.png")])
        (part,) = [found.event.part for found in session.events() if isinstance(found.event, ev.PartStarted)][1:]
        session.context.replace_media([Media(part, "image/png", "secret-name.png")], reason="secret-name.png is bad")
        session.redact(part)
        store.scrub()
        (event,) = [found.event for found in session.events() if isinstance(found.event, ev.MediaReplaced)]
        assert (event.name, event.reason) == ("", "")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"secret-name" in path.read_bytes()]


def test_only_files_and_calls_have_media(session: Session) -> None:
    """A text cannot be replaced so, nor a part that is not there."""
    session.user("look")
    (part,) = [found.event.part for found in session.events() if isinstance(found.event, ev.PartStarted)]
    with pytest.raises(RefusedError, match="a file part"):
        session.context.replace_media([Media(part, "image/png")])
    with pytest.raises(eventlog.NotFoundError):
        session.context.replace_media([Media("none", "image/png")])


def test_without_a_window_the_error_says_which_parts(session: Session) -> None:
    """The refused reply names the parts and the command, and the command does what it says."""
    session.user("look", files=[File("image/png", png(), "a.png")])
    with session.assistant(CLAUDE) as reply:
        reply.abort(refusal(ProviderError("Invalid image data"), session))
    with session.turn() as turn:
        assert turn.error is not None
        error: MessageError = turn.error
    assert error.name == "media"
    command = error.message.partition("`")[2].rstrip("`")
    eval(command, {"session": session, "Media": Media})  # noqa: S307  # the promise: the sentence is a command
    parts = [part for message in ModelView.of(session).messages for part in message.parts]
    assert "[Attached image/png: a.png]" in [getattr(part, "text", "") for part in parts]
