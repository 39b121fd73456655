"""Rules written for other coding agents: CLAUDE.md with its imports, and Cursor's, Copilot's and
Claude Code's rules with front matter.

Their front matter often is not valid YAML (`globs: *.ts`), so it is read line by line.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.core.instructions import OfferedRules, Rule
from rookery.core.protected_paths import holds_secrets
from rookery.errors import ToolError
from rookery.first_use import lazy_pattern
from rookery.prompting.config_files import ConfigFolder, ConfigScan

DEEPEST_IMPORT = 5
MOST_IMPORTS = 50
ON_MENTION = "it applies only when you mention it"

_USERS_OWN = ".claude"
"""The folder at home from which a project's CLAUDE.md may import."""
_CODE = lazy_pattern(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_IMPORT = lazy_pattern(r"(?<!\S)@(?P<path>[\w.~/-][^\s@]{0,400})")
_KEY = lazy_pattern(r"(?P<key>[A-Za-z][\w-]*)\s*:\s*(?P<value>.*)")
_ITEM = lazy_pattern(r"\s*-\s+(?P<value>.+)")
_COMMA = lazy_pattern(r",(?![^{}]*\})")
_LISTS = ("globs", "applyTo", "paths")
_EVERYTHING = {"*", "**", "**/*"}


class ScopedRule(Struct, frozen=True):
    """A rule and when it applies: always, to files that match, or if its description fits."""

    rule: Rule
    always: bool
    globs: tuple[str, ...] = ()
    description: str = ""

    @property
    def offered(self) -> OfferedRules | None:
        by_description = self.description and not (self.always or self.globs)
        return OfferedRules(when=self.description, path=self.rule.path) if by_description else None

    @property
    def skipped(self) -> tuple[str, str] | None:
        applies = self.always or self.globs or self.description
        return None if applies else (self.rule.path, ON_MENTION)


class Import(Struct, frozen=True):
    folder: ConfigFolder
    file: str


def imports_of(
    text: str, folder: ConfigFolder, file: str, home: ConfigFolder, scan: ConfigScan
) -> Iterator[Import]:
    """Yield the files that a rule file imports with `@path`. A project imports from the
    workspace, or Markdown in `~/.claude`; the user's own files import Markdown from the home
    folder. What does not exist is not an import."""
    for found in islice(_IMPORT.finditer(_CODE.sub(" ", text)), MOST_IMPORTS):
        target = found["path"].rstrip(".,;:!?)")
        at_home = target.startswith("~/")
        below = home.path if at_home else Path(os.path.dirname(file))
        path = os.path.normpath(below / target.removeprefix("~/"))
        scan.note(path)
        if not os.path.isfile(path) or holds_secrets(path):
            continue
        if folder.origin == "project" and not at_home:
            yield Import(folder, path)
        elif path.endswith(".md") and _is_users_own(path, home, folder):
            yield Import(home, path)


def _is_users_own(path: str, home: ConfigFolder, importer: ConfigFolder) -> bool:
    """Whether the user keeps the file for this. Below `~/.claude` are also records of other
    projects, so a project imports only what is directly in it."""
    if importer.origin == "user":
        return Path(path).is_relative_to(home.path)
    return os.path.dirname(path) == str(home.path / _USERS_OWN)


def scoped_rules(
    workspace: ConfigFolder, folders: Mapping[str, str], scan: ConfigScan
) -> Iterator[ScopedRule]:
    """Read the rules with front matter. `folders` says how their names end."""
    for name, ending in folders.items():
        for file in workspace.files(name, scan):
            if file.name.endswith(ending) and (text := workspace.text(file.path, scan).strip()):
                yield scoped(text, workspace.label(file.path))


def scoped(text: str, path: str) -> ScopedRule:
    """Parse a rule with front matter."""
    about, body = _front_matter(text)
    rule = Rule(path=path, text=body)
    globs = tuple(glob for key in _LISTS for glob in about.get(key, ()) if glob)
    always = about.get("alwaysApply") == ("true",) or bool(_EVERYTHING & {*globs})
    unlimited = not globs and not {"alwaysApply", "description", "globs"} & about.keys()
    return ScopedRule(
        rule=rule,
        always=always or unlimited,
        globs=globs,
        description=", ".join(about.get("description", ())),
    )


def matching_rules(
    rules: Iterable[ScopedRule], paths: Sequence[str], scan: ConfigScan
) -> Iterator[Rule]:
    """Yield the rules for files that match, if one of the paths does."""
    for each in rules:
        if each.always or not each.globs:
            continue
        try:
            matches = any(_matches(glob, path) for glob in each.globs for path in paths)
        except ToolError as error:
            scan.report(f"{each.rule.path} is skipped: {error}")
            continue
        if matches:
            yield each.rule


@lru_cache(maxsize=65_536)
def _matches(glob: str, path: str) -> bool:
    """Whether a path matches. Every request asks for all files that the agent has seen."""
    return _filter(glob)(path)


@lru_cache(maxsize=1024)
def _filter(glob: str) -> Callable[[str], bool]:
    from rookery.workspace.search import file_filter

    return file_filter(glob.removeprefix("/"), "")


def lenient_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Split a text into front matter and body. What is not valid YAML is read line by line, as
    other agents do."""
    from rookery.prompting.modes import front_matter

    try:
        return front_matter(text)
    except ValueError:
        about, body = _front_matter(text)
        return {key: ", ".join(values) for key, values in about.items()}, body


def _front_matter(text: str) -> tuple[dict[str, tuple[str, ...]], str]:
    """Split a text into the values of its front matter and the body."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---" or "---" not in map(str.rstrip, lines[1:]):
        return {}, text
    end = [line.rstrip() for line in lines].index("---", 1)
    about: dict[str, tuple[str, ...]] = {}
    key = ""
    for line in lines[1:end]:
        if found := _KEY.match(line):
            key = found["key"]
            about[key] = _values(key, found["value"])
        elif (item := _ITEM.match(line)) and key:
            about[key] = (*filter(None, about[key]), _bare(item["value"]))
    return about, "\n".join(lines[end + 1 :]).strip()


def _values(key: str, written: str) -> tuple[str, ...]:
    plain = _bare(written)
    if key not in _LISTS:
        return (plain,) if plain else ()
    listed = plain[1:-1] if plain[:1] == "[" and plain[-1:] == "]" else plain
    return tuple(filter(None, map(_bare, _COMMA.split(listed))))


def _bare(value: str) -> str:
    plain = value.strip()
    quoted = len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'"
    return plain[1:-1] if quoted else plain
