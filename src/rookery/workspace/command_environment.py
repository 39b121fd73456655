"""The environment a command gets: the user's own, without secrets and without back doors."""

import re
from collections.abc import Mapping
from fnmatch import translate
from functools import cache

SECRETS = (
    "*_KEY",
    "*_KEY_ID",
    "*APIKEY*",
    "*_TOKEN",
    "*_PAT",
    "*_SECRET",
    "*_DSN",
    "*_PASS*",
    "*_PWD",
    "*PASSWORD*",
    "*PASSWD*",
    "*CREDENTIAL*",
    "TOKEN",
    "SECRET",
)
"""Names that hold keys. A command that needs one is given it by its own configuration."""

_ADDRESS_WITH_PASSWORD = re.compile(r"://[^/@:\s]*:[^/@\s]+@")

BACK_DOORS = (
    "LD_*",
    "DYLD_*",
    "GIT_*",
    "PYTHON*",
    "PERL5*",
    "BASH_ENV",
    "BASH_FUNC_*",
    "ENV",
    "IFS",
    "PS4",
    "PROMPT_COMMAND",
    "NODE_OPTIONS",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "EDITOR",
    "VISUAL",
    "LESSOPEN",
    "SSH_ASKPASS",
    "RIPGREP_CONFIG_PATH",
)
"""Names by which programs run something other than they were told to."""

UNATTENDED = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "CI": "1",
    "TERM": "dumb",
}
"""Nobody sits in front of a command, and it must not wait for them."""


def command_environment(own: Mapping[str, str]) -> dict[str, str]:
    withheld = _withheld().match
    passed_on = {
        name: value
        for name, value in own.items()
        if not withheld(name.upper()) and not _ADDRESS_WITH_PASSWORD.search(value)
    }
    return passed_on | UNATTENDED


@cache
def _withheld() -> re.Pattern[str]:
    return re.compile("|".join(map(translate, (*SECRETS, *BACK_DOORS))))
