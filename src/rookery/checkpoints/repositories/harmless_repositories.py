"""Whether a repository that a command made holds nothing that git would run.

`git init`, `git clone` and `git worktree add` make such ones. Whatever is not known to be
harmless counts as harm.
"""

import os
import re
from collections.abc import Collection

from rookery.platform.git.git_folders import (
    entries,
    inner_git_folders,
    is_folder,
    leads_elsewhere,
    links_inside,
    regular_content,
)

_LARGEST = 64 * 1024
_SECTION = re.compile(r'\[(?P<name>\w+)(?: "[^"\\\n]*")?\]')
_SETTING = re.compile(r"\s*(?P<key>\w+) = (?P<value>[^\"\\\n;#]*)")
_SETTINGS = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode "
    "symlinks",
    "extensions": "objectformat refstorage",
    "remote": "url fetch tagopt",
    "branch": "remote merge",
    "submodule": "active url",
    "user": "name email",
}
_LEADING_TO_PROGRAMS = re.compile(r"::|^-")
"""A remote can be a program: `ext::sh -c …`."""
_MUST_NOT_BE = ("config.worktree", "info/attributes", "commondir", "gitdir")
_NOT_IN_A_WORKTREE = ("config", "config.worktree", "hooks", "info/attributes")


def is_harmless(git: str, root: str, sound: Collection[str]) -> bool:
    """Of a `.git`: a folder, or a file that leads to one of the `sound` ones. All of these are
    whole paths."""
    if is_folder(git):
        inner = tuple(inner_git_folders(git))
        return _is_plain(git) and all(is_harmless_worktree(each, root, {git}) for each in inner)
    folder = _led_to(git)
    return bool(folder) and is_harmless_worktree(os.path.realpath(folder), root, sound)


def is_harmless_worktree(folder: str, root: str, sound: Collection[str]) -> bool:
    """Of the part that a sound repository has for a linked worktree, if that lies in the
    workspace and leads back."""
    named = _text(os.path.join(folder, "gitdir")).strip()
    return (
        os.path.dirname(folder) in [os.path.join(git, "worktrees") for git in sound]
        and is_folder(folder)
        and not any(os.path.lexists(os.path.join(folder, part)) for part in _NOT_IN_A_WORKTREE)
        and not any(os.path.islink(entry) for entry in entries(folder))
        and _text(os.path.join(folder, "commondir")).strip() == "../.."
        and os.path.realpath(named).startswith(f"{root}/")
        and os.path.realpath(_led_to(named)) == folder
    )


def _is_plain(git: str) -> bool:
    """Whether it has no programs, and leads nowhere."""
    return (
        not leads_elsewhere(git)
        and not any(links_inside(git))
        and not any(os.path.lexists(os.path.join(git, part)) for part in _MUST_NOT_BE)
        and all(_is_sample(hook) for hook in entries(os.path.join(git, "hooks")))
        and _says_nothing_harmful(os.path.join(git, "config"))
    )


def _led_to(git: str) -> str:
    """The folder that a `.git` file names."""
    named = _text(git)
    if not named.startswith("gitdir: "):
        return ""
    return os.path.join(os.path.dirname(git), named.removeprefix("gitdir: ").strip())


def _is_sample(hook: str) -> bool:
    return hook.endswith(".sample") and os.path.isfile(hook) and not os.path.islink(hook)


def _says_nothing_harmful(config: str) -> bool:
    section = ""
    for line in _text(config).splitlines():
        if found := _SECTION.fullmatch(line.strip()):
            section = found["name"].lower()
        elif not _is_harmless_setting(section, line):
            return False
    return os.path.isfile(config)


def _is_harmless_setting(section: str, line: str) -> bool:
    found = _SETTING.fullmatch(line)
    if not found:
        return not line.strip()
    known = found["key"].lower() in _SETTINGS.get(section, "").split()
    return known and not _LEADING_TO_PROGRAMS.search(found["value"].strip())


def _text(file: str) -> str:
    """What is in a regular file; something unheard-of if it is too long or none."""
    data = regular_content(file, _LARGEST + 1)
    if data is None or len(data) > _LARGEST:
        return "\0"
    return data.decode("utf-8", "surrogateescape")
