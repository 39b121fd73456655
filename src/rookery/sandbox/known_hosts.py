"""The hosts that every command may reach: registries, remotes and those in the user's settings.

Registries are the ones this machine is configured for, remotes those of the repository when the
session starts. Apart from git's configuration no file of the workspace is read, and later changes
of that do not count.
"""

import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.core.hosts import WEB_PORTS, Entry, entries, entry, host
from rookery.core.limits import KIB
from rookery.first_use import lazy_pattern

TABLE = Path(__file__).with_name("registries.toml")
LARGEST = 256 * KIB
_REGISTRY_URL = lazy_pattern(r"\b(https?)://([^\s/?#'\"<>,|]+)", re.IGNORECASE)
_IN_XML = lazy_pattern(r"<url>(.*?)</url>", re.DOTALL)
_NOT_A_REGISTRY = lazy_pattern(r"^\s*([#;]|(?:https?[-_.]?)?proxy\b)", re.IGNORECASE)
_REGISTRY_PORTS = {"http": 80, "https": 443}

_SECTION = lazy_pattern(r'\s*\[\s*(remote|submodule)\s+"(.*)"\s*\]', re.IGNORECASE)
_ADDRESS = lazy_pattern(r"\s*(?:url|pushurl)\s*=\s*(.+)", re.IGNORECASE)
_URL = lazy_pattern(r"([a-z][a-z0-9+.-]*)://([^/?#]+)", re.IGNORECASE)
_SCP = lazy_pattern(r"(?:[^@/:]+@)?([^@/:\[\]]+|\[[0-9a-f:]+\]):(?!//)")
_PORTS = {"http": (80,), "https": (443,), "git": (9418,)}
_BY_SSH = (22, WEB_PORTS[1])
"""A repository with an ssh remote is often fetched by https as well, without keys."""


class Remotes(Struct, frozen=True, kw_only=True):
    names: tuple[str, ...] = ()
    hosts: tuple[Entry, ...] = ()


class KnownHosts:
    """The known hosts of one session. Remotes are those at its start; registries are looked up
    on first use."""

    def __init__(
        self,
        *,
        listed: Sequence[str],
        remotes: Remotes,
        home: Path,
        workspace: Path,
        environ: Mapping[str, str],
    ) -> None:
        self.remotes = remotes
        self._listed = entries(listed)
        self._home = home
        self._workspace = workspace
        self._environ = dict(environ)

    def __call__(self) -> Sequence[Entry]:
        return self._all

    @cached_property
    def _all(self) -> tuple[Entry, ...]:
        found = registries(self._home, self._workspace, self._environ)
        return (*self._listed, *self.remotes.hosts, *found)


def registries(home: Path, workspace: Path, environ: Mapping[str, str]) -> tuple[Entry, ...]:
    """The registries that tools on this machine install from."""
    tools: list[dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["tool"]
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(each for each in folders if not _is_within(each, workspace))
    found = [
        *(each for tool in tools for each in _defaults(tool, path)),
        *(each for tool in tools for each in _in_files(tool, home, workspace, environ)),
        *(each for tool in tools for each in _in_variables(tool, environ)),
    ]
    return tuple(dict.fromkeys(found))


def entries_in(text: str) -> Iterator[Entry]:
    """Each host in a URL, with its port."""
    for scheme, authority in _REGISTRY_URL.findall(text):
        name, _, port = authority.rpartition("@")[2].partition(":")
        number = int(port) if port.isdecimal() else _REGISTRY_PORTS[scheme.lower()]
        if found := host(name, number):
            yield Entry(found.name, (found.port,))


def _defaults(tool: Mapping[str, Any], path: str) -> Iterator[Entry]:
    """The default registries of a tool, if one of its programs is in the path."""
    if any(shutil.which(program, path=path) for program in tool["programs"]):
        yield from filter(None, (entry(f"{name}:443") for name in tool.get("hosts", ())))


def _in_files(
    tool: Mapping[str, Any], home: Path, workspace: Path, environ: Mapping[str, str]
) -> Iterator[Entry]:
    named = [_expanded(pattern, home, environ) for pattern in tool.get("files", ())]
    named += [environ[name] for name in ("PIP_CONFIG_FILE",) if environ.get(name)]
    for path in _existing(named):
        if not _is_within(path, workspace):
            yield from entries_in(_text(path))


def _in_variables(tool: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Entry]:
    patterns: Sequence[str] = tool.get("variables", ())
    for name, text in environ.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            yield from entries_in(text)


def _expanded(pattern: str, home: Path, environ: Mapping[str, str]) -> str:
    config = environ.get("XDG_CONFIG_HOME") or str(home / ".config")
    return re.sub(r"^~", str(home), pattern).replace("$XDG_CONFIG_HOME", config)


def _existing(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from (path for path in sorted(glob(pattern)) if os.path.isfile(path))


def _is_within(path: str, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _text(path: str) -> str:
    """The text without comments and proxy settings."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(LARGEST)
    except OSError:
        return ""
    if path.endswith(".xml"):
        return "\n".join(_IN_XML.findall(text))
    return "\n".join(line for line in text.splitlines() if not _NOT_A_REGISTRY.match(line))


def remotes(config: str) -> Remotes:
    """Parse the remotes in a repository's configuration."""
    found = list(_addresses(config))
    hosts = (each for _, address in found if (each := remote_host(address)))
    names = dict.fromkeys(name for name, _ in found)
    return Remotes(names=tuple(names), hosts=tuple(dict.fromkeys(hosts)))


def remote_host(address: str) -> Entry | None:
    """The host of a remote's address; None for a folder."""
    if url := _URL.match(address):
        name, _, port = url[2].rpartition("@")[2].partition(":")
        ports = (int(port),) if port.isdecimal() else _PORTS.get(url[1].lower(), _BY_SSH)
    elif found := _SCP.match(address):
        name, ports = found[1], _BY_SSH
    else:
        return None
    plain = host(name, ports[0])
    return Entry(plain.name, ports) if plain and not plain.is_loopback else None


def _addresses(text: str) -> Iterator[tuple[str, str]]:
    name = ""
    for line in text.splitlines():
        if line.lstrip().startswith("["):
            section = _SECTION.match(line)
            name = section[2] if section else ""
        elif name and (found := _ADDRESS.match(line)):
            yield name, found[1].strip().strip('"')
