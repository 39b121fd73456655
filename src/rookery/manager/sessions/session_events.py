"""What happens to a session: what its user wants, what its process does, what the manager does.

What comes from a process names the generation of the process, so that a late word of an old one
is known for what it is. What answers an ask names the ask, so that a late click answers no other.
"""

from typing import TypeAlias

from msgspec import Struct


class StartSession(Struct, frozen=True, kw_only=True):
    """The prompt goes to a new process as a new task."""

    text: str = ""
    images: tuple[str, ...] = ()


class SendMessage(Struct, frozen=True, kw_only=True):
    """Text of the user. It answers an open question only if it was written to answer it."""

    text: str
    images: tuple[str, ...] = ()
    ask_ts: int | None = None


class ApproveAction(Struct, frozen=True, kw_only=True):
    ask_ts: int
    text: str = ""


class RejectAction(Struct, frozen=True, kw_only=True):
    ask_ts: int
    text: str = ""


class CancelSession(Struct, frozen=True, kw_only=True):
    pass


class ResumeSession(Struct, frozen=True, kw_only=True):
    text: str = ""


class Retry(Struct, frozen=True, kw_only=True):
    pass


class ProcessEvent(Struct, frozen=True, kw_only=True):
    """Something that belongs to one process of the session."""

    generation: int


class SessionCreated(ProcessEvent, frozen=True, kw_only=True):
    session_id: str


class AgentMessage(ProcessEvent, frozen=True, kw_only=True):
    """Something the agent said or asked; `ts` names the message, later ones have a larger one."""

    ts: int


class ApiReqStarted(AgentMessage, frozen=True, kw_only=True):
    """A request that was not seen before."""


class Activity(AgentMessage, frozen=True, kw_only=True):
    """Anything that is said or asked of which only this matters: the agent works."""


class SayCompletionResult(AgentMessage, frozen=True, kw_only=True):
    text: str = ""


class SayCheckpointSaved(AgentMessage, frozen=True, kw_only=True):
    pass


class AgentAsked(AgentMessage, frozen=True, kw_only=True):
    """A complete ask, by its wire name."""

    ask: str
    text: str = ""


class AskAnswered(AgentMessage, frozen=True, kw_only=True):
    """The ask of this `ts` was answered, by whomever."""


class AutoApproved(ProcessEvent, frozen=True, kw_only=True):
    ask_ts: int


class CreationTimeout(ProcessEvent, frozen=True, kw_only=True):
    """The process has not announced its session in time; `text` is what it complained of."""

    text: str = ""


class ProcessError(ProcessEvent, frozen=True, kw_only=True):
    """The process could not be started or cannot be talked to any more."""

    text: str


class ProcessExit(ProcessEvent, frozen=True, kw_only=True):
    """The process is gone; `requested` if the manager itself ended it, as when it quits. `text` is
    what it complained of."""

    code: int | None = 0
    signal: int | None = None
    requested: bool = False
    text: str = ""

    @property
    def clean(self) -> bool:
        return self.code == 0 and self.signal is None


UserEvent: TypeAlias = (
    StartSession
    | SendMessage
    | ApproveAction
    | RejectAction
    | CancelSession
    | ResumeSession
    | Retry
)
Event: TypeAlias = (
    UserEvent
    | SessionCreated
    | ApiReqStarted
    | Activity
    | SayCompletionResult
    | SayCheckpointSaved
    | AgentAsked
    | AskAnswered
    | AutoApproved
    | CreationTimeout
    | ProcessError
    | ProcessExit
)
