"""What Ctrl-C means: once stops the task, which stays; twice leaves."""

from rookery.core.facts import Event, RequestStarted, ToolStarted


class Interrupts:
    """Remembers whether the task was already told to stop and has not gone on since."""

    def __init__(self) -> None:
        self._stopping = False

    def second(self) -> bool:
        """Note one more Ctrl-C, and say whether it is one too many."""
        before, self._stopping = self._stopping, True
        return before

    def show(self, event: Event) -> None:
        if isinstance(event.fact, RequestStarted | ToolStarted):
            self._stopping = False

    def show_of_child(self, task_id: str, event: Event) -> None:
        self.show(event)
