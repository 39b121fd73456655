"""Where people and programs keep what opens other doors: read by no tool, written by none.

The lists are data, also for whoever hides these places from commands.
"""

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import cache

from rookery.core.text.characters import folded_names

CREDENTIAL_PLACES: tuple[str, ...] = (
    # keys, clouds, registries and forges
    ".ssh",
    ".aws",
    ".azure",
    ".boto",
    ".bitcoin",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".composer/auth.json",
    ".config/age",
    ".config/composer/auth.json",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/heroku",
    ".config/hub",
    ".config/netlify",
    ".config/op",
    ".config/pip/pip.conf",
    ".config/rclone",
    ".config/sops",
    ".config/stripe",
    ".cache/huggingface/token",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".databrickscfg",
    ".docker",
    ".electrum",
    ".fly",
    ".gem/credentials",
    ".gemini/oauth_creds.json",
    ".git-credentials",
    ".gnupg",
    ".gradle/gradle.properties",
    ".huggingface/token",
    ".kaggle",
    ".kube",
    ".local/share/gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".oci",
    ".pgpass",
    ".pypirc",
    ".s3cfg",
    ".terraform.d",
    ".vault-token",
    ".Xauthority",
    ".ICEauthority",
    # key rings and password stores
    ".1password",
    ".config/Bitwarden",
    ".config/keepassxc",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".password-store",
    ".pki",
    "Library/Application Support/1Password",
    "Library/Application Support/Bitwarden",
    "Library/Keychains",
    # browsers and mail
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/google-chrome",
    ".config/microsoft-edge",
    ".config/opera",
    ".config/vivaldi",
    ".librewolf",
    ".mozilla",
    ".thunderbird",
    ".var/app/com.brave.Browser",
    ".var/app/com.google.Chrome",
    ".var/app/org.chromium.Chromium",
    ".var/app/org.mozilla.firefox",
    "snap/chromium",
    "snap/firefox",
    "Library/Application Support/Arc",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Chromium",
    "Library/Application Support/Firefox",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Microsoft Edge",
    "Library/Application Support/Vivaldi",
    "Library/Cookies",
    "Library/Safari",
    # what was typed
    ".bash_history",
    ".history",
    ".irb_history",
    ".local/share/fish/fish_history",
    ".mysql_history",
    ".node_repl_history",
    ".psql_history",
    ".python_history",
    ".rediscli_history",
    ".sh_history",
    ".sqlite_history",
    ".zhistory",
    ".zsh_history",
    ".zsh_sessions",
)
"""Files and folders, relative to the home folder."""

SYSTEM_CREDENTIALS: tuple[str, ...] = (
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/master.passwd",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/run/secrets",
    "/var/run/secrets",
)
_HOST_KEYS = ("etc", "ssh"), "ssh_host_"
_SECRET_FILES = """
    .env .env.* .env-* *.env .envrc .netrc .npmrc .yarnrc* .pypirc pip.conf .pgpass .htpasswd
    .git-credentials *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.asc *.gpg *.tfvars *.tfstate
    id_rsa id_dsa id_ecdsa id_ed25519 credentials credentials.* secrets.*
"""


def holds_secrets(path: str) -> bool:
    """Whether a file of a project is one of those that are made to hold secrets, by its name."""
    return _secret().match(path.rpartition("/")[2].lower()) is not None


@cache
def _secret() -> re.Pattern[str]:
    return re.compile("|".join(map(translate, _SECRET_FILES.split())))


def credential(path: str, home: str, own: Sequence[str] = ()) -> bool:
    """Whether an absolute path is, or is in, such a place; `own` are the product's folders."""
    names = folded_names(path)
    folder, beginning = _HOST_KEYS
    if names[:2] == folder and names[2:] and names[2].startswith(beginning):
        return True
    places = _places(home, tuple(own))
    return any(names[:depth] in places for depth in range(1, len(names) + 1))


def near_credentials(path: str, home: str, own: Sequence[str] = ()) -> bool:
    """Whether there can be such places in a folder, or the folder is in one."""
    names = folded_names(path)
    host_keys = (*_HOST_KEYS[0], _HOST_KEYS[1])
    places = (host_keys, *_places(home, tuple(own)))
    return any(place[: len(names)] == names[: len(place)] for place in places)


@cache
def _places(home: str, own: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    at_home = [f"{home}/{place}" for place in CREDENTIAL_PLACES]
    return frozenset(map(folded_names, (*at_home, *SYSTEM_CREDENTIALS, *own)))
