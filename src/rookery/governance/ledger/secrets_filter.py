"""Redaction of secrets in commands and error texts before they are recorded."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache, partial
from math import log2

_SHAPES = {
    "private-key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    "jwt": r"\beyJ[\w-]{8,4096}+\.eyJ[\w-]{8,8192}+\.[\w-]*",
    "github-token": r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,})",
    "gitlab-token": r"\bglpat-[\w-]{16,}",
    "slack-token": r"\bxox[abeoprs]-[\w-]{10,}",
    "aws-key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "google-key": r"\bAIza[\w-]{30,}",
    "api-key": r"\b(?:sk|pk|rk)[-_](?:[\w-]{0,100}[-_])?\w{16,}",
    "package-token": r"\b(?:npm_\w{30,}|pypi-[\w-]{40,})",
    "url-password": r"(?<=://)[^\s/:@]*:[^\s/?#]+(?=@)",
    "bearer": r"(?i:(?<=bearer )|(?<=basic ))[\w.~+/=-]{8,}",
    "password": r"(?i:(?<=password[=:])|(?<=passwd[=:])|(?<=secret[=:])|(?<=token[=:])"
    r"|(?<=api_key[=:])|(?<=apikey[=:]))(?:\"[^\"]{4,}\"|'[^']{4,}'|(?!\[)[^\s\"'&;|]{4,})",
}
_TOKENS = re.compile(
    "|".join(f"(?P<{name.replace('-', '_')}>{shape})" for name, shape in _SHAPES.items()), re.DOTALL
)
_NAME = r"(?:password|passwd|passphrase|secret|token|api[_-]?key|secret[_-]?(?:access[_-]?)?key)"
_VALUE = r"(?P<secret>(?!\S?\[redacted:)(?:\"[^\"]*\"|'[^']*'|\\.|[^\s\"'|&;\\])+)"
_TEXT = r"(?P<secret>(?!\[redacted:)[^\s\"'\\]{4,})"
_ARGS = r"\b[^\n|;]{0,300}?\s"
"""Other arguments of the program. Repeats are bounded to keep matching fast."""
_PLACES = (
    ("password", rf"(?<![\w-])--?[\w-]{{0,40}}(?:{_NAME}|pass)(?:=|\s++(?!-)){_VALUE}"),
    ("password", rf"\b(?:mysql(?:dump|admin)?|mariadb(?:-dump)?|7z){_ARGS}-p(?!rint\b){_VALUE}"),
    ("password", rf"\b(?:sshpass{_ARGS}-p|redis-cli{_ARGS}-a)\s*+{_VALUE}"),
    (
        "password",
        rf"\bcurl{_ARGS}(?:-\w{{0,10}}[uU]|--(?:proxy-)?user)[\s=]*+"
        rf"[\"']?[^\s:\"']{{0,100}}:{_TEXT.replace('{4,}', '+')}",
    ),
    (
        "password",
        rf"\\?[\"'][\w-]{{0,40}}{_NAME}\\?[\"']\s{{0,3}}[:=]\s{{0,3}}\\?[\"']"
        r"(?P<secret>(?!\[redacted:)[^\"'\\]+)",
    ),
    (
        "password",
        rf"\b\w{{0,40}}(?:passw(?:or)?d|passphrase|_pwd|_pass|_key|client_secret)"
        rf"\s{{0,3}}[:=]\s{{0,3}}{_TEXT}",
    ),
    ("password", r"\b\w{0,40}_(?:secret|token|access_key)\s++(?P<secret>[^\s\"'\[]{16,})"),
    ("password", rf"\blogin\s+\S{{1,100}}\s+password\s+{_VALUE}"),
    ("password", rf"(?<![\w-])pass:{_VALUE}"),
    (
        "header",
        r"\b(?:x-[\w-]{0,40}(?:key|token|secret|auth)|api-?key|private-token"
        r"|(?:proxy-)?authorization)\\?[\"']?\s{0,3}:\s{0,3}\\?[\"']?"
        rf"(?:(?:bearer|basic|token|digest|negotiate|key|apikey)\s++)?+{_TEXT}",
    ),
    ("header", r"\bcookie:\s{0,3}(?P<secret>(?!\[redacted:)[^\"'\n]{4,})"),
    ("url-password", r"\bhttps?://(?P<secret>(?!\[redacted:)[^\s/@:?#\"']{1,300})(?=@)"),
    (
        "url-key",
        rf"[?&](?:[\w-]{{0,40}}(?:key|auth|signature|{_NAME})|sig|pwd|code)="
        r"(?P<secret>(?!\[redacted:)[^\s&\"'#]{4,})",
    ),
)
"""Patterns that find a secret by what surrounds it."""
_WORD = re.compile(r"[A-Za-z0-9+/=_-]{24,}")
_MIN_ENTROPY = 4.0
"""Bits of entropy per character from which a long word counts as random."""
_HASH = re.compile(r"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|PRIVATE|SESSION|COOKIE|DSN", re.IGNORECASE
)
_SHORTEST_VALUE = 8


class SecretsFilter:
    """Redacts token formats, secrets in known positions of commands, random words, and the
    values of environment variables with secret-looking names."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        values = {
            value
            for name, value in (environment or {}).items()
            if len(value) >= _SHORTEST_VALUE and _SECRET_NAME.search(name) and value[0] != "/"
        }
        known = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
        self._known = re.compile(known) if known else None

    def __call__(self, text: str) -> tuple[str, int]:
        """The redacted text, and the number of secrets found."""
        found = 0

        def redact(match: re.Match[str], kind: str) -> str:
            nonlocal found
            found += 1
            return f"[redacted:{kind}]"

        def around(kind: str, match: re.Match[str]) -> str:
            return _replace_secret(match, redact(match, kind))

        if self._known:
            text = self._known.sub(lambda match: redact(match, "environment"), text)
        text = _TOKENS.sub(
            lambda match: redact(match, str(match.lastgroup).replace("_", "-")), text
        )
        for kind, place in _places():
            text = place.sub(partial(around, kind), text)
        text = _WORD.sub(
            lambda match: redact(match, "random") if _is_random(match[0]) else match[0], text
        )
        return text, found


@cache
def _places() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((kind, re.compile(place, re.IGNORECASE)) for kind, place in _PLACES)


def _replace_secret(match: re.Match[str], replacement: str) -> str:
    start, end = (at - match.start() for at in match.span("secret"))
    return f"{match[0][:start]}{replacement}{match[0][end:]}"


def _is_random(word: str) -> bool:
    """Whether a word looks generated. Hashes, paths and hyphenated names do not count."""
    if _HASH.fullmatch(word) or word.count("/") > 1 or word.count("-") + word.count("_") > 4:
        return False
    mixed = all(any(test(c) for c in word) for test in (str.isdigit, str.isupper, str.islower))
    return mixed and _entropy(word) >= _MIN_ENTROPY


def _entropy(word: str) -> float:
    counts = Counter(word).values()
    return -sum(count / len(word) * log2(count / len(word)) for count in counts)
