"""Settings, modes, rules and MCP servers that other agents have on this machine.

Most of their files are read where they are. This also finds the others, and says how to copy each:
with a command of ours, or as a file in the folder of the user's settings. Permissions and keys are
not copied: they were given to another program.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from rookery import NAME, PROJECT_FOLDER
from rookery.core.limits import EFFORTS, KIB
from rookery.mcp.foreign_servers import (
    AGENTS,
    ForeignServer,
    Table,
    UnreadableFile,
    foreign_servers,
    read_table,
)
from rookery.platform.disk import reason
from rookery.providers.registry import NAMES

LARGEST = 32 * KIB
"""Bytes of a rule or a command; longer ones would not be used."""
MOST_FILES = 500
_READ_IN_PLACE = {
    "claude": {
        "rules": "~/.claude/CLAUDE.md CLAUDE.md .claude/CLAUDE.md CLAUDE.local.md .claude/rules",
        "commands": "~/.claude/commands .claude/commands",
        "modes": "~/.claude/agents .claude/agents",
        "skills": "~/.claude/skills .claude/skills",
        "MCP servers": ".mcp.json",
    },
    "codex": {"rules": "~/.codex/AGENTS.md AGENTS.md", "commands": "~/.codex/prompts"},
    "roo": {
        "rules": "~/.roo/rules .roo/rules .roorules",
        "commands": "~/.roo/commands .roo/commands",
        "modes": ".roomodes",
        "skills": "~/.roo/skills .roo/skills",
        "MCP servers": ".roo/mcp.json",
    },
    "opencode": {
        "rules": "~/.config/opencode/AGENTS.md",
        "commands": "~/.config/opencode/command ~/.config/opencode/commands .opencode/command",
    },
    "gemini": {"rules": "~/.gemini/GEMINI.md GEMINI.md"},
}
"""Files and folders by agent; those without `~` are the project's."""
_PROJECT_RULES = {"cline": ".clinerules", "kilo": ".kilocode/rules"}
"""Folders of rules that are not read. Cline also has a file of that name, which is."""
_COPIED_FILES = {
    "cline": {"rules": "Documents/Cline/Rules", "commands": "Documents/Cline/Workflows"},
    "kilo": {"rules": ".kilocode/rules", "commands": ".kilocode/workflows"},
}
"""Folders of Markdown below the home folder."""
_KEYS = {
    "claude": ".claude/.credentials.json",
    "codex": ".codex/auth.json",
    "opencode": ".local/share/opencode/auth.json",
    "gemini": ".gemini/oauth_creds.json",
}
_PERMISSIONS = {
    "claude": ("permissions",),
    "codex": ("approval_policy", "sandbox_mode"),
    "opencode": ("permission",),
    "gemini": ("tools", "security"),
}
_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,100}")
_FILE_IN_PROMPT = re.compile(r"@\{([^{}\n]+)\}")
_SHELL_IN_PROMPT = re.compile(r"!\{([^{}\n]+)\}")


class ForeignSetting(Struct, frozen=True, kw_only=True):
    """A setting of another agent, and what it becomes here."""

    agent: str
    kind: str
    path: Path
    use: Literal["in place", "copy", "not copied"]
    note: str = ""
    command: tuple[str, ...] = ()
    """The words after our name that copy it."""
    target: str = ""
    """The new file, relative to the folder of the user's settings."""
    text: str = ""


def foreign_settings(
    home: Path, environ: Mapping[str, str], workspace: Path
) -> Iterator[ForeignSetting]:
    """What was found, by agent. Nothing is changed."""
    for agent, kinds in _READ_IN_PLACE.items():
        yield from _in_place(agent, kinds, home, workspace)
    for agent, name in _PROJECT_RULES.items():
        if (workspace / name).is_dir():
            move = f"copy its files to {PROJECT_FOLDER}/rules"
            yield _not_copied(agent, "rules", workspace / name, move)
    for agent, files in _settings_files(home, environ).items():
        for file in files:
            yield from _from_table(agent, file)
    for agent, folders in _COPIED_FILES.items():
        for kind, folder in folders.items():
            yield from _texts(agent, kind, home / folder, "*.md", _as_it_is)
    yield from _texts("gemini", "commands", home / ".gemini/commands", "**/*.toml", _gemini_command)
    for agent in ("roo", "kilo"):
        yield from _modes(agent, AGENTS[agent].paths(home, environ))
    for found in foreign_servers(home, environ, workspace):
        if isinstance(found, ForeignServer):
            yield _server(found)
    for agent, name in _KEYS.items():
        if (home / name).is_file():
            yield _not_copied(agent, "key", home / name, f"store one with: {NAME} auth")


def _in_place(
    agent: str, kinds: Mapping[str, str], home: Path, workspace: Path
) -> Iterator[ForeignSetting]:
    for kind, names in kinds.items():
        for name in names.split():
            of_user = name.startswith("~/")
            path = home / name.removeprefix("~/") if of_user else workspace / name
            if path.exists():
                note = "" if of_user else "in a folder you trust"
                if kind == "MCP servers":
                    note = "after you approve them"
                yield ForeignSetting(agent=agent, kind=kind, path=path, use="in place", note=note)


def _settings_files(home: Path, environ: Mapping[str, str]) -> dict[str, list[Path]]:
    return {
        "claude": [home / ".claude/settings.json"],
        **{each: AGENTS[each].paths(home, environ) for each in ("codex", "opencode", "gemini")},
    }


def _from_table(agent: str, file: Path) -> Iterator[ForeignSetting]:
    table = read_table(file)
    if isinstance(table, UnreadableFile):
        yield _not_copied(agent, "settings", file, table.reason)
        return
    provider, model = _model(agent, table)
    if model and provider in NAMES:
        for name, value in (("provider", provider), ("model", model)):
            yield _value(agent, file, name, value)
    elif model:
        unknown = f"{model} of {provider}: choose it with {NAME} --provider and -m"
        yield _not_copied(agent, "model", file, unknown)
    effort = table.get("model_reasoning_effort")
    if effort in EFFORTS:
        yield _value(agent, file, "reasoning_effort", effort)
    if any(name in table for name in _PERMISSIONS[agent]):
        given = f"they apply only to {agent}; see {NAME} config"
        yield _not_copied(agent, "permissions", file, given)


def _model(agent: str, table: Table) -> tuple[str, str]:
    """Its provider and model; empty if none is set, or only a nickname."""
    match agent, table.get("model"):
        case "claude", str(model) if model.startswith("claude-"):
            return "anthropic", model
        case "codex", str(model):
            return str(table.get("model_provider", "openai")), model
        case "gemini", {"name": str(model)} | str(model):
            return "gemini", model
        case "opencode", str(model) if "/" in model:
            provider, _, name = model.partition("/")
            return ("gemini" if provider == "google" else provider), name
        case _:
            return "", ""


def _value(agent: str, file: Path, name: str, value: str) -> ForeignSetting:
    return ForeignSetting(
        agent=agent,
        kind=name,
        path=file,
        use="copy",
        note=value,
        command=("config", "set", name, value),
    )


def _not_copied(agent: str, kind: str, path: Path, why: str) -> ForeignSetting:
    return ForeignSetting(agent=agent, kind=kind, path=path, use="not copied", note=why)


def _modes(agent: str, servers: list[Path]) -> Iterator[ForeignSetting]:
    """The modes of an extension are beside its MCP servers."""
    for file in (path.with_name("custom_modes.yaml") for path in servers):
        if file.is_file():
            words = ("modes", "import", str(file), "-y")
            yield ForeignSetting(agent=agent, kind="modes", path=file, use="copy", command=words)


def _server(found: ForeignServer) -> ForeignSetting:
    return ForeignSetting(
        agent=found.agent,
        kind="MCP server",
        path=found.file,
        use="copy",
        note=found.name,
        command=("mcp", "import", "--from", found.agent, "--", found.name),
    )


def _texts(
    agent: str, kind: str, folder: Path, pattern: str, converted: Callable[[str], str]
) -> Iterator[ForeignSetting]:
    """Rules and commands that become files of the user's. Rules get the agent's name."""
    for file in sorted(path for path in folder.glob(pattern) if path.is_file())[:MOST_FILES]:
        below = file.relative_to(folder).with_suffix(".md")
        problem = "" if all(map(_SAFE_NAME.fullmatch, below.parts)) else "rename it first"
        try:
            text = "" if problem else converted(_read(file))
        except OSError as error:
            problem = reason(error)
        except ValueError as error:
            problem = str(error)
        if problem:
            yield _not_copied(agent, kind, file, problem)
            continue
        target = f"{kind}/{agent}-{below}" if kind == "rules" else f"{kind}/{below}"
        yield ForeignSetting(
            agent=agent, kind=kind, path=file, use="copy", target=target, text=text
        )


def _read(file: Path) -> str:
    with file.open("rb") as stream:
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST // KIB} KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None


def _as_it_is(text: str) -> str:
    return text


def _gemini_command(text: str) -> str:
    """A command of Gemini CLI in the form of ours."""
    import tomllib

    try:
        table: dict[str, Any] = tomllib.loads(text)
    except ValueError:
        raise ValueError("it is not valid TOML") from None
    prompt, about = table.get("prompt"), table.get("description")
    if not isinstance(prompt, str):
        raise ValueError("it has no prompt")
    prompt = _FILE_IN_PROMPT.sub(r"@\1", prompt.replace("{{args}}", "$ARGUMENTS"))
    prompt = _SHELL_IN_PROMPT.sub(r"!`\1`", prompt)
    line = " ".join(about.split()) if isinstance(about, str) else ""
    head = f"---\ndescription: {json.dumps(line)}\n---\n" if line else ""
    return f"{head}{prompt.strip()}\n"
