"""For whoever comes late: what a model said is told although nobody here heard it being said."""

from rookery.core.blocks import Text
from rookery.core.facts import AssistantSpoke, Event, RequestStarted, TextStreamed
from rookery.protocol.client.attend import Display


class Retelling:
    """A display that is shown, before each whole answer, the words of it that it has missed."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._heard: dict[str, str] = {}
        """Of each task that speaks, the words so far."""

    def show(self, event: Event) -> None:
        if missed := self._missed("", event):
            self._display.show(missed)
        self._display.show(event)

    def show_of_child(self, task_id: str, event: Event) -> None:
        if missed := self._missed(task_id, event):
            self._display.show_of_child(task_id, missed)
        self._display.show_of_child(task_id, event)

    def _missed(self, speaker: str, event: Event) -> Event | None:
        heard = self._heard.get(speaker, "")
        match event.fact:
            case RequestStarted():
                self._heard[speaker] = ""
            case TextStreamed(text=text):
                self._heard[speaker] = heard + text
            case AssistantSpoke(request_id=request_id, blocks=blocks):
                whole = "".join(block.text for block in blocks if isinstance(block, Text))
                if missed := _rest(whole, heard):
                    news = TextStreamed(request_id=request_id, text=missed)
                    return Event(event.seq - 1, 1, event.ts, news)
            case _:
                pass
        return None


def _rest(whole: str, heard: str) -> str:
    """What is missing of a text; nothing if its end was heard."""
    if whole.startswith(heard):
        return whole[len(heard) :]
    return "" if whole.endswith(heard) else whole
