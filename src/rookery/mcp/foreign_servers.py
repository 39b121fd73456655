"""MCP servers that other agents have configured, in the form of our own file.

Files of other agents are read and never changed. Permissions are not taken over: `alwaysAllow`,
`autoApprove` and `trust` were given to another program.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from rookery.core.limits import MIB
from rookery.platform.disk import reason

LARGEST_FILE = 16 * MIB
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_EXTENSIONS = {
    "roo": "rooveterinaryinc.roo-cline/settings/mcp_settings.json",
    "cline": "saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    "kilo": "kilocode.kilo-code/settings/mcp_settings.json",
}
_TYPES = {
    "http": "streamable-http",
    "streamable-http": "streamable-http",
    "streamableHttp": "streamable-http",
    "remote": "streamable-http",
    "sse": "sse",
}
_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_OPENCODE_VARIABLE = re.compile(r"\{env:(\w+)\}")
_GEMINI_VARIABLE = re.compile(r"\$(?!\{)(\w+)")
_ONLY_THERE = re.compile(r"\$\{(?:input|command|userHome|file)\b[^}]*\}|\{file:[^}]*\}")

Table: TypeAlias = dict[str, Any]


class ForeignServer(Struct, frozen=True, kw_only=True):
    """A server of another agent. `definition` has the fields of our file."""

    agent: str
    name: str
    file: Path
    definition: Table
    notes: tuple[str, ...] = ()
    """What works differently here, as sentences."""

    def is_same(self, other: "ForeignServer") -> bool:
        return (self.name, self.definition) == (other.name, other.definition)


class UnreadableFile(Struct, frozen=True):
    file: Path
    reason: str


class _Kind(Struct, frozen=True):
    """Where an agent keeps its servers, below the top level of a file, and how it writes them."""

    paths: Callable[[Path, Mapping[str, str]], list[Path]]
    tables: Callable[[Table, Path], list[Any]]
    variable: re.Pattern[str] | None = None


def _home_file(*names: str) -> Callable[[Path, Mapping[str, str]], list[Path]]:
    return lambda home, _: [home / name for name in names]


def _config(home: Path, environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def _users(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """The user folders of VS Code and its relatives."""
    roots = (_config(home, environ), home / "Library/Application Support")
    return [root / each / "User" for root in roots for each in _EDITORS]


def _extension(path: str) -> _Kind:
    return _Kind(
        lambda home, environ: [each / "globalStorage" / path for each in _users(home, environ)],
        _mcp_servers,
    )


def _of_claude(table: Table, workspace: Path) -> list[Any]:
    projects = table.get("projects")
    here = projects.get(str(workspace)) if isinstance(projects, dict) else None
    return [here.get("mcpServers") if isinstance(here, dict) else None, table.get("mcpServers")]


def _codex_paths(home: Path, environ: Mapping[str, str]) -> list[Path]:
    return [Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"]


def _opencode_paths(home: Path, environ: Mapping[str, str]) -> list[Path]:
    folder = _config(home, environ) / "opencode"
    return [folder / "opencode.json", folder / "opencode.jsonc"]


def _desktop_paths(home: Path, environ: Mapping[str, str]) -> list[Path]:
    roots = (_config(home, environ), home / "Library/Application Support")
    return [root / "Claude/claude_desktop_config.json" for root in roots]


def _mcp_servers(table: Table, _: Path) -> list[Any]:
    return [table.get("mcpServers")]


AGENTS: Mapping[str, _Kind] = {
    "claude": _Kind(_home_file(".claude.json"), _of_claude),
    "claude-desktop": _Kind(_desktop_paths, _mcp_servers),
    "cursor": _Kind(_home_file(".cursor/mcp.json"), _mcp_servers),
    "codex": _Kind(_codex_paths, lambda table, _: [table.get("mcp_servers")]),
    "gemini": _Kind(_home_file(".gemini/settings.json"), _mcp_servers, _GEMINI_VARIABLE),
    "opencode": _Kind(_opencode_paths, lambda table, _: [table.get("mcp")], _OPENCODE_VARIABLE),
    "vscode": _Kind(
        lambda home, environ: [each / "mcp.json" for each in _users(home, environ)],
        lambda table, _: [table.get("servers")],
    ),
    **{agent: _extension(path) for agent, path in _EXTENSIONS.items()},
}


def foreign_servers(
    home: Path, environ: Mapping[str, str], workspace: Path
) -> Iterator[ForeignServer | UnreadableFile]:
    """The servers of every agent, and the files that could not be read."""
    for agent, kind in AGENTS.items():
        for file in kind.paths(home, environ):
            table = read_table(file)
            if isinstance(table, UnreadableFile):
                yield table
                continue
            for servers in kind.tables(table, workspace):
                for name, raw in servers.items() if isinstance(servers, dict) else ():
                    if isinstance(raw, dict):
                        definition, notes = converted(raw, kind.variable)
                        yield ForeignServer(
                            agent=agent, name=name, file=file, definition=definition, notes=notes
                        )


def converted(raw: Table, variable: re.Pattern[str] | None = None) -> tuple[Table, tuple[str, ...]]:
    """A definition of another agent in the fields of ours, and what is different here."""
    fields = _url_fields(raw) or _program_fields(raw)
    if raw.get("disabled") is True or raw.get("enabled") is False:
        fields["disabled"] = True
    if off := raw.get("disabledTools") or raw.get("disabled_tools") or raw.get("excludeTools"):
        fields["disabledTools"] = off
    if variable:
        fields = _rewritten(fields, variable)
    return fields, tuple(_notes(raw, fields))


def _program_fields(raw: Table) -> Table:
    command, args = raw.get("command"), raw.get("args")
    if isinstance(command, list):
        command, args = (command[0] if command else ""), command[1:]
    env = raw.get("env") or raw.get("environment")
    fields = {"command": command, "args": args, "env": env, "cwd": raw.get("cwd")}
    return {name: value for name, value in fields.items() if value}


def _url_fields(raw: Table) -> Table:
    url = raw.get("httpUrl") or raw.get("url") or raw.get("serverUrl")
    if not url or raw.get("command"):
        return {}
    headers = {**_object(raw, "headers"), **_object(raw, "http_headers")}
    for name, variable in _object(raw, "env_http_headers").items():
        headers[name] = f"${{env:{variable}}}"
    if variable := raw.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{env:{variable}}}"
    kind = _TYPES.get(str(raw.get("type", "")), "streamable-http")
    fields = {"type": kind, "url": url}
    return {**fields, "headers": headers} if headers else fields


def _object(raw: Table, name: str) -> Table:
    value = raw.get(name)
    return value if isinstance(value, dict) else {}


def _rewritten(value: Any, variable: re.Pattern[str]) -> Any:
    """The value with another agent's variables in our spelling."""
    if isinstance(value, str):
        return variable.sub(r"${env:\1}", value)
    if isinstance(value, dict):
        return {name: _rewritten(each, variable) for name, each in value.items()}
    return [_rewritten(each, variable) for each in value] if isinstance(value, list) else value


def _notes(raw: Table, fields: Table) -> Iterator[str]:
    if found := _ONLY_THERE.search(json.dumps(fields)):
        yield f"{found[0]} is not filled in here; replace it with a value or ${{env:NAME}}."
    if raw.get("enabled_tools") or raw.get("includeTools"):
        yield "Its list of enabled tools was not copied; all its tools are offered."


def read_table(file: Path) -> Table | UnreadableFile:
    try:
        if file.exists() and not file.is_file():
            return UnreadableFile(file, "it is not a regular file")
        with file.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            return UnreadableFile(file, f"it is larger than {LARGEST_FILE // MIB} MiB")
        table = _parsed(data.decode("utf-8-sig"), file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        return UnreadableFile(file, reason(error))
    except (ValueError, RecursionError):
        kind = "TOML" if file.suffix == ".toml" else "JSON"
        return UnreadableFile(file, f"it is not valid {kind}")  # the error may quote a secret
    return table if isinstance(table, dict) else {}


def _parsed(text: str, file: Path) -> Any:
    if file.suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    if not text.strip():
        return {}
    bare = _COMMENT.sub(lambda found: found[1] or " ", text)
    return json.loads(_LAST_COMMA.sub(lambda found: found[1] or "", bare))
