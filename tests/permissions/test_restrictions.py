from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.core.asks import Decision, Ruling
from rookery.core.blocks import ToolCall
from rookery.core.facts import Change
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Action, Deed, Judgement, Target
from rookery.permissions.restrictions import Restrictions
from rookery.workspace.files import WorkspaceFiles
from support.actions import never

pytestmark = pytest.mark.anyio

CALL = ToolCall(id="c1", name="tool", arguments={})
NONE, ASK, DENY = Decision.NONE, Decision.ASK, Decision.DENY


@pytest.fixture
def files(tmp_path: Path) -> WorkspaceFiles:
    root = tmp_path / "work"
    (root / ".vscode").mkdir(parents=True)
    (root / ".rookeryignore").write_text("*.key\n")
    (root / "a.txt").write_text("a")
    (root / "link").symlink_to("a.txt")
    (root / "out").symlink_to("../other.txt")
    (root / "settings").symlink_to(".vscode")
    (tmp_path / "other.txt").write_text("other")
    (tmp_path / "home/.ssh").mkdir(parents=True)
    return WorkspaceFiles(root, Limits(), home=tmp_path / "home")


@pytest.fixture
def top(tmp_path: Path) -> str:
    return str(tmp_path.resolve())


def reading(*paths: str) -> Action:
    return Action(title="Read", perform=never, reads=paths)


def changing(*paths: str) -> Action:
    changes = [Change(path=path, after="f" * 64) for path in paths]
    return Action(title="Write", perform=never, changes=changes)


async def ruling(files: WorkspaceFiles, action: Action, **flags: bool) -> Ruling:
    return await Restrictions(files, **flags).before(CALL, action)


CASES = [
    pytest.param(reading("a.txt", "link", "."), NONE, "", id="ordinary reads"),
    pytest.param(changing("a.txt", "new.py"), NONE, "", id="ordinary changes"),
    pytest.param(reading("{top}/x"), ASK, "outside the workspace: {top}/x", id="read"),
    pytest.param(reading("{top}"), ASK, "outside the workspace: {top}", id="folder"),
    pytest.param(reading("out"), ASK, "outside the workspace: {top}/other.txt", id="link"),
    pytest.param(changing("{top}/x"), ASK, "outside the workspace: {top}/x", id="write"),
    pytest.param(reading("a.key"), DENY, "hidden from you by the user", id="read"),
    pytest.param(changing("new.KEY"), DENY, "hidden from you by the user", id="write"),
    pytest.param(reading("{top}/home/.ssh/id"), DENY, "credentials", id="read"),
    pytest.param(changing("{top}/home/.ssh/id"), DENY, "credentials", id="write"),
    pytest.param(reading("/etc/shadow"), DENY, "credentials", id="system"),
    pytest.param(reading("/proc/self/environ"), DENY, "operating system", id="system file"),
    pytest.param(reading("bad\0path"), DENY, "control characters", id="control character"),
    pytest.param(
        changing(".git/config"), ASK, "protected, because git runs it: .git/config",
        id="PROT",
    ),
    pytest.param(reading(".git/config"), NONE, "", id="PROT does not keep from reading"),
    pytest.param(changing("settings/tasks.json"), ASK, ".vscode/tasks.json", id="link"),
    pytest.param(changing("package.json"), ASK, "npm runs its scripts", id="PROT package.json"),
    pytest.param(changing("Makefile"), NONE, "", id="PROT Makefile with a person there"),
    pytest.param(changing("a.txt", "b/.git/HEAD"), ASK, "b/.git/HEAD", id="one of several"),
    pytest.param(changing("AGENTS.md", "x.key"), DENY, "x.key", id="the strictest holds"),
]  # fmt: skip


def at(action: Action, top: str) -> Action:
    return replace(
        action,
        reads=[path.replace("{top}", top) for path in action.reads],
        changes=[replace(each, path=each.path.replace("{top}", top)) for each in action.changes],
    )


@pytest.mark.parametrize(("action", "decision", "words"), CASES)
async def test_every_path_of_an_action_is_judged(
    files: WorkspaceFiles, top: str, action: Action, decision: Decision, words: str
):
    ruled = await ruling(files, at(action, top))
    assert ruled.decision is decision
    assert words.replace("{top}", top) in " ".join(ruled.reasons)


async def test_every_file_outside_the_workspace_is_named(files: WorkspaceFiles, top: str):
    ruled = await ruling(files, reading(f"{top}/a", f"{top}/b"))
    assert ruled.reasons == tuple(f"outside the workspace: {top}/{name}" for name in "ab")


async def test_a_command_that_runs_outside_the_workspace_asks(files: WorkspaceFiles, top: str):
    action = Action(title="Run", perform=never, command="ls", cwd=top)
    assert (await ruling(files, action)).decision is ASK


async def test_a_flag_lifts_only_its_own_rule(files: WorkspaceFiles, top: str):
    outside, protected = changing(f"{top}/x"), changing(".git/config")
    secret, key = reading("a.key"), reading(f"{top}/home/.ssh/id")

    async def decisions(**flags: bool) -> list[Decision]:
        actions = (outside, protected, secret, key)
        return [(await ruling(files, action, **flags)).decision for action in actions]

    assert await decisions(automatic=lambda: True) == [ASK, ASK, DENY, DENY]
    assert await decisions(allow_outside=True) == [NONE, ASK, DENY, DENY]
    assert await decisions(allow_protected=True) == [ASK, NONE, DENY, DENY]


@pytest.mark.parametrize("path", ["Makefile", "justfile", "tox.ini", ".mvn/jvm.config", "pom.xml"])
async def test_build_files_ask_only_in_automatic_runs(files: WorkspaceFiles, path: str):
    assert (await ruling(files, changing(path), automatic=lambda: True)).decision is ASK
    assert (await ruling(files, changing(path))).decision is NONE


async def test_a_protected_link_name_still_counts_after_it_is_resolved(
    files: WorkspaceFiles, tmp_path: Path
):
    """Tools name a file by where it is; it was `.idea` that the model asked for."""
    (tmp_path / "work/plain").mkdir()
    (tmp_path / "work/.idea").symlink_to("plain")
    located = files.locate(".idea/workspace.xml")
    assert located == "plain/workspace.xml"
    assert (await ruling(files, changing(located))).decision is ASK


def running(*targets: Target, why_not: str = "") -> Action:
    judged = Judgement(targets=targets, why_not=why_not)
    return Action(title="Run", perform=never, command="x", judgement=judged)


KEPT = Target(Deed.READ, "my.key")


@pytest.mark.parametrize(
    ("action", "decision"),
    [
        pytest.param(running(KEPT), DENY, id="it could not be read anyway"),
        pytest.param(running(Target(Deed.READ, "a.txt")), NONE, id="a file like any other"),
        pytest.param(running(KEPT, why_not="make is not known"), NONE, id="it may be only a word"),
        pytest.param(running(Target(Deed.DELETE, "my.key")), NONE, id="needs approval"),
        pytest.param(running(Target(Deed.READ, "a\0b")), NONE, id="no proper path"),
    ],
)
async def test_reading_a_hidden_file_is_refused_without_a_question(
    files: WorkspaceFiles, action: Action, decision: Decision
):
    reported = await ruling(files, action)
    assert reported.decision is decision
    if decision is DENY:
        assert reported.reasons[0].startswith("my.key is hidden from you by the user;")
