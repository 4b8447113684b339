"""Artifact service of Google ADK: a version of an artifact is one value.

Artifacts of a session are values of that session, and erased with it; those of a user (`user:`) are
on the shelf of the app.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from google.adk.artifacts import artifact_util
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from pydantic import TypeAdapter

from eventlog.adapters.google_adk_keys import Key, digest_of
from eventlog.adapters.name_keys import joined, parted, session_of
from eventlog.adapters.settled import settled
from eventlog.errors import ConflictError
from eventlog.session.values import Values
from eventlog.store import Store

_HEAD: TypeAdapter[tuple[ArtifactVersion, types.Part]] = TypeAdapter(tuple[ArtifactVersion, types.Part])
DEPTH = 8
"""References that are followed, each to the next."""
_GONE = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
"""A rewind of ADK saves this for an artifact of which there was no version."""


class EverdeltaArtifactService(BaseArtifactService):
    """Artifacts of Google ADK in a store: pass it to a `Runner` as `artifact_service`."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def save_artifact(self, *, artifact: Any, custom_metadata: dict[str, Any] | None = None, **where: Any) -> int:
        """Store a further version of an artifact; return its number, from 0."""
        part, place = ensure_part(artifact), _Artifact(self.store, **where)
        if part.inline_data is None and part.text is None and part.file_data is None:
            raise InputValidationError("an artifact has inline data, a text or file data")
        place.target_of(part)
        return await settled(place.save, part, custom_metadata or {})

    async def load_artifact(self, *, version: int | None = None, **where: Any) -> types.Part | None:
        """Return a version of an artifact, the newest by default; of a reference its target."""
        place = _Artifact(self.store, **where)
        for _ in range(DEPTH):
            found = await settled(place.load, version)
            if found is None or found[0] == _GONE:
                return None
            if (target := place.target_of(found[0])) is None:
                return found[0]
            version = target.version
            place = _Artifact(self.store, target.app_name, target.user_id, target.filename, target.session_id)
        raise InputValidationError(f"a reference leads on to more than {DEPTH} others")

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        """Return the names of the user's artifacts, and of the session's; no artifact is read."""
        places = [_Artifact(self.store, app_name, user_id, "user:")]
        if session_id is not None:
            places.append(_Artifact(self.store, app_name, user_id, "", session_id))
        found = await settled(lambda: {name for place in places for name in place.names()})
        return sorted(found)

    async def delete_artifact(self, **where: Any) -> None:
        """Drop all versions of an artifact; `Store.scrub` removes the bytes."""
        await settled(_Artifact(self.store, **where).drop)

    async def list_versions(self, **where: Any) -> list[int]:
        """Return the numbers of an artifact's versions; none is read."""
        return await settled(_Artifact(self.store, **where).versions)

    async def list_artifact_versions(self, **where: Any) -> list[ArtifactVersion]:
        """Return the metadata of all versions."""
        found = [
            await self.get_artifact_version(version=number, **where) for number in await self.list_versions(**where)
        ]
        return [one for one in found if one is not None]

    async def get_artifact_version(self, *, version: int | None = None, **where: Any) -> ArtifactVersion | None:
        """Return the metadata of a version, the newest by default."""
        found = await settled(_Artifact(self.store, **where).load, version)
        return None if found is None else found[1]


class _Artifact:
    """The versions of one artifact."""

    def __init__(self, store: Store, app_name: str, user_id: str, filename: str, session_id: str | None = None) -> None:
        is_user = filename.startswith("user:")
        if session_id is None and not is_user:
            raise InputValidationError("an artifact of a session needs its session_id; one of a user begins with user:")
        self.key = Key(app_name, user_id, "" if is_user else session_id or "")
        self.uri = partial(artifact_util.get_artifact_uri, app_name, user_id, filename, session_id=self.key.session)
        self._store = store
        self._owner = f"artifact/{digest_of(user_id)}/" if is_user else "artifact/"
        self._prefix = self._owner + joined(filename, "")

    def _values(self, *, create: bool = False) -> Values | None:
        if not self.key.session:
            return self._store.shelf(self.key.shelf).values
        if create:
            return self._store.open_session(self.key.name, scope=self.key.scope).values
        session = session_of(self._store, self.key.name)
        return None if session is None else session.values

    def _keys(self, prefix: str) -> list[str]:
        values = self._values()
        return [] if values is None else values.keys(prefix)

    def names(self) -> set[str]:
        """Return the names of the owner's artifacts."""
        return {parted(key.removeprefix(self._owner))[0] for key in self._keys(self._owner)}

    def versions(self) -> list[int]:
        """Return the numbers of the versions."""
        return [int(key.rpartition("/")[2]) for key in self._keys(self._prefix)]

    def save(self, part: types.Part, metadata: dict[str, Any]) -> int:
        """Put a version: a line of JSON, then the bytes."""
        values = self._values(create=True)
        assert values is not None
        blob = part.inline_data
        bare = part if blob is None else part.model_copy(update={"inline_data": blob.model_copy(update={"data": b""})})
        mime = "text/plain" if part.text is not None else (blob or part.file_data or types.Blob()).mime_type
        while True:
            number = max(self.versions(), default=-1) + 1
            about = ArtifactVersion(
                version=number, canonical_uri=self.uri(number), custom_metadata=metadata, mime_type=mime,
                create_time=self._store.host.clock() / 1000,
            )  # fmt: skip
            head = f"[{about.model_dump_json()},{bare.model_dump_json(exclude_none=True)}]\n".encode()
            try:
                values.put(f"{self._prefix}{number:08}", head + ((blob and blob.data) or b""), expected=0)
            except ConflictError:  # another task has saved this version
                continue
            return number

    def load(self, version: int | None) -> tuple[types.Part, ArtifactVersion] | None:
        """Return a version and its metadata."""
        number = max(self.versions(), default=-1) if version is None else version
        values = self._values()
        stored = values.get(f"{self._prefix}{number:08}") if values is not None and number >= 0 else None
        if stored is None:
            return None
        assert isinstance(stored.value, bytes)
        head, _, data = stored.value.partition(b"\n")
        about, part = _HEAD.validate_json(head)
        if part.inline_data is not None:
            part.inline_data.data = data
        return part, about

    def drop(self) -> None:
        """Drop all versions, the newest last."""
        values = self._values()
        for key in self._keys(self._prefix):
            assert values is not None
            values.drop(key)

    def target_of(self, part: types.Part) -> artifact_util.ParsedArtifactUri | None:
        """Return what a part refers to, None for one that is no reference."""
        if not artifact_util.is_artifact_ref(part):
            return None
        uri = str(part.file_data and part.file_data.file_uri)
        target = artifact_util.parse_artifact_uri(uri)
        inside = target is not None and (target.app_name, target.user_id) == (self.key.app, self.key.user)
        if target is None or not inside or target.session_id not in {None, self.key.session}:
            raise InputValidationError(f"an artifact refers to one of the same app, user and session, not to {uri:.80}")
        return target
