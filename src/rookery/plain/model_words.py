"""What the model says in a run: its last words, and words that may turn out to be the result."""

from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    AssistantSpoke,
    CompletionOffered,
    Fact,
    RequestFailed,
    RequestStarted,
    TextStreamed,
    ThinkingStreamed,
    Waiting,
)
from rookery.protocol.client.attend import BESIDE_A_QUESTION


class SpokenWords:
    def __init__(self) -> None:
        self._arriving: list[str] = []
        self._last = ""
        self._held: list[str] = []

    @property
    def last(self) -> str:
        """The last words of the model, whole or as far as they came."""
        return "".join(self._arriving).strip() or self._last

    def see(self, fact: Fact) -> None:
        match fact:
            case TextStreamed(text=text):
                self._arriving.append(text)
                return
            case RequestFailed():
                self._last = self.last
            case AssistantSpoke():
                self._last = fact.words or self._last
            case CompletionOffered(result=result):
                self._last = result
            case RequestStarted():
                pass
            case _:
                return
        self._arriving = []

    def hold(self, text: str) -> None:
        self._held.append(text)

    def released(self, fact: Fact) -> str:
        """Held words of which this fact tells that they are not the result."""
        match fact:
            case CompletionOffered(spoken=True):
                self._held = []
                return ""
            case TextStreamed() | ThinkingStreamed() | Waiting():
                return ""
            case AssistantSpoke() if not _calls(fact):
                return ""
            case _ if isinstance(fact, BESIDE_A_QUESTION):
                return ""
        held, self._held = "".join(self._held), []
        return held


def _calls(answer: AssistantSpoke) -> bool:
    return any(isinstance(block, ToolCall) for block in answer.blocks)
