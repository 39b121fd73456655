"""Removes secrets and personal names from what is shared with others.

Known secrets are found in many spellings: as they are, as JSON, HTML, percent-encoded, base64 or
hexadecimal text, broken over lines, and with control characters in between. A broken or disguised
spelling is searched in a condensed copy of the text, and cut out of the text itself. Secrets that
are not known are found by `SecretsFilter`. Compressed or encrypted ones are not found.
"""

import json
import re
from base64 import b64encode
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from rookery.core.text.secrets_filter import SecretsFilter, secret_values

SHORTEST = 8
"""Fewer characters are not searched for: they would be found in ordinary words."""
_SHORTEST_NAME = 3
_COMMON_NAMES = frozenset(("root", "user", "admin", "home", "runner", "ubuntu", "debian", "node"))
"""User names that identify no person, and are words of many texts."""
_LINKS = frozenset(
    ("kind", "request_id", "call_id", "ask_id", "message_id", "id", "task_id", "child", "parent")
)
"""Fields that connect events. Only known secrets and tokens are replaced in them."""
_OWN_NAMES = frozenset(("arguments", "details"))
"""Fields whose values have names that a model or a user chose."""
_FIXED = frozenset(
    [
        "kind",
        "ask",
        "stop",
        "ending",
        "reply",
        "by",
        "status",
        "fate",
        "state",
        "level",
        "error",
        "of",
    ]
)
"""Fields with one of a few words, which would mean something else if a user had that name."""
_FIXED_WORD = re.compile(r"[a-z_ ]{1,24}")
_DROPPED = frozenset(("signature",))
"""Fields that only a provider can read."""
_BLANKS = r"(?:\x1b\[[0-?]*[ -/]*[@-~]|[\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2060-\u2064\ufeff])"
_GAPS = tuple(
    (re.compile(gap), re.compile(mark))
    for gap, mark in (
        (r"(?!)", ""),
        (rf"{_BLANKS}+", r"(?!)"),
        (
            rf"(?:\\+[rnt]|\\+u00(?:0[ad]|1b)|{_BLANKS})+",
            r"\\\\*(?:[rnt]|u00(?:0[ad]|1b))",
        ),
        (
            rf"(?:\\*\n|\\+n){_BLANKS}*(?:[-+|>#*]{_BLANKS}*)?|{_BLANKS}+",
            r"(?:\n(?<!\s\n)|\\\\*[\nn])\s*(?:[-+|>#*]\s*)?",
        ),
    )
)
"""What may stand inside a secret, in the order in which it is tried: nothing, line breaks and
control characters, the same as JSON, and the marks of diffs and quotes at the start of a line.
Each has a second pattern without the blanks, which are faster to remove separately."""


class Scrubber:
    """Replaces secrets, the home folder and the user's name, and counts what it replaced."""

    def __init__(
        self,
        *,
        keys: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        homes: Iterable[str] = (),
        user: str = "",
    ) -> None:
        self._filter = SecretsFilter()
        known = dict.fromkeys(secret_values(environment or {}), "environment")
        known |= dict.fromkeys((key for key in keys if len(key) >= SHORTEST), "key")
        longest_first = sorted(known, key=len, reverse=True)
        spelled = [(form, known[key]) for key in longest_first for form in _spellings(key)]
        self._searches = [
            (
                *(gap, mark),
                [(short, kind) for form, kind in spelled if len(short := gap.sub("", form)) >= 6],
            )
            for gap, mark in _GAPS
        ]
        self._home_names = sorted({*homes} - {"", "/"}, key=len, reverse=True)
        self._homes = _alternatives(self._home_names)
        named = len(user) >= _SHORTEST_NAME and user.lower() not in _COMMON_NAMES
        self._user_name = user
        self._user = _alternatives([user]) if named else None

    @property
    def found(self) -> Counter[str]:
        """How many of each kind were replaced so far."""
        return self._filter.found

    def value(self, value: Any, name: str = "") -> Any:
        """A JSON value without secrets, and without images, which cannot be searched."""
        match value:
            case str() if name in _DROPPED:
                return ""
            case str() if name in _FIXED and _FIXED_WORD.fullmatch(value):
                return value
            case str():
                return self._linked(value) if name in _LINKS else self.text(value)
            case {"media_type": str(), "data": str(data)} if len(value) == 2:
                self.found["image"] += bool(data)
                return {**value, "data": ""}
            case dict():
                own = name in _OWN_NAMES
                return {
                    self._key(str(key), own): self.value(each, name if own else str(key))
                    for key, each in value.items()
                }
            case list():
                return [self.value(each, name) for each in value]
            case _:
                return value

    def text(self, text: str) -> str:
        if len(text) >= SHORTEST:
            text, _ = self._filter(self.known(text))
        return self._personal(text)

    def known(self, text: str) -> str:
        """The text without known secrets, in any spelling."""
        for gap, mark, forms in self._searches:
            condensed = _condensed(text, gap, mark)
            found = [(form, kind) for form, kind in forms if form in condensed]
            if found:
                text = _cut_out(text, gap, condensed, found, self.found)
        return text

    def _key(self, key: str, own: bool) -> str:
        return key if not own and _FIXED_WORD.fullmatch(key) else self._linked(key)

    def _linked(self, text: str) -> str:
        return self._personal(self._filter.shapes(self.known(text)))

    def _personal(self, text: str) -> str:
        if self._homes and any(home in text for home in self._home_names):
            text, count = self._homes.subn("~", text)
            self.found["home folder"] += count
        if self._user and self._user_name in text:
            text, count = self._user.subn("user", text)
            self.found["user name"] += count
        return text


def _alternatives(words: Sequence[str]) -> re.Pattern[str] | None:
    """The words where they are not part of a longer one."""
    found = "|".join(map(re.escape, words))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{found})(?![A-Za-z0-9])") if found else None


def _spellings(secret: str) -> Iterator[str]:
    as_json = json.dumps(secret)[1:-1]
    plain_json = json.dumps(secret, ensure_ascii=False)[1:-1]
    data = secret.encode("utf-8", "replace")
    yield from dict.fromkeys(
        (
            *(secret, plain_json, as_json, json.dumps(as_json)[1:-1], json.dumps(plain_json)[1:-1]),
            *(escape(secret), escape(secret, quote=False), quote(secret, safe=""), quote(secret)),
            *(data.hex(), data.hex().upper()),
            *_base64_spellings(data),
        )
    )


def _base64_spellings(data: bytes) -> Iterator[str]:
    """The characters that the secret determines, at each of its three places in a group."""
    for before in range(3):
        coded = b64encode(bytes(before) + data).decode()
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        yield coded[first:last]
        yield coded[first:last].replace("+", "-").replace("/", "_")


def _condensed(text: str, gap: re.Pattern[str], mark: re.Pattern[str]) -> str:
    """The text without gaps."""
    if not mark.pattern:
        return text
    left = "".join(mark.sub("", text).split())
    # a control character that is left may begin a gap of several characters
    return left if left.isprintable() else gap.sub("", text)


def _cut_out(
    text: str,
    gap: re.Pattern[str],
    condensed: str,
    found: Iterable[tuple[str, str]],
    counts: Counter[str],
) -> str:
    """Replace the part of the text that each form has in the condensed copy."""
    starts, shifts = _shifts(text, gap)
    spans: list[tuple[int, int, str]] = []
    for form, kind in found:
        at = condensed.find(form)
        while at >= 0:
            first, last = at, at + len(form) - 1
            spans.append((_origin(first, starts, shifts), _origin(last, starts, shifts) + 1, kind))
            at = condensed.find(form, at + 1)
    pieces, done = list[str](), 0
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= done:
            pieces += [text[done:start], f"[redacted:{kind}]"]
            counts[kind] += 1
        done = max(done, end)
    return "".join([*pieces, text[done:]])


def _shifts(text: str, gap: re.Pattern[str]) -> tuple[list[int], list[int]]:
    """From which place of the condensed copy on how many characters are missing."""
    starts, shifts, missing = [0], [0], 0
    for match in gap.finditer(text):
        missing += match.end() - match.start()
        starts.append(match.end() - missing)
        shifts.append(missing)
    return starts, shifts


def _origin(place: int, starts: Sequence[int], shifts: Sequence[int]) -> int:
    return place + shifts[bisect_right(starts, place) - 1]
