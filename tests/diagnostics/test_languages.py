"""Where language servers are looked for."""

import os
from pathlib import Path

import pytest

from rookery.app.edit_checks import KNOWN_SUFFIXES
from rookery.diagnostics.languages import SERVERS, added_servers, find_servers
from support.each_row import each_row


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_the_suffixes_of_the_table_are_those_that_load_it():
    assert {suffix for row in SERVERS for suffix in row.files} == KNOWN_SUFFIXES


def test_the_projects_own_server_comes_first_and_path_leaves_the_workspace_out(tmp_path: Path):
    work = tmp_path / "work"
    own = program(work / "web" / "node_modules" / ".bin", "typescript-language-server")
    program(tmp_path / "bin", "typescript-language-server")
    program(tmp_path / "bin", "pylsp")
    program(work / "tools", "gopls")
    (work / "web" / "tsconfig.json").write_text("{}")
    environ = {"PATH": os.pathsep.join([str(work / "tools"), str(tmp_path / "bin"), "."])}

    def found(path: str) -> list[tuple[str, Path]]:
        servers = find_servers(path, work, rows=SERVERS, environ=environ)
        return [(server.argv[0], server.root) for server in servers]

    assert found("web/src/a.ts") == [(str(own), work / "web")]
    assert found("other/a.ts") == [(str(tmp_path / "bin" / "typescript-language-server"), work)]
    assert found("a.py") == [(str(tmp_path / "bin" / "pylsp"), work)]
    assert found("a.go") == found("a.txt") == []


def test_the_compiler_of_typescript_7_is_a_language_server_and_older_ones_are_not(tmp_path: Path):
    package = tmp_path / "node_modules" / "typescript"
    program(package / "bin", "tsc")
    places = tmp_path / "node_modules" / ".bin"
    places.mkdir()
    (places / "tsc").symlink_to(package / "bin" / "tsc")
    program(places, "typescript-language-server")

    def found() -> list[str]:
        servers = find_servers("a.ts", tmp_path, rows=SERVERS, environ={"PATH": "/nowhere"})
        return [server.program for server in servers]

    assert found() == ["tsc"]
    program(package / "lib", "tsserver.js")
    assert found() == ["typescript-language-server"]


def test_settings_add_servers_and_skip_others(tmp_path: Path):
    program(tmp_path / "bin", "toy-server")
    program(tmp_path / "bin", "ruff")
    rows = (*added_servers(["*.toy *.tiny: toy-server --fast"]), *SERVERS)
    environ = {"PATH": str(tmp_path / "bin")}

    def found(path: str) -> list[tuple[str, ...]]:
        servers = find_servers(path, tmp_path / "work", rows=rows, skip=["ruff"], environ=environ)
        return [server.argv for server in servers]

    assert found("a.tiny") == [(str(tmp_path / "bin" / "toy-server"), "--fast")]
    assert found("a.py") == []


@each_row("entry", ["toy-server", "Makefile: make-server"])
def test_a_server_that_cannot_be_chosen_by_an_ending_is_refused(entry: str):
    with pytest.raises(ValueError, match=r"of the form|by endings"):
        added_servers([entry])
