"""What a session works on: the folder that the client names, and the files of its editor."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Protocol

import anyio
from msgspec import Struct

from rookery.compat.acp.requests import FileAccess
from rookery.core.event_list import EventList
from rookery.core.facts import Event
from rookery.core.queries import KnownTask
from rookery.errors import RookeryError
from rookery.protocol.codec import Host
from rookery.protocol.jsonrpc import Disconnected, Peer, RpcError

FILE_SECONDS = 10.0
"""Seconds that an editor has to read or write a file."""
_NO_ANSWER = object()


class SignInNeeded(RookeryError):
    """There is no key for the model."""


class WantedFolder(Struct, frozen=True, kw_only=True):
    """What a session works on."""

    cwd: str
    added: tuple[str, ...] = ()
    servers: Mapping[str, Any] = {}
    """Definitions of MCP servers by name."""
    session_id: str = ""
    """The stored session to continue."""
    files: "EditorFiles | None" = None
    """The files of the editor, if it shares them."""


class EditorFiles:
    """Files as the editor shows them, saved or not. An editor that fails counts as one that has no
    text for the file. One that does not answer in time is not asked again."""

    def __init__(self, client: Peer, session_id: str, access: FileAccess, cwd: str) -> None:
        self._client = client
        self._session_id = session_id
        self._access = access
        self._cwd = cwd
        self._resolved = os.path.realpath(cwd)
        self._is_slow = False

    async def read(self, path: str) -> str | None:
        if self._is_slow or not self._access.read_text_file:
            return None
        match await self._call("fs/read_text_file", path):
            case {"content": str(text)}:
                return text
            case _:
                return None

    async def write(self, path: str, text: str) -> bool:
        if self._is_slow or not self._access.write_text_file:
            return False
        return await self._call("fs/write_text_file", path, content=text) is not _NO_ANSWER

    async def _call(self, method: str, path: str, **more: str) -> object:
        asked = {"sessionId": self._session_id, "path": self._named(path), **more}
        with suppress(RpcError, Disconnected), anyio.move_on_after(FILE_SECONDS) as waited:
            return await self._client.call(method, asked)
        self._is_slow = waited.cancelled_caught
        return _NO_ANSWER

    def _named(self, path: str) -> str:
        """The path as the editor names it: its folder may be a link."""
        inside = os.path.relpath(path, self._resolved)
        return path if inside.startswith("..") else os.path.join(self._cwd, inside)


class OpenedFolder(Struct, frozen=True, kw_only=True):
    host: Host
    stored: EventList
    """The events of the session to continue."""
    trusted: bool = False


class Backend(Protocol):
    """What opens hosts and knows stored sessions. Raises `RookeryError`."""

    def open(self, wanted: WantedFolder) -> AbstractAsyncContextManager[OpenedFolder]: ...

    async def sessions(self, cwd: str) -> Sequence[KnownTask]:
        """All sessions, or those of one folder, newest first."""
        ...

    async def events(self, session_id: str) -> Sequence[Event]: ...

    async def delete(self, session_id: str) -> None: ...

    async def fork(self, source: str, session_id: str) -> None:
        """Copy a session. A process may be working on the source."""
        ...

    async def check_model(self) -> None:
        """Sign in with the stored key. Raises `SignInNeeded` if there is no key for the model."""
        ...

    async def log_out(self) -> None:
        """Remove the stored key of the model. New sessions need a sign-in."""
        ...
