"""A session as its machine sees it: the state, and what is kept beside it."""

from msgspec import Struct
from msgspec.structs import replace

from rookery.manager.sessions.orders import Letter
from rookery.manager.sessions.session_failures import Failure
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.transitions import Signal, ask_signal


class PendingAsk(Struct, frozen=True, kw_only=True):
    """A complete ask that the agent waits on, by its wire name."""

    ask: str
    ts: int
    text: str = ""

    @property
    def signal(self) -> Signal:
        return ask_signal(self.ask)

    @property
    def resumes(self) -> bool:
        return self.signal in (Signal.ASK_RESUME_TASK, Signal.ASK_RESUME_COMPLETED_TASK)


class LastExit(Struct, frozen=True, kw_only=True):
    code: int | None = None
    signal: int | None = None


class Session(Struct, frozen=True, kw_only=True):
    """An ask is either pending, or deferred until the session is announced, or settled: then
    `answered_ask_ts` is not older than it. No ask is ever forgotten in another way, which is
    why the stored messages and this one number tell what is still open.
    """

    session_id: str = ""
    state: SessionState = SessionState.IDLE
    generation: int = 0
    process_open: bool = False
    """Whether the process of this generation is listened to. It is not after it exited, failed,
    or was ended because the session failed; only another generation is listened to again."""
    saw_session_created: bool = False
    saw_api_req_started: bool = False
    pending_ask: PendingAsk | None = None
    deferred_ask: PendingAsk | None = None
    answered_ask_ts: int | None = None
    failure: Failure | None = None
    completion_text: str = ""
    stop_requested: bool = False
    outbox: tuple[Letter, ...] = ()
    """What the user said and no process is known to have. It survives a failed start."""
    handed: int = 0
    """How many of these the process was started with. It has them once it announces itself."""
    last_exit: LastExit | None = None

    @property
    def open_ask(self) -> PendingAsk | None:
        return self.pending_ask or self.deferred_ask


def settled(session: Session) -> Session:
    """With no ask open: it was answered, here or elsewhere, or nobody will answer it."""
    if not (ask := session.open_ask):
        return session
    return replace(session, pending_ask=None, deferred_ask=None, answered_ask_ts=ask.ts)


def is_answered(ask_ts: int, answered_ask_ts: int | None) -> bool:
    """Asks are answered in their order, so what is older than an answered one is over too."""
    return answered_ask_ts is not None and ask_ts <= answered_ask_ts
