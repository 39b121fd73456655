"""What the user has seen or allowed of servers, from one run to the next.

Unlike what is remembered of their catalogues this is no cache: it is small, nothing of it is ever
dropped to make room, and what cannot be read counts as all of it having changed.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.errors import ToolError
from rookery.mcp.config import ServerDefinition
from rookery.mcp.file_write import write_whole
from rookery.mcp.offers import ToolOffer

FILE_NAME = "mcp-pins.json"


class Pinned(Struct, frozen=True, kw_only=True):
    """One server's."""

    tools: Mapping[str, str]
    """The digests of tools as they were when they were first seen, or last allowed."""
    files: Mapping[str, str]
    """Of workspaces, from which it was started, with their hashes."""


_NOTHING = Pinned(tools={}, files={})


class Pins:
    """By the digest of what is started or called."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @cached_property
    def _known(self) -> dict[str, Pinned]:
        return self._read()

    def has_seen(self, server: ServerDefinition) -> bool:
        """Whether it is known what the server's tools were."""
        return bool(self._of(server).tools)

    def see(self, server: ServerDefinition, tools: Iterable[ToolOffer]) -> None:
        """The first tools ever seen of a server are taken as they are."""
        if not self.has_seen(server):
            digests = {tool.name: tool.digest for tool in tools}
            self._keep(server, replace(self._of(server), tools=digests))

    def changed(self, server: ServerDefinition, tool: ToolOffer) -> bool:
        """Whether the tool is not what it was when it was first seen or last allowed."""
        return self.has_seen(server) and self._of(server).tools.get(tool.name) != tool.digest

    def allow(self, server: ServerDefinition, tool: ToolOffer) -> None:
        """Somebody was asked about the tool as it is now, and allowed it."""
        if self.changed(server, tool):
            before = self._of(server)
            after = {**before.tools, tool.name: tool.digest}
            self._keep(server, replace(before, tools=after))

    def files_of(self, server: ServerDefinition) -> Mapping[str, str]:
        """What it was last started from, in whichever workspace and by whichever process."""
        return self._read().get(server.digest, _NOTHING).files

    def started(self, server: ServerDefinition, files: Mapping[str, str]) -> None:
        before = self.files_of(server)
        after = {**before, **files}
        if after != before:
            self._keep(server, replace(self._of(server), files=after))

    def _of(self, server: ServerDefinition) -> Pinned:
        return self._known.get(server.digest, _NOTHING)

    def _read(self) -> dict[str, Pinned]:
        try:
            data = self._file.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        try:
            return msgspec.json.decode(data, type=dict[str, Pinned])
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise self._unusable("it is damaged") from error

    def _keep(self, server: ServerDefinition, news: Pinned) -> None:
        self._known[server.digest] = news
        everything = {**self._read(), server.digest: news}
        try:
            write_whole(self._file, msgspec.json.encode(everything))
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error

    def _unusable(self, reason: str) -> ToolError:
        return ToolError(
            f"No MCP server can be used: {self._file}, where {NAME} keeps what you have allowed of "
            f"them, cannot be used ({reason}). Repair it, or remove it to begin anew."
        )
