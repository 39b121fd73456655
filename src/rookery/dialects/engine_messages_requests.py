"""What the driver of `--json-io` may request, each a small value of its own."""

from typing import Literal, TypeAlias

from rookery.core.asks import Reply
from rookery.core.intents.questions import Choice
from rookery.core.values import value
from rookery.dialects.start_settings import StartSettings

Span: TypeAlias = Literal["checkpoint", "from-init", "to-current", "full"]


@value
class NewTask:
    text: str = ""
    images: tuple[str, ...] = ()
    """Pictures as data URIs, or files that hold them."""
    task_id: str = ""
    settings: StartSettings = StartSettings()


@value
class Answer:
    """An answer to the question that is open, or to none but the one with this `row`."""

    reply: Reply
    text: str = ""
    images: tuple[str, ...] = ()
    row: float | None = None
    task_id: str = ""
    always: bool = False
    """The rule that came with the question holds from now on."""
    choice: Choice | None = None
    """What goes beyond yes or no to a question of governance."""


@value
class Queue:
    text: str = ""
    images: tuple[str, ...] = ()


@value
class EditQueued:
    """Words that wait are changed, or taken back if there is no text."""

    message_id: str
    text: str | None = None


@value
class ClearTask:
    pass


@value
class CancelTask:
    pass


@value
class HandleCommand:
    """The command that runs is let run on, or is ended."""

    ends: bool


@value
class ShowTask:
    task_id: str


@value
class DeleteTask:
    task_id: str


@value
class Choose:
    """Work on like this, and begin the tasks to come like this."""

    settings: StartSettings


@value
class Launch:
    """A webview is there and wants to be shown everything."""


@value
class WantCommands:
    pass


@value
class WantModes:
    pass


@value
class WantModels:
    """The models by provider, or only those of the provider in use."""

    only_ours: bool = False


@value
class FindFiles:
    letters: str = ""
    request_id: str = ""


@value
class CondenseTask:
    task_id: str = ""


@value
class CompareFiles:
    """What became of files; a span without a `row` begins with the task."""

    span: Span
    row: float | None = None


@value
class RestoreFiles:
    """Back to a checkpoint, with the conversation or without."""

    row: float
    with_words: bool = False


@value
class ReviewMessage:
    """A message is about to be deleted, or changed to `text`: what the webview should ask first."""

    row: float
    text: str | None = None
    images: tuple[str, ...] = ()


@value
class RewriteMessage:
    """Go back to before a message, and say `text` instead if there is one."""

    row: float
    text: str | None = None
    images: tuple[str, ...] = ()
    with_files: bool = False


@value
class Shutdown:
    pass


@value
class Ping:
    pass


@value
class Unheard:
    """A message that means nothing here."""

    type: str


Request: TypeAlias = (
    NewTask
    | Answer
    | Queue
    | EditQueued
    | ClearTask
    | CancelTask
    | HandleCommand
    | ShowTask
    | DeleteTask
    | Choose
    | Launch
    | WantCommands
    | WantModes
    | WantModels
    | FindFiles
    | CondenseTask
    | CompareFiles
    | RestoreFiles
    | ReviewMessage
    | RewriteMessage
    | Shutdown
    | Ping
    | Unheard
)
