"""A task of a session as far as it was heard: its view, and what of it is news to the machine.

What a connection breaks off in is forgotten down to the last lasting event; from there on
everything is told again.
"""

from collections.abc import Iterable
from typing import cast

from rookery.core.asks import AskKind
from rookery.core.facts import (
    Answered,
    ChildBegan,
    Event,
    TaskFailed,
    TaskReopened,
    ToolFinished,
)
from rookery.core.folds.agent_state import newest_first
from rookery.core.folds.view import View, changes, see
from rookery.core.message import Message
from rookery.manager.sessions.agent_events import Heard, told
from rookery.manager.sessions.rebuild import last_ask
from rookery.manager.sessions.session import PendingAsk
from rookery.manager.sessions.session_events import Activity, AgentAsked, AskAnswered
from rookery.manager.sessions.session_events import Event as SessionEvent

_RESULT = "completion_result"
RESUMING = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)


class FollowedTask:
    def __init__(self, task_id: str, began: ChildBegan | None = None) -> None:
        """`began` if it works for another task."""
        self.task_id = task_id
        self.is_child = began is not None
        self._begins_after = began.after if began else 0
        self.view = View()
        self.children: dict[str, ChildBegan] = {}
        """Those at work, by the call they work for."""
        self.workers: dict[str, str] = {}
        """The tasks that work for it or have, by the call they work for."""
        self.resumed_with: Answered | None = None
        """How it was taken up again, since it last was."""
        self.reopened_at = 0
        """The event with which it was last taken up again."""
        self.failed_with = ""
        self._lasting = View()
        self._heard = Heard(generation=0)

    @property
    def after(self) -> int:
        """The last lasting event that was heard."""
        return max(self._lasting.seq, self._begins_after)

    @property
    def has_made_a_request(self) -> bool:
        return any(row.say == "api_req_started" for row in self.view.messages)

    @property
    def result(self) -> str:
        """The last that was completed with; nothing if nothing was."""
        results = (row for row in newest_first(self.view.messages) if row.say == _RESULT)
        return next((row.text or "" for row in results), "")

    @property
    def ask(self) -> PendingAsk | None:
        return last_ask(self.view.messages)

    def row(self, ts: int) -> Message | None:
        position = self.view.messages.find(ts)
        return None if position is None else self.view.messages[position]

    def child(self, began: ChildBegan) -> "FollowedTask":
        child = FollowedTask(began.task_id, began)
        child.listen_to(self._heard.generation)
        return child

    def remember(self, events: Iterable[Event]) -> None:
        """What is stored of it, which is no news."""
        for event in events:
            self._see(event)

    def become(self, remembered: "FollowedTask") -> None:
        """What was remembered beside the loop."""
        self.view, self._lasting = remembered.view, remembered._lasting
        self.children, self.workers = remembered.children, remembered.workers
        self.resumed_with, self.failed_with = remembered.resumed_with, remembered.failed_with
        self.reopened_at = remembered.reopened_at

    def listen_to(self, generation: int, *, new_task: bool = False) -> None:
        """From now on a process of this generation is heard. What it tells again is no news,
        except that an ask that is open now may be answered."""
        last = self.view.messages[-1].ts if self.view.messages else 0
        ask = self.ask
        self._heard = Heard(
            generation=generation,
            stored_ts=ask.ts - 1 if ask else last,
            ask_ts=ask.ts if ask else 0,
            new_task=new_task,
        )

    def forget_news(self) -> None:
        self.view = self._lasting

    def hear(self, event: Event) -> list[SessionEvent]:
        """What an event means for the session."""
        before = self.view
        self._see(event)
        change = changes(before, self.view)
        rows = sorted((*change.added, *change.changed), key=lambda row: row.ts)
        said = [self._told(row) for row in rows]
        return [each for each in said if each]

    def _told(self, row: Message) -> SessionEvent | None:
        done = told(self._heard, row)
        self._heard = done.heard
        event = done.event
        if not self.is_child or event is None or isinstance(event, AgentAsked | AskAnswered):
            return cast(SessionEvent | None, event)
        # the results and requests of a child are its parent's business
        return Activity(generation=event.generation, ts=event.ts)

    def _see(self, event: Event) -> None:
        self.view = see(self.view, event)
        if event.fact.lasting:
            self._lasting = self.view
        match event.fact:
            case TaskReopened():
                self.reopened_at, self.resumed_with = event.seq, None
            case Answered(ask=ask) if ask in RESUMING:
                self.resumed_with = event.fact
            case TaskFailed(message=message):
                self.failed_with = message
            case ChildBegan(call_id=call_id, task_id=task_id):
                self.children[call_id] = event.fact
                self.workers[call_id] = task_id
            case ToolFinished(call_id=call_id):
                self.children.pop(call_id, None)
            case _:
                pass
