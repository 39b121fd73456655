"""Where hooks come from, and which of them may run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rookery.errors import StorageError
from rookery.governance.external_hooks.hook_files import (
    LARGEST,
    HookPlaces,
    HookSource,
    KnownHook,
    TrustStatus,
    find_hooks,
    users_claude_file,
)
from rookery.governance.external_hooks.hook_trust import HookTrust


def document(*commands: str, **more: Any) -> str:
    entries = [{"type": "command", "command": command, **more} for command in commands]
    return json.dumps({"hooks": {"PreToolUse": [{"hooks": entries}]}})


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def places(tmp_path: Path) -> HookPlaces:
    work = tmp_path / "work"
    put(work / ".orchestration" / "hooks.json", document("project"))
    put(work / ".claude" / "settings.json", document("claude"))
    put(work / ".claude" / "settings.local.json", document("local"))
    return HookPlaces(
        workspace=work,
        managed=put(tmp_path / "etc" / "hooks.json", document("managed")),
        user=put(tmp_path / "home" / "hooks.json", document("user")),
        import_claude=True,
        claude_user=put(tmp_path / "home" / ".claude" / "settings.json", document("own")),
    )


def commands(places: HookPlaces) -> list[tuple[str, str]]:
    return [(str(each.source), each.hook.command) for each in find_hooks(places).hooks]


def test_all_sources_add_up_as_far_as_they_are_wanted(places: HookPlaces):
    ours = [("managed", "managed"), ("user", "user"), ("project", "project")]
    theirs = [("user-claude", "own"), ("claude", "claude"), ("claude", "local")]
    assert commands(places) == [*ours, *theirs]
    assert commands(replace(places, import_claude=False)) == ours
    assert commands(replace(places, managed_only=True)) == ours[:1]


def test_a_missing_file_is_not_a_problem(tmp_path: Path):
    found = find_hooks(HookPlaces(workspace=tmp_path, user=tmp_path / "a" / "b"))
    assert (found.hooks, found.problems) == ((), ())


BROKEN = {
    "no json": b"{",
    "no object": b"[]",
    "no text": b"\xff\xfe{}",
    "deep": b"[" * 200_000,
    "repeated key": b'{"hooks": {"PreToolUse": [], "PreToolUse": []}}',
    "too large": b" " * (LARGEST + 1),
}


@pytest.mark.parametrize("which", ["user", "project"])
def test_a_broken_file_spoils_no_other(places: HookPlaces, which: str):
    path = places.user if which == "user" else places.workspace / ".orchestration" / "hooks.json"
    assert path
    for case, data in BROKEN.items():
        path.write_bytes(data)
        found = find_hooks(places)
        assert len(found.hooks) == 5, case
        (problem,) = found.problems
        assert problem.text
        assert str(problem).startswith(problem.file)


@pytest.mark.parametrize("case", ["link out", "pipe", "folder"])
def test_a_hook_file_that_is_a_link_pipe_or_folder_is_not_read(places: HookPlaces, case: str):
    path = places.workspace / ".orchestration" / "hooks.json"
    path.unlink()
    if case == "link out":
        assert places.user
        path.symlink_to(places.user)
    elif case == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    found = find_hooks(places)
    assert "project" not in {str(each.source) for each in found.hooks}
    assert [problem.file for problem in found.problems] == [".orchestration/hooks.json"]


def test_a_file_of_the_user_inside_the_workspace_is_the_projects(
    places: HookPlaces, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(places.workspace))
    assert users_claude_file(places.workspace) is None
    monkeypatch.setenv("HOME", str(places.workspace.parent / "home"))
    assert users_claude_file(places.workspace) == places.claude_user


def test_an_imported_file_may_hold_anything_else(places: HookPlaces):
    text = json.dumps({"version": "x", "permissions": {}, **json.loads(document("kept"))})
    put(places.workspace / ".claude" / "settings.json", text)
    assert ("claude", "kept") in commands(places)
    assert find_hooks(places).problems == ()


class Project:
    """A project with one hook, which runs a script of the project."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.file = folder / "config" / "hook_trust.json"
        self.script = put(self.root / "tools" / "scan.sh", "exit 0\n")
        self.define("sh tools/scan.sh")

    def define(self, command: str, **more: Any) -> None:
        text = document(command, name="scan", **more)
        put(self.root / ".orchestration" / "hooks.json", text)

    @property
    def hook(self) -> KnownHook:
        (known,) = find_hooks(HookPlaces(workspace=self.root)).hooks
        return known

    def trust(self, *, folder: bool = True) -> HookTrust:
        return HookTrust(self.file, self.root, workspace_trusted=folder)

    def accept(self) -> None:
        trust = self.trust()
        trust.accept(self.hook, trust.covered(self.hook))

    @property
    def status(self) -> TrustStatus:
        return self.trust().status(self.hook)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_hook_of_the_project_is_untrusted_until_it_was_looked_at(project: Project):
    assert project.status is TrustStatus.UNTRUSTED
    project.accept()
    assert project.status is TrustStatus.TRUSTED
    assert project.file.stat().st_mode & 0o077 == 0
    elsewhere = project.trust(folder=False)
    assert elsewhere.status(project.hook) is TrustStatus.UNTRUSTED, "nor the folder"
    managed, users, imported = (
        KnownHook(source, "x", project.hook.hook)
        for source in (HookSource.MANAGED, HookSource.USER, HookSource.USER_IMPORTED)
    )
    assert elsewhere.status(managed) is TrustStatus.MANAGED
    assert elsewhere.status(users) is TrustStatus.TRUSTED
    assert elsewhere.status(imported) is TrustStatus.TRUSTED


def test_a_changed_script_is_noticed_though_the_command_is_the_same(project: Project):
    project.accept()
    project.script.write_text("exit 2\n")
    assert project.status is TrustStatus.MODIFIED
    trust = project.trust()
    (line,) = trust.difference(project.hook, trust.covered(project.hook))
    assert line.startswith("file tools/scan.sh: changed (")
    assert "tools/scan.sh" in trust.why_not(project.hook)
    project.accept()
    assert project.status is TrustStatus.TRUSTED
    project.script.write_text("exit 0\n")
    assert project.status is TrustStatus.MODIFIED, "what it was before is not trusted any more"
    project.script.unlink()
    project.accept()
    project.script.write_text("rm -rf /\n")
    assert project.status is TrustStatus.MODIFIED, "nor what was not there"


def test_any_change_makes_it_pending_again(project: Project):
    for change in ({"timeout": 5}, {"on_failure": "block"}, {"env": {"A": "b"}}):
        project.define("sh tools/scan.sh")
        project.accept()
        project.define("sh tools/scan.sh", **change)
        assert project.status is TrustStatus.MODIFIED, change
    project.define("sh tools/scan.sh tools")
    project.accept()
    assert project.status is TrustStatus.TRUSTED, "a command may name a folder"


@pytest.mark.parametrize(
    "command",
    [
        "cd tools && ./scan.sh",
        'cd "$CLAUDE_PROJECT_DIR/tools" && sh scan.sh',
        "(cd tools/sub && sh ../scan.sh)",
        'D=tools; sh "$D/scan.sh"',
        'sh "$(git rev-parse --show-toplevel)/tools/scan.sh"',
        "sh `pwd`/tools/scan.sh",
        "sh ~/{project}/tools/scan.sh",
        'sh "$HOME"/{project}/tools/scan.sh',
        "make lint",
        "cd web && npm run lint",
    ],
)
def test_a_file_is_noticed_however_the_command_names_it(
    project: Project, command: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(project.root.parent))
    (project.root / "tools" / "sub").mkdir()
    project.define(command.replace("{project}", project.root.name))
    file = {"make": "Makefile", "npm": "web/package.json"}
    name = next((file[word] for word in command.split() if word in file), "tools/scan.sh")
    put(project.root / name, "before\n")
    project.accept()
    put(project.root / name, "after\n")
    assert project.status is TrustStatus.MODIFIED


def test_a_link_is_followed_to_what_would_run(project: Project, tmp_path: Path):
    outside = put(tmp_path / "elsewhere.sh", "exit 0\n")
    project.script.unlink()
    project.script.symlink_to(outside)
    project.accept()
    outside.write_text("exit 2\n")
    assert project.status is TrustStatus.MODIFIED


def test_a_workspace_behind_a_link_is_the_same(project: Project, tmp_path: Path):
    (tmp_path / "alias").symlink_to(project.root)
    project.define(f"sh {project.root}/tools/scan.sh")
    trust = HookTrust(project.file, tmp_path / "alias", workspace_trusted=True)
    trust.accept(project.hook, trust.covered(project.hook))
    project.script.write_text("exit 2\n")
    assert trust.status(project.hook) is TrustStatus.MODIFIED


@pytest.mark.parametrize("text", ["", "[]", "{", '{"accepted": [{}]}', '{"accepted": 7}'])
def test_a_damaged_file_counts_for_nothing(project: Project, text: str):
    project.accept()
    project.file.write_text(text)
    assert project.status is TrustStatus.UNTRUSTED
    assert "no hook of the project is trusted" in project.trust().problem
    with pytest.raises(StorageError):
        project.accept()
    assert project.file.read_text() == text


def test_a_file_that_others_can_write_counts_for_nothing(project: Project):
    project.accept()
    project.file.chmod(0o666)
    assert project.status is TrustStatus.UNTRUSTED
    assert "others can write it" in project.trust().problem


def test_a_hook_that_takes_the_name_of_another_does_not_take_its_trust(project: Project):
    def found(*commands: str) -> tuple[KnownHook, ...]:
        put(project.root / ".orchestration" / "hooks.json", document(*commands))
        return find_hooks(HookPlaces(workspace=project.root)).hooks

    trust = project.trust()
    for known in (before := found("one", "two")):
        trust.accept(known, trust.covered(known), before)
    after = found("new", "one", "two")
    assert [str(trust.status(each)) for each in after] == ["modified", "trusted", "trusted"]
    trust.accept(after[0], trust.covered(after[0]), after)
    assert {trust.status(each) for each in after} == {TrustStatus.TRUSTED}


def test_accepting_one_hook_keeps_the_others(project: Project):
    project.accept()
    first = project.hook
    project.define("other")
    other = KnownHook(first.source, first.file, project.hook.hook)
    renamed = KnownHook(other.source, other.file, replace(other.hook, name="other"))
    trust = project.trust()
    trust.accept(renamed, trust.covered(renamed))
    assert trust.status(first) is TrustStatus.TRUSTED
    assert trust.status(renamed) is TrustStatus.TRUSTED
