"""Files of the workspace that git takes hooks or settings from, because its settings say so."""

from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, call, finish
from rookery.core.protected_paths import OBEYED_BY_GIT
from rookery.platform.git_folders import ObeyedByGit
from rookery.workspace.boundaries import Boundaries
from support.repositories import git
from support.terminal_session import Installed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q")
    return root


@pytest.mark.parametrize(
    ("setting", "value", "places"),
    [
        ("core.hooksPath", "tools/hooks", ("tools/hooks",)),
        ("core.hooksPath", "{root}/tools", ("tools",)),
        ("core.hooksPath", ".", ()),
        ("core.hooksPath", "../elsewhere", ()),
        ("include.path", "../tools/settings", ("tools/settings",)),
        ("includeIf.onbranch:x.path", "../tools/settings", ("tools/settings",)),
        ("user.name", "tools", ()),
        ("filter.x.clean", "python3 tools/clean.py %f", ("tools/clean.py",)),
        ("filter.x.process", "{root}/tools/run --all", ("tools/run",)),
        ("filter.x.smudge", "sh -c 'tools/a;./tools/b'", ("tools/a", "tools/b")),
        ("filter.lfs.clean", "git-lfs clean -- %f", ()),
        ("core.fsmonitor", "tools/watch", ("tools/watch",)),
        ("merge.x.driver", "tools/merge %O %A %B", ("tools/merge",)),
        ("diff.x.textconv", "tools/text", ("tools/text",)),
        ("core.sshCommand", "tools/ssh -i key", ("tools/ssh",)),
        ("credential.helper", "!tools/helper", ("tools/helper",)),
        ("alias.x", "!sh tools/alias.sh", ("tools/alias.sh",)),
        ("alias.x", "log --oneline", ()),
        ("remote.origin.url", "../tools/x", ()),
    ],
)
def test_files_named_in_git_settings_are_found(
    root: Path, setting: str, value: str, places: tuple[str, ...]
):
    git(root, "config", setting, value.format(root=root))
    assert ObeyedByGit(root).places() == places


def test_included_settings_can_name_more_and_changes_are_noticed(root: Path):
    obeyed = ObeyedByGit(root)
    assert obeyed.places() == ()
    (root / "settings").write_text("[include]\n\tpath = sub/more\n")
    git(root, "config", "include.path", "../settings")
    assert obeyed.places() == ("settings", "sub/more")
    assert obeyed.covers("sub/more")
    assert not obeyed.covers("sub/more2")


def test_a_workspace_inside_of_a_repository_is_looked_at_too(root: Path):
    inner = root / "app"
    inner.mkdir()
    git(root, "config", "core.hooksPath", "app/hooks-of-ours")
    git(root, "config", "include.path", "../app/settings")
    assert set(ObeyedByGit(inner).places()) == {"hooks-of-ours", "settings"}


def test_a_folder_without_a_repository_has_none(tmp_path: Path):
    assert ObeyedByGit(tmp_path).places() == ()


def test_a_change_of_one_is_asked_about(root: Path, tmp_path: Path):
    git(root, "config", "core.hooksPath", "tools")
    boundaries = Boundaries(root, home=tmp_path / "home", own=[])
    assert boundaries.place("tools/pre-commit").protected == OBEYED_BY_GIT
    assert boundaries.place("tools2/pre-commit").protected == ""
    (root / "tools").mkdir()
    (root / "link").symlink_to("tools")
    assert boundaries.place("link/pre-commit").protected == OBEYED_BY_GIT


def test_a_git_hook_or_setting_made_by_a_command_is_reverted(tmp_path: Path):
    """Also where there was no folder to protect before the command."""
    rookery = Installed(tmp_path)
    git(rookery.workspace, "init", "-q")
    git(rookery.workspace, "config", "core.hooksPath", "tools")
    (rookery.workspace / "settings").write_text("[alias]\n")
    git(rookery.workspace, "config", "include.path", "../settings")
    made = "import os; os.mkdir('tools'); open('tools/pre-commit', 'w'); open('tools2', 'w')"
    changed = "open('settings', 'a').write('x = !id')"
    turns = [[run(f'python3 -c "{each}"')] for each in (made, changed)]
    with LlmServer(*turns, [finish()]) as server:
        at = ["--provider", "anthropic", "-m", "claude-x", "--base-url", server.url]
        assert rookery.run("-p", "-y", *at, "go").returncode == 0
    assert not (rookery.workspace / "tools" / "pre-commit").exists()
    assert (rookery.workspace / "tools2").exists()
    assert (rookery.workspace / "settings").read_text() == "[alias]\n"


def run(command: str) -> Any:
    return call("execute_command", command=command, cwd=None, timeout=None)
