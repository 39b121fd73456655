"""Takes secrets out of what tools return, also where one comes in two pieces.

Only values that are known are found. A short one is left: it would be found in ordinary words.
"""

import json
import re
from collections.abc import Iterable

SHORTEST = 12
HIDDEN = "[secret hidden]"
"""What is read in the place of a secret."""


class Hiding:
    """Knows the secrets, and shows none of them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= SHORTEST}
        known |= {json.dumps(secret)[1:-1] for secret in known}  # as it stands in a payload
        # of two secrets that begin alike, the longer one
        self._secrets = sorted(known, key=len, reverse=True)
        found = "|".join(map(re.escape, self._secrets))
        self._found = re.compile(found) if found else None

    def __call__(self, text: str) -> str:
        return self._found.sub(HIDDEN, text) if self._found else text

    def stream(self) -> "HidingStream":
        return HidingStream(self)

    def begun_in(self, text: str) -> int:
        """How many characters at the end of the text may be the beginning of a secret."""
        longest = max(map(len, self._secrets), default=1) - 1
        end = text[-longest:] if longest else ""
        return max(
            (
                len(end) - at
                for secret in self._secrets
                for at in _places(secret[0], end)
                if secret.startswith(end[at:])
            ),
            default=0,
        )


class HidingStream:
    """The same for a text that comes in pieces. What may be the beginning of a secret waits for
    the piece after it."""

    def __init__(self, hide: Hiding) -> None:
        self._hide = hide
        self._held = ""

    def add(self, piece: str) -> str:
        """As much of the text so far as can no longer be part of a secret."""
        text = self._hide(self._held + piece)
        at = len(text) - self._hide.begun_in(text)
        self._held = text[at:]
        return text[:at]

    def finish(self) -> str:
        rest, self._held = self._held, ""
        return rest


def _places(character: str, text: str) -> Iterable[int]:
    return (match.start() for match in re.finditer(re.escape(character), text))
