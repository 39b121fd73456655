"""Definitions of MCP servers: shown, copied from other agents, and edited in their file."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rookery import NAME
from rookery.core.text.terminal_text import aligned, counted, visible_line
from rookery.errors import RookeryError, SettingsError, StorageError
from rookery.platform.descriptors import attributes_at
from rookery.platform.disk import private_folder, put, reason
from rookery.platform.user_folders import PROJECT_MCP_FILES, find_places

if TYPE_CHECKING:
    from rookery.mcp.config import Pairs, ServerDefinition
    from rookery.mcp.foreign_servers import ForeignServer, UnreadableFile

workspace_option = click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True),
    default=".",
    help="The project folder.",
)
MASK = "***"
NOT_ALL = 9
SERVERS = "mcpServers"
SHOWN_OF_A_NAME = 80
OPEN_FILE = 0o644
"""Mode of a new project file."""


class ServersFile:
    """The user's file, or a project's if its `root` is given. Everything else in it is kept."""

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self.path = path
        self._root = root

    def names(self) -> list[str]:
        return list(self._table().get(SERVERS, {}))

    def add(self, name: str, definition: dict[str, Any]) -> Sequence[str]:
        """Add a server and return warnings about its definition. Raises `SettingsError`, and
        changes nothing, if the definition or the name is not valid, or the name is taken."""
        from rookery.mcp.catalogue import VALID_NAME, VALID_NAME_TEXT
        from rookery.mcp.config import NEITHER, parse

        shown = visible_line(name)[:SHOWN_OF_A_NAME]
        as_written = json.dumps({SERVERS: {name: definition}}).encode()
        parsed = parse(as_written, "project" if self._root else "user", os.environ)
        if parsed.problems:
            raise SettingsError(f"{shown} was not added: {parsed.problems[0].text}.")
        if parsed.tightened and not self._root:
            raise SettingsError(f"{shown} was not added: {NEITHER}.")
        if not VALID_NAME.fullmatch(name):
            raise SettingsError(f"{shown} was not added: a server's name is {VALID_NAME_TEXT}.")
        table = self._table()
        servers = table.setdefault(SERVERS, {})
        if name in servers:
            raise SettingsError(f"{self.path} already has a server {name}; remove it first.")
        servers[name] = definition
        self._write(table)
        return parsed.doubts

    def remove(self, name: str) -> bool:
        """Remove a server; False if there was none."""
        table = self._table()
        if name not in table.get(SERVERS, {}):
            return False
        del table[SERVERS][name]
        self._write(table)
        return True

    def _table(self) -> dict[str, Any]:
        try:
            table = json.loads(self._place().read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise SettingsError(f"{self.path} cannot be read ({reason(error)}).") from error
        except (ValueError, RecursionError) as error:
            raise SettingsError(
                f"{self.path} is not valid JSON ({error}), so nothing was changed; correct it."
            ) from error
        if not isinstance(table, dict) or not isinstance(table.get(SERVERS, {}), dict):
            raise SettingsError(
                f'{self.path} has no object "{SERVERS}", so nothing was changed; correct it.'
            )
        return table

    def _write(self, table: dict[str, Any]) -> None:
        place = self._place()
        try:
            if self._root:
                place.parent.mkdir(exist_ok=True)
            else:
                private_folder(place.parent)
            like = attributes_at(place)
            text = json.dumps(table, indent=2, ensure_ascii=False) + "\n"
            put(place, [text.encode()], like=like)
            if like is None and self._root:
                place.chmod(OPEN_FILE)
        except OSError as error:
            raise StorageError(f"{self.path} could not be written ({reason(error)}).") from error

    def _place(self) -> Path:
        """The file with links resolved; a project's file must be inside the project."""
        place = self.path.resolve()
        if self._root and not place.is_relative_to(self._root.resolve()):
            raise SettingsError(f"{self.path} leads out of the project, so it is not changed.")
        return place


def file_of(workspace: Path, *, project: bool) -> ServersFile:
    if project:
        return ServersFile(workspace / PROJECT_MCP_FILES[0], workspace)
    return ServersFile(find_places(os.environ).mcp_file)


def shown_definition(server: "ServerDefinition") -> dict[str, Any]:
    """The fields of a server that are set, with secrets masked."""
    fields = {
        "name": server.name,
        "source": server.source,
        "file": server.file,
        "type": server.transport.value,
        "starts" if server.command else "url": server.place,
        "cwd": server.cwd,
        "env": _masked_pairs(server.env, server),
        "headers": _masked_pairs(server.headers, server),
        "oauth": _shown_oauth(server),
        "sampling": "" if server.sampling == "ask" else server.sampling,
        "timeout": server.timeout,
        "disabled": server.disabled,
        "alwaysAllow": sorted(server.always_allow),
        "disabledTools": sorted(server.disabled_tools),
    }
    return {name: value for name, value in fields.items() if value}


def _shown_oauth(server: "ServerDefinition") -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(server.oauth)
    if fields["clientSecret"]:
        fields["clientSecret"] = MASK
    return {name: value for name, value in fields.items() if value}


def _masked_pairs(pairs: "Pairs", server: "ServerDefinition") -> dict[str, str]:
    from rookery.mcp.variables import is_secret_name

    def shown(name: str, text: str) -> str:
        secret = is_secret_name(name) or any(each in text for each in server.secrets)
        return MASK if secret else text

    return {name: shown(name, text) for name, text in pairs}


def print_fields(fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if isinstance(value, dict):
            value = " ".join(f"{each}={text}" for each, text in value.items())
        elif isinstance(value, list | tuple):
            value = ", ".join(value)
        print(visible_line(f"{name}: {value if value is not True else 'yes'}"))


def add_json(name: str, text: str, workspace: Path, *, project: bool) -> int:
    """Add a server from a JSON definition, or from a file's content with one server of the name."""
    try:
        definition = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{name} was not added: that is not valid JSON ({error}).") from error
    if isinstance(definition, dict) and isinstance(inner := definition.get(SERVERS), dict):
        definition = inner.get(name)
    if not isinstance(definition, dict):
        raise SettingsError(
            f"{name} was not added: give its definition as an object, such as "
            '{"command": "npx", "args": ["-y", "PACKAGE"]}.'
        )
    add_server(name, definition, file_of(workspace, project=project))
    return 0


def add_server(name: str, definition: dict[str, Any], file: ServersFile) -> None:
    doubts = file.add(name, definition)
    print(visible_line(f"Added {name} to {file.path}. Try it with: {NAME} mcp test {name}"))
    for doubt in doubts:
        print(visible_line(doubt))


@click.command("import")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("--from", "agent", metavar="AGENT", help="Only the servers of this agent.")
@click.option("--all", "every", is_flag=True, help="Import all that are listed.")
@workspace_option
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def import_command(
    names: Sequence[str], agent: str | None, every: bool, workspace: Path, as_json: bool
) -> int:
    """Copy MCP servers of other agents into your file: Claude Code and Desktop, Cursor, Codex,
    Gemini, opencode, VS Code, Roo Code, Cline and Kilo Code.

    Without names, list what was found and ask which to import. Their files are not changed.
    Permissions are not copied.
    """
    from rookery.mcp.foreign_servers import AGENTS

    if agent is not None and agent not in AGENTS:
        raise SettingsError(f"No such agent: {agent}. Known: {', '.join(AGENTS)}.")
    found, unreadable = _found(workspace, agent)
    if as_json:
        print(json.dumps(_as_json(found, unreadable)))
        return 0
    for each in unreadable:
        line = f"{each.file} was not read: {each.reason}."
        print(visible_line(line), file=sys.stderr)
    if every or names:
        return _import(_named(names, found) if names else found)
    if not found:
        print("No MCP servers of other agents were found.")
        return 0
    print("\n".join(_rows(found)))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(f"Import one with: {NAME} mcp import NAME, or all with --all.")
        return 0
    chosen = _asked(found)
    return _import(chosen) if chosen else 0


def _found(
    workspace: Path, agent: str | None
) -> "tuple[list[ForeignServer], list[UnreadableFile]]":
    """Servers, the same one only once, and files that could not be read."""
    from rookery.mcp.foreign_servers import ForeignServer, UnreadableFile, foreign_servers

    found: list[ForeignServer] = []
    unreadable: list[UnreadableFile] = []
    for each in foreign_servers(Path.home(), os.environ, workspace):
        if isinstance(each, UnreadableFile):
            unreadable.append(each)
        elif agent in (None, each.agent) and not any(map(each.is_same, found)):
            found.append(each)
    return found, unreadable


def _named(names: Sequence[str], found: "Sequence[ForeignServer]") -> "list[ForeignServer]":
    chosen = []
    for name in dict.fromkeys(names):
        same = [each for each in found if each.name == name]
        if not same:
            raise SettingsError(
                f"No agent has a server {name}, so nothing was imported. See: {NAME} mcp import"
            )
        if len(same) > 1:
            agents = ", ".join(dict.fromkeys(each.agent for each in same))
            raise SettingsError(
                f"Several definitions of {name} were found ({agents}), so nothing was imported. "
                "Choose one with --from AGENT."
            )
        chosen += same
    return chosen


def _asked(found: "Sequence[ForeignServer]") -> "list[ForeignServer]":
    while True:
        typed = input("Which to import? [numbers, all, Enter for none] ")
        words = typed.replace(",", " ").split()
        if words == ["all"]:
            return list(found)
        if all(each.isdecimal() and 1 <= int(each) <= len(found) for each in words):
            return [found[int(each) - 1] for each in dict.fromkeys(words)]
        print(f"Give numbers from 1 to {len(found)}.")


def _import(chosen: "Iterable[ForeignServer]") -> int:
    file = file_of(Path(), project=False)
    added, failed = [], 0
    for each in chosen:
        try:
            doubts = file.add(each.name, each.definition)
        except RookeryError as error:
            failed += 1
            print(visible_line(str(error)), file=sys.stderr)
            continue
        added.append(each.name)
        for note in (*each.notes, *doubts):
            print(visible_line(f"{each.name}: {note}"))
    if added:
        print(visible_line(f"Imported {', '.join(added)} into {file.path}."))
    if failed:
        print(f"{counted(failed, 'server')} not imported.", file=sys.stderr)
    return NOT_ALL if failed else 0


def _rows(found: "Sequence[ForeignServer]") -> list[str]:
    mine = file_of(Path(), project=False).names()
    rows = [
        (str(at), each.name[:40], each.agent, "already yours" if each.name in mine else "", place)
        for at, (each, place) in enumerate(zip(found, _places(found), strict=True), 1)
    ]
    return aligned(rows, shown=visible_line)


def _places(found: "Iterable[ForeignServer]") -> list[str]:
    """The command line or URL of each, with secrets masked, or why it cannot be used."""
    from rookery.mcp.config import parse

    places = []
    for each in found:
        data = json.dumps({SERVERS: {each.name: each.definition}}).encode()
        parsed = parse(data, "user", {})
        wrong = f"cannot be used: {parsed.problems[0].text}" if parsed.problems else ""
        places.append(wrong or (parsed.servers[0].place if parsed.servers else ""))
    return places


def _as_json(
    found: "Sequence[ForeignServer]", unreadable: "Sequence[UnreadableFile]"
) -> dict[str, Any]:
    return {
        "servers": [
            {
                "name": each.name,
                "agent": each.agent,
                "file": str(each.file),
                "place": place,
                "notes": each.notes,
            }
            for each, place in zip(found, _places(found), strict=True)
        ],
        "unreadable": [{"file": str(each.file), "reason": each.reason} for each in unreadable],
    }
