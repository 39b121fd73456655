"""Estimates the tokens of a request, and parses providers' messages about too many.

Text is measured in UTF-8 bytes, which match tokens across languages better than characters do.
Tokens per byte are learnt from the usage that the provider reports.
"""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import is_
from typing import Generic, TypeVar

from msgspec import Struct

from rookery.core.blocks import Block, Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.folds.history import Turn

PER_BYTE = 1 / 3.2
"""Used until the provider has reported usage. Code has more tokens than prose."""
LEAST_PER_BYTE, MOST_PER_BYTE = 0.15, 2.0
WORTH_LEARNING = 1_000
"""Requests with fewer bytes say little about tokens per byte."""
OF_A_PICTURE = 1_600 * 3
"""Bytes that an image counts as."""
AROUND_A_BLOCK = 12
SMALLEST_WINDOW = 1_000
"""No model has a smaller context window, so a smaller number means something else."""
GUESSES = (0.6, 0.3, 0.1)
"""Share of a refused request that is assumed to fit, at the first and later refusals."""
SMALLEST_GUESS = 4_000
"""Tools and rules alone need almost this much and cannot be cut."""

_NUMBER = r"(\d[\d,_.]{0,11}\d|\d)"
# compiled when they are first used: there are many, and few runs need them
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
    """A model's context: `window` tokens, of which `answer` are reserved for the answer."""

    window: int
    answer: int

    @property
    def request(self) -> int:
        """Tokens available for a request, with a reserve because the count is an estimate."""
        return max(self.window * 9 // 10 - self.answer, self.window // 5)


def room(window: int, most_output: int) -> TokenRoom:
    """The answer gets the model's largest output, or a fifth of a small window."""
    return TokenRoom(window, min(most_output, max(window // 5, 1)))


def weight(turns: Iterable[Turn]) -> int:
    """The bytes of a conversation."""
    return sum(_weight(block) for turn in turns for block in turn.blocks)


T = TypeVar("T")


class Repeated(Generic[T]):
    """Results for the turns of the last request. The next request repeats its turns and adds some,
    so only the new turns are computed."""

    def __init__(self) -> None:
        self._how: Hashable = None
        self._turns: list[Turn] = []
        self._made: list[T] = []

    def make(
        self, make: Callable[[Turn], T], turns: Sequence[Turn], how: Hashable = None
    ) -> Sequence[T]:
        """Return `make(turn)` for each turn. It must depend only on the turn and `how`."""
        same = [*map(is_, self._turns, turns), False].index(False) if how == self._how else 0
        made = [make(turn) for turn in turns[same:]]
        self._how, self._turns[same:], self._made[same:] = how, turns[same:], made
        return self._made


class Scale:
    """Measures a growing conversation: an unchanged turn is measured once."""

    def __init__(self) -> None:
        self._weighed = Repeated[int]()

    def weight(self, turns: Sequence[Turn]) -> int:
        """The same as `weight`."""
        return sum(self._weighed.make(lambda turn: weight([turn]), turns))


def learnt(per_byte: float, size: int, tokens: int) -> float:
    """Tokens per byte after learning that `size` bytes were `tokens` tokens."""
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
    """Tokens that fit and tokens that were sent; 0 if not reported."""

    limit: int = 0
    used: int = 0


def overflow_in(message: str) -> Overflow:
    return Overflow(_first(_LIMITS, message), _first(_USED, message))


def window_after(said: Overflow, sent: float, cuts: int) -> int:
    """The context window after a refusal of `sent` tokens: the provider's number, or a guess."""
    if said.limit >= SMALLEST_WINDOW:
        return said.limit
    return max(int(sent * GUESSES[min(cuts, len(GUESSES) - 1)]), SMALLEST_GUESS)


def _first(patterns: tuple[str, ...], message: str) -> int:
    for pattern in patterns:
        if found := re.search(pattern, message[:4096], re.IGNORECASE):
            return int(re.sub(r"\D", "", found[1]))
    return 0
