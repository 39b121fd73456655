"""What git runs beside itself: the same command without what stands before it, and programs
that its options name.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rookery.commands.words import Script, Word

_RUNS = ("--exec", "--extcmd", "--upload-pack", "--receive-pack", "--open-files-in-pager")
_VALUED = {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}


def git_commands(words: Sequence[Word]) -> tuple[tuple[Word, ...], ...]:
    """The same command without what stands between `git` and the sub-command, and what
    `rebase --exec` and `bisect run` run."""
    rest = without_settings(words)[1:]
    found = []
    if len(rest) < len(words) - 1 and rest:
        found.append((Word("git"), *rest))
    texts = [word.text for word in rest]
    if texts[:2] == ["bisect", "run"]:
        found.append(tuple(rest[2:]))
    if said := _in_submodules(words):
        found.append(tuple(said))
    return tuple(found)


def without_settings(words: Sequence[Word]) -> list[Word]:
    """The command without the options between `git` and the sub-command."""
    rest = list(words[1:])
    while rest and rest[0].text.startswith("-"):
        del rest[: 2 if rest[0].text in _VALUED else 1]
    return [*words[:1], *rest]


def git_folder(words: Sequence[Word]) -> Word | None:
    """The folder that git is told to work in, if it is told once."""
    before = words[1 : len(words) - len(without_settings(words)) + 1]
    folders = [word for flag, word in pairwise(before) if flag.text == "-C"]
    return folders[0] if len(folders) == 1 else None


def _in_submodules(words: Sequence[Word]) -> list[Word]:
    texts = [word.text for word in words]
    if "submodule" not in texts or "foreach" not in texts:
        return []
    said = list(words[texts.index("foreach") + 1 :])
    while said and said[0].text.startswith("-"):
        said.pop(0)
    return said


def git_scripts(words: Sequence[Word]) -> Iterator[Script]:
    """Settings given with `-c` may name programs, and aliases are commands. What is to run in
    each submodule is a text for a shell if it is one word."""
    if said := _in_submodules(words):
        yield said[0].script
    for flag, word in pairwise(words):
        script = word.script
        if flag.text == "-c" and (set_to := re.match("[^=]*=!?", script.text)):
            yield script.behind(set_to.end())
        elif flag.text == "-x" or _runs_its_value(flag.text):
            yield script
    for script in (word.script for word in words[1:]):
        name, equals, _ = script.text.partition("=")
        if equals and _runs_its_value(name):
            yield script.behind(len(name) + 1)
        elif script.text[:2] in {"-x", "-O", "-u"} and " " in script.text:
            yield script.behind(2)


def _runs_its_value(name: str) -> bool:
    return any(len(name) > 4 and long.startswith(name) for long in _RUNS)
