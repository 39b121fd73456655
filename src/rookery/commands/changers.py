"""What known programs change: which of their words are written to, and which are removed.

Not every option is known here, and none needs to be: a command that changes things is asked
about anyway. This says what the question must show, and what is grave.
"""

import re
from collections.abc import Iterator, Sequence

from rookery.commands.file_changers import FILE_CHANGERS
from rookery.commands.git_changes import git_changes
from rookery.commands.network_gate import NETWORK_PROGRAMS
from rookery.commands.programs import Doing
from rookery.commands.words import Word
from rookery.core.command_lines import program_name

_GRAVE_PROGRAMS = {
    "mkfs": "formats a device",
    "wipefs": "erases the signatures of a device",
    "fdisk": "changes the partitions of a device",
    "sfdisk": "changes the partitions of a device",
    "parted": "changes the partitions of a device",
    "mkswap": "formats a device",
    "blkdiscard": "erases a device",
    "hdparm": "changes a device",
    "shutdown": "shuts the machine down",
    "poweroff": "shuts the machine down",
    "halt": "shuts the machine down",
    "reboot": "restarts the machine",
    "init": "changes the state of the machine",
    "telinit": "changes the state of the machine",
    "format": "formats a drive",
    "diskpart": "changes the partitions of a drive",
}
_GRAVE_WORDS = {
    ("docker", "system", "prune"): "removes unused containers, images and networks",
    ("docker", "volume", "prune"): "removes unused volumes",
    ("docker", "volume", "rm"): "removes volumes",
    ("podman", "system", "prune"): "removes unused containers, images and networks",
    ("terraform", "destroy"): "destroys infrastructure",
    ("tofu", "destroy"): "destroys infrastructure",
    ("pulumi", "destroy"): "destroys infrastructure",
    ("cdk", "destroy"): "destroys infrastructure",
    ("kubectl", "delete"): "deletes from a cluster",
    ("helm", "uninstall"): "removes a release from a cluster",
    ("helm", "delete"): "removes a release from a cluster",
    ("aws", "s3", "rb"): "removes a bucket",
    ("dropdb",): "drops a database",
    ("heroku", "apps:destroy"): "destroys an application",
    ("gh", "repo", "delete"): "deletes a repository",
    ("npm", "unpublish"): "takes a published package away",
    ("systemctl", "poweroff"): "shuts the machine down",
    ("systemctl", "reboot"): "restarts the machine",
    ("systemctl", "halt"): "shuts the machine down",
}
_OPTIONS = {
    "rm": "-r -R -f -v -i -I -d --recursive --force --verbose --dir --no-preserve-root",
    "rmdir": "-p -v --parents --verbose",
    "mv": "-f -i -n -v -t -T -u --force --no-clobber --verbose --target-directory",
    "cp": "-r -R -a -p -f -i -n -v -t -T -u --recursive --archive --force --no-clobber --verbose",
    "mkdir": "-p -v -m --parents --verbose --mode",
    "touch": "-a -m -c -t -d --no-create --date",
    "ln": "-s -f -n -v -T -r --symbolic --force --no-dereference --verbose --relative",
    "chmod": "-R -v -c -f --recursive --verbose --changes",
    "chown": "-R -v -c -f -h --recursive --verbose --changes",
    "tee": "-a -i --append",
    "truncate": "-s -c --size --no-create",
}
_SQL_CLIENTS = {"psql", "mysql", "mariadb", "sqlite3", "clickhouse-client", "cqlsh", "duckdb"}
_DESTROYING_SQL = re.compile(r"\b(drop\s+(database|schema|table)|truncate\s+(table\s+)?\w)", re.I)


def changing(words: Sequence[Word]) -> Doing | None:
    """What a command changes, if its program is known for changing things."""
    texts = [word.text for word in words]
    name = program_name(texts[0])
    grave = tuple(_grave(name, texts))
    network = name in NETWORK_PROGRAMS
    if name == "git":
        return git_changes(words)
    if handler := FILE_CHANGERS.get(name):
        done = handler(words[1:])
        return Doing(
            operands=done.operands,
            network=network or done.network,
            why_not=done.why_not or _unlisted(name, words),
            grave=(*grave, *done.grave),
        )
    if grave or network:
        return Doing(network=network, grave=grave, why_not=f"what {name} does is not known here")
    return None


def _unlisted(name: str, words: Sequence[Word]) -> str:
    """Why a program's options are not all understood; empty if they are."""
    listed = _OPTIONS.get(name, "").split()
    for word in words[1:]:
        if word.text == "--":
            break
        flag = word.text.partition("=")[0]
        letters = [f"-{letter}" for letter in flag[1:]] if flag[:2] != "--" else [flag]
        odd = next((letter for letter in letters if letter not in listed), "")
        if len(flag) > 1 and flag.startswith("-") and odd:
            return f"{name}: {odd} is not an option known here"
    return ""


def _grave(name: str, texts: Sequence[str]) -> Iterator[str]:
    if reason := _GRAVE_PROGRAMS.get(name.partition(".")[0]):
        yield f"{name} {reason}"
    said = tuple(text for text in (name, *texts[1:]) if not text.startswith("-"))
    for prefix, reason in _GRAVE_WORDS.items():
        if said[: len(prefix)] == prefix:
            yield f"{' '.join(prefix)} {reason}"
    if said[:3] == ("aws", "s3", "rm") and "--recursive" in texts:
        yield "aws s3 rm --recursive deletes everything below a key"
    if name == "crontab" and "-r" in texts:
        yield "crontab -r removes every scheduled job"
    if name in _SQL_CLIENTS and any(_DESTROYING_SQL.search(text) for text in texts[1:]):
        yield f"{name} is told to drop or empty what is in a database"
    if name == "redis-cli" and {text.lower() for text in texts} & {"flushall", "flushdb"}:
        yield "redis-cli is told to empty a database"
