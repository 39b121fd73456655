"""Variables in the words of a configuration file: `${env:NAME}` and `${workspaceFolder}`."""

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from rookery.mcp.secret_words import is_secret_name

Source: TypeAlias = Literal["user", "project"]

WORKSPACE = "workspaceFolder"
_VARIABLE = re.compile(r"\$\{(env:[^}]+|workspaceFolder)\}")
_HARMLESS = {
    *("HOME", "HOSTNAME", "LANG", "LANGUAGE", "LOGNAME", "NODE_ENV", "PATH", "SHELL"),
    *("TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"),
}
"""Variables in which nobody keeps a secret, whatever `LC_*` there is besides."""


class Filling:
    """Fills in the variables of one definition. Those that are not known stay as they are.

    A project's are only those that hold no secret: others are empty, and `withheld`. `secrets`
    are values of variables whose names say that they are some.
    """

    def __init__(self, source: Source, variables: Mapping[str, str]) -> None:
        self.withheld: list[str] = []
        self.secrets: list[str] = []
        self._source = source
        self._variables = variables

    def __call__(self, value: Any) -> Any:
        """Raises `ValueError` if a project wants what looks like a secret of the user's."""
        match value:
            case str():
                return _VARIABLE.sub(self._meant, value)
            case dict():
                return {key: self(each) for key, each in value.items()}
            case list():
                return [self(each) for each in value]
            case _:
                return value

    def _meant(self, found: re.Match[str]) -> str:
        name = found[1].removeprefix("env:")
        if self._source == "project":
            if is_secret_name(name):
                raise ValueError(
                    f"a project is not given {name}, which looks like a secret; if the server may "
                    "have it, move its definition to your own file"
                )
            if not _is_harmless(name):
                self.withheld.append(name)
                return ""
        if is_secret_name(name):
            self.secrets.append(self._variables.get(name, ""))
        return self._variables.get(name, found[0])


def _is_harmless(name: str) -> bool:
    return name == WORKSPACE or name in _HARMLESS or name.startswith("LC_")
