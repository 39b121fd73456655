"""Agents of Claude Code (`.claude/agents/*.md`) as modes.

The text of the file is the role, `description` says when to use it, `tools` gives the groups. An
agent never replaces a mode, and a project's agent cannot choose a model.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from rookery.core.instructions import in_a_line
from rookery.core.modes import Group, Mode
from rookery.first_use import lazy_pattern
from rookery.prompting.config_files import ConfigFolder, ConfigScan, FoundFile
from rookery.prompting.modes import LARGEST
from rookery.prompting.other_agents import lenient_front_matter

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
            if mode.slug.lower() in names:  # people do not tell `Code` from `code`
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
