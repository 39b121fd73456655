"""Everything a client may request. Imperative, where facts are in the past tense.

A command is either refused at once or leads to facts in the task's log. Nothing is
returned: a client learns what became of its command the way everybody else does.
"""

from typing import Literal, TypeAlias

from rookery.core.asks import Reply
from rookery.core.blocks import Image
from rookery.core.intents.questions import Choice
from rookery.core.values import value


@value
class OpenTask:
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


@value
class ReopenTask:
    task_id: str


@value
class Answer:
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


@value
class Speak:
    """Words for the model, to be heard at the next opportunity. They answer no question."""

    task_id: str
    message_id: str
    text: str
    images: tuple[Image, ...] = ()


@value
class EditQueue:
    """Change words that have not been heard yet; no text takes them back."""

    task_id: str
    message_id: str
    text: str | None = None


@value
class Cancel:
    """Stop what is being done. The task stays open and asks whether to go on."""

    task_id: str


@value
class RetryNow:
    """Do not wait any longer for the next try."""

    task_id: str


@value
class Condense:
    """Have the older part of the conversation summarised, although it still fits."""

    task_id: str


@value
class CloseTask:
    task_id: str


@value
class Rewind:
    """Take the conversation back to event `to`."""

    task_id: str
    to: int


@value
class RestoreFiles:
    """Put back the files as they were at event `to`; those that somebody else has changed
    since only with `overwrite`.
    """

    task_id: str
    to: int
    overwrite: bool = False


@value
class StopCommand:
    """End a command that runs on behind its call."""

    task_id: str
    call_id: str


@value
class SwitchMode:
    task_id: str
    mode: str


@value
class SwitchModel:
    """Have another model do the rest of the task, and of those that work for it."""

    task_id: str
    provider: str
    model: str


@value
class SwitchApproval:
    """Whether actions of a task, and of those that work for it, need a yes from now on."""

    task_id: str
    automatic: bool


@value
class SelectIntent:
    """Have the task work for an intent; without an id for none."""

    task_id: str
    intent_id: str = ""


@value
class DeleteTask:
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
