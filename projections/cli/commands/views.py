"""`view`, `explain` and `diff`: what the model sees, why, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from click import Choice, argument, option

from projections.cli import output
from projections.cli.amounts import number
from projections.cli.exits import Fault
from projections.cli.short_ids import ShortIds, part_named
from projections.cli.store_option import reading_session
from projections.cli.view_text import print_view
from projections.cli.window_options import model_named
from projections.cli.words import Number, command, integer
from projections.reports.wording import moment, policy_named
from projections.requests.forms import FORMS, RequestForm

if TYPE_CHECKING:
    from eventlog import Session
    from projections.reports.visibility import Cause, Visibility
    from projections.view.model_view import ModelView
    from projections.view.options import Capability, RenderOptions

_AT = integer("--at", least=1, metavar="V", help="The view right after this version [default: the newest].")


@command(reading_session, pages=True)
@_AT
@option(
    "--format",
    type=Choice(["neutral", *FORMS]),
    default="neutral",
    help="Form of the messages, of `projections.requests.forms`.",
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
def view(
    session: Session,
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
    if model is not None:
        options = msgspec.structs.replace(options, model=model_named(session, model))
    seen = ModelView.of(session, at, options)
    if format == "neutral" and not json:
        print_view(seen)
        return
    request = _request(seen, format)
    if json:
        members = request if isinstance(request, dict) else {"messages": request}
        output.document({"session": session.id, "version": seen.version, "tokens": seen.tokens, **members})
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

            raise Fault(f"--capabilities knows no {brief(unknown[0])}; there are {','.join(ALL_CAPABILITIES)}")
        options = replace(options, capabilities=cast("tuple[Capability, ...]", tuple(named)))
    return options


def _request(view: ModelView, format: str) -> list[Any] | dict[str, Any]:
    """Return the messages, or the members of a request that has more than messages."""
    if format == "neutral":
        import msgspec

        return [msgspec.to_builtins(message) for message in view.messages]
    body = RequestForm(format).body(view.messages, view.system)
    return body["messages"] if body.keys() == {"messages"} else body


@command(reading_session, pages=True)
@argument("name", help="Id of a message or part, or its unique beginning or end.")
@_AT
def explain(session: Session, name: str, *, at: int | None, json: bool) -> None:
    """Say why a part or message is in the model's view, or not.

    Names the prune, compaction, rollback, redaction or removal that decided it, and the command
    that prints the content or returns it to the view.
    """
    from projections.reports.visibility import explain_part

    found = explain_part(session, part_named(session, name), at)
    if json:
        output.document(found)
        return
    which = "in the view" if found.shown else "not in the view"
    output.heading(f"{found.id} is {which} of version {found.version}: {found.reason}")
    part = f"{found.kind} {found.tool}".strip()
    of = f"{part} message" if found.id == found.message else f"{part} part of message {found.message}"
    output.line(f"{of}, added at version {found.added}" + (f": {found.words}" if found.words else ""))
    output.line(found.sentence)
    if found.cause is not None:
        output.line(_cause(found.cause))
    for advice in _advice(found):
        output.note(advice)


def _cause(cause: Cause) -> str:
    what = {
        "prune": f", {policy_named(cause.what)}",
        "compaction": f", whose summary is {cause.what}",
        "rollback": f" to version {cause.what}",
        "redaction": f": {cause.what}",
    }
    said = what.get(cause.kind, "") if cause.what else ""
    return f"{cause.kind} {cause.number} at version {cause.version}, {moment(cause.time)}{said}"


def _advice(found: Visibility) -> list[str]:
    """Return what a user can do to see the content, or to have the model see it."""
    reading = f"`eventlog recall {found.session} {found.id}` prints it"
    match found.reason:
        case "cleared" | "covered":
            return [f"{reading}; `eventlog undo {found.session}` takes back the newest change of the view"]
        case "rolled-back" if found.cause is not None:
            return [f"`eventlog rollback {found.session} --to {found.cause.version - 1}` takes the rollback back"]
        case "later":
            return [f"`eventlog explain {found.session} {found.id}` looks at the newest view"]
        case _:
            return []


@command(reading_session, pages=True)
@argument("first", metavar="A", type=Number(1), help="Version of the first view.")
@argument("second", metavar="B", type=Number(1), help="Version of the second view.")
def diff(session: Session, first: int, second: int, *, json: bool) -> None:
    """Show what changed between two views of a session.

    Lists the parts that were added, pruned, compacted, rolled back or otherwise changed, with their
    first words and their tokens.
    """
    from projections.reports import view_diff

    difference = view_diff.diff(session, first, second)
    if json:
        output.document({**output.fields(difference), "summary": difference.sentences()})
        return
    short = ShortIds(name for change in difference.changes for name in (change.message, change.part))
    rows = [
        [
            change.kind,
            short.cell(change.message),
            output.Cell(change.part, "" if change.what == "carried" else short.of(change.part)),
            change.what,
            change.words,
            number(change.before),
            number(change.after),
        ]
        for change in difference.changes
    ]
    output.table(
        ["change", "message", "part", "what", "words", "before", "after"],
        rows,
        numbers=["before", "after"],
        flexible=["words", "what"],
        optional=["message"],
    )
    for sentence in difference.sentences():
        output.line(sentence)
    output.line(f"{difference.tokens_first:,} tokens at {first}, {difference.tokens_second:,} at {second}")
