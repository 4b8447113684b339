"""Session and artifact services of Google ADK: scenes of ADK's own tests, and others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.artifacts import InMemoryArtifactService
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session as AdkSession
from google.genai import types

from eventlog import Store
from eventlog.adapters.google_adk import EverdeltaSessionService
from eventlog.adapters.google_adk_artifacts import EverdeltaArtifactService
from eventlog.testing.file_search import files_with
from projections import ModelView
from projections.requests.openai import chat_messages
from tests.support.engines import Engine

Scene = Callable[[BaseSessionService], Awaitable[object]]
USER: dict[str, Any] = {"app_name": "app", "user_id": "u1"}
CHAT: dict[str, Any] = USER | {"session_id": "s1"}


def told(time: float = 0.0, *, id: str = "", **delta: Any) -> Event:
    """Return an event that changes state; `app_x` is the key `app:x`."""
    state = {name.replace("_", ":", 1): value for name, value in delta.items()}
    given: dict[str, Any] = {"timestamp": time} if time else {}
    return Event(author="user", id=id, invocation_id="i", actions=EventActions(state_delta=state), **given)


async def got(service: BaseSessionService, **where: Any) -> Any:
    """Return a session."""
    return await service.get_session(**(CHAT | where))


async def nothing_is_found(service: BaseSessionService) -> object:
    """A session that was not created is None."""
    return await got(service)


async def is_created_and_deleted(service: BaseSessionService) -> object:
    """A session is got as it was created, until it is deleted."""
    made = await service.create_session(**USER, state={"key": "value"})
    assert await got(service, session_id=made.id) == made
    await service.delete_session(**USER, session_id=made.id)
    await service.delete_session(**USER, session_id=made.id)
    return made.state, await got(service, session_id=made.id)


async def are_listed(service: BaseSessionService) -> object:
    """Sessions of a user, and of all users, are listed with their state and without events."""
    for user, id in (("u1", "a"), ("u1", "b"), ("u2", "a"), ("u", "a")):
        made = await service.create_session(app_name="app", user_id=user, session_id=id, state={"key": user + id})
        await service.append_event(made, told(user_x=id))
    lists = [
        await service.list_sessions(app_name=app, user_id=user) for app in ("app", "ap") for user in ("u1", "u", None)
    ]
    return [sorted((one.user_id, one.id, str(one.state), len(one.events)) for one in found.sessions) for found in lists]


async def are_listed_by_activity(service: BaseSessionService) -> object:
    """The session that was active last is the last of a list."""
    made = [await service.create_session(**USER, session_id=id) for id in "cab"]
    for one, time in zip(made, (3e9, 1e10, 2e9), strict=True):
        await service.append_event(one, told(time))
    return [(one.id, one.last_update_time) for one in (await service.list_sessions(**USER)).sessions]


async def state_of_the_app_is_shared(service: BaseSessionService) -> object:
    """All users of an app see its state, and no other app does."""
    made = await service.create_session(**CHAT, state={"app:k1": "v1", "own": 1})
    await service.append_event(made, told(app_k2={"v": 2}))
    other = await service.create_session(app_name="app", user_id="u2", state={})
    another = await service.create_session(app_name="other", user_id="u1")
    return made.state, (await got(service)).state, other.state, another.state


async def state_of_a_user_is_shared(service: BaseSessionService) -> object:
    """A user's sessions see the user's state, new ones too, and no other user's do."""
    empty = await service.get_user_state(**USER)
    made = await service.create_session(**CHAT, state={"user:k1": "v1"})
    for value in (1, 2):
        await service.append_event(made, told(user_k2=value, own="x"))
    again = await service.create_session(**USER)
    other = await service.create_session(app_name="app", user_id="u2")
    states = [await service.get_user_state(app_name="app", user_id=user) for user in ("u1", "u2")]
    return empty, again.state, other.state, states


async def state_of_a_session_is_its_own(service: BaseSessionService) -> object:
    """State without a prefix is seen by no other session."""
    made = await service.create_session(**CHAT, state={"k1": "v1"})
    await service.append_event(made, told(k2="v2", k1=None))
    other = await service.create_session(**USER)
    return (await got(service)).state, other.state


async def temporary_state_is_not_kept(service: BaseSessionService) -> object:
    """Temporary state is in the session object alone, not in the stored event either."""
    made = await service.create_session(**CHAT)
    await service.append_event(made, told(temp_k="v", k="w"))
    again = await got(service)
    return made.state, again.state, again.events[0].actions.state_delta


async def ids_are_a_users(service: BaseSessionService) -> object:
    """Users may have sessions with the same id."""
    await service.append_event(await service.create_session(**CHAT), told())
    await service.create_session(app_name="app", user_id="u2", session_id="s1")
    found = await got(service, user_id="u2")
    return found.user_id, found.events


async def an_id_is_used_once(service: BaseSessionService) -> object:
    """An id that is taken is refused, also with blanks around it, and nothing is changed."""
    await service.create_session(**CHAT, state={"k": 1})
    for id in ("s1", " s1 "):
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**USER, session_id=id, state={"k": 2, "app:k": 2})
    return (await got(service)).state


async def blanks_around_an_id_are_none(service: BaseSessionService) -> object:
    """A session is got and deleted by an id with blanks around it."""
    made = await service.create_session(**USER, session_id=" padded ")
    found = await got(service, session_id="  padded")
    await service.delete_session(**USER, session_id="padded  ")
    return made.id, found.id, await got(service, session_id="padded")


async def bytes_come_back(service: BaseSessionService) -> object:
    """Bytes in parts and in metadata of the provider come back."""
    made = await service.create_session(**CHAT)
    part = types.Part.from_bytes(data=bytes(range(256)), mime_type="image/png")
    signed = types.Part(text="thought", thought=True, thought_signature=b"\xff\xfe\xfb")
    grounding = types.GroundingMetadata(search_entry_point=types.SearchEntryPoint(sdk_blob=b"\xffblob\xfe"))
    content = types.Content(role="user", parts=[part, signed])
    await service.append_event(made, Event(author="user", id="e", content=content, grounding_metadata=grounding))
    (event,) = (await got(service)).events
    return event.content, event.grounding_metadata


async def all_fields_come_back(service: BaseSessionService) -> object:
    """An event with all kinds of fields comes back equal."""
    made = await service.create_session(**CHAT)
    call = types.Part(function_call=types.FunctionCall(id="c", name="look", args={"at": [1, 2.0, None]}))
    event = Event(
        author="agent",
        invocation_id="i",
        content=types.Content(role="model", parts=[types.Part(text="text"), call]),
        turn_complete=True,
        partial=False,
        actions=EventActions(
            artifact_delta={"file": 0}, transfer_to_agent="agent", escalate=True, agent_state={"n": 1}
        ),
        long_running_tool_ids={"tool1", "tool2"},
        error_code="code",
        error_message="message",
        interrupted=True,
        grounding_metadata=types.GroundingMetadata(web_search_queries=["query"]),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1, total_token_count=2),
        citation_metadata=types.CitationMetadata(),
        custom_metadata={"key": ["value", 1]},
        input_transcription=types.Transcription(text="heard", finished=True),
        output={"any": "thing"},
    )
    await service.append_event(made, event)
    assert await got(service) == made
    return made.events == [event]


async def its_time_is_the_newest_events(service: BaseSessionService) -> object:
    """An event's time is the session's, of the object and of the stored one."""
    made = await service.create_session(**CHAT)
    assert (await got(service)).last_update_time == made.last_update_time
    await service.append_event(made, told(4e9))
    return made.last_update_time, (await got(service)).last_update_time


async def a_part_of_the_events_is_asked_for(service: BaseSessionService) -> object:
    """The newest events, those since a time, or both are got."""
    made = await service.create_session(**CHAT)
    for time in range(1, 6):
        await service.append_event(made, told(float(time), n=time))
    configs = [
        GetSessionConfig(num_recent_events=number, after_timestamp=since)
        for number in (None, 0, 1, 3, 9)
        for since in (None, 0.0, 4.0, 50.0)
    ]
    found = [await got(service, config=config) for config in configs]
    return [([event.timestamp for event in one.events], one.state, one.last_update_time) for one in found]


async def partial_events_are_not_kept(service: BaseSessionService) -> object:
    """A partial event is neither in the session object nor stored."""
    made = await service.create_session(**CHAT)
    await service.append_event(made, Event(author="user", partial=True))
    return made.events, (await got(service)).events


async def a_deleted_session_takes_no_event(service: BaseSessionService) -> object:
    """An event for a session that is not there is refused."""
    made = await service.create_session(**CHAT)
    await service.delete_session(**CHAT)
    with pytest.raises(SessionNotFoundError):
        await service.append_event(made, told(app_k=1))
    return await got(service), (await service.create_session(**CHAT)).state


async def an_event_is_told_again(service: BaseSessionService) -> object:
    """An event that is told again is stored once; another one with its id is another event."""
    made = await service.create_session(**CHAT)
    event = told(5.0, id="e1", n=1, app_n=1)
    for one in (event, event, told(6.0, id="e1", n=2)):
        await service.append_event(made, one)
    return [one.timestamp for one in made.events], (await got(service)).state, len((await got(service)).events)


SCENES: dict[str, Scene] = {
    "test_get_empty_session": nothing_is_found,
    "test_create_get_session": is_created_and_deleted,
    "test_create_and_list_sessions, test_list_sessions_all_users": are_listed,
    "test_list_sessions_ordered_by_last_update_time": are_listed_by_activity,
    "test_app_state_is_shared_by_all_users_of_app": state_of_the_app_is_shared,
    "test_user_state_is_shared_only_by_user_sessions, all five of test_get_user_state.py": state_of_a_user_is_shared,
    "test_session_state_is_not_shared": state_of_a_session_is_its_own,
    "test_temp_state_is_not_persisted_in_state_or_events": temporary_state_is_not_kept,
    "test_get_session_respects_user_id": ids_are_a_users,
    "test_create_session_with_existing_id_raises_error": an_id_is_used_once,
    "test_padded_session_id_reads_and_deletes": blanks_around_an_id_are_none,
    "test_append_event_bytes": bytes_come_back,
    "test_append_event_complete": all_fields_come_back,
    "test_session_last_update_time_updates_on_event": its_time_is_the_newest_events,
    "test_get_session_with_config": a_part_of_the_events_is_asked_for,
    "test_partial_events_are_not_persisted": partial_events_are_not_kept,
    "an append to a session that was never stored raises (ADK's `_conformance.py`)": a_deleted_session_takes_no_event,
    "a delivery that is repeated (`InMemorySessionService.append_event`)": an_event_is_told_again,
}
"""Scenes by their tests in ADK; `test_append_event_to_stale_session` is below."""


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_of_adk_ends_as_with_adks_store(engine: Engine, scene: str) -> None:
    """In each scene of ADK's own tests this service gives what ADK's own one does."""
    theirs = asyncio.run(wrapped(SCENES[scene], InMemorySessionService()))
    assert asyncio.run(wrapped(SCENES[scene], EverdeltaSessionService(engine.open()))) == theirs


async def wrapped(scene: Scene, service: BaseSessionService) -> object:
    """Play a scene."""
    return await scene(service)


async def test_a_stale_session_object_is_refused(engine: Engine) -> None:
    """An event of an object that lacks a newer event is refused, and changes no state."""
    one, other = (EverdeltaSessionService(engine.open()) for _ in range(2))
    made = await one.create_session(**CHAT)
    await one.append_event(made, told(k=1))
    newer = await got(other)
    await other.append_event(newer, told(k=2))
    deltas: list[dict[str, Any]] = [{"k": 3}, {"k": 3, "app_k": 3, "user_k": 3}]
    for delta in deltas:
        with pytest.raises(StaleSessionError):
            await one.append_event(made, told(**delta))
    found = await got(one)
    assert (found.state, len(found.events), made.state) == ({"k": 2}, 2, {"k": 1})
    rebuilt = AdkSession.model_validate(found.model_dump())  # as of a program that keeps session objects
    await one.append_event(rebuilt, told(k=4))
    with pytest.raises(StaleSessionError):
        await other.append_event(AdkSession.model_validate(found.model_dump()), told(k=5))


@pytest.mark.promise(3, 4)
async def test_of_writers_of_shared_state_one_wins(engine: Engine) -> None:
    """Of session objects that append at once one wins, and only its state is shared."""
    services = [EverdeltaSessionService(engine.open()) for _ in range(3)]
    await services[0].create_session(**CHAT)
    loaded = [await got(service) for service in services]
    ended = await asyncio.gather(
        *(
            one.append_event(session, told(app_by=number))
            for number, (one, session) in enumerate(zip(services, loaded, strict=True))
        ),
        return_exceptions=True,
    )
    (winner,) = (number for number, one in enumerate(ended) if not isinstance(one, BaseException))
    assert {type(one) for one in ended if isinstance(one, BaseException)} == {StaleSessionError}
    found = await got(services[0])
    assert (found.state, len(found.events)) == ({"app:by": winner}, 1)


@pytest.mark.promise(1, 3)
@pytest.mark.parametrize("dies", [0, 1])
async def test_the_next_append_completes_what_a_kill_left(engine: Engine, dies: int) -> None:
    """The next append stores, once, an event of which the shared state alone is stored."""
    service = EverdeltaSessionService(engine.open())
    made = await service.create_session(**CHAT)
    await service.append_event(made, told(n=1))
    with pytest.MonkeyPatch.context() as patch:
        tell = service._tell

        def killed(*args: Any) -> Any:
            if dies:
                tell(*args)
            raise KeyboardInterrupt

        patch.setattr(service, "_tell", killed)
        with pytest.raises(KeyboardInterrupt):
            await asyncio.to_thread(partial(service._append, made, told(app_k="left", n=2)))
    other = EverdeltaSessionService(engine.open())
    found = await got(other)
    assert (found.state, len(found.events)) == ({"app:k": "left", "n": 1 + dies}, 1 + dies)
    for number in (3, 4):
        await other.append_event(found, told(last=number))
        found = await got(other)
    assert [event.actions.state_delta for event in found.events] == [
        {"n": 1},
        {"app:k": "left", "n": 2},
        {"last": 3},
        {"last": 4},
    ]
    assert found.state == {"app:k": "left", "n": 2, "last": 4}


class Scripted(BaseLlm):
    """A model that looks at a thing, and then answers."""

    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer a request."""
        del stream
        last: Any = llm_request.contents[-1].parts or []
        if last[0].function_response is not None:
            part = types.Part(text=f"I saw {last[0].function_response.response['result']}")
        else:
            part = types.Part(function_call=types.FunctionCall(name="look", args={"at": last[0].text}))
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=10, candidates_token_count=2)
        yield LlmResponse(
            content=types.Content(role="model", parts=[part]), usage_metadata=usage, model_version="scripted-1"
        )


def look(at: str) -> str:
    """Look at a thing."""
    return f"the {at}"


def runner(store: Store) -> Runner:
    """Return a runner of an agent on a store."""
    agent = LlmAgent(name="agent", model=Scripted(), tools=[look])
    services = {"session_service": EverdeltaSessionService(store), "artifact_service": EverdeltaArtifactService(store)}
    return Runner(app_name="app", agent=agent, **services)  # type: ignore[arg-type]


async def test_a_run_is_shown_and_a_rewind_hides(engine: Engine) -> None:
    """The view has what an agent was asked and did, not a rewound turn, which ADK still gets."""
    store = engine.open()
    running = runner(store)
    service: Any = running.session_service
    await service.create_session(**CHAT)
    turns: list[str] = []
    for text in ("bowl", "nut"):
        said = types.Content(role="user", parts=[types.Part(text=text)])
        turns += [
            event.invocation_id async for event in running.run_async(user_id="u1", session_id="s1", new_message=said)
        ]
    session = service.session("app", "u1", "s1")
    shown = [(one["role"], one.get("content")) for one in chat_messages(ModelView.of(session).messages)]
    turn = [("assistant", None), ("tool", '{"result":"the bowl"}'), ("assistant", "I saw the bowl")]
    assert [(role, said or None) for role, said in shown[:4]] == [("user", "bowl"), *turn]
    assert (len(shown), session.info.tokens) == (8, 4 * 12)
    await running.rewind_async(user_id="u1", session_id="s1", rewind_before_invocation_id=turns[-1])
    assert len(ModelView.of(session).messages) == 4
    assert len((await got(service)).events) == 9
    await running.close()


ARTIFACT = types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x00bytes\n" * 20_000))


async def artifacts(service: Any) -> object:
    """Save, list, load and delete artifacts of a session and a user; return all that is got."""
    where = CHAT | {"filename": "a/b%.png"}
    user = USER | {"filename": "user:file"}
    seen: list[Any] = [await service.load_artifact(**where), await service.list_versions(**where)]
    seen += [await service.save_artifact(**where, artifact=part) for part in (ARTIFACT, types.Part(text="text"))]
    seen.append(await service.save_artifact(**user, artifact={"text": "of a user"}, custom_metadata={"k": 1}))
    seen.append(
        await service.save_artifact(
            **CHAT, filename="a", artifact=types.Part(file_data=types.FileData(file_uri="gs://x", mime_type="m"))
        )
    )
    seen += [await service.load_artifact(**where, version=version) for version in (None, 0, 1, 2)]
    seen += [await service.list_artifact_keys(**key) for key in (CHAT, USER, CHAT | {"session_id": "other"})]
    seen += [await service.list_versions(**where), await service.load_artifact(**user)]
    seen += [(one.version, one.mime_type, one.custom_metadata) for one in await service.list_artifact_versions(**where)]
    uri = "artifact://apps/app/users/u1/sessions/s1/artifacts/a/b%.png/versions/0"
    refers = types.Part(file_data=types.FileData(file_uri=uri, mime_type="image/png"))
    await service.save_artifact(**CHAT, filename="refers", artifact=refers)
    seen.append(await service.load_artifact(**CHAT, filename="refers"))
    for refused in (
        types.Part(),
        types.Part(file_data=types.FileData(file_uri=uri.replace("u1", "u2"), mime_type="m")),
    ):
        with pytest.raises(InputValidationError):
            await service.save_artifact(**where, artifact=refused)
    with pytest.raises(InputValidationError):
        await service.load_artifact(**USER, filename="no session")
    await service.delete_artifact(**where)
    seen += [await service.load_artifact(**where), await service.get_artifact_version(**where)]
    return [*seen, await service.list_artifact_keys(**CHAT)]


async def test_artifacts_are_those_of_adks_store(engine: Engine) -> None:
    """Versions, names, metadata and references are what ADK's own service gives."""
    assert await artifacts(EverdeltaArtifactService(engine.open())) == await artifacts(InMemoryArtifactService())


@pytest.mark.promise(4)
async def test_savers_of_one_artifact_get_versions_of_their_own(engine: Engine) -> None:
    """Savers at once get one version each, and each version is what was saved."""
    services = [EverdeltaArtifactService(engine.open()) for _ in range(2)]
    where: dict[str, Any] = CHAT | {"filename": "f"}
    saved = await asyncio.gather(
        *(services[n % 2].save_artifact(**where, artifact=types.Part(text=f"{n}")) for n in range(6))
    )
    assert sorted(saved) == list(range(6))
    found = [await services[0].load_artifact(**where, version=version) for version in saved]
    assert [one and one.text for one in found] == [f"{n}" for n in range(6)]


async def test_a_deleted_session_leaves_no_byte(tmp_path: Path) -> None:
    """After a deletion and a scrub no file has an event, state, or artifact of the session."""
    engine = Engine("embedded", tmp_path)
    store = engine.open()
    service, files = EverdeltaSessionService(store), EverdeltaArtifactService(store)
    made = await service.create_session(**CHAT, state={"own": "secret-state"})
    said = types.Content(role="user", parts=[types.Part(text="secret-text")])
    actions = EventActions(state_delta={"app:k": "stays", "own": "secret-delta"})
    await service.append_event(made, Event(author="user", content=said, actions=actions))
    await files.save_artifact(**CHAT, filename="f", artifact=types.Part(text="secret-artifact " * 3000))
    await service.delete_session(**CHAT)
    store.scrub()
    assert [text for text in ("state", "text", "delta", "artifact") if files_with(engine.path, f"secret-{text}")] == []
    assert (await service.create_session(**CHAT)).state == {"app:k": "stays"}
    engine.close()


async def test_users_whose_names_look_alike_have_scopes_of_their_own(engine: Engine) -> None:
    """Erasing one user leaves users of other apps, whichever slashes their names have."""
    store = engine.open()
    service = EverdeltaSessionService(store)
    users = [("shop", "eu/ann"), ("shop/eu", "ann"), ("shop", "eu%2Fann")]
    for app, user in users:
        await service.create_session(app_name=app, user_id=user, session_id="1")
        await EverdeltaArtifactService(store).save_artifact(
            app_name=app, user_id=user, session_id="2", filename="f", artifact=types.Part(text="kept")
        )
    assert len({info.scope for info in store.sessions()}) == len(users)
    store.erase_scope(service.session(*users[0], "1").info.scope)
    found = [await got(service, app_name=app, user_id=user, session_id="1") for app, user in users]
    assert [session is None for session in found] == [True, False, False]


async def test_shared_state_set_to_none_leaves_no_byte(tmp_path: Path) -> None:
    """After an event that sets a user's state to None, an erasure and a scrub, no file has it."""
    place = Engine("embedded", tmp_path)
    store = place.open()
    service = EverdeltaSessionService(store)
    session = await service.create_session(**CHAT, state={"user:address": "5 elm street"})
    await service.append_event(session, told(user_address="6 elm street"))
    await service.append_event(session, told(user_address=None))
    store.erase_scope("app/u1")
    store.scrub()
    assert files_with(place.path, "elm street") == []
    place.close()
