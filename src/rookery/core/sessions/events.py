"""What happens to a session: what its user wants, what its process does, what the manager does.

What comes from a process names the generation of the process, so that a late word of an old one
is known for what it is. What answers an ask names the ask, so that a late click answers no other.
"""

from typing import TypeAlias

from rookery.core.values import value


@value
class StartSession:
    """The prompt goes to a new process as a new task."""

    text: str = ""
    images: tuple[str, ...] = ()


@value
class SendMessage:
    """Text of the user. It answers an open question only if it was written to answer it."""

    text: str
    images: tuple[str, ...] = ()
    ask_ts: int | None = None


@value
class ApproveAction:
    ask_ts: int
    text: str = ""


@value
class RejectAction:
    ask_ts: int
    text: str = ""


@value
class CancelSession:
    pass


@value
class ResumeSession:
    text: str = ""


@value
class Retry:
    pass


@value
class ProcessEvent:
    """Something that belongs to one process of the session."""

    generation: int


@value
class SessionCreated(ProcessEvent):
    session_id: str


@value
class AgentMessage(ProcessEvent):
    """Something the agent said or asked; `ts` names the message, later ones have a larger one."""

    ts: int


@value
class ApiReqStarted(AgentMessage):
    """A request that was not seen before."""


@value
class Activity(AgentMessage):
    """Anything that is said or asked of which only this matters: the agent works."""


@value
class SayCompletionResult(AgentMessage):
    text: str = ""


@value
class SayCheckpointSaved(AgentMessage):
    pass


@value
class AgentAsked(AgentMessage):
    """A complete ask, by its wire name."""

    ask: str
    text: str = ""


@value
class AskAnswered(AgentMessage):
    """The ask of this `ts` was answered, by whomever."""


@value
class AutoApproved(ProcessEvent):
    ask_ts: int


@value
class CreationTimeout(ProcessEvent):
    """The process has not announced its session in time; `text` is what it complained of."""

    text: str = ""


@value
class ProcessError(ProcessEvent):
    """The process could not be started or cannot be talked to any more."""

    text: str


@value
class ProcessExit(ProcessEvent):
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
