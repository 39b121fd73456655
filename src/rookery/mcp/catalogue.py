"""What servers offer, cached across runs.

The cache lets the model and the user see a server's tools without a connection. It may be deleted
at any time; approvals are stored elsewhere, in `agreements`.
"""

import hashlib
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.limits import KIB, MIB
from rookery.mcp.config import ServerDefinition
from rookery.platform.disk import put

MOST_REMEMBERED = 100
LARGEST_FILE = 4 * MIB


class ToolOffer(msgspec.Struct, frozen=True, dict=True):
    """A tool as its server describes it, with hidden characters made visible."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        scope = (self.name, self.description, self.schema)
        return hashlib.sha256(msgspec.json.encode(scope, order="sorted")).hexdigest()


class PromptArgument(Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    required: bool = False


class PromptOffer(Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ResourceOffer(Struct, frozen=True, kw_only=True):
    """A resource; the `uri` of a template has placeholders."""

    uri: str
    name: str = ""
    description: str = ""
    template: bool = False


class Catalogue(Struct, frozen=True, kw_only=True):
    tools: tuple[ToolOffer, ...] = ()
    prompts: tuple[PromptOffer, ...] = ()
    resources: tuple[ResourceOffer, ...] = ()
    notes: tuple[str, ...] = ()
    """Why parts of the lists are missing, as sentences."""


class LastConnection(Struct, frozen=True, kw_only=True):
    """The state of a server at the end of its last connection or attempt."""

    catalogue: Catalogue = Catalogue()
    error: str = ""
    ts: int = 0
    """Milliseconds since the epoch."""


class CatalogueCache:
    """The cache file; servers are keyed by the digests of their definitions."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @cached_property
    def _known(self) -> dict[str, LastConnection]:
        return self._read()

    def of(self, server: ServerDefinition) -> LastConnection | None:
        return self._known.get(server.digest)

    def learn(self, server: ServerDefinition, catalogue: Catalogue) -> None:
        self._keep(server, LastConnection(catalogue=catalogue, ts=_now()))

    def failed(self, server: ServerDefinition, error: str) -> None:
        old = self.of(server) or LastConnection()
        self._keep(server, replace(old, error=error, ts=_now()))

    def _read(self) -> dict[str, LastConnection]:
        try:
            with self._file.open("rb") as stream:
                return msgspec.json.decode(
                    stream.read(LARGEST_FILE), type=dict[str, LastConnection]
                )
        except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return {}  # an unreadable cache is empty

    def _keep(self, server: ServerDefinition, news: LastConnection) -> None:
        self._known[server.digest] = news
        everything = {**self._read(), server.digest: news}
        with suppress(OSError):  # it is only a cache
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            put(self._file, [msgspec.json.encode(_newest(everything))], durable=False)


def named(tools: Iterable[ToolOffer]) -> dict[str, ToolOffer]:
    return {tool.name: tool for tool in tools}


def _newest(everything: Mapping[str, LastConnection]) -> dict[str, msgspec.Raw]:
    """As many as fit into the file, newest first."""
    kept: dict[str, msgspec.Raw] = {}
    room = LARGEST_FILE - KIB
    latest = sorted(everything.items(), key=lambda item: item[1].ts, reverse=True)
    for digest, remembered in latest[:MOST_REMEMBERED]:
        data = msgspec.json.encode(remembered)
        size = len(data) + len(digest) + 4
        if size <= room:
            room -= size
            kept[digest] = msgspec.Raw(data)
    return kept


def _now() -> int:
    return time.time_ns() // 1_000_000
