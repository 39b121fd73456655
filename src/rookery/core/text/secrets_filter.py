"""Removes secrets from text that is written down or passed on.

Secrets are found by their shape, by what surrounds them, by their randomness, and by value: the
environment's variables with secret-looking names. No filter can know every secret.

A search tries a pattern at every character, and there are forty. So patterns are tried only near
words that each of their matches contains, which are found fifty times as fast.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from math import log2

_SHAPES = {
    "private-key": r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|(?<![\w+/=])(?:[\w+/=]{16,}+\s++(?:\d+ \| )?){1,200}-----END [A-Z ]*PRIVATE KEY"
    r"|(?<=Private-Lines: )\d.*?(?=Private-MAC|\Z)",
    "jwt": r"\beyJ[\w-]{8,4096}+\.eyJ[\w-]{8,8192}+\.[\w-]*",
    "github-token": r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,})",
    "gitlab-token": r"\bgl(?:pat|rt|ptt|cbt|dt|soat|ft|imt|agent)-[\w-]{16,}",
    "slack-token": r"\b(?:xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{20,})",
    "webhook": r"(?:(?<=hooks\.slack\.com/services/)[\w/]{20,}"
    r"|(?<=discord\.com/api/webhooks/)\d{5,30}/[\w-]{20,})",
    "aws-key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "google-key": r"\bAIza[\w-]{30,}",
    "api-key": r"\bsk-(?:ant|or|proj|svcacct|admin)-[\w-]{16,}"
    r"|\b(?:sk|pk|rk)[-_](?:[\w-]{0,100}[-_])?\w{16,}",
    "package-token": r"\b(?:npm_\w{30,}|pypi-[\w-]{40,})",
    "service-token": r"\b(?:dop_v1_\w{40,}|shp(?:at|ca|pa|ss)_\w{30,}|lin_api_\w{30,}|hf_\w{30,}"
    r"|AGE-SECRET-KEY-1[0-9A-Z]{50,}|hvs\.[\w-]{20,}|ya29\.[\w-]{20,}|key-[0-9a-f]{32}\b"
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|(?:gsk|whsec|figd|ntn|dckr_pat|glsa|sntry[su]|sbp)_[\w=.+/-]{20,}"
    r"|pscale_[a-z]{1,9}_[\w.-]{20,}|(?:xai|pplx|HRKU|GOCSPX|pul)-[\w-]{20,}|r8_\w{30,}"
    r"|dapi[0-9a-f]{32}|ATATT3[\w=-]{30,}|1//0[\w-]{30,}|dp\.[a-z]{2,5}\.\w{30,}"
    r"|\d{8,10}:AA[\w-]{33}|\w{3}8Q~[\w~.-]{31,})",
    "password-hash": r"\$(?:2[aby]|1|5|6|7|y|apr1|argon2id?)\$[\w./$=,+-]{20,}",
    "url-password": r"(?:(?<=://)|(?<=:\\/\\/))[^\s/:@]*:[^\s/?#]+(?=@)"
    r"|(?i:(?<=%3a%2f%2f))[^\s%/:@]*%3[aA][^\s/?#]{1,300}?(?=%40)",
    "bearer": r"(?i:(?<=bearer )|(?<=basic ))[\w.~+/=-]{8,}",
    "password": r"(?i:(?<=password[=:])|(?<=passwd[=:])|(?<=secret[=:])|(?<=token[=:])"
    r"|(?<=api_key[=:])|(?<=apikey[=:]))(?:\"[^\"]{4,}\"|'[^']{4,}'|(?!\[)[^\s\"'&;|]{4,})",
}
_TOKENS = re.compile(
    "|".join(f"(?P<{name.replace('-', '_')}>{shape})" for name, shape in _SHAPES.items()), re.DOTALL
)
_PRIVATE_KEY = ("PRIVATE KEY", "Private-Lines: ")
"""Words that identify a private key, which may begin far before them."""
_WORD_STARTS = re.compile(
    r"\b(?=eyJ|gh[pousr]_|github_pat_|gl[a-z]{2,5}-|xox|xapp-|A(?:KIA|SIA|Iza)|[spr]k[-_]|npm_|pypi-"
    r"|dop_v1_|shp(?:at|ca|pa|ss)_|lin_api_|hf_|AGE-SECRET|hvs\.|ya29\.|key-|SG\.|gsk_|whsec_|figd_"
    r"|ntn_|dckr_pat_|glsa_|sntry[su]_|sbp_|pscale_|xai-|pplx-|HRKU-|GOCSPX-|pul-|r8_|dapi|ATATT3"
    r"|1//0|dp\.|\d{8,10}:AA|\w{3}8Q~)"
)
"""Beginnings of the shapes that are words. Finding these takes a tenth of the time of trying all
shapes."""
_HASH_START = re.compile(r"\$(?:2[aby]|1|5|6|7|y|apr1|argon2id?)\$")
_MARKS = (
    *("hooks.slack.com/services/", "discord.com/api/webhooks/", "://", r":\/\/", "%3a%2f%2f"),
    *("bearer ", "basic ", "password=", "password:", "passwd=", "passwd:", "secret=", "secret:"),
    *("token=", "token:", "api_key=", "api_key:", "apikey=", "apikey:"),
)
"""Text before the other shapes."""
_BROKEN = re.compile(
    r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|AIza|npm_|sk-(?:ant|or|proj)-)(?=\w)"
    r"[\w-]{0,60}(?:\\?\r?(?:\n|\\n)[ \t]{0,40}(?:[-+|>#][ \t]{0,4})?[\w-]{1,100}){1,10}"
)
"""A token that was broken over lines, with the marks of diffs and quotes at their start."""
_SHORTEST_BROKEN = 24
_NAME = r"(?:password|passwd|passphrase|secret|token|api[_-]?key|secret[_-]?(?:access[_-]?)?key)"
_VALUE = r"(?P<secret>(?!\S?\[redacted:)(?:\"[^\"]*\"|'[^']*'|\\.|[^\s\"'|&;\\])+)"
_WORDS = rf"(?:{_NAME}|passw?|pwd|private[_-]?key|credentials?)"
"""Names of values in configuration and data, where fewer words stand before a separator."""
_TEXT = r"(?P<secret>(?!\[redacted:)[^\s\"'\\]{4,})"
_ARGS = r"\b[^\n|;]{0,300}?\s"
"""Other arguments of the program. Repeats are bounded to keep matching fast."""
_NAMED = "pass pwd secret token key credential auth"
_NAME_ENDS = re.compile(
    rf"(?:{_NAMED.replace(' ', '|')})"
    r"(?:word|wd|w|phrase|s|[_-]?(?:access[_-]?)?key|orization)?[\s=:\"'\\>]"
)
_HINTS: dict[str, re.Pattern[str] | None] = {
    **dict.fromkeys(_NAMED.split(), _NAME_ENDS),
    **dict.fromkeys(("mysql", "mariadb", "7z", "sshpass", "redis-cli", "curl", "client-key-data")),
    **dict.fromkeys(("psk", "login", "zip", "unzip", "openssl", "set", "identified", "cookie")),
    "http": None,
    ":": re.compile(r":(?:\d{4,5}|\*):"),
}
"""Words near a secret, each with a pattern that must match there too, if any."""
_REACH = {_NAMED: 60, ":": 270}
"""How many characters before a hint a match may begin. Other matches begin with the hint."""
_PLACES = (
    ("password", _NAMED, rf"(?<![\w-])--?[\w-]{{0,40}}(?:{_NAME}|pass)(?:=|\s++(?!-)){_VALUE}"),
    (
        "password",
        "mysql mariadb 7z",
        rf"\b(?:mysql(?:dump|admin)?|mariadb(?:-dump)?|7z){_ARGS}-p(?!rint\b){_VALUE}",
    ),
    ("password", "sshpass redis-cli", rf"\b(?:sshpass{_ARGS}-p|redis-cli{_ARGS}-a)\s*+{_VALUE}"),
    (
        "password",
        "curl",
        rf"\bcurl{_ARGS}(?:-\w{{0,10}}[uU]|--(?:proxy-)?user)[\s=]*+"
        rf"[\"']?[^\s:\"']{{0,100}}:{_TEXT.replace('{4,}', '+')}",
    ),
    (
        "password",
        _NAMED,
        rf"\\?[\"'][\w-]{{0,40}}{_WORDS}\\?[\"']\s{{0,3}}[:=]\s{{0,3}}\\?[\"']"
        r"(?P<secret>(?!\[redacted:)[^\"'\\]+)",
    ),
    (
        "password",
        _NAMED,
        rf"\b\w{{0,40}}(?:passw(?:or)?d|passphrase|_pwd|_pass|_key|client_secret)"
        rf"\s{{0,3}}[:=]\s{{0,3}}{_TEXT}",
    ),
    (
        "password",
        _NAMED,
        rf"\b\w{{0,40}}{_WORDS}\s{{0,3}}[:=]>?\s{{0,3}}(?P<quote>[\"'])"
        r"(?P<secret>(?!\[redacted:)[^\"'\n]{4,})(?P=quote)",
    ),
    (
        "password",
        "client-key-data psk",
        r"\b(?:client-key-data\s{0,3}:|psk\s{0,3}=)\s{0,3}(?P<secret>[^\s\"'\[]{8,})",
    ),
    (
        "password",
        ":",
        r"(?:\blocalhost|\b[\w-]{1,60}\.[\w.-]{1,200}|\*):(?:\d{4,5}|\*):[\w*-]{1,60}:[\w*-]{1,60}:"
        r"(?P<secret>[^\s\[]{4,})",
    ),
    ("password", _NAMED, r"\b\w{0,40}_(?:secret|token|access_key)\s++(?P<secret>[^\s\"'\[]{16,})"),
    ("password", "login", rf"\blogin\s+\S{{1,100}}\s+password\s+{_VALUE}"),
    ("password", "pass", rf"(?<![\w-])pass:{_VALUE}"),
    (
        "password",
        _NAMED,
        rf"(?<![^\s|+'\"&?;,{{-])[\w.-]{{0,40}}(?:{_WORDS}|auth)\s{{0,3}}[:=]\s{{0,3}}"
        r"(?P<secret>(?![/~.$<{(%\[])(?=\S{0,60}\d)(?=\S{0,60}[a-z])[^\s\"'()\[\]{}<>,;&]{8,})"
        r"(?=[\s\"',;&}]|\Z)",
    ),
    ("password", "", rf"<[\w.:-]{{0,40}}{_WORDS}>(?P<secret>(?!\[redacted:)[^<\n]{{4,}})</"),
    ("password", "login", rf"\blogin{_ARGS}-p\s++{_VALUE}"),
    ("password", "zip unzip", rf"\b(?:un)?zip{_ARGS}(?-i:-P)\s*+{_VALUE}"),
    ("password", "openssl", rf"\bopenssl\s+enc{_ARGS}-k\s++{_VALUE}"),
    ("password", "secret", rf"\bsecret\s+set{_ARGS}(?:-b|--body)\s++{_VALUE}"),
    ("password", "set", rf"\bset\s+-[a-z]{{1,4}}\s+\w{{0,40}}{_NAME}\s++{_VALUE}"),
    (
        "password",
        "identified pass",
        r"\b(?:identified\s{1,3}by|password)\s{1,3}(?P<quote>[\"'])"
        r"(?P<secret>(?!\[redacted:)[^\"'\n]{4,})(?P=quote)",
    ),
    (
        "password",
        "auth",
        r"\bauth\s?=\s?\(\s?[\"'][^\"'\n]{0,100}[\"'],\s?[\"']"
        r"(?P<secret>(?!\[redacted:)[^\"'\n]{4,})",
    ),
    (
        "header",
        _NAMED,
        r"\b(?:x-[\w-]{0,40}(?:key|token|secret|auth)|api-?key|private-token"
        r"|(?:proxy-)?authorization)\\?[\"']?\s{0,3}:\s{0,3}\\?[\"']?"
        rf"(?:(?:bearer|basic|token|digest|negotiate|key|apikey)\s++)?+{_TEXT}",
    ),
    ("header", "cookie", r"\bcookie:\s{0,3}(?P<secret>(?!\[redacted:)[^\"'\n]{4,})"),
    ("url-password", "http", r"\bhttps?://(?P<secret>(?!\[redacted:)[^\s/@:?#\"']{1,300})(?=@)"),
    (
        "url-key",
        "",
        rf"[?&](?:[\w-]{{0,40}}(?:key|auth|signature|{_NAME})|sig|pwd|code)="
        r"(?P<secret>(?!\[redacted:)[^\s&\"'#]{4,})",
    ),
)
"""Patterns that find a secret by what surrounds it, each with its hints: a match contains one."""
_HINTS_OF = {hints: hints.split() for _, hints, _ in _PLACES}
_WORD = re.compile(r"[A-Za-z0-9+/=_-]{24,}")
_MIN_ENTROPY = 4.0
"""Bits of entropy per character from which a long word counts as random."""
_HASH = re.compile(r"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|PRIVATE|SESSION|COOKIE|DSN", re.IGNORECASE
)
_SHORTEST_VALUE = 8


def secret_values(environment: Mapping[str, str]) -> set[str]:
    """The values of variables whose names say that they are secret."""
    return {
        value
        for name, value in environment.items()
        if len(value) >= _SHORTEST_VALUE and _SECRET_NAME.search(name) and value[0] != "/"
    }


class SecretsFilter:
    """Redacts token formats, secrets in known positions of commands, random words, and the
    values of environment variables with secret-looking names."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        values = secret_values(environment or {})
        known = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
        self._known = re.compile(known) if known else None
        self.found: Counter[str] = Counter()
        """How many secrets of each kind were redacted so far."""

    def __call__(self, text: str) -> tuple[str, int]:
        """The redacted text, and the number of secrets found."""
        before = self.found.total()
        if self._known:
            text = self._known.sub(lambda match: self._redact("environment"), text)
        text = self.shapes(text)
        text = _WORD.sub(self._word, self._places(text))
        return text, self.found.total() - before

    def shapes(self, text: str) -> str:
        """The text without the formats of tokens, which nothing else looks like."""
        if any(word in text for word in _PRIVATE_KEY):
            return _BROKEN.sub(self._broken, _TOKENS.sub(self._token, text))
        words = [match.start() for match in _WORD_STARTS.finditer(text)]
        found = _replaced_near(_TOKENS, text, sorted({*words, *_other_starts(text)}), self._token)
        if found == text:
            return _replaced_near(_BROKEN, text, words, self._broken)
        return _BROKEN.sub(self._broken, found)

    def _places(self, text: str) -> str:
        near = _near_hints(text)
        for kind, hints, place in _places():
            changed = text
            if not hints:
                changed = place.sub(partial(self._around, kind), text)
            elif spots := near.get(hints):
                reach, redact = _REACH.get(hints, 0), partial(self._redacted, kind)
                changed = _replaced_near(place, text, spots, redact, group="secret", reach=reach)
            if changed != text:
                text, near = changed, _near_hints(changed)
        return text

    def _token(self, match: re.Match[str]) -> str:
        return self._redact(str(match.lastgroup).replace("_", "-"))

    def _redact(self, kind: str) -> str:
        self.found[kind] += 1
        return f"[redacted:{kind}]"

    def _around(self, kind: str, match: re.Match[str]) -> str:
        return _replace_secret(match, self._redact(kind))

    def _redacted(self, kind: str, match: re.Match[str]) -> str:
        return self._redact(kind)

    def _broken(self, match: re.Match[str]) -> str:
        return self._redact("token") if len(match[0]) >= _SHORTEST_BROKEN else match[0]

    def _word(self, match: re.Match[str]) -> str:
        return self._redact("random") if _is_random(match[0]) else match[0]


def _other_starts(text: str) -> Iterator[int]:
    for match in _HASH_START.finditer(text):
        yield match.start()
    for mark, places in _spots_of(dict.fromkeys(_MARKS), _folded(text)).items():
        yield from (at + len(mark) for at in places)


def _near_hints(text: str) -> dict[str, list[int]]:
    """Where the hints of each place are. Places without hints are left out."""
    spots = _spots_of(_HINTS, _folded(text))
    return {
        hints: sorted(at for hint in words if hint in spots for at in spots[hint])
        for hints, words in _HINTS_OF.items()
        if not spots.keys().isdisjoint(words)
    }


@cache
def _places() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple(
        (kind, hints, re.compile(_reaching(place, _REACH.get(hints, 0)), re.IGNORECASE))
        for kind, hints, place in _PLACES
    )


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


def _folded(text: str) -> str:
    """The text in lower case, as a pattern that ignores case sees it. Offsets stay the same."""
    return text.replace("İ", "i").replace("ı", "i").replace("ſ", "s").lower()


def _spots_of(hints: Mapping[str, re.Pattern[str] | None], text: str) -> dict[str, list[int]]:
    """Offsets of the hints in a folded text, where the pattern of the hint matches, too."""
    found = {hint: _places_of(hint, text) for hint in hints if hint in text}
    for hint, places in found.items():
        if pattern := hints[hint]:
            found[hint] = [at for at in places if pattern.match(text, at)]
    return found


def _places_of(literal: str, text: str) -> list[int]:
    places, at = list[int](), text.find(literal)
    while at >= 0:
        places.append(at)
        at = text.find(literal, at + 1)
    return places


def _reaching(pattern: str, reach: int) -> str:
    """A pattern that also matches if the given one begins up to `reach` characters later."""
    return rf"(?s:.{{0,{reach}}}?)(?:{pattern})" if reach else pattern


def _replaced_near(
    pattern: re.Pattern[str],
    text: str,
    spots: Iterable[int],
    replacement: Callable[[re.Match[str]], str],
    *,
    group: str | int = 0,
    reach: int = 0,
) -> str:
    """Replace each match of a pattern, or a group of it, as `sub` would. Only looks near `spots`,
    which are in order: every match begins at most `reach` characters before one, because
    `_reaching` made the pattern."""
    pieces, done, end = list[str](), 0, 0
    for spot in spots:
        while spot >= end and (found := pattern.match(text, max(end, spot - reach))):
            pieces += [text[done : found.start(group)], replacement(found)]
            done, end = found.end(group), found.end()
    return "".join([*pieces, text[done:]]) if pieces else text
