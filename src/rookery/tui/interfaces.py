"""Interfaces between the parts of the full-screen client.

The app implements `Controller`. Pickers and side screens get only that, so that tests can pass a
fake.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from rookery.core.commands import Command
from rookery.core.facts import Event
from rookery.core.folds.view import View
from rookery.core.queries import About, Asking, ViewStart
from rookery.protocol.codec import Host

T = TypeVar("T")
ToastKind: TypeAlias = Literal["info", "success", "warning", "error"]


class Choice(Struct, frozen=True, kw_only=True):
    """A row of a picker. Picking it replaces the trigger and the text after it by `insert`, then
    runs `action`."""

    label: str
    detail: str = ""
    insert: str = ""
    action: Callable[[], Awaitable[None]] | None = None


class Controller(Protocol):
    """What screens and pickers may use. Read values when needed: they change."""

    @property
    def host(self) -> Host: ...

    @property
    def task_id(self) -> str | None:
        """The session on the screen."""
        ...

    @property
    def view(self) -> View | None: ...

    @property
    def about(self) -> About: ...

    @property
    def intent(self) -> str:
        """Id of the active intent, or of the next session's if none is open."""
        ...

    @property
    def views(self) -> Mapping[str, View]:
        """Views of the session and its sub-tasks, as far as they were followed."""
        ...

    def events(self, task_id: str) -> Sequence[Event]:
        """The lasting events of a followed task, oldest first. Those of a long session begin at
        `start`."""
        ...

    @property
    def start(self) -> ViewStart:
        """Where the events of the session begin."""
        ...

    @property
    def misses_events(self) -> bool:
        """Whether older events are missing from `events`, or where they start is not known yet."""
        ...

    async def read_past(self) -> bool:
        """Read all events of the session, which takes seconds if there are very many. Returns
        False, after a toast, if they cannot be read."""
        ...

    async def send(self, command: Command) -> bool:
        """Send a command; a refusal is shown as a toast. Returns whether it was accepted. With
        the task id `""`, a switch of model, mode, intent or approval applies to the next
        session."""
        ...

    async def ask(self, query: Asking[T]) -> T:
        """Query the host. Raises `CommandRejected` with a message for the user."""
        ...

    def toast(self, text: str, kind: ToastKind = "info") -> None: ...

    async def open_task(self, task_id: str) -> None:
        """Show a stored or running session. Refused with a toast while one is working. A sub-task
        of a session at work is shown in its conversation."""
        ...

    async def new_task(self) -> None:
        """Show the empty page; the next message starts a session."""
        ...

    def insert(self, text: str) -> None:
        """Insert text at the cursor of the input area."""
        ...

    def attach_text(self, name: str, text: str) -> None:
        """Send a text with the next message; until then only its name is shown."""
        ...

    def restore_text(self, text: str) -> None:
        """Put undone text back into the input area, if that is empty."""
        ...

    def press(self, action: str) -> None:
        """Run an action of the app, given as in its bindings."""
        ...
