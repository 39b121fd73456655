"""What servers offer, and what is remembered of it from one run to the next.

The memory is a cache: it lets a model and a person know a server's tools without a connection,
and it notices tools that have changed since somebody allowed them. It may be deleted any time.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from rookery.core.limits import KIB, MIB
from rookery.core.values import value
from rookery.mcp.config import ServerDefinition

MOST_REMEMBERED = 100
LARGEST_FILE = 4 * MIB


class ToolOffer(msgspec.Struct, frozen=True, dict=True):
    """A tool as its server describes it, with everything hidden in the words made visible."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        scope = (self.name, self.description, self.schema)
        return hashlib.sha256(msgspec.json.encode(scope, order="sorted")).hexdigest()


@value
class PromptArgument:
    name: str
    description: str = ""
    required: bool = False


@value
class PromptOffer:
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@value
class ResourceOffer:
    """Something that can be read; of a template the `uri` has places to fill in."""

    uri: str
    name: str = ""
    description: str = ""
    template: bool = False


@value
class Catalogue:
    tools: tuple[ToolOffer, ...] = ()
    prompts: tuple[PromptOffer, ...] = ()
    resources: tuple[ResourceOffer, ...] = ()
    notes: tuple[str, ...] = ()
    """What of it was left out, and why."""


@value
class Remembered:
    """One server at the end of its last connection, or failed connection."""

    catalogue: Catalogue = Catalogue()
    pins: Mapping[str, str]
    """The digests of tools as they were when they were first seen, or last allowed."""
    error: str = ""
    ts: int = 0
    """Milliseconds since the epoch."""


class Memory:
    """The remembered servers, by the digest of their definitions, in a file of the user's."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @cached_property
    def _known(self) -> dict[str, Remembered]:
        return self._read()

    def of(self, server: ServerDefinition) -> Remembered | None:
        return self._known.get(server.digest)

    def learn(self, server: ServerDefinition, catalogue: Catalogue) -> None:
        """What it offers now. The first tools ever seen of it are taken as they are."""
        old = self.of(server)
        pins = (
            old.pins if old and old.pins else {tool.name: tool.digest for tool in catalogue.tools}
        )
        self._keep(server, Remembered(catalogue=catalogue, pins=pins, ts=_now()))

    def failed(self, server: ServerDefinition, error: str) -> None:
        old = self.of(server) or Remembered(pins={})
        self._keep(server, replace(old, error=error, ts=_now()))

    def has_seen(self, server: ServerDefinition) -> bool:
        """Whether it is known what the server's tools were."""
        old = self.of(server)
        return old is not None and bool(old.pins)

    def changed(self, server: ServerDefinition, tool: ToolOffer) -> bool:
        """Whether the tool is not what it was when it was last allowed."""
        return self.has_seen(server) and self._known[server.digest].pins.get(tool.name) != (
            tool.digest
        )

    def allowed(self, server: ServerDefinition, tool: ToolOffer) -> None:
        """Somebody allowed the tool as it is now."""
        if self.changed(server, tool):
            old = self._known[server.digest]
            self._keep(server, replace(old, pins={**old.pins, tool.name: tool.digest}))

    def _read(self) -> dict[str, Remembered]:
        try:
            with self._file.open("rb") as stream:
                return msgspec.json.decode(stream.read(LARGEST_FILE), type=dict[str, Remembered])
        except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return {}  # a cache that cannot be read is none

    def _keep(self, server: ServerDefinition, news: Remembered) -> None:
        self._known[server.digest] = news
        everything = {**self._read(), server.digest: news}
        with suppress(OSError):  # a full disk costs only the memory
            _write(self._file, msgspec.json.encode(_newest(everything)))


def _newest(everything: Mapping[str, Remembered]) -> dict[str, msgspec.Raw]:
    """As many as the file may hold, those that were last heard of first."""
    kept: dict[str, msgspec.Raw] = {}
    room = LARGEST_FILE - KIB
    latest = sorted(everything.items(), key=lambda item: item[1].ts, reverse=True)
    for digest, remembered in latest[:MOST_REMEMBERED]:
        data = msgspec.json.encode(remembered)
        room -= len(data) + len(digest) + 4
        if room >= 0:
            kept[digest] = msgspec.Raw(data)
    return kept


def named(tools: Iterable[ToolOffer]) -> dict[str, ToolOffer]:
    return {tool.name: tool for tool in tools}


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.{secrets.token_hex(8)}.unfinished")
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as stream:
            stream.write(data)
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _now() -> int:
    return time.time_ns() // 1_000_000
