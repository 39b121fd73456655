"""Resolving paths on a real disk: outside, protected, credentials."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from rookery.core.facts import Change
from rookery.core.limits import Limits
from rookery.core.protected_paths import LIKE_A_REPOSITORY
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.workspace import FileText, Place
from rookery.errors import Denied, ToolError
from rookery.workspace.boundaries import Boundaries
from rookery.workspace.files import WorkspaceFiles
from support.workspace_folder import permit_to_read

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace beside a folder whose name starts with its own."""
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "work-evil").mkdir()
    (tmp_path / "work-evil/a.txt").write_text("evil")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/id").write_text("key")
    return folder


@pytest.fixture
def files(root: Path) -> WorkspaceFiles:
    return opened(root)


def opened(root: Path) -> WorkspaceFiles:
    """A fresh object: it remembers the links by which a file was reached."""
    home = root.parent / "home"
    return WorkspaceFiles(root, Limits(), own_folders=[home / ".config/rookery"], home=home)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """The canonical parent folder of the workspace."""
    return tmp_path.resolve()


def link(root: Path, **targets: str) -> None:
    for name, target in targets.items():
        (root / name).symlink_to(target.replace("{top}", str(root.parent)))


OUTSIDE = {
    "dots": ("../secret.txt", "secret.txt"),
    "dots behind a name": ("a/../../secret.txt", "secret.txt"),
    "absolute": ("{top}/secret.txt", "secret.txt"),
    "same beginning": ("{top}/work-evil/a.txt", "work-evil/a.txt"),
    "absolute and dots": ("{top}/work/../secret.txt", "secret.txt"),
    "link": ("leaving", "secret.txt"),
    "link to a link": ("twice", "secret.txt"),
    "absolute link": ("absolute", "secret.txt"),
    "folder link": ("out/secret.txt", "secret.txt"),
    "new file behind a link": ("out/new/file.txt", "new/file.txt"),
    "dots behind a link": ("through/../secret.txt", "secret.txt"),
}
INSIDE = {
    "a.txt": ("a.txt", False),
    "link": ("a.txt", True),
    "back": ("a.txt", True),
    "{top}/work/a.txt": ("a.txt", False),
    "{top}/alias/a.txt": ("a.txt", True),
    "..data/a.txt": ("..data/a.txt", False),
}


def test_a_path_is_inside_or_outside_by_where_it_ends(root: Path, tmp_path: Path):
    link(root, leaving="../secret.txt", twice="leaving", absolute="{top}/secret.txt", out="..")
    link(root, through="../work-evil", link="a.txt", back="../work/a.txt")
    (root / "a.txt").write_text("a")
    (tmp_path / "alias").symlink_to("work")
    for name, (said, leads) in OUTSIDE.items():
        files = opened(root)
        place = files.place(said.replace("{top}", str(tmp_path)))
        assert place.outside, name
        assert place.path == files.locate(place.path) == f"{tmp_path.resolve()}/{leads}", name
    for said, (path, linked) in INSIDE.items():
        whole = said.replace("{top}", str(tmp_path))
        assert opened(root).place(whole) == Place(path=path, said=whole, link=linked)


async def test_a_file_outside_needs_a_permit_for_its_exact_path(files: WorkspaceFiles, top: Path):
    path = f"{top}/secret.txt"
    for permit in (permit_to_read("../secret.txt"), permit_to_read("secret.txt")):
        with pytest.raises(Denied):
            await files.read("../secret.txt", permit)
    read = await files.read("../secret.txt", permit_to_read(path))
    assert isinstance(read, FileText)
    assert (read.path, read.text) == (path, "secret")
    change = Change(path=path, before=read.sha, after=sha256(b"new").hexdigest())
    await files.write(change, b"new", Permit("", changes=frozenset([change])))
    assert (top / "secret.txt").read_bytes() == b"new"


async def test_a_new_file_outside_gets_its_folders(files: WorkspaceFiles, top: Path):
    path = f"{top}/new/deep/a.txt"
    assert await files.examine(path) is None
    change = Change(path=path, after=sha256(b"new").hexdigest())
    await files.write(change, b"new", Permit("", changes=frozenset([change])))
    assert (top / "new/deep/a.txt").read_bytes() == b"new"


async def test_only_regular_files_are_opened_outside(files: WorkspaceFiles, top: Path):
    os.mkfifo(top / "pipe")
    pipe = f"{top}/pipe"
    with pytest.raises(ToolError, match="device, pipe or socket"):
        await files.read(pipe, permit_to_read(pipe))
    with pytest.raises(ToolError, match="is a folder"):
        await files.read("..", permit_to_read(str(top)))
    with pytest.raises(ToolError, match="not a file"):
        await files.examine("/")


PROTECTED = {
    "not there yet": ".vscode/settings.json",
    "nested, other case": "deep/.VSCode/settings.json",
    "link to it": "link/settings.json",
    "link to a link": "chain/settings.json",
    "link from it to an ordinary folder": ".idea/workspace.xml",
    "bare repository": "repo/config",
    "below a bare repository": "repo/branches/x",
    "last part of a bare repository": "almost/HEAD",
    "outside": "../.bashrc",
    "new": "conftest.py",
}
FOLDERS = ".vscode plain repo/objects repo/refs almost/objects/0 almost/refs tests"


def test_a_protected_file_is_recognised_by_any_path(root: Path):
    for folder in FOLDERS.split():
        (root / folder).mkdir(parents=True)
    (root / "repo/HEAD").write_text("ref: refs/heads/main")
    (root / "tests/conftest.py").write_text("")
    link(root, link=".vscode", chain="link", **{".idea": "plain"})
    for name, said in PROTECTED.items():
        files = opened(root)
        assert files.place(said).protected, name
        # tools use canonical paths, which must keep the protection
        assert files.place(files.locate(said)).protected, name
    for said in ("a.py", "objects/HEAD", "tests/conftest.py", "almost/objects/x"):
        assert opened(root).place(said).protected == "", said


def test_the_folders_above_a_workspace_do_not_make_it_protected(tmp_path: Path):
    work = tmp_path / ".cursor/work"
    work.mkdir(parents=True)
    for name in ("HEAD", "objects", "refs"):
        (tmp_path / ".cursor" / name).mkdir()
    assert WorkspaceFiles(work, Limits()).place("a.py").protected == ""
    assert WorkspaceFiles(work.parent, Limits()).place("a.py").protected == LIKE_A_REPOSITORY


async def test_credentials_are_recognised_by_path_and_by_link(
    root: Path, files: WorkspaceFiles, tmp_path: Path
):
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/creds").write_text("x")
    (tmp_path / "home/.aws").symlink_to("../vault")
    link(root, key="../home/.ssh/id")
    for said in ("../home/.ssh/id", "key", "../home/.aws/creds", "../vault/creds"):
        assert files.place(said).credential, said
        with pytest.raises(ToolError, match="credentials"):
            await files.examine(said)
    assert files.place("../home/.config/rookery/keys.toml").credential
    assert not files.place("../home/notes.txt").credential
    assert not files.place("a/.ssh/id").credential


def test_a_credential_folder_that_becomes_a_link_is_recognised_at_once(tmp_path: Path):
    home, root = tmp_path / "home", tmp_path / "work"
    (home / "vault").mkdir(parents=True)
    root.mkdir()
    boundaries = Boundaries(root, home=home, own=[])
    assert not boundaries.place(str(home / "vault" / "key")).credential
    (home / ".aws").symlink_to(home / "vault")
    assert boundaries.place(str(home / "vault" / "key")).credential
