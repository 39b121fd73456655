"""Everything a client may request. Imperative, where facts are in the past tense.

A command is either refused at once or leads to facts in the task's log. Nothing is
returned: a client learns what became of its command the way everybody else does.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.core.asks import Choice, Reply
from rookery.core.blocks import Image


class OpenTask(Struct, frozen=True, kw_only=True):
    """The client picks the id, so sending the same command twice opens one task."""

    task_id: str
    text: str
    images: tuple[Image, ...] = ()
    mode: str = "code"
    provider: str = ""
    model: str = ""
    """The model to begin with; the usual one if there is none. Without a provider, one of the
    usual provider."""
    automatic: bool | None = None
    """Whether it acts without asking, if that is not as usual."""
    intent: str = ""
    """The id of the intent that it works for from the beginning."""


class ReopenTask(Struct, frozen=True, kw_only=True):
    task_id: str


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to one question, named by its id and the digest of what it would allow."""

    task_id: str
    ask_id: str
    reply: Reply
    text: str = ""
    images: tuple[Image, ...] = ()
    digest: str = ""
    by: Literal["user", "policy"] = "user"
    always: bool = False
    """Allow from now on what the question's rule says."""
    choice: Choice | None = None
    """What goes beyond yes or no, if the question offers it."""
    message_id: str = ""
    """Names its words, if they may have been sent before: then they are not heard again."""


class Speak(Struct, frozen=True, kw_only=True):
    """Words for the model, to be heard at the next opportunity. They answer no question."""

    task_id: str
    message_id: str
    text: str
    images: tuple[Image, ...] = ()


class EditQueue(Struct, frozen=True, kw_only=True):
    """Change words that have not been heard yet; no text takes them back."""

    task_id: str
    message_id: str
    text: str | None = None


class Cancel(Struct, frozen=True, kw_only=True):
    """Stop what is being done. The task stays open and asks whether to go on."""

    task_id: str


class RetryNow(Struct, frozen=True, kw_only=True):
    """Do not wait any longer for the next try."""

    task_id: str


class Condense(Struct, frozen=True, kw_only=True):
    """Have the older part of the conversation summarised, although it still fits."""

    task_id: str


class CloseTask(Struct, frozen=True, kw_only=True):
    task_id: str


class Rewind(Struct, frozen=True, kw_only=True):
    """Take the conversation back to event `to`."""

    task_id: str
    to: int


class RestoreFiles(Struct, frozen=True, kw_only=True):
    """Put back the files as they were at event `to`; those that somebody else has changed
    since only with `overwrite`.
    """

    task_id: str
    to: int
    overwrite: bool = False


class StopCommand(Struct, frozen=True, kw_only=True):
    """End a command that runs on behind its call."""

    task_id: str
    call_id: str


class SwitchMode(Struct, frozen=True, kw_only=True):
    task_id: str
    mode: str


class SwitchModel(Struct, frozen=True, kw_only=True):
    """Have another model do the rest of the task, and of those that work for it."""

    task_id: str
    provider: str
    model: str


class SwitchApproval(Struct, frozen=True, kw_only=True):
    """Whether actions of a task, and of those that work for it, need a yes from now on."""

    task_id: str
    automatic: bool


class SelectIntent(Struct, frozen=True, kw_only=True):
    """Have the task work for an intent; without an id for none."""

    task_id: str
    intent_id: str = ""


class DeleteTask(Struct, frozen=True, kw_only=True):
    task_id: str


Command: TypeAlias = (
    OpenTask
    | ReopenTask
    | Answer
    | Speak
    | EditQueue
    | Cancel
    | RetryNow
    | Condense
    | CloseTask
    | Rewind
    | RestoreFiles
    | StopCommand
    | SwitchMode
    | SwitchModel
    | SwitchApproval
    | SelectIntent
    | DeleteTask
)
