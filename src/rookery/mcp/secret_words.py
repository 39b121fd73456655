"""Secrets in the definition of a server: which they are, and its words without them.

A name says that a value is secret, as in `--token=…`, `API_KEY=…` or `Authorization: …`; so does
the form of some values. What is taken for a secret and is none costs nothing but a mask.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

MASK = "***"

_SECRET = (
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH(?!ORS?(?![A-Z]))|COOKIE|"
    r"(?<![A-Z])(?:PASS|PAT)(?![A-Z])|_PWD(?![A-Z])"
)
_NAME = re.compile(_SECRET, re.IGNORECASE)
_NAMED = re.compile(
    rf"(?P<name>[\w.-]*(?:{_SECRET})[\w.-]*\s*[=:]\s*)"
    r"(?P<value>(?:(?:Bearer|Basic|Token)\s+)?[^\s&;'\"]+)",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"(?P<name>\w://)(?P<value>[^/\s@]+)(?=@)")
_FORMS = re.compile(
    r"(?P<name>\b)(?P<value>(?:sk-|gh[oprsu]_|github_pat_|glpat-|xox[abprs]-|AKIA|eyJ)[\w.=-]{8,})"
)
_VARIABLE = re.compile(r"\$\{[^}]*\}")


def is_secret_name(name: str) -> bool:
    return bool(_NAME.search(name))


def masked(words: Sequence[str]) -> list[str]:
    """The words of a command line without what is secret in them."""
    return [
        MASK if follows and not _VARIABLE.search(word) else _masked(word)
        for word, follows in _with_what_follows(words)
    ]


def secrets_in(words: Sequence[str]) -> Iterator[str]:
    """The secrets among the words of a command line."""
    for word, follows in _with_what_follows(words):
        if follows:
            yield from parts_of(word)
        yield from secrets_within(word)


def secrets_within(text: str) -> Iterator[str]:
    for form in (_NAMED, _LOGIN, _FORMS):
        for found in form.finditer(text):
            yield from parts_of(found["value"])


def parts_of(secret: str) -> Iterable[str]:
    """A secret, and what of it may be repeated without the rest. A variable that nobody has set
    is none."""
    if _VARIABLE.search(secret):
        return ()
    last_word, password = secret.split()[-1:], secret.partition(":")[2]
    return dict.fromkeys(filter(None, [secret.strip(), *last_word, password.strip()]))


def _with_what_follows(words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each word, and whether it is the value of a secret option before it."""
    for before, word in zip(("", *words), words, strict=False):
        option = before.startswith("-") and "=" not in before and " " not in before
        yield word, option and is_secret_name(before) and not word.startswith("-")


def _masked(word: str) -> str:
    for form in (_NAMED, _LOGIN, _FORMS):
        word = form.sub(_mask, word)
    return word


def _mask(found: re.Match[str]) -> str:
    """A variable is no secret: what it holds is."""
    return found[0] if _VARIABLE.search(found["value"]) else f"{found['name']}{MASK}"
