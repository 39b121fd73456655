"""Takes secrets out of commands and error texts before they are recorded, and counts them."""

import re
from collections import Counter
from collections.abc import Mapping
from math import log2

_SHAPES = {
    "private-key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    "jwt": r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*",
    "github-token": r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,})",
    "gitlab-token": r"\bglpat-[\w-]{16,}",
    "slack-token": r"\bxox[abeoprs]-[\w-]{10,}",
    "aws-key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "google-key": r"\bAIza[\w-]{30,}",
    "api-key": r"\b(?:sk|pk|rk)[-_](?:[\w-]*[-_])?\w{16,}",
    "package-token": r"\b(?:npm_\w{30,}|pypi-[\w-]{40,})",
    "url-password": r"(?<=://)[^\s/:@]+:[^\s/@]+(?=@)",
    "bearer": r"(?i:(?<=bearer )|(?<=basic ))[\w.~+/=-]{8,}",
    "password": r"(?i:(?<=password[=:])|(?<=passwd[=:])|(?<=secret[=:])|(?<=token[=:])"
    r"|(?<=api_key[=:])|(?<=apikey[=:]))(?:\"[^\"]{4,}\"|'[^']{4,}'|(?!\[)[^\s\"'&;|]{4,})",
}
_FOUND = re.compile(
    "|".join(f"(?P<{name.replace('-', '_')}>{shape})" for name, shape in _SHAPES.items()), re.DOTALL
)
_WORD = re.compile(r"[A-Za-z0-9+/=_-]{24,}")
_RANDOM = 4.0
"""Bits per character above which a long word is no word."""
_HASH = re.compile(r"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|PRIVATE|SESSION|COOKIE|DSN", re.IGNORECASE
)
_SHORTEST_VALUE = 8


class SecretsFilter:
    """Knows token shapes, words too random to be words, and the values of variables whose names
    look secret."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        values = {
            value
            for name, value in (environment or {}).items()
            if len(value) >= _SHORTEST_VALUE and _SECRET_NAME.search(name) and value[0] != "/"
        }
        known = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
        self._known = re.compile(known) if known else None

    def __call__(self, text: str) -> tuple[str, int]:
        """The text without its secrets, and how many there were."""
        found = 0

        def replaced(match: re.Match[str], kind: str) -> str:
            nonlocal found
            found += 1
            return f"[redacted:{kind}]"

        if self._known:
            text = self._known.sub(lambda match: replaced(match, "environment"), text)
        text = _FOUND.sub(
            lambda match: replaced(match, str(match.lastgroup).replace("_", "-")), text
        )
        text = _WORD.sub(
            lambda match: replaced(match, "random") if _is_random(match[0]) else match[0], text
        )
        return text, found


def _is_random(word: str) -> bool:
    """Hashes are random and no secrets; paths and names of things mix no kinds of characters."""
    if _HASH.fullmatch(word) or word.count("/") > 1 or word.count("-") + word.count("_") > 4:
        return False
    mixed = all(any(test(c) for c in word) for test in (str.isdigit, str.isupper, str.islower))
    return mixed and _bits(word) >= _RANDOM


def _bits(word: str) -> float:
    counts = Counter(word).values()
    return -sum(count / len(word) * log2(count / len(word)) for count in counts)
