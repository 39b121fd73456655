"""What the parts of the full-screen client know of each other.

The app is a `Controller`. Pickers and side screens are handed it and nothing else, so that tests
can give them another one.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from rookery.core.commands import Command
from rookery.core.facts import Event
from rookery.core.folds.view import View
from rookery.core.queries import About, Asking
from rookery.protocol.codec import Host

T = TypeVar("T")
ToastKind: TypeAlias = Literal["info", "success", "warning", "error"]


class Choice(Struct, frozen=True, kw_only=True):
    """One row of a picker. Picking it puts `insert` in the place of what was typed since the
    trigger, trigger included, and then does the `action`, if there is one."""

    label: str
    detail: str = ""
    insert: str = ""
    action: Callable[[], Awaitable[None]] | None = None


class Controller(Protocol):
    """What screens and pickers get. All of it is as of now; what is kept grows old."""

    @property
    def host(self) -> Host: ...

    @property
    def task_id(self) -> str | None:
        """The task that is looked at."""
        ...

    @property
    def view(self) -> View | None:
        """That task as it stands."""
        ...

    @property
    def about(self) -> About: ...

    @property
    def intent(self) -> str:
        """What that task works for, or the next one if there is none; by its id."""
        ...

    @property
    def views(self) -> Mapping[str, View]:
        """The task and all that work for it, as far as they were followed in this run."""
        ...

    def events(self, task_id: str) -> Sequence[Event]:
        """What is on record of a task that is followed: its lasting events, oldest first."""
        ...

    async def send(self, command: Command) -> bool:
        """Request something. A refusal is shown as a toast; whether it was accepted. Another
        model, mode, intent or way of acting for no task (`""`) holds for the next one."""
        ...

    async def ask(self, query: Asking[T]) -> T:
        """Look something up. Raises `CommandRejected`, whose text is for the reader."""
        ...

    def toast(self, text: str, kind: ToastKind = "info") -> None: ...

    async def open_task(self, task_id: str) -> None:
        """Look at a stored or running task instead. Refused with a toast while one works."""
        ...

    async def new_task(self) -> None:
        """Back to the empty page, where the next words open a task."""
        ...

    def insert(self, text: str) -> None:
        """Put words into the input area at the cursor."""
        ...

    def take_back(self, text: str) -> None:
        """Put words that were taken back into the input area, if there are no others."""
        ...

    def press(self, action: str) -> None:
        """Do one of the app's own actions, named as its bindings name it."""
        ...


class OpenPicker(Protocol):
    """What the input area needs of a picker that is open below it. A picker is a widget with
    these methods; it is made with the controller, and shows its own rows."""

    async def look_for(self, text: str) -> None:
        """Show what fits the text typed behind the trigger, once it has paused."""
        ...

    def move(self, by: int) -> None:
        """Up or down; the list goes round."""
        ...

    @property
    def chosen(self) -> Choice | None: ...
