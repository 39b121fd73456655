"""Which request of the driver an event is due to.

The request that set the task going has it, until another takes over: an answer at once, words
that wait in the queue when the model hears them, a cancellation until something new is asked.
"""


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

    def take_over(self, request_id: str) -> None:
        self.active = request_id
        self.interrupted = ""
        if self.turn and not self._heard:
            self.turn.pop()
        self.turn.append(request_id)
        self._heard = False

    def cancel(self, request_id: str) -> None:
        self.interrupted = self.interrupted or self.active
        self.active = request_id

    def start(self, request_id: str) -> None:
        """Another task begins; what waited for the one before it will never be heard."""
        self._waiting.clear()
        self.turn.clear()
        self.take_over(request_id)

    def queue(self, message_id: str, request_id: str) -> None:
        self._waiting[message_id] = request_id

    def forget(self, message_id: str) -> None:
        self._waiting.pop(message_id, None)

    def knows(self, message_id: str) -> bool:
        return message_id in self._waiting

    def hear(self, message_id: str) -> None:
        """The model hears a queued message, which gets a result of its own."""
        request_id = self._waiting.pop(message_id, "")
        if not request_id:
            return
        self.active, self.interrupted = request_id, ""
        self.turn = [*(each for each in self.turn if each != request_id), request_id]
        self._heard = True

    def end_turn(self) -> list[str]:
        """The requests that get a result now."""
        requests, self.turn = self.turn or [self.interrupted or self.active], []
        return requests

    def complete(self) -> None:
        """A turn is complete. Whoever has waited longest is next."""
        if self._waiting:
            self.take_over(next(iter(self._waiting.values())))
