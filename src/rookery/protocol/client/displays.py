"""Several displays that are shown the same task."""

from rookery.core.facts import Event
from rookery.protocol.client.attend import Display


class Displays:
    def __init__(self, *displays: Display) -> None:
        self._displays = displays

    def show(self, event: Event) -> None:
        for display in self._displays:
            display.show(event)

    def show_of_child(self, task_id: str, event: Event) -> None:
        for display in self._displays:
            display.show_of_child(task_id, event)
