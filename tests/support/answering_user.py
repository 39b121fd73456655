"""A user who answers the questions of a task and its sub-tasks."""

import json
import uuid

from rookery.core.asks import CATEGORY, AskCategory
from rookery.core.commands import OpenTask
from rookery.core.facts import Asked, ChildBegan, Event
from rookery.protocol.codec import event_from_json
from support.governed_session import Entry, Followed, Person


class Family(Person):
    def follow_all(self, *book: Entry) -> Followed:
        """Open a task, and answer its questions until it and its sub-tasks are closed."""
        left, events, first = list(book), list[Event](), str(uuid.uuid4())
        self._send(OpenTask(task_id=first, text="go"))
        tasks = {self._number(first, 0): first}
        while tasks:
            number, event = self._any_event()
            if number not in tasks:
                continue
            if event is None:
                del tasks[number]
                continue
            events.append(event)
            match event.fact:
                case ChildBegan(task_id=child, after=after):
                    tasks[self._number(child, after)] = child
                case Asked(ask=ask) as asked if CATEGORY[ask] is not AskCategory.NON_BLOCKING:
                    self._task_id = tasks[number]
                    self._answer(asked, left)
        assert not left, f"No question came for the answers {left}."
        return Followed(self.server, first, events)

    def _number(self, task_id: str, after: int) -> int:
        params = {"task_id": task_id, "after": after, "as": "events"}
        return int(self._request("follow", params)["follow_id"])

    def _any_event(self) -> tuple[int, Event | None]:
        received = self._notices.pop(0) if self._notices else self._next_message()
        params = received.get("params", {})
        number = int(params.get("follow_id", 0))
        if received.get("method") == "ended":
            return number, None
        return number, event_from_json(json.dumps(params["event"]))
