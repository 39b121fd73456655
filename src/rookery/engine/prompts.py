"""What the user says, told to their hooks before the model hears it.

Every message is checked once: what opened the task, what was queued or edited, and answers. One
that is refused counts as not said; what to do then is asked anew.
"""

from collections.abc import Callable

from rookery.core.facts import (
    Answered,
    Event,
    Fact,
    Noted,
    PromptRefused,
    QueueEdited,
    RequestStarted,
    TaskOpened,
    UserSpoke,
)
from rookery.engine.event_log import EventLog
from rookery.engine.ports import Governance


class Prompts:
    def __init__(self, log: EventLog, governance: Governance, new_id: Callable[[], str]) -> None:
        self._log = log
        self._new_id = new_id
        self._governance = governance
        facts = (event.fact for event in log.events)
        self._checked = {fact.of for fact in facts if isinstance(fact, PromptRefused)}
        self._seen = _last_request(log)
        """How many events need not be looked at again."""

    @property
    def waiting(self) -> list[Event]:
        """Messages that nobody has checked yet."""
        if not self._governance.hears_prompts:
            return []
        found = [event for event in self._log.events[self._seen :] if self._is_new(event)]
        if not found:
            self._seen = len(self._log.events)
        return found

    async def check_all(self) -> None:
        for event in self.waiting:
            await self.check(event)

    async def check(self, event: Event) -> bool:
        """Whether the model may hear the words of an event, if it has any."""
        if not self._governance.hears_prompts or not self._is_new(event):
            return True
        text = _words(event.fact)
        reason = await self._governance.prompted(text)
        self._checked.add(event.seq)
        if not reason:
            return True
        if isinstance(event.fact, UserSpoke | QueueEdited):
            self._log.append(QueueEdited(message_id=event.fact.message_id, text=None))
        self._log.append(PromptRefused(of=event.seq, text=text, reason=reason))
        self._log.append(Noted(text=f"A hook refused your message, so it was not sent: {reason}"))
        return False

    def queue_words(self, event: Event) -> bool:
        """Queue the words of an answer that nothing waits for, so that they are checked first."""
        fact = event.fact
        if not isinstance(fact, Answered) or not fact.text.strip():
            return False
        if not self._governance.hears_prompts:
            return False
        self._checked.add(event.seq)
        self._log.append(UserSpoke(message_id=self._new_id(), text=fact.text, images=fact.images))
        return True

    def _is_new(self, event: Event) -> bool:
        return event.seq not in self._checked and _says_something(event.fact)


def _last_request(log: EventLog) -> int:
    """What was said before it has been heard, and was checked in its time."""
    events = log.events
    places = range(len(events), 0, -1)
    return next((at for at in places if isinstance(events[at - 1].fact, RequestStarted)), 0)


def _says_something(fact: Fact) -> bool:
    match fact:
        case TaskOpened(parent=parent):
            return not parent
        case UserSpoke():
            return True
        case QueueEdited(text=text):
            return text is not None
        case Answered(by="user", text=text):
            return bool(text.strip())
        case _:
            return False


def _words(fact: Fact) -> str:
    match fact:
        case TaskOpened(text=text) | UserSpoke(text=text) | Answered(text=text):
            return text
        case QueueEdited(text=str() as text):
            return text
        case _:
            return ""
