"""Files written for other coding agents: CLAUDE.md with its imports, Cursor's, Copilot's and Claude
Code's rules with front matter, and Claude Code's agents (`.claude/agents/*.md`), which are modes.

Their front matter often is not valid YAML (`globs: *.ts`), so it is read line by line.

The text of an agent's file is the role of the mode, `description` says when to use it, and `tools`
gives the groups. An agent never replaces a mode, and a project's agent cannot choose a model.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.core.instructions import OfferedRules, Rule, in_a_line
from rookery.core.modes import Group, Mode
from rookery.core.protected_paths import holds_secrets
from rookery.errors import ToolError
from rookery.first_use import lazy_pattern
from rookery.prompting.config_files import ConfigFolder, ConfigScan, FoundFile
from rookery.prompting.modes import LARGEST, front_matter

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


def imports_of(
    text: str, folder: ConfigFolder, file: str, home: ConfigFolder, scan: ConfigScan
) -> Iterator[tuple[ConfigFolder, str]]:
    """Yield the files that a rule file imports with `@path`, each with its folder. A project
    imports from the workspace, or Markdown in `~/.claude`; the user's own files import Markdown
    from the home folder. What does not exist is not an import."""
    for found in islice(_IMPORT.finditer(_CODE.sub(" ", text)), MOST_IMPORTS):
        target = found["path"].rstrip(".,;:!?)")
        at_home = target.startswith("~/")
        below = home.path if at_home else Path(os.path.dirname(file))
        path = os.path.normpath(below / target.removeprefix("~/"))
        scan.note(path)
        if not os.path.isfile(path) or holds_secrets(path):
            continue
        if folder.origin == "project" and not at_home:
            yield folder, path
        elif path.endswith(".md") and _is_users_own(path, home, folder):
            yield home, path


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


LONGEST_PURPOSE = 300
"""Descriptions often have long examples, and all are part of every request."""
GROUPS_OF_TOOLS = {
    "read": {"Read", "Grep", "Glob", "LS", "NotebookRead"},
    "edit": {"Edit", "MultiEdit", "Write", "NotebookEdit"},
    "command": {"Bash", "BashOutput", "KillShell", "WebFetch", "WebSearch"},
    "mcp": {"ListMcpResourcesTool", "ReadMcpResourceTool"},
}
_NAME = lazy_pattern(r"[A-Za-z0-9-]{1,64}")
_ALIASES = {"inherit", "default", "sonnet", "opus", "haiku", "opusplan"}
"""Names of models that only Claude Code knows."""
_RULE = lazy_pattern(r"\(.*\)")
_FIRST_LINE = lazy_pattern(r"\n|\\n|<example>")


def modes_of_agents(
    folder: ConfigFolder, files: Sequence[FoundFile], known: Sequence[Mode], scan: ConfigScan
) -> tuple[Mode, ...]:
    """Return the modes; each name once, without those of `known`."""
    found: dict[str, Mode] = {}
    names = {mode.slug.lower() for mode in known}
    for file in files:
        if file.name.endswith(".md") and (text := folder.text(file.path, scan, most=LARGEST)):
            label = folder.label(file.path)
            try:
                mode = _mode(text, folder, label)
            except ValueError as error:
                scan.report(f"The agent {label} is skipped: {error}.")
                continue
            if mode.slug.lower() in names:  # `Code` and `code` look the same to people
                scan.report(f"The agent {label} is not used: there is a mode {mode.slug.lower()}.")
            else:
                found.setdefault(mode.slug, mode)
    return tuple(found.values())


def _mode(text: str, folder: ConfigFolder, label: str) -> Mode:
    about, body = lenient_front_matter(text)
    slug, purpose = _text(about, "name"), _text(about, "description")
    if not _NAME.fullmatch(slug):
        raise ValueError("it needs a name of letters, digits and -, 64 at most")
    if not purpose:
        raise ValueError("it needs a description")
    model = _text(about, "model") if folder.origin == "user" else ""
    return Mode(
        slug=slug,
        name=slug,
        role=body.strip() or purpose,
        when_to_use=in_a_line(_FIRST_LINE.split(purpose)[0], LONGEST_PURPOSE),
        groups=tuple(map(Group, _groups(about.get("tools")))),
        model="" if model in _ALIASES else model,
        source="user" if folder.origin == "user" else "project",
        path=label,
    )


def _text(about: dict[str, Any], key: str) -> str:
    match about.get(key):
        case None:
            return ""
        case str(text):
            return text.strip()
        case _:
            raise ValueError(f"{key} must be text")


def _groups(tools: Any) -> Iterator[str]:
    """Yield the groups of tools; all if none are named."""
    match tools:
        case None:
            yield from GROUPS_OF_TOOLS
            return
        case str(text):
            names = text.strip("[]").split(",")
        case list(names) if all(isinstance(name, str) for name in names):
            pass
        case _:
            raise ValueError("tools must be names")
    wanted = {_RULE.sub("", name).strip() for name in names}
    everything = "*" in wanted
    for group, members in GROUPS_OF_TOOLS.items():
        by_server = group == "mcp" and any(name.startswith("mcp__") for name in wanted)
        if everything or by_server or members & wanted:
            yield group
