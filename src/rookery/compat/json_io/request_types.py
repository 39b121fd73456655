"""What the driver of `--json-io` may request, each a small value of its own."""

from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.compat.driver import StartSettings
from rookery.core.asks import Choice, Reply

Span: TypeAlias = Literal["checkpoint", "from-init", "to-current", "full"]


class NewTaskRequest(Struct, frozen=True, kw_only=True):
    text: str = ""
    images: tuple[str, ...] = ()
    """Pictures as data URIs, or files that hold them."""
    task_id: str = ""
    settings: StartSettings = StartSettings()


class AnswerRequest(Struct, frozen=True, kw_only=True):
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


class Queue(Struct, frozen=True, kw_only=True):
    text: str = ""
    images: tuple[str, ...] = ()


class EditRequest(Struct, frozen=True, kw_only=True):
    """Words that wait are changed, or taken back if there is no text."""

    message_id: str
    text: str | None = None


class ClearRequest(Struct, frozen=True, kw_only=True):
    pass


class CancelRequest(Struct, frozen=True, kw_only=True):
    pass


class HandleCommand(Struct, frozen=True, kw_only=True):
    """The command that runs is let run on, or is ended."""

    ends: bool


class ShowTask(Struct, frozen=True, kw_only=True):
    task_id: str


class DeleteRequest(Struct, frozen=True, kw_only=True):
    task_id: str


class Choose(Struct, frozen=True, kw_only=True):
    """Work on like this, and begin the tasks to come like this."""

    settings: StartSettings


class LaunchRequest(Struct, frozen=True, kw_only=True):
    """A webview is there and wants to be shown everything."""


class WantCommands(Struct, frozen=True, kw_only=True):
    pass


class WantModes(Struct, frozen=True, kw_only=True):
    pass


class WantModels(Struct, frozen=True, kw_only=True):
    """The models by provider, or only those of the provider in use."""

    only_ours: bool = False


class FindFiles(Struct, frozen=True, kw_only=True):
    letters: str = ""
    request_id: str = ""


class CondenseTask(Struct, frozen=True, kw_only=True):
    task_id: str = ""


class CompareFiles(Struct, frozen=True, kw_only=True):
    """What became of files; a span without a `row` begins with the task."""

    span: Span
    row: float | None = None


class RestoreFilesRequest(Struct, frozen=True, kw_only=True):
    """Back to a checkpoint, with the conversation or without."""

    row: float
    with_words: bool = False


class ReviewMessage(Struct, frozen=True, kw_only=True):
    """A message is about to be deleted, or changed to `text`: what the webview should ask first."""

    row: float
    text: str | None = None
    images: tuple[str, ...] = ()


class RewriteMessage(Struct, frozen=True, kw_only=True):
    """Go back to before a message, and say `text` instead if there is one."""

    row: float
    text: str | None = None
    images: tuple[str, ...] = ()
    with_files: bool = False


class ShutdownRequest(Struct, frozen=True, kw_only=True):
    pass


class PingRequest(Struct, frozen=True, kw_only=True):
    pass


class Unheard(Struct, frozen=True, kw_only=True):
    """A message that means nothing here."""

    type: str


Request: TypeAlias = (
    NewTaskRequest
    | AnswerRequest
    | Queue
    | EditRequest
    | ClearRequest
    | CancelRequest
    | HandleCommand
    | ShowTask
    | DeleteRequest
    | Choose
    | LaunchRequest
    | WantCommands
    | WantModes
    | WantModels
    | FindFiles
    | CondenseTask
    | CompareFiles
    | RestoreFilesRequest
    | ReviewMessage
    | RewriteMessage
    | ShutdownRequest
    | PingRequest
    | Unheard
)
