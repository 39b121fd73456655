"""A configuration file of MCP servers that is edited: everything else in it is kept."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rookery.core.text.terminal_text import visible_line
from rookery.errors import SettingsError, StorageError
from rookery.platform.descriptors import attributes_at
from rookery.platform.disk import private_folder, put, reason
from rookery.platform.user_folders import PROJECT_MCP_FILES, find_places

SERVERS = "mcpServers"
SHOWN_OF_A_NAME = 80
OPEN_FILE = 0o644
"""Mode of a new project file."""


class ServersFile:
    """The user's file, or a project's if its `root` is given."""

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self.path = path
        self._root = root

    def names(self) -> list[str]:
        return list(self._table().get(SERVERS, {}))

    def add(self, name: str, definition: dict[str, Any]) -> Sequence[str]:
        """Add a server and return doubts about its definition. Raises `SettingsError`, and
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
