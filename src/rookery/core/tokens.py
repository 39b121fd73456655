"""How many tokens a request will take, and what a provider says when it took too many.

Text is measured in bytes of UTF-8, which follows tokens across languages far better than
characters do. How many tokens a byte makes is learnt from the usage a provider reports.
"""

import json
import re
from collections.abc import Iterable

from msgspec import Struct

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.folds.history import Turn

PER_BYTE = 1 / 3.2
"""Until a provider has said what it counted: code has more tokens than prose."""
LEAST_PER_BYTE, MOST_PER_BYTE = 0.15, 2.0
WORTH_LEARNING = 1_000
"""Bytes below which a request's usage says little about the text in it."""
OF_A_PICTURE = 1_600 * 3
"""Bytes that a picture counts as."""
AROUND_A_BLOCK = 12

_NUMBER = r"(\d[\d,_.]{0,11}\d|\d)"
# compiled by whoever searches for them: there are many, and hardly a run ever does
_LIMITS = (
    rf"maximum context length (?:is|of) {_NUMBER}",
    rf"> {_NUMBER} maximum",
    rf"exceeds? [a-z ]{{0,40}}(?:limit|size|window|length)\D{{0,20}}{_NUMBER}",
    rf"maximum number of tokens allowed \(?{_NUMBER}",
    rf"(?:available )?context size \(?{_NUMBER}",
    rf"maximum (?:allowed )?input length (?:of |is )?{_NUMBER}",
    rf"n_ctx\D{{0,6}}{_NUMBER}",
    rf"limit (?:is|of) {_NUMBER}",
)
_USED = (
    rf"{_NUMBER} in the messages",
    rf"resulted in {_NUMBER} tokens",
    rf"(?:you )?requested (?:about )?{_NUMBER} tokens",
    rf"{_NUMBER} tokens > ",
    rf"input token count \(?{_NUMBER}",
    rf"request \(?{_NUMBER} tokens",
    rf"n_prompt_tokens\D{{0,6}}{_NUMBER}",
    rf"your (?:input|prompt|messages?) (?:has|is|contains?) {_NUMBER}",
)


class TokenRoom(Struct, frozen=True):
    """What a model's context holds: `window` tokens, of which `answer` are for the answer."""

    window: int
    answer: int

    @property
    def request(self) -> int:
        """Tokens that a request may take, with a reserve because they are only foreseen."""
        return max(self.window * 9 // 10 - self.answer, self.window // 5)


def room(window: int, most_output: int) -> TokenRoom:
    """The room for an answer is what the model can say at most, or a fifth of a small window."""
    return TokenRoom(window, min(most_output, max(window // 5, 1)))


def weight(turns: Iterable[Turn]) -> int:
    """The bytes of a conversation."""
    return sum(_weight(block) for turn in turns for block in turn.blocks)


class Scale:
    """Weighs a conversation that grows: a turn that is still the same is weighed once."""

    def __init__(self) -> None:
        self._weighed: dict[int, tuple[Turn, int]] = {}

    def weight(self, turns: Iterable[Turn]) -> int:
        """The same as `weight`."""
        before = self._weighed
        rows = [before.get(id(turn)) or (turn, weight([turn])) for turn in turns]
        # each row holds its turn, so that no other can have the same id
        self._weighed = {id(row[0]): row for row in rows}
        return sum(weighed for _, weighed in rows)


def learnt(per_byte: float, size: int, tokens: int) -> float:
    """Tokens per byte, now that `size` bytes are known to have been `tokens` tokens."""
    if size < WORTH_LEARNING or tokens <= 0:
        return per_byte
    return min(max(tokens / size, LEAST_PER_BYTE), MOST_PER_BYTE)


def _weight(block: Block) -> int:
    match block:
        case Text(text=text):
            return AROUND_A_BLOCK + text_weight(text)
        case Thinking(text=text, signature=signature):
            return AROUND_A_BLOCK + text_weight(text) + len(signature)
        case Image():
            return OF_A_PICTURE
        case ToolCall(id=id, name=name, arguments=arguments):
            spelled = json.dumps(dict(arguments), ensure_ascii=False, default=str)
            return AROUND_A_BLOCK + len(id) + len(name) + text_weight(spelled)
        case ToolResult(call_id=id, text=text, images=images):
            return AROUND_A_BLOCK + len(id) + text_weight(text) + OF_A_PICTURE * len(images)


def text_weight(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class Overflow(Struct, frozen=True):
    """Tokens that fit, and tokens that were sent; 0 for what was not said."""

    limit: int = 0
    used: int = 0


def overflow_in(message: str) -> Overflow:
    return Overflow(_first(_LIMITS, message), _first(_USED, message))


def _first(patterns: tuple[str, ...], message: str) -> int:
    for pattern in patterns:
        if found := re.search(pattern, message[:4096], re.IGNORECASE):
            return int(re.sub(r"\D", "", found[1]))
    return 0
