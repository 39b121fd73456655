"""What a user's text points at: `@/file`, `@/folder/`, `@https://…`, `@git-changes`, `@1a2b3c4`,
`@problems`, `@terminal` and `/command`.

What was piped to the words is what they are about, and points at nothing.

A mention begins at a line's start or after whitespace, and one mark of punctuation at its end
does not belong to it. In paths a backslash keeps the next character from meaning anything.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

MentionKind: TypeAlias = Literal[
    "file", "folder", "image", "url", "git_changes", "commit", "problems", "terminal"
]

PIPED_TEXT = "piped_text"
"""The tag around what came through a pipe beside the user's words. It cannot be closed inside."""

_PUNCTUATION = ".,;:!?"
_BEGIN, _END = r"(?<!\S)", r"(?=[.,;:!?]?(?:\s|\Z))"
_MENTION = re.compile(
    rf"{_BEGIN}@(?:"
    r"(?P<path>/(?:[^\s\\]|\\[^\n\r])+)"
    r"|(?P<url>[A-Za-z][A-Za-z0-9+.-]*://\S+)"
    rf"|(?P<commit>[0-9A-Fa-f]{{7,40}}){_END}"
    rf"|(?P<word>problems|git-changes|terminal){_END})"
)
_COMMAND = re.compile(rf"{_BEGIN}/(?P<name>[A-Za-z0-9_.-]+)(?!\S)")
_PIPED = re.compile(rf"(?<!\S)<{PIPED_TEXT}>\n.*\n</{PIPED_TEXT}>(?!\S)", re.DOTALL)
_SERVER_PROMPT = re.compile(r"\s*/mcp:(?P<server>[^\s:]+):\S")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_TO_ESCAPE = re.compile(r"[\\\s]")
_WORDS: dict[str, MentionKind] = {
    "problems": "problems",
    "git-changes": "git_changes",
    "terminal": "terminal",
}
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class Mention(Struct, frozen=True, kw_only=True):
    """`target` is the path relative to the workspace, the address or the hash. `start` and
    `end` are where it stands in the text."""

    kind: MentionKind
    target: str
    start: int
    end: int


class CommandMention(Struct, frozen=True, kw_only=True):
    name: str
    start: int
    end: int


def find_mentions(text: str) -> list[Mention]:
    return [_mention(found) for found in _MENTION.finditer(_without_piped(text))]


def find_commands(text: str, known: Collection[str] | None = None) -> list[CommandMention]:
    """What looks like a command, or only those of these names; never part of another mention."""
    taken = deque((mention.start, mention.end) for mention in find_mentions(text))
    commands: list[CommandMention] = []
    for found in _COMMAND.finditer(_without_piped(text)):
        while taken and taken[0][1] <= found.start():
            taken.popleft()
        inside = bool(taken) and taken[0][0] <= found.start()
        if not inside and (known is None or found["name"] in known):
            commands.append(
                CommandMention(name=found["name"], start=found.start(), end=found.end())
            )
    return commands


def server_prompt(text: str) -> str:
    """The server whose prompt a text calls for, as in `/mcp:server:prompt words`; or nothing."""
    found = _SERVER_PROMPT.match(text)
    return found["server"] if found else ""


def points_somewhere(text: str) -> bool:
    """Whether there may be something to look up."""
    named = "/" in text and (find_commands(text) or server_prompt(text))
    return bool(named or ("@" in text and find_mentions(text)))


def rendered(text: str, mentions: Iterable[Mention | CommandMention]) -> str:
    """The text with every mention in words; what they point at is attached elsewhere."""
    pieces: list[str] = []
    done = 0
    for mention in sorted(mentions, key=lambda each: each.start):
        pieces += [text[done : mention.start], _words(mention)]
        done = mention.end
    return "".join([*pieces, text[done:]])


def mention_of(path: str) -> str:
    """How a user would mention a path; `find_mentions` gets the same path out of it."""
    escaped = _TO_ESCAPE.sub(r"\\\g<0>", path)
    if escaped[-1:] in tuple(_PUNCTUATION):
        escaped = f"{escaped[:-1]}\\{escaped[-1]}"
    return f"@/{escaped}"


def _without_piped(text: str) -> str:
    """The user's own words, each where it was."""
    return _PIPED.sub(lambda piped: " " * len(piped[0]), text)


def _mention(found: re.Match[str]) -> Mention:
    start, end = found.span()
    if word := found["word"]:
        return Mention(kind=_WORDS[word], target="", start=start, end=end)
    if commit := found["commit"]:
        return Mention(kind="commit", target=commit, start=start, end=end)
    said = _without_punctuation(found["path"] or found["url"])
    end = start + len("@") + len(said)
    if found["url"]:
        return Mention(kind="url", target=said, start=start, end=end)
    path = _ESCAPE.sub(r"\1", said[1:])
    return Mention(kind=_kind_of(path), target=path, start=start, end=end)


def _without_punctuation(said: str) -> str:
    bare = said[:-1] if said[-1] in _PUNCTUATION else said
    escapes = len(bare) - len(bare.rstrip("\\"))
    return said if escapes % 2 or bare == "/" else bare


def _kind_of(path: str) -> MentionKind:
    if path.endswith("/"):
        return "folder"
    return "image" if path.lower().endswith(_PICTURES) else "file"


def _words(mention: Mention | CommandMention) -> str:
    match mention:
        case CommandMention(name=name):
            return f"command '{name}' (attached below)"
        case Mention(kind="url", target=target):
            return f"'{target}'"
        case Mention(kind="git_changes"):
            return "the uncommitted changes (attached below)"
        case Mention(kind="commit", target=target):
            return f"commit '{target}' (attached below)"
        case Mention(kind="problems"):
            return "the problems found in the workspace (attached below)"
        case Mention(kind="terminal"):
            return "the output of the last command (attached below)"
        case Mention(target=target):
            return f"'{target}' (attached below)"
