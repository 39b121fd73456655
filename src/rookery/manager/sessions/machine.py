"""The state machine: a session and an event give the next session, and orders for its process.

First the guard: an event of a dead process changes nothing, and neither does history. Then the
table says which state follows, and one small function per kind of event what changes beside it.
"""

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import Reply
from rookery.manager.sessions.session_events import (
    AgentAsked,
    AgentMessage,
    AnswerAgain,
    AnswerOrder,
    ApiReqStarted,
    ApproveEvent,
    AskAnswered,
    AutoApproved,
    CancelEvent,
    CancelOrder,
    CreationTimeout,
    Deliver,
    Event,
    LastExit,
    Order,
    PendingAsk,
    ProcessError,
    ProcessEvent,
    ProcessExit,
    RejectEvent,
    Respawn,
    ResumeEvent,
    RetryEvent,
    SayCheckpointSaved,
    SayCompletionResult,
    SendEvent,
    Session,
    SessionCreated,
    StartEvent,
    StartTask,
    Terminate,
    UserMessage,
    ask_of,
    is_answered,
    settled,
    signal_of,
)
from rookery.manager.sessions.session_failures import (
    EARLY_EXIT,
    ENDS_PROCESS,
    Failure,
    failure_of_ask,
    failure_of_beginning,
    failure_of_exit,
    failure_of_process,
    failure_of_timeout,
)
from rookery.manager.sessions.session_states import (
    WAITING,
    SessionState,
    Signal,
    TransitionRule,
    ask_signal,
    cell,
)


class MachineStep(Struct, frozen=True):
    session: Session
    orders: tuple[Order, ...] = ()

    @property
    def answer(self) -> AnswerOrder | None:
        """The answer that it gives, if it gives one."""
        return next((order for order in self.orders if isinstance(order, AnswerOrder)), None)

    @property
    def starts_again(self) -> bool:
        return any(isinstance(order, Respawn) for order in self.orders)


def advance(session: Session, event: Event) -> Session:
    """The session after an event."""
    return step(session, event).session


def step(session: Session, event: Event) -> MachineStep:
    """The session after an event, and what its supervisor has to do."""
    if isinstance(event, ProcessEvent) and is_dead(session, event):
        return MachineStep(session)
    if isinstance(event, AgentMessage):
        if is_history(session, event):
            return MachineStep(session)
        if session.stop_requested and not resumes(event):
            return MachineStep(unheard(session, event))
    if comes_too_late(session, event):
        return _too_late(session, event)
    signal = signal_of(session, event)
    if cell(signal, session.state).rule is TransitionRule.IGNORE:
        return MachineStep(session)
    return _delivering(_acted(session, event, signal))


def taken_up(session: Session) -> Session:
    """A session that rests and gets a process, which is only to be at hand: it does not go on."""
    return replace(
        settled(session),
        state=SessionState.PAUSED if session.state in WAITING else session.state,
        generation=session.generation + 1,
        process_open=True,
        saw_session_created=False,
        handed=0,
        last_exit=None,
    )


def lost(session: Session) -> Session:
    """A session that waits for the user, and whose process the system has ended, as it does at a
    shutdown. Its question stays, as if nobody had seen the end."""
    return replace(session, process_open=False, last_exit=None)


def _too_late(session: Session, event: Event) -> MachineStep:
    """Text is queued, whatever it was meant for; anything else is worth nothing any more."""
    if isinstance(event, SendEvent):
        return _delivering(_queued(session, event))
    return MachineStep(session)


def _acted(session: Session, event: Event, signal: Signal) -> MachineStep:
    """What the event changes in a state that does not ignore it."""
    match event:
        case StartEvent():
            return _started(session, _letter(event))
        case SendEvent():
            return _sent(session, event, signal)
        case ApproveEvent(text=text):
            return _answered(session, "yes", UserMessage(text=text))
        case RejectEvent(text=text):
            return _answered(session, "no", UserMessage(text=text))
        case AutoApproved():
            return MachineStep(_at(SessionState.STREAMING, settled(session)))
        case ResumeEvent(text=text) if text:
            return _carried_on(session, "message", UserMessage(text=text))
        case ResumeEvent() | RetryEvent():
            return _carried_on(session, "yes", UserMessage())
        case CancelEvent():
            return _cancelled(session)
        case SessionCreated(session_id=session_id):
            return _announced(session, session_id, signal)
        case AgentAsked() if signal is not Signal.ACTIVITY:
            return _asked(session, ask_of(event), signal)
        case AgentMessage():
            return MachineStep(_spoke(session, event, signal))
        case CreationTimeout(text=text):
            return _ended(session, failure_of_timeout(text))
        case ProcessError(text=text):
            return MachineStep(_closed(session, signal, failure_of_process(text)))
        case ProcessExit(code=code, signal=by):
            left = replace(session, last_exit=LastExit(code=code, signal=by))
            return MachineStep(_closed(left, signal, _failure_of_end(session, event)))
    raise TypeError(f"{type(event).__name__} is not an event of a session.")


def _failure_of_end(session: Session, event: ProcessExit) -> Failure:
    """One that ended before it began has said why."""
    if event.clean:
        return EARLY_EXIT
    if event.text.strip() and not session.saw_session_created:
        return failure_of_beginning(event.code, event.text)
    return failure_of_exit(event.code, event.signal)


def _target(session: Session, signal: Signal) -> SessionState:
    """The state the table leads to."""
    found = cell(signal, session.state)
    created, requested = session.saw_session_created, session.saw_api_req_started
    match found.rule:
        case TransitionRule.GO:
            held = True
        case TransitionRule.IF_C_ELSE_STAY | TransitionRule.IF_C_ELSE_DEFER:
            held = created
        case TransitionRule.IF_A_ELSE_STAY:
            held = requested
        case TransitionRule.IF_C_ELSE_ERROR:
            return found.to if found.to and created else SessionState.ERROR
        case TransitionRule.IGNORE | TransitionRule.STAY | TransitionRule.NEVER:
            held = False
    return found.to if found.to and held else session.state


def _at(state: SessionState, session: Session, failure: Failure | None = None) -> Session:
    """In a state, with what it does not keep left behind."""
    if state is not SessionState.CREATING and session.deferred_ask:
        session = settled(session)
    if state is SessionState.STOPPED:
        session = replace(settled(session), stop_requested=True)
    return replace(session, state=state, failure=failure)


def _started(session: Session, letter: UserMessage) -> MachineStep:
    generation = session.generation + 1
    letters = (letter,)
    fresh = Session(
        session_id=session.session_id,
        state=SessionState.CREATING,
        generation=generation,
        process_open=True,
        answered_ask_ts=settled(session).answered_ask_ts,
        outbox=letters,
        handed=len(letters),
    )
    return MachineStep(fresh, (StartTask(generation=generation, letters=letters),))


def _sent(session: Session, event: SendEvent, signal: Signal) -> MachineStep:
    if cell(signal, session.state).rule is TransitionRule.STAY:
        return _queued(session, event)
    return _carried_on(session, "message", _letter(event))


def _queued(session: Session, event: SendEvent) -> MachineStep:
    return MachineStep(replace(session, outbox=(*session.outbox, _letter(event))))


def _letter(event: StartEvent | SendEvent) -> UserMessage:
    return UserMessage(text=event.text, images=event.images)


def _delivering(done: MachineStep) -> MachineStep:
    """What waits in the outbox goes to the engine as soon as the process takes input."""
    after = done.session
    takes_input = after.process_open and after.saw_session_created and not after.stop_requested
    if not after.outbox or not takes_input:
        return done
    orders = (*done.orders, Deliver(letters=after.outbox))
    return MachineStep(replace(after, outbox=()), orders)


def _carried_on(session: Session, reply: Reply, letter: UserMessage) -> MachineStep:
    """Goes on with the process if it waits for such an answer, and with a new one if not. Yes
    to a result would end the task, so only words go on from there."""
    pending = session.pending_ask
    waits = pending is not None and (reply == "message" or _takes_yes(pending))
    if waits and (session.process_open or session.state in WAITING):
        return _answered(session, reply, letter)
    return _respawned(session, letter)


def _takes_yes(ask: PendingAsk) -> bool:
    return ask.resumes or ask.signal is Signal.ASK_FAILURE


def _answered(session: Session, reply: Reply, letter: UserMessage) -> MachineStep:
    if not (pending := session.pending_ask):
        return MachineStep(session)
    if not session.process_open:
        again = AnswerAgain(ask_ts=pending.ts, reply=reply, letter=letter)
        done = _respawned(session, UserMessage())
        return MachineStep(done.session, (*done.orders, again))
    going = replace(settled(session), stop_requested=False)
    answer = AnswerOrder(ask_ts=pending.ts, reply=reply, letter=letter)
    return MachineStep(_at(SessionState.STREAMING, going), (answer,))


def _respawned(session: Session, letter: UserMessage) -> MachineStep:
    generation = session.generation + 1
    letters = (*session.outbox, letter) if letter else session.outbox
    going = replace(
        settled(session),
        generation=generation,
        process_open=True,
        saw_session_created=False,
        saw_api_req_started=False,
        stop_requested=False,
        last_exit=None,
        outbox=letters,
        handed=len(letters),
    )
    order = Respawn(generation=generation, letters=letters)
    return MachineStep(_at(SessionState.STREAMING, going), (order,))


def _cancelled(session: Session) -> MachineStep:
    stopped = _at(SessionState.STOPPED, session)
    if not session.process_open:
        return MachineStep(stopped)
    unborn = session.state is SessionState.CREATING
    return MachineStep(stopped, (Terminate() if unborn else CancelOrder(),))


def _announced(session: Session, session_id: str, signal: Signal) -> MachineStep:
    """Takes the id, and applies what was deferred. What the process was given has arrived."""
    session = replace(
        session,
        session_id=session_id or session.session_id,
        saw_session_created=True,
        outbox=session.outbox[session.handed :],
        handed=0,
    )
    if deferred := session.deferred_ask:
        return _asked(replace(session, deferred_ask=None), deferred, deferred.signal)
    return MachineStep(replace(session, state=_target(session, signal)))


def _asked(session: Session, ask: PendingAsk, signal: Signal) -> MachineStep:
    found = cell(signal, session.state)
    if found.rule is TransitionRule.IF_C_ELSE_DEFER and not session.saw_session_created:
        return MachineStep(replace(session, deferred_ask=ask))
    failure = failure_of_ask(ask.ask, ask.text) if signal is Signal.ASK_FAILURE else None
    if signal is Signal.ASK_COMPLETION_RESULT and ask.text:
        session = replace(session, completion_text=ask.text)
    asking = replace(session, pending_ask=ask, deferred_ask=None)
    if failure and (session.state is SessionState.CREATING or failure.kind in ENDS_PROCESS):
        return _ended(asking, failure)
    if session.state is SessionState.STOPPED:
        return MachineStep(asking)
    return MachineStep(_at(_target(session, signal), asking, failure))


def _spoke(session: Session, event: AgentMessage, signal: Signal) -> Session:
    if isinstance(event, SayCheckpointSaved):
        return session
    session = settled(session)
    if isinstance(event, ApiReqStarted):
        session = replace(session, saw_api_req_started=True)
    if isinstance(event, SayCompletionResult):
        session = replace(session, completion_text=event.text)
    return _at(_target(session, signal), session)


def _ended(session: Session, failure: Failure) -> MachineStep:
    """Failed so that its process has to go."""
    failed = replace(_at(SessionState.ERROR, session, failure), process_open=False)
    return MachineStep(failed, (Terminate(),))


def _closed(session: Session, signal: Signal, failure: Failure) -> Session:
    """Without its process. What failed first is what the user is told."""
    target = _target(session, signal)
    gone = replace(session, process_open=False)
    if target is not SessionState.ERROR:
        return gone if target is session.state else _at(target, gone)
    return _at(target, gone, session.failure or failure)


def is_dead(session: Session, event: ProcessEvent) -> bool:
    """Whether this is of a process that is not listened to. Its messages belong nowhere."""
    return event.generation != session.generation or not session.process_open


def is_history(session: Session, event: AgentMessage) -> bool:
    """Told before what is open now; or an ask that is over, told again."""
    if _blocks(event) and is_answered(event.ts, session.answered_ask_ts):
        return True
    if not (open_ask := session.open_ask):
        return False
    about_an_ask = _blocks(event) or isinstance(event, AskAnswered)
    return event.ts < open_ask.ts or (event.ts == open_ask.ts and not about_an_ask)


def _blocks(event: AgentMessage) -> bool:
    return isinstance(event, AgentAsked) and ask_signal(event.ask) is not Signal.ACTIVITY


def resumes(event: AgentMessage) -> bool:
    return isinstance(event, AgentAsked) and ask_of(event).resumes


def unheard(session: Session, event: AgentMessage) -> Session:
    """A message after a stop moves nothing, but no ask it makes or outdates is open later."""
    if isinstance(event, SayCheckpointSaved):
        return session
    session = settled(session)
    return replace(session, answered_ask_ts=event.ts) if _blocks(event) else session


def comes_too_late(session: Session, event: Event) -> bool:
    """Whether this is an answer, but not to what is asked now, or a timer that is not needed any
    more. Text of which nobody said what it answers is no answer."""
    pending = session.pending_ask.ts if session.pending_ask else None
    match event:
        case ApproveEvent() | RejectEvent() | AutoApproved():
            return event.ask_ts != pending
        case SendEvent() if session.state in WAITING:
            return event.ask_ts != pending
        case CreationTimeout():
            return session.saw_session_created
        case _:
            return False
