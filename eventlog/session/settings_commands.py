"""Commands of a session about itself: title, metadata, notes, usage, settings and pins."""

from __future__ import annotations

from collections.abc import Sequence

from eventlog import events as ev
from eventlog.codec.large_texts import to_content
from eventlog.session.executor import Executor
from eventlog.session.inputs import as_json, model_of, require_sound_json
from eventlog.validation import each, require_json, require_limits
from eventlog.values import Json, Limits, Model, Todo, Usage


class SettingsCommands:
    """The commands of a handle that record settings, and facts beside the messages."""

    executor: Executor

    def rename(self, title: str) -> None:
        """Give the session a title.  Needs no lease."""
        self.executor.command([ev.SessionRenamed(title)])

    def archive(self) -> None:
        """Mark the session as archived.  Needs no lease."""
        self.executor.command([ev.SessionArchived()])

    def unarchive(self) -> None:
        """Mark the session as not archived.  Needs no lease."""
        self.executor.command([ev.SessionUnarchived()])

    def set_metadata(self, key: str, value: Json | dict[str, object] | None) -> None:
        """Set an entry of the embedder's own metadata: JSON text, or a dict; None removes it.

        Needs no lease. `CallError` for a `value` that is no JSON.
        """
        text = as_json(value, "the metadata of a session") if isinstance(value, dict) else value
        self.executor.command([ev.MetadataSet(key, text)])

    def set_note(self, note: str) -> None:
        """Set the embedder's note in the list of sessions (`SessionInfo.note`); "" removes it.

        Needs no lease, is no activity, and is not undone by a rollback. `LimitError` above 1 KB of
        UTF-8.
        """
        self.executor.command([ev.NoteSet(note)])

    def record_custom(self, namespace: str, data: Json) -> int:
        """Record an embedder's own fact; returns its version, 0 inside a pipeline.

        Needs no lease.
        """
        fact = [ev.Custom(namespace, data)]
        if self.executor.in_pipeline:
            self.executor.command(fact)
            return 0
        require_sound_json(fact)
        return self.executor.commit(fact).first

    def record_usage(
        self,
        usage: Usage,
        *,
        message: str | None = None,
        step: str | None = None,
        model: Model | str | None = None,
        purpose: str = "turn",
        failed: bool = False,
        catalogue: str = "",
    ) -> None:
        """Record the cost of a model call, failed ones included.  Needs no lease.

        `catalogue` is the date of the prices from which the caller computed the cost. Without a
        cost, the store's `prices` are asked. `message` and `step` are the ids of the reply and the
        step-start part, `model` is the one that was called. `purpose` is "turn", "summary",
        "title", "correction" (`usage` adds to a call that was recorded) or the program's word;
        `failed` says that no answer came.
        """
        named = model_of(model)
        usage, catalogue = self.executor.host.priced(usage, named, catalogue)
        self.executor.command([ev.UsageRecorded(usage, message, step, named, purpose, failed, catalogue)])

    # -- settings ------------------------------------------------------------------------------

    def set_settings(
        self,
        *,
        model: Model | str | None = None,
        limits: Limits | None = None,
        policy: Json | None = None,
        wait: float = 0.0,
    ) -> None:
        """Set the model's limits and the context policy from here on.

        `model` is the model that `limits` are of, `policy` is a `ContextPolicy` as JSON; None
        leaves each as it is. `wait` is the seconds to wait for the lease.
        """
        if limits is not None:
            require_limits(limits)
        if policy is not None:
            require_json(dict, policy, "a context policy is a JSON object")
        self.executor.run([ev.SettingsSet(model_of(model), limits, policy)], wait=wait)

    def set_system_prompt(self, header: str, rest: str = "", *, wait: float = 0.0) -> None:
        """Set the system prompt from here on, in its two segments.

        `wait` is the seconds to wait for the lease.
        """
        bodies: dict[bytes, bytes] = {}
        prompt = ev.SystemPromptSet(to_content(header, bodies), to_content(rest, bodies))
        self.executor.run([prompt], bodies, wait=wait)

    def set_tools(self, schemas: Json, *, wait: float = 0.0) -> None:
        """Set the tool schemas (a JSON array) offered from here on.

        `wait` is the seconds to wait for the lease.
        """
        require_json(list, schemas, "tool schemas are a JSON array, as a str")
        bodies: dict[bytes, bytes] = {}
        self.executor.run([ev.ToolsSet(to_content(schemas, bodies))], bodies, wait=wait)

    def set_todos(self, todos: Sequence[Todo], *, wait: float = 0.0) -> None:
        """Replace the list of things to do.

        `wait` is the seconds to wait for the lease.
        """
        self.executor.run([ev.TodosSet(each(todos, "todos are a list of todos"))], wait=wait)

    def pin(self, text: str | None = None, *, part: str | None = None) -> str:
        """Carry a fact or a part over every compaction; returns the pin's id.  Needs no lease.

        Give `text` for a fact, or `part` for a part.
        """
        bodies: dict[bytes, bytes] = {}
        pin = self.executor.host.new_id("pin_")
        self.executor.command([ev.Pinned(pin, None if text is None else to_content(text, bodies), part)], bodies)
        return pin

    def unpin(self, pin: str) -> None:
        """Take a pin away.  Needs no lease."""
        self.executor.command([ev.Unpinned(pin)])
