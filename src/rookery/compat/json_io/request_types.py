"""The requests of the `--json-io` driver."""

from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.compat.driver import StartSettings
from rookery.core.asks import Choice, Reply

Span: TypeAlias = Literal["checkpoint", "from-init", "to-current", "full"]


class NewTaskRequest(Struct, frozen=True, kw_only=True):
    text: str = ""
    images: tuple[str, ...] = ()
    """Images as data URIs or file names."""
    task_id: str = ""
    settings: StartSettings = StartSettings()


class AnswerRequest(Struct, frozen=True, kw_only=True):
    """An answer to the open question; with `row` only to that one."""

    reply: Reply
    text: str = ""
    images: tuple[str, ...] = ()
    row: float | None = None
    task_id: str = ""
    always: bool = False
    """Also store the rule offered with the question."""
    choice: Choice | None = None
    """An answer other than yes or no to a governance question."""


class Queue(Struct, frozen=True, kw_only=True):
    text: str = ""
    images: tuple[str, ...] = ()


class EditRequest(Struct, frozen=True, kw_only=True):
    """Change a queued message, or remove it if there is no text."""

    message_id: str
    text: str | None = None


class ClearRequest(Struct, frozen=True, kw_only=True):
    pass


class CancelRequest(Struct, frozen=True, kw_only=True):
    pass


class HandleCommand(Struct, frozen=True, kw_only=True):
    """Let the running command continue in the background, or end it."""

    ends: bool


class ShowTask(Struct, frozen=True, kw_only=True):
    task_id: str


class DeleteRequest(Struct, frozen=True, kw_only=True):
    task_id: str


class Choose(Struct, frozen=True, kw_only=True):
    """Change settings of the current task and of new ones."""

    settings: StartSettings


class LaunchRequest(Struct, frozen=True, kw_only=True):
    """A webview was opened and needs the full state."""


class WantCommands(Struct, frozen=True, kw_only=True):
    pass


class WantModes(Struct, frozen=True, kw_only=True):
    pass


class WantModels(Struct, frozen=True, kw_only=True):
    """List the models of all providers, or only of the one in use."""

    only_ours: bool = False


class FindFiles(Struct, frozen=True, kw_only=True):
    letters: str = ""
    request_id: str = ""


class CondenseTask(Struct, frozen=True, kw_only=True):
    task_id: str = ""


class CompareFiles(Struct, frozen=True, kw_only=True):
    """Compare files; without a `row` from the start of the task."""

    span: Span
    row: float | None = None


class RestoreFilesRequest(Struct, frozen=True, kw_only=True):
    """Restore a checkpoint, with the conversation or without."""

    row: float
    with_words: bool = False


class ReviewMessage(Struct, frozen=True, kw_only=True):
    """Ask what to confirm before a message is deleted, or changed to `text`."""

    row: float
    text: str | None = None
    images: tuple[str, ...] = ()


class RewriteMessage(Struct, frozen=True, kw_only=True):
    """Rewind to before a message, and send `text` instead if there is one."""

    row: float
    text: str | None = None
    images: tuple[str, ...] = ()
    with_files: bool = False


class ShutdownRequest(Struct, frozen=True, kw_only=True):
    pass


class PingRequest(Struct, frozen=True, kw_only=True):
    pass


class Ignored(Struct, frozen=True, kw_only=True):
    """A message of an unknown type."""

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
    | Ignored
)
