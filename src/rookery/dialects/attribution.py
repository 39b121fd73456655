"""Which request of the driver an event is due to.

The request that set the task going has it, until another takes over: an answer at once, words
that wait in the queue when the model hears them, a cancellation until something new is asked.
"""


class Attribution:
    def __init__(self) -> None:
        self.active = ""
        self.interrupted = ""
        """Whom a cancellation has taken over from."""
        self._waiting: dict[str, str] = {}
        """The requests behind queued messages, oldest first."""

    def take_over(self, request_id: str) -> None:
        self.active = request_id
        self.interrupted = ""

    def cancel(self, request_id: str) -> None:
        self.interrupted = self.interrupted or self.active
        self.active = request_id

    def start(self, request_id: str) -> None:
        """Another task begins; what waited for the one before it will never be heard."""
        self._waiting.clear()
        self.take_over(request_id)

    def queue(self, message_id: str, request_id: str) -> None:
        self._waiting[message_id] = request_id

    def forget(self, message_id: str) -> None:
        self._waiting.pop(message_id, None)

    def knows(self, message_id: str) -> bool:
        return message_id in self._waiting

    def hear(self, message_id: str) -> None:
        """The model hears a queued message."""
        if request_id := self._waiting.pop(message_id, ""):
            self.take_over(request_id)

    def complete(self) -> None:
        """A turn is complete. Whoever has waited longest is next."""
        if self._waiting:
            self.take_over(next(iter(self._waiting.values())))
