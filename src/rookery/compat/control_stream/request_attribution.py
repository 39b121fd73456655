"""Which request of the driver an event is due to.

The request that set the task going has it, until another takes over: an answer at once, words
that wait in the queue when the model hears them, a cancellation until something new is asked.
"""

from rookery.core.facts import Answered, Fact, QueueEdited, TaskOpened, UserSpoke


class Attribution:
    def __init__(self) -> None:
        self.active = ""
        self.interrupted = ""
        """Whom a cancellation has taken over from."""
        self.turn: list[str] = []
        """The requests that the turn answers, in their order."""
        self._heard = False
        """The last of them waited in the queue: an answer does not replace it."""
        self._waiting: dict[str, str] = {}
        """The requests behind queued messages, oldest first."""
        self._places: dict[str, int] = {}
        """The requests of this task that were queued, numbered in their order."""
        self.refused: dict[str, str] = {}
        """Requests of the turn whose words a hook refused, each with the reason."""
        self._answer = ""
        """The request that answered last."""
        self._before_answer: tuple[str, str, list[str], bool] = ("", "", [], False)

    def take_over(self, request_id: str) -> None:
        self.active = request_id
        self.interrupted = ""
        if self.turn and not self._heard:
            self.turn.pop()
        self.turn.append(request_id)
        self._heard = False

    def answer(self, request_id: str, *, takes_over: bool) -> None:
        """A request answers a question."""
        self._answer = request_id
        self._before_answer = (self.active, self.interrupted, self.turn[:], self._heard)
        if takes_over:
            self.take_over(request_id)

    def refuse(self, said: Fact | None, reason: str) -> str:
        """The request behind words that a hook refused, if there is one."""
        match said:
            case UserSpoke(message_id=message_id) | QueueEdited(message_id=message_id):
                return self._refuse_queued(message_id, reason)
            case TaskOpened() if self.turn:
                self.refused[self.turn[0]] = reason
                return self.turn[0]
            case Answered():
                return self._refuse_answer()
            case _:
                return ""

    def _refuse_queued(self, message_id: str, reason: str) -> str:
        """It gets its result in its place; what was going on before goes on."""
        if request_id := self._waiting.pop(message_id, ""):
            self._join_turn(request_id)
            self.refused[request_id] = reason
        return request_id

    def _refuse_answer(self) -> str:
        """The one before it takes over again."""
        if self.active == self._answer:
            self.active, self.interrupted, self.turn, self._heard = self._before_answer
        return self._answer

    def cancel(self, request_id: str) -> None:
        self.interrupted = self.interrupted or self.active
        self.active = request_id

    def start(self, request_id: str) -> None:
        """Another task begins; what waited for the one before it will never be heard."""
        for each in (self._waiting, self._places, self.refused, self.turn):
            each.clear()
        self.take_over(request_id)

    def queue(self, message_id: str, request_id: str) -> None:
        self._waiting[message_id] = request_id
        self._places[request_id] = len(self._places) + 1

    def forget(self, message_id: str) -> None:
        self._waiting.pop(message_id, None)

    def knows(self, message_id: str) -> bool:
        return message_id in self._waiting

    def behind_removed(self, fact: Fact) -> str:
        """The request behind a message that leaves the queue without being heard."""
        if isinstance(fact, QueueEdited) and fact.text is None:
            return self._waiting.get(fact.message_id, "")
        return ""

    def hear(self, message_id: str) -> None:
        """The model hears a queued message, which gets a result of its own."""
        request_id = self._waiting.pop(message_id, "")
        if not request_id:
            return
        self.active, self.interrupted = request_id, ""
        self._join_turn(request_id)

    def _join_turn(self, request_id: str) -> None:
        """Put a queued request behind those that were queued before it."""
        rest = [each for each in self.turn if each != request_id]
        later = (at for at, each in enumerate(rest) if self._is_later(each, request_id))
        place = next(later, len(rest))
        self.turn = [*rest[:place], request_id, *rest[place:]]
        self._heard = True

    def _is_later(self, one: str, other: str) -> bool:
        return self._places.get(one, 0) > self._places[other]

    def end_turn(self) -> list[tuple[str, str]]:
        """The requests that get a result now, each with the reason if it was refused."""
        requests, self.turn = self.turn or [self.interrupted or self.active], []
        refused, self.refused = self.refused, {}
        return [(each, refused.get(each, "")) for each in requests]

    def complete(self) -> None:
        """A turn is complete. Whoever has waited longest is next."""
        if self._waiting:
            self.take_over(next(iter(self._waiting.values())))
