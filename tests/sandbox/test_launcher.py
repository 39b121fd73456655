"""What of the workspace is shielded from a command that is started in the sandbox."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.core.blocks import ToolCall
from rookery.engine.ports.actions import Action, GitUse, Outcome, Permit
from rookery.sandbox.confinement import Network, SandboxOptions
from rookery.sandbox.launcher import MOST_MASKED, OPEN_NETWORK, NoSandboxNotice, SandboxLauncher
from rookery.sandbox.layers import PROGRAMS
from rookery.sandbox.sandbox import Sandbox
from rookery.workspace.boundaries import Boundaries

SECRET = "decoy-77a1"
pytestmark = pytest.mark.skipif(
    not shutil.which("bwrap", path=PROGRAMS), reason="bubblewrap is not installed"
)


class Project:
    """A workspace that keeps `*.key` and `priv/` from the agent."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.home = folder / "home"
        self.home.mkdir()
        self.put(".rookeryignore", "*.key\npriv/\n")
        self.sandbox = Sandbox(SandboxOptions(root=self.root, home=self.home))

    def put(self, path: str, text: str = SECRET) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def launching(self) -> SandboxLauncher:
        return SandboxLauncher(Boundaries(self.root, home=self.home, own=[]), self.sandbox)

    def run(
        self, command: str, git: GitUse = GitUse.NONE, approved: tuple[str, ...] = ()
    ) -> tuple[int, str]:
        """The user approved what is `approved`."""
        permit = Permit(
            "",
            command=command,
            confined=True,
            git=git,
            by_hand=bool(approved),
            named=frozenset(approved),
        )
        launch = self.launching()(["/bin/sh", "-c", command], permit, self.root)
        done = subprocess.run(
            launch.argv,
            cwd=self.root,
            env={"PATH": os.defpath, "HOME": str(self.home), **launch.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.returncode, done.stdout.decode()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.sandbox.close()


@pytest.mark.anyio
@pytest.mark.parametrize("network", ["known", "on"])
async def test_an_unexpectedly_open_network_is_reported_once(network: Network, tmp_path: Path):
    (tmp_path / "home").mkdir()
    options = SandboxOptions(root=tmp_path, home=tmp_path / "home", network=network)
    reported: list[str] = []
    notice = NoSandboxNotice(Sandbox(options, "/nonexistent"), reported.append, ["Bad host."])

    async def perform(permit: Permit) -> Outcome:
        return Outcome(text="")

    action = Action(title="Run", perform=perform, command="true")
    for _ in range(2):
        await notice.before(ToolCall(id="c", name="t", arguments={}), action)
    assert reported == [*([OPEN_NETWORK] if network == "known" else []), "Bad host."]


DEEP = (
    "a.key",
    "node_modules/a/b.key",
    "src/__pycache__/c.key",
    ".vscode/d.key",
    "one/two/three/four/priv/e",
)


def test_an_ignored_file_is_masked_in_any_folder(project: Project):
    for path in DEEP:
        project.put(path)
    status, said = project.run(f"cat {' '.join(DEEP)}; grep -r decoy .")
    assert status != 0
    assert SECRET not in said


def test_an_ignored_file_is_masked_in_a_large_workspace(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rookery.sandbox.launcher.MOST_LOOKED_AT", 200)
    (project.root / "many").mkdir()
    for number in range(201):
        os.mknod(project.root / "many" / str(number))
    project.put("many/more/priv/x")
    assert SECRET not in project.run("cat many/more/priv/x")[1]
    assert "ignored" not in project.launching().describe(confined=True)


def test_too_many_ignored_files_to_mask_are_reported(project: Project):
    for number in range(MOST_MASKED):
        project.put(f"{number}.key")
    launching = project.launching()
    assert launching.describe(confined=True).endswith("; some ignored files can be read")


MOVES = (
    "mv conf conf2 && cat conf2/in/priv/k",
    "mv conf/in conf/out && cat conf/out/priv/k",
    "mv conf/in/priv conf/x && cat conf/x/k",
)


def test_moving_a_folder_does_not_unmask_ignored_files(project: Project):
    project.put("conf/in/priv/k")
    _, said = project.run("; ".join(f"({command}; echo done $?)" for command in MOVES))
    assert SECRET not in said
    assert "done 0" not in said
    assert said.count("done ") == len(MOVES)
    assert (project.root / "conf/in/priv/k").read_text() == SECRET


def test_moving_a_folder_does_not_make_a_protected_file_writable(project: Project):
    project.put("docs/AGENTS.md", "orders")
    assert project.run("mv docs x && echo more >> x/AGENTS.md")[0] != 0
    assert project.run("echo x > docs/new && mv docs/new docs/other")[0] == 0
    assert (project.root / "docs/AGENTS.md").read_text() == "orders"


@pytest.mark.parametrize("path", [".envrc", ".vscode/tasks.json", "sub/conf/.npmrc"])
def test_only_the_approved_protected_file_is_writable(project: Project, path: str):
    project.put(path, "old\n")
    project.put(".bashrc", "old\n")
    write = f"echo new > {path}"
    assert project.run(write)[0] != 0
    assert project.run(write, approved=(path,)) == (0, "")
    assert (project.root / path).read_text() == "new\n"
    assert project.run("echo new > .bashrc", approved=(path,))[0] != 0


def test_approval_does_not_open_git_or_rookery_settings(project: Project):
    for path in (".git/config", ".rookery/settings.toml"):
        project.put(path, "old\n")
        assert project.run(f"echo new > {path}", approved=(path,))[0] != 0


def test_git_sees_the_read_only_ignore_file_as_unchanged(project: Project):
    git = ["git", "-C", str(project.root)]
    subprocess.run([*git, "init", "-q"], check=True)
    who = "-c user.name=a -c user.email=a@b"
    commit = f"git add -A && git {who} commit -qm x && git status --short"
    assert project.run(commit, GitUse.ONLY) == (0, "")
    assert project.run("echo x >> .rookeryignore")[0] != 0


def test_the_description_omits_ignored_files_without_an_ignore_file(project: Project):
    (project.root / ".rookeryignore").unlink()
    line = project.launching().describe(confined=True)
    assert line == project.sandbox.state.line
    assert len(line) <= 95
    assert "its own temp" in line


def test_a_permit_denies_git_writes_by_default():
    assert Permit("").git is GitUse.NONE
