"""Which repository git reads in a workspace."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.platform.git_folders import common_folder, git_folders, own_repository
from support.repositories import git


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seed")
    for name in ("work", "other"):
        (folder / name).mkdir()
        git(folder / name, "init", "-q", "--template=")
        git(folder / name, "commit", "-q", "--allow-empty", "-m", name)
    return folder


@pytest.fixture
def work(seed: Path, tmp_path: Path) -> Path:
    shutil.copytree(seed, tmp_path, dirs_exist_ok=True)
    return tmp_path / "work"


def put(path: str, text: str) -> Callable[[Path], None]:
    def change(work: Path) -> None:
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        with (work / path).open("a") as file:
            file.write(text)

    return change


def instead(path: str, target: str) -> Callable[[Path], None]:
    def change(work: Path) -> None:
        (work / path).rename(work / "moved")
        os.symlink(work / target, work / path)

    return change


def file_instead(work: Path) -> None:
    (work / ".git").rename(work / "moved")
    put(".git", f"gitdir: {work.parent}/other/.git\n")(work)


def pipe_instead(path: str) -> Callable[[Path], None]:
    def change(work: Path) -> None:
        (work / path).rename(work / "moved")
        os.mkfifo(work / path)

    return change


WAYS = {
    "no repository": lambda work: (work / ".git").rename(work / "moved"),
    "link": instead(".git", "../other/.git"),
    "file": file_instead,
    "pipe": pipe_instead(".git"),
    "settings that are a pipe": pipe_instead(".git/config"),
    "settings that are a link": instead(".git/config", "moved"),
    "objects that are a link": instead(".git/objects", "../other/.git/objects"),
    "packs that are a link": instead(".git/objects/pack", "../other/.git/objects/pack"),
    "work tree": put(".git/config", "[core]\n\tworktree = ../../other\n"),
    "work tree in one line": put(".git/config", "[CORE]WorkTree=../../other\n"),
    "work tree of its own": put(".git/config.worktree", "[core]\n worktree\t= /\n"),
    "included settings": put(".git/config", "[include]\n\tpath = ../../other/config\n"),
    "settings included at times": put(".git/config", '[includeIf "gitdir:/"]\npath = /x\n'),
    "alternates": put(".git/objects/info/alternates", "/nowhere\n"),
    "common folder": put(".git/commondir", "../../other/.git\n"),
    "large settings": put(".git/config", "#" * 2**21),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_repository_that_leads_elsewhere_is_not_the_workspaces_own(
    work: Path, way: Callable[[Path], None]
):
    assert own_repository(str(work))
    way(work)
    assert not own_repository(str(work))


def test_a_repository_with_ordinary_settings_is_the_workspaces_own(work: Path):
    git(work, "config", "extensions.worktreeConfig", "true")
    git(work, "config", "branch.worktree.remote", "origin")
    assert own_repository(str(work))


def test_a_linked_worktree_is_believed_if_it_is_named_in_return(work: Path):
    linked = work.parent / "linked"
    git(work, "worktree", "add", "-q", str(linked))
    assert own_repository(str(linked))
    (work / ".git" / "worktrees" / "linked" / "gitdir").write_text("/elsewhere/.git\n")
    assert not own_repository(str(linked))


def test_a_linked_worktree_inside_cannot_lead_on(work: Path):
    linked = work.parent / "linked"
    git(work, "worktree", "add", "-q", str(linked))
    put(".git/objects/info/alternates", "/nowhere\n")(work)
    assert not own_repository(str(linked))


@pytest.mark.parametrize("name", ["gitdir", "commondir"])
def test_a_pipe_is_not_waited_for(work: Path, name: str):
    linked = work.parent / "linked"
    git(work, "worktree", "add", "-q", str(linked))
    pipe_instead(f".git/worktrees/linked/{name}")(work)
    assert common_folder(str(linked)) == ""


def test_inner_folders_are_not_looked_for_behind_links(work: Path):
    own = work / ".git"
    for name in ("worktrees", "modules"):
        (own / name).mkdir()
        (own / name / "away").symlink_to(work.parent / "other" / ".git")
    assert git_folders([str(own)]) == (str(own),)
