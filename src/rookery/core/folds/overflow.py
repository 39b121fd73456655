"""What a provider gives away when it says that a request was too long."""

import re

from msgspec import Struct

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
