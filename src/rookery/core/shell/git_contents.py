"""Which commands of git print what is in files, by their words."""

import re
from collections.abc import Sequence

from rookery.core.shell.git_runs import without_settings
from rookery.core.shell.shell_words import Word

_ALWAYS = {"show", "diff", "stash", "cat-file", "range-diff", "whatchanged"}
_IF_ASKED = {"log", "diff-tree", "diff-index", "diff-files", "reflog", "rev-list"}
_PATCH = re.compile(
    r"-[A-Za-z0-9]*[pucmULW]|--(patch|unified|cc|function-c|word-diff|color-words|binary|dd\b"
    r"|remerge|diff-merges)"
)
_SUMMARY = re.compile(
    r"-s|--(stat|shortstat|numstat|name-only|name-status|no-patch|quiet|summary|dirstat|raw)\b"
)
_OBJECTS = {"show", "cat-file"}


def prints_contents(command: Sequence[str]) -> bool:
    """Whether git may print contents of files that the words do not name."""
    if not command or command[0].rsplit("/", 1)[-1] != "git":
        return False
    _, *said = (word.text for word in without_settings([Word(text) for text in command]))
    name, options = next(iter(said), ""), said[1:]
    if name == "stash" and options[:1] != ["show"]:
        return False
    if any(map(_PATCH.match, options)) and not _names_files(name, options):
        return name in _ALWAYS | _IF_ASKED
    return (
        name in _ALWAYS
        and not any(map(_SUMMARY.match, options))
        and not _names_files(name, options)
    )


def _names_files(name: str, options: Sequence[str]) -> bool:
    """`git show HEAD:file`: the words name each file."""
    objects = [word for word in options if not word.startswith("-")]
    return name in _OBJECTS and bool(objects) and all(":" in word for word in objects)
