"""What known programs change: which of their words are written to, and which are removed.

Not every option is known here, and none needs to be: a command that changes things is asked
about anyway. This says what the question must show, and what is grave.
"""

import re
from collections.abc import Iterator, Sequence

from rookery.commands.file_changers import FILE_CHANGERS
from rookery.commands.git_changes import git_changes
from rookery.commands.program_tables import effects, network_programs
from rookery.commands.programs import Doing
from rookery.commands.words import Word
from rookery.core.command_lines import program_name

_SQL_CLIENTS = {"psql", "mysql", "mariadb", "sqlite3", "clickhouse-client", "cqlsh", "duckdb"}
_DESTROYING_SQL = re.compile(r"\b(drop\s+(database|schema|table)|truncate\s+(table\s+)?\w)", re.I)


def changing(words: Sequence[Word]) -> Doing | None:
    """What a command changes, if its program is known for changing things."""
    texts = [word.text for word in words]
    name = program_name(texts[0])
    grave = tuple(_grave(name, texts))
    network = name in network_programs()
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
    listed = effects().options.get(name, "").split()
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
    dangerous = effects().dangerous
    if reason := dangerous.get(name.partition(".")[0]):
        yield f"{name} {reason}"
    said = tuple(text for text in (name, *texts[1:]) if not text.startswith("-"))
    for prefix in (" ".join(said[:2]), " ".join(said[:3])):
        if " " in prefix and prefix in dangerous:
            yield f"{prefix} {dangerous[prefix]}"
    if said[:3] == ("aws", "s3", "rm") and "--recursive" in texts:
        yield "aws s3 rm --recursive deletes everything below a key"
    if name == "crontab" and "-r" in texts:
        yield "crontab -r removes every scheduled job"
    if name in _SQL_CLIENTS and any(_DESTROYING_SQL.search(text) for text in texts[1:]):
        yield f"{name} is told to drop or empty what is in a database"
    if name == "redis-cli" and {text.lower() for text in texts} & {"flushall", "flushdb"}:
        yield "redis-cli is told to empty a database"
