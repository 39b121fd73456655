"""The package registries that this machine is configured for.

A project's own files have no say: whatever lies in the workspace is not read.
"""

import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import Any

from rookery.core.hosts import Entry, entry, host
from rookery.core.limits import KIB

TABLE = Path(__file__).with_name("registries.toml")
LARGEST = 256 * KIB
_URL = re.compile(r"\b(https?)://([^\s/?#'\"<>,|]+)", re.IGNORECASE)
_IN_XML = re.compile(r"<url>(.*?)</url>", re.DOTALL)
_NOT_A_REGISTRY = re.compile(r"^\s*([#;]|(?:https?[-_.]?)?proxy\b)", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


def registries(home: Path, workspace: Path, environ: Mapping[str, str]) -> tuple[Entry, ...]:
    """What the tools on this machine install from."""
    tools: list[dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["tool"]
    found = [
        *(each for tool in tools for each in _defaults(tool, workspace, environ)),
        *(each for tool in tools for each in _in_files(tool, home, workspace, environ)),
        *(each for tool in tools for each in _in_variables(tool, environ)),
    ]
    return tuple(dict.fromkeys(found))


def entries_in(text: str) -> Iterator[Entry]:
    """Each host in a URL, with the port that is meant."""
    for scheme, authority in _URL.findall(text):
        name, _, port = authority.rpartition("@")[2].partition(":")
        number = int(port) if port.isdecimal() else _PORTS[scheme.lower()]
        if found := host(name, number):
            yield Entry(found.name, (found.port,))


def _defaults(
    tool: Mapping[str, Any], workspace: Path, environ: Mapping[str, str]
) -> Iterator[Entry]:
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(each for each in folders if not _is_within(each, workspace))
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
    """Without comments, and without the proxies that are configured in the same files."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(LARGEST)
    except OSError:
        return ""
    if path.endswith(".xml"):
        return "\n".join(_IN_XML.findall(text))
    return "\n".join(line for line in text.splitlines() if not _NOT_A_REGISTRY.match(line))
