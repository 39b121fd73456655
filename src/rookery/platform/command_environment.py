"""The environment of commands: the user's own, without secrets and dangerous variables.

A build needs whatever its user has set for it, so this is a denylist. A command in the sandbox also
loses the variables that lead to agents and desktops, which could act for it outside.
"""

import re
from collections.abc import Mapping
from fnmatch import translate
from functools import cache, lru_cache

SECRETS = (
    "*_KEY",
    "*_KEY_ID",
    "*_KEY_BASE64",
    "*APIKEY*",
    "*_TOKEN",
    "*_TOKENS",
    "*TOKEN_FILE*",
    "*_PAT",
    "*SECRET*",
    "*_DSN",
    "*_PASS*",
    "*_PWD",
    "*PASSWORD*",
    "*PASSWD*",
    "*PASSPHRASE*",
    "*CREDENTIAL*",
    "*_AUTH",
    "*_COOKIE*",
    "TOKEN",
)
"""Names of variables with keys. A command that needs one gets it from its own configuration."""

_SECRET_VALUES = re.compile(
    r"://[^/@:\s]*:[^/@\s]+@"  # a URL with a password
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(?:sk|rk|pk)[-_](?:ant|or|proj|live|test)[-_]"
    r"|\b(?:gh[pousr]|github_pat|glpat|xox[abprs]|npm|pypi|hf)[-_][A-Za-z0-9_-]{16}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{30}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ"  # a signed token
)

CODE_INJECTING = (
    "LD_*",
    "DYLD_*",
    "GIT_*",
    "PYTHON*",
    "PERL5*",
    "PERLLIB",
    "BASH_ENV",
    "BASH_FUNC_*",
    "BASHOPTS",
    "SHELLOPTS",
    "ENV",
    "IFS",
    "PS0",
    "PS4",
    "CDPATH",
    "GLOBIGNORE",
    "PROMPT_COMMAND",
    "NODE_OPTIONS",
    "NODE_REPL_EXTERNAL_MODULE",
    "RUBYOPT",
    "RUBYLIB",
    "LUA_INIT*",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "PAGER",
    "MANPAGER",
    "*_PAGER",
    "EDITOR",
    "VISUAL",
    "*_EDITOR",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "*_ASKPASS",
    "GCONV_PATH",
    "OPENSSL_CONF",
    "RIPGREP_CONFIG_PATH",
)
"""Variables that make programs run other code than they were told to."""

OWN = ("ROOKERY_*",)
"""Settings of rookery itself, which are not meant for commands."""

SERVICES = (
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "GNUPGHOME",
    "DBUS_*",
    "DISPLAY",
    "WAYLAND_*",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "TMUX*",
    "STY",
    "VSCODE_*",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "KUBECONFIG",
)
"""Variables that lead to services which act for the user outside the sandbox."""

UNATTENDED = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "CI": "1",
    "TERM": "dumb",
}
"""Commands are not interactive and must not wait for input."""


def command_environment(own: Mapping[str, str], *, confined: bool) -> dict[str, str]:
    passed_on = {
        name: value
        for name, value in own.items()
        if not _is_withheld(name, confined=confined) and not _SECRET_VALUES.search(value)
    }
    return passed_on | UNATTENDED


@lru_cache(maxsize=1024)
def _is_withheld(name: str, *, confined: bool) -> bool:
    return bool(_withheld(confined).match(name.upper()))


@cache
def _withheld(confined: bool) -> re.Pattern[str]:
    names = (*SECRETS, *CODE_INJECTING, *OWN, *(SERVICES if confined else ()))
    return re.compile("|".join(map(translate, names)))
