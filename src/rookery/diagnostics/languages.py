"""Which language servers there are for a file, and where their programs are.

Programs are looked for on the user's `PATH` without folders of the workspace, then in the
environments of the project. `rookery doctor` lists what is found.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.diagnostics.configured_commands import parse_file_command
from rookery.platform.paths import path_outside

PROJECT_PROGRAMS = (".venv/bin", "venv/bin", "node_modules/.bin")
"""Folders of a project that hold programs, from its root up to the workspace."""


class ServerRow(Struct, frozen=True, kw_only=True):
    """A kind of server. The first of its `commands` that is installed is used. A project of it
    begins at the nearest folder with one of the `roots`."""

    name: str
    files: Mapping[str, str]
    """The language of each suffix, as the protocol names it."""
    commands: tuple[tuple[str, ...], ...]
    roots: tuple[str, ...] = ()
    options: Mapping[str, Any] = {}
    """The `initializationOptions` of the server."""
    writes: tuple[str, ...] = ()
    """What it must write in the folders of a project, as one that builds it."""

    def serves(self, path: str) -> bool:
        return Path(path).suffix in self.files


_SCRIPTS = {
    ".ts": "typescript",
    ".tsx": "typescriptreact",
    ".mts": "typescript",
    ".cts": "typescript",
    ".js": "javascript",
    ".jsx": "javascriptreact",
    ".mjs": "javascript",
    ".cjs": "javascript",
}
_C = {".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hpp": "cpp"}
_PYTHON = {".py": "python", ".pyi": "python"}

SERVERS = (
    ServerRow(
        name="python",
        files=_PYTHON,
        commands=(
            ("basedpyright-langserver", "--stdio"),
            ("pyright-langserver", "--stdio"),
            ("pylsp",),
        ),
        roots=("pyrightconfig.json", "pyproject.toml", "setup.cfg", "setup.py"),
    ),
    ServerRow(
        name="ruff",
        files=_PYTHON,
        commands=(("ruff", "server"),),
        roots=("ruff.toml", ".ruff.toml", "pyproject.toml"),
    ),
    ServerRow(
        name="typescript",
        files=_SCRIPTS,
        commands=(("tsc", "--lsp", "--stdio"), ("typescript-language-server", "--stdio")),
        roots=("tsconfig.json", "jsconfig.json", "package.json"),
        options={"disableAutomaticTypingAcquisition": True},
    ),
    ServerRow(name="go", files={".go": "go"}, commands=(("gopls",),), roots=("go.work", "go.mod")),
    ServerRow(
        name="rust",
        files={".rs": "rust"},
        commands=(("rust-analyzer",),),
        roots=("Cargo.toml",),
        writes=("target", "Cargo.lock"),
    ),
    ServerRow(
        name="c",
        files=_C,
        commands=(("clangd", "--background-index=false"),),
        roots=("compile_commands.json", "compile_flags.txt", ".clangd"),
    ),
)
"""What is known without settings."""


class FoundServer(Struct, frozen=True):
    """A server that is installed, and the folder it works in."""

    row: ServerRow
    argv: tuple[str, ...]
    root: Path

    @property
    def program(self) -> str:
        return Path(self.argv[0]).name

    def writable(self, workspace: Path) -> frozenset[str]:
        """What it must be able to write, as paths in the workspace."""
        above = (self.root, *self.root.parents)
        folders = [each for each in above if each.is_relative_to(workspace)]
        paths = (each.relative_to(workspace) / name for each in folders for name in self.row.writes)
        return frozenset(map(str, paths))


def added_servers(entries: Sequence[str]) -> tuple[ServerRow, ...]:
    """The servers that the settings add. Raises `ValueError` with a sentence."""
    return tuple(map(_added, entries))


def _added(entry: str) -> ServerRow:
    parsed = parse_file_command(entry)
    suffixes = [pattern.removeprefix("*") for pattern in parsed.patterns]
    if not all(suffix.startswith(".") for suffix in suffixes):
        raise ValueError(f"{entry!r}: a language server is chosen by endings, such as `*.lua`.")
    words = tuple(parsed.command.split())
    return ServerRow(
        name=words[0],
        files={suffix: suffix[1:] for suffix in suffixes},
        commands=(words,),
        roots=(".git",),
    )


def find_servers(
    path: str,
    workspace: Path,
    *,
    rows: Sequence[ServerRow],
    skip: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Iterator[FoundServer]:
    """The servers for a file of the workspace."""
    users = (os.environ if environ is None else environ).get("PATH", os.defpath)
    places = path_outside(workspace, users)
    for row in rows:
        if not row.serves(path):
            continue
        root = _root_of(workspace / path, workspace, row.roots)
        inside = project_places(root, workspace)
        for words in row.commands:
            if words[0] in skip or row.name in skip:
                continue
            if program := _program(words[0], inside, places):
                yield FoundServer(row, (program, *words[1:]), root)
                break


def project_places(root: Path, workspace: Path) -> str:
    """The folders of a project that hold programs, nearest first."""
    above = [root, *(folder for folder in root.parents if folder.is_relative_to(workspace))]
    return os.pathsep.join(str(folder / name) for folder in above for name in PROJECT_PROGRAMS)


def _program(name: str, inside: str, outside: str) -> str:
    """The project's own version comes first, as in an editor."""
    if os.path.isabs(name):
        return name if os.access(name, os.X_OK) else ""
    found = shutil.which(name, path=inside) or shutil.which(name, path=outside) or ""
    return "" if found and name == "tsc" and _is_old_typescript(found) else found


def _is_old_typescript(program: str) -> bool:
    """Before version 7, the compiler was no language server and another file was one."""
    package = Path(os.path.realpath(program)).parents[1]
    return (package / "lib" / "tsserver.js").exists()


def _root_of(file: Path, workspace: Path, roots: Sequence[str]) -> Path:
    for folder in file.parents:
        if not folder.is_relative_to(workspace):
            break
        if any(os.path.lexists(folder / name) for name in roots):
            return folder
    return workspace
