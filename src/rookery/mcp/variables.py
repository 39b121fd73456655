"""Variables and secrets in server definitions.

Variables are `${env:NAME}`, `${NAME}`, `${NAME:-default}` and `${workspaceFolder}`. Values are
secret by their name, as in `--token=…`, `API_KEY=…` or `Authorization: …`, or by their form. A
false positive only masks a value.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

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
_ANY_VARIABLE = re.compile(r"\$\{[^}]*\}")
WORKSPACE = "workspaceFolder"
_VARIABLE = re.compile(
    r"\$\{(?:env:(?P<env>[^}]+)|(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?)\}"
)
_HARMLESS = {
    *("HOME", "HOSTNAME", "LANG", "LANGUAGE", "LOGNAME", "NODE_ENV", "PATH", "SHELL"),
    *("TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"),
}
"""Variables that hold no secrets; `LC_*` are allowed too."""

Source: TypeAlias = Literal["user", "project"]


class Filler:
    """Fills in the variables of one definition; unknown ones stay as written.

    Of a project, only harmless variables are filled in: others become empty and are listed in
    `withheld`. `secrets` are the values of variables with secret names.
    """

    def __init__(self, source: Source, variables: Mapping[str, str]) -> None:
        self.withheld: list[str] = []
        self.secrets: list[str] = []
        self._source = source
        self._variables = variables

    def __call__(self, value: Any) -> Any:
        """Raises `ValueError` if a project refers to a variable with a secret name."""
        match value:
            case str():
                return _VARIABLE.sub(self._value_of, value)
            case dict():
                return {key: self(each) for key, each in value.items()}
            case list():
                return [self(each) for each in value]
            case _:
                return value

    def _value_of(self, found: re.Match[str]) -> str:
        name, default = found["env"] or found["name"], found["default"]
        if self._source == "project":
            if is_secret_name(name):
                raise ValueError(
                    f"a project does not get {name}, which looks like a secret. To "
                    "allow it, move the definition to your own file"
                )
            if not _is_harmless(name):
                self.withheld += [name] if default is None else []
                return default or ""
        if is_secret_name(name):
            self.secrets.append(self._variables.get(name, ""))
        value = self._variables.get(name, found[0] if default is None else default)
        return value if value or default is None else default


def is_secret_name(name: str) -> bool:
    return bool(_NAME.search(name))


def masked(words: Sequence[str]) -> list[str]:
    """The arguments of a command line with secrets masked."""
    return [
        MASK if follows and not _ANY_VARIABLE.search(word) else _masked(word)
        for word, follows in _mark_values(words)
    ]


def secrets_in(words: Sequence[str]) -> Iterator[str]:
    """The secrets in the arguments of a command line."""
    for word, follows in _mark_values(words):
        if follows:
            yield from parts_of(word)
        yield from secrets_within(word)


def secrets_within(text: str) -> Iterator[str]:
    for form in (_NAMED, _LOGIN, _FORMS):
        for found in form.finditer(text):
            yield from parts_of(found["value"])


def parts_of(secret: str) -> Iterable[str]:
    """A secret, and the parts of it that may occur alone. An unset variable has none."""
    if _ANY_VARIABLE.search(secret):
        return ()
    last_word, password = secret.split()[-1:], secret.partition(":")[2]
    return dict.fromkeys(filter(None, [secret.strip(), *last_word, password.strip()]))


def _mark_values(words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each word, and whether it is the value of a secret option before it."""
    for before, word in zip(("", *words), words, strict=False):
        option = before.startswith("-") and "=" not in before and " " not in before
        yield word, option and is_secret_name(before) and not word.startswith("-")


def _masked(word: str) -> str:
    for form in (_NAMED, _LOGIN, _FORMS):
        word = form.sub(_mask, word)
    return word


def _mask(found: re.Match[str]) -> str:
    """Mask the value, unless it is a variable."""
    return found[0] if _ANY_VARIABLE.search(found["value"]) else f"{found['name']}{MASK}"


def _is_harmless(name: str) -> bool:
    return name == WORKSPACE or name in _HARMLESS or name.startswith("LC_")
