"""The state machine: a session and an event give the next session, and orders for its process.

Events of a dead process and repeated history are dropped first. The transition table in
`session_states` gives the next state; one function per kind of event makes the other changes.
"""

from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import Reply
from rookery.manager.sessions import session_events as events
from rookery.manager.sessions.session_states import (
    EARLY_EXIT,
    ENDS_PROCESS,
    WAITING,
    Failure,
    SessionState,
    Signal,
    TransitionRule,
    ask_signal,
    cell,
    failure_of_ask,
    failure_of_exit,
    failure_of_process,
    failure_of_start,
    failure_of_timeout,
)

S = TypeVar("S", bound=events.Session)


class MachineStep(Struct, Generic[S], frozen=True):
    session: S
    orders: tuple[events.ProcessOrder, ...] = ()

    @property
    def answer(self) -> events.AnswerOrder | None:
        """The answer among the orders, if there is one."""
        return next((order for order in self.orders if isinstance(order, events.AnswerOrder)), None)

    @property
    def starts_again(self) -> bool:
        return any(isinstance(order, events.Respawn) for order in self.orders)


def advance(session: S, event: events.SessionEvent) -> S:
    return step(session, event).session


def step(session: S, event: events.SessionEvent) -> MachineStep[S]:
    """Return the session after an event, and the orders for its supervisor."""
    if isinstance(event, events.ProcessEvent) and is_dead(session, event):
        return MachineStep(session)
    if isinstance(event, events.AgentMessage):
        if is_history(session, event):
            return MachineStep(session)
        if session.stop_requested and not resumes(event):
            return MachineStep(ignore_after_stop(session, event))
    if is_late(session, event):
        return _handle_late(session, event)
    signal = events.signal_of(session, event)
    if cell(signal, session.state).rule is TransitionRule.IGNORE:
        return MachineStep(session)
    return _deliver_outbox(_apply(session, event, signal))


def reopened(session: S) -> S:
    """An idle session that gets a process without resuming work, for example to answer queries."""
    return replace(
        events.settled(session),
        state=SessionState.PAUSED if session.state in WAITING else session.state,
        generation=session.generation + 1,
        process_open=True,
        saw_session_created=False,
        handed=0,
        last_exit=None,
    )


def lost_process(session: S) -> S:
    """A session that waits for the user and whose process was ended by a system shutdown. It
    keeps its question: the exit is not recorded."""
    return replace(session, process_open=False, last_exit=None)


def _handle_late(session: S, event: events.SessionEvent) -> MachineStep[S]:
    """Queue a late text, even if it was meant as an answer; ignore anything else."""
    if isinstance(event, events.SendEvent):
        return _deliver_outbox(_queue(session, event))
    return MachineStep(session)


def _apply(session: S, event: events.SessionEvent, signal: Signal) -> MachineStep[S]:
    """Apply an event that the state does not ignore."""
    match event:
        case events.StartEvent():
            return _start(session, _message_of(event))
        case events.SendEvent():
            return _send(session, event, signal)
        case events.ApproveEvent(text=text):
            return _answer(session, "yes", events.UserMessage(text=text))
        case events.RejectEvent(text=text):
            return _answer(session, "no", events.UserMessage(text=text))
        case events.AutoApproved():
            return MachineStep(_enter(SessionState.STREAMING, events.settled(session)))
        case events.ResumeEvent(text=text) if text:
            return _continue(session, "message", events.UserMessage(text=text))
        case events.ResumeEvent() | events.RetryEvent():
            return _continue(session, "yes", events.UserMessage())
        case events.CancelEvent():
            return _cancel(session)
        case events.SessionCreated(session_id=session_id):
            return _announce(session, session_id, signal)
        case events.AgentAsked() if signal is not Signal.ACTIVITY:
            return _ask(session, events.ask_of(event), signal)
        case events.AgentMessage():
            return MachineStep(_on_message(session, event, signal))
        case events.CreationTimeout(text=text):
            return _end_failed(session, failure_of_timeout(text))
        case events.ProcessError(text=text):
            return MachineStep(_close(session, signal, failure_of_process(text)))
        case events.ProcessExit(code=code, signal=by):
            left = replace(session, last_exit=events.LastExit(code=code, signal=by))
            return MachineStep(_close(left, signal, _exit_failure(session, event)))
    raise TypeError(f"{type(event).__name__} is not an event of a session.")


def _exit_failure(session: events.Session, event: events.ProcessExit) -> Failure:
    """A process that failed before it opened its task has written the reason to its log."""
    if event.clean:
        return EARLY_EXIT
    if event.text.strip() and not session.saw_session_created:
        return failure_of_start(event.code, event.text)
    return failure_of_exit(event.code, event.signal)


def _target(session: events.Session, signal: Signal) -> SessionState:
    """The next state according to the table."""
    found = cell(signal, session.state)
    created, requested = session.saw_session_created, session.saw_api_req_started
    match found.rule:
        case TransitionRule.GO:
            holds = True
        case TransitionRule.IF_C_ELSE_STAY | TransitionRule.IF_C_ELSE_DEFER:
            holds = created
        case TransitionRule.IF_A_ELSE_STAY:
            holds = requested
        case TransitionRule.IF_C_ELSE_ERROR:
            return found.to if found.to and created else SessionState.ERROR
        case TransitionRule.IGNORE | TransitionRule.STAY | TransitionRule.NEVER:
            holds = False
    return found.to if found.to and holds else session.state


def _enter(state: SessionState, session: S, failure: Failure | None = None) -> S:
    """Move the session to a state and drop what that state does not keep."""
    if state is not SessionState.CREATING and session.deferred_ask:
        session = events.settled(session)
    if state is SessionState.STOPPED:
        session = replace(events.settled(session), stop_requested=True)
    return replace(session, state=state, failure=failure)


def _start(session: S, message: events.UserMessage) -> MachineStep[S]:
    fresh = replace(
        events.settled(session),
        state=SessionState.CREATING,
        generation=session.generation + 1,
        process_open=True,
        saw_session_created=False,
        saw_api_req_started=False,
        failure=None,
        completion_text="",
        stop_requested=False,
        outbox=(message,),
        handed=1,
        last_exit=None,
    )
    return MachineStep(fresh, (events.StartTask(),))


def _send(session: S, event: events.SendEvent, signal: Signal) -> MachineStep[S]:
    if cell(signal, session.state).rule is TransitionRule.STAY:
        return _queue(session, event)
    return _continue(session, "message", _message_of(event))


def _queue(session: S, event: events.SendEvent) -> MachineStep[S]:
    return MachineStep(replace(session, outbox=(*session.outbox, _message_of(event))))


def _message_of(event: events.StartEvent | events.SendEvent) -> events.UserMessage:
    return events.UserMessage(text=event.text, images=event.images)


def _deliver_outbox(done: MachineStep[S]) -> MachineStep[S]:
    """Send the outbox to the engine if the process accepts input."""
    after = done.session
    takes_input = after.process_open and after.saw_session_created and not after.stop_requested
    if not after.outbox or not takes_input:
        return done
    orders = (*done.orders, events.Deliver(messages=after.outbox))
    return MachineStep(replace(after, outbox=()), orders)


def _continue(session: S, reply: Reply, message: events.UserMessage) -> MachineStep[S]:
    """Answer the running process if it waits for such an answer, otherwise start a new one.
    "yes" to a result would end the task, so a completed session continues only with a message."""
    pending = session.pending_ask
    waits = pending is not None and (reply == "message" or _takes_yes(pending))
    if waits and (session.process_open or session.state in WAITING):
        return _answer(session, reply, message)
    return _respawn(session, message)


def _takes_yes(ask: events.PendingAsk) -> bool:
    return ask.resumes or ask.signal is Signal.ASK_FAILURE


def _answer(session: S, reply: Reply, message: events.UserMessage) -> MachineStep[S]:
    if not (pending := session.pending_ask):
        return MachineStep(session)
    if not session.process_open:
        done = _respawn(session, events.UserMessage())
        return MachineStep(done.session, (*done.orders, events.AnswerAgain()))
    running = replace(events.settled(session), stop_requested=False)
    answer = events.AnswerOrder(ask_ts=pending.ts, reply=reply, message=message)
    return MachineStep(_enter(SessionState.STREAMING, running), (answer,))


def _respawn(session: S, message: events.UserMessage) -> MachineStep[S]:
    messages = (*session.outbox, message) if message else session.outbox
    running = replace(
        events.settled(session),
        generation=session.generation + 1,
        process_open=True,
        saw_session_created=False,
        saw_api_req_started=False,
        stop_requested=False,
        last_exit=None,
        outbox=messages,
        handed=len(messages),
    )
    return MachineStep(_enter(SessionState.STREAMING, running), (events.Respawn(),))


def _cancel(session: S) -> MachineStep[S]:
    stopped = _enter(SessionState.STOPPED, session)
    if not session.process_open:
        return MachineStep(stopped)
    is_creating = session.state is SessionState.CREATING
    return MachineStep(stopped, (events.Terminate() if is_creating else events.CancelOrder(),))


def _announce(session: S, session_id: str, signal: Signal) -> MachineStep[S]:
    """Accept the id and apply a deferred ask. The process has the messages it was started with."""
    session = replace(
        session,
        session_id=session_id or session.session_id,
        saw_session_created=True,
        outbox=session.outbox[session.handed :],
        handed=0,
    )
    if deferred := session.deferred_ask:
        return _ask(replace(session, deferred_ask=None), deferred, deferred.signal)
    return MachineStep(replace(session, state=_target(session, signal)))


def _ask(session: S, ask: events.PendingAsk, signal: Signal) -> MachineStep[S]:
    found = cell(signal, session.state)
    if found.rule is TransitionRule.IF_C_ELSE_DEFER and not session.saw_session_created:
        return MachineStep(replace(session, deferred_ask=ask))
    failure = failure_of_ask(ask.ask, ask.text) if signal is Signal.ASK_FAILURE else None
    if signal is Signal.ASK_COMPLETION_RESULT and ask.text:
        session = replace(session, completion_text=ask.text)
    asking = replace(session, pending_ask=ask, deferred_ask=None)
    if failure and (session.state is SessionState.CREATING or failure.kind in ENDS_PROCESS):
        return _end_failed(asking, failure)
    if session.state is SessionState.STOPPED:
        return MachineStep(asking)
    return MachineStep(_enter(_target(session, signal), asking, failure))


def _on_message(session: S, event: events.AgentMessage, signal: Signal) -> S:
    if isinstance(event, events.SayCheckpointSaved):
        return session
    session = events.settled(session)
    if isinstance(event, events.ApiReqStarted):
        session = replace(session, saw_api_req_started=True)
    if isinstance(event, events.SayCompletionResult):
        session = replace(session, completion_text=event.text)
    return _enter(_target(session, signal), session)


def _end_failed(session: S, failure: Failure) -> MachineStep[S]:
    """Fail the session and end its process."""
    failed = replace(_enter(SessionState.ERROR, session, failure), process_open=False)
    return MachineStep(failed, (events.Terminate(),))


def _close(session: S, signal: Signal, failure: Failure) -> S:
    """Record that the process is gone. The first failure is the one that is shown."""
    target = _target(session, signal)
    closed = replace(session, process_open=False)
    if target is not SessionState.ERROR:
        return closed if target is session.state else _enter(target, closed)
    return _enter(target, closed, session.failure or failure)


def is_dead(session: events.Session, event: events.ProcessEvent) -> bool:
    """Whether the event is from a process that is no longer followed."""
    return event.generation != session.generation or not session.process_open


def is_history(session: events.Session, event: events.AgentMessage) -> bool:
    """Whether the message is older than the open ask, or repeats an ask that was answered."""
    if _blocks(event) and events.is_answered(event.ts, session.answered_ask_ts):
        return True
    if not (open_ask := session.open_ask):
        return False
    about_an_ask = _blocks(event) or isinstance(event, events.AskAnswered)
    return event.ts < open_ask.ts or (event.ts == open_ask.ts and not about_an_ask)


def _blocks(event: events.AgentMessage) -> bool:
    return isinstance(event, events.AgentAsked) and ask_signal(event.ask) is not Signal.ACTIVITY


def resumes(event: events.AgentMessage) -> bool:
    return isinstance(event, events.AgentAsked) and events.ask_of(event).resumes


def ignore_after_stop(session: S, event: events.AgentMessage) -> S:
    """Ignore a message that comes after a stop, but settle any ask that it makes or supersedes."""
    if isinstance(event, events.SayCheckpointSaved):
        return session
    session = events.settled(session)
    return replace(session, answered_ask_ts=event.ts) if _blocks(event) else session


def is_late(session: events.Session, event: events.SessionEvent) -> bool:
    """Whether this is an answer to another question than the open one, or an expired timer. Text
    without an `ask_ts` does not answer a question."""
    pending = session.pending_ask.ts if session.pending_ask else None
    match event:
        case events.ApproveEvent() | events.RejectEvent() | events.AutoApproved():
            return event.ask_ts != pending
        case events.SendEvent() if session.state in WAITING:
            return event.ask_ts != pending
        case events.CreationTimeout():
            return session.saw_session_created
        case _:
            return False
