"""Which commands read a file that an intent may not read. What git prints by which command is in
tests/commands/test_git_contents.py."""

from pathlib import Path

import pytest

from rookery.app.command_parts import check_judge
from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.core.settings import Settings
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.governance.intents.intent import IntentPermissions
from rookery.governance.layout import Layout
from rookery.governance.scope.read_rules import reading_verdict
from rookery.platform.user_folders import find_places
from support.each_row import each_row
from support.hostile_repositories import git

RULES = IntentPermissions(deny=("Read(settings.ini)", "Read(vault/**)"), ask=("Read(notes/**)",))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with files that must not be read, some of them in old commits only."""
    root = tmp_path_factory.mktemp("work").resolve()
    files = ("settings.ini", "vault/keys.py", "notes/today.txt", "deep/open.txt", "open.txt")
    for name in (*files, "old/keys.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"{name}\n", encoding="utf-8")
    for name in ("linked.txt", "deep/linked.txt"):
        (root / name).hardlink_to(root / "settings.ini")
    (root / "to_linked.txt").symlink_to("linked.txt")
    git(root, "init", "-q")
    git(root, "add", *files[1:])
    git(root, "commit", "-qm", "all")
    git(root, "rm", "-rq", "--cached", "vault")
    git(root, "commit", "-qm", "fewer")
    return root


async def _not_run(permit: Permit) -> Outcome:
    raise AssertionError


def verdict(root: Path, line: str, rules: IntentPermissions = RULES) -> Decision:
    judge = check_judge(Settings(), root, find_places({"HOME": str(root.parent)}))
    action = Action(title=line, perform=_not_run, command=line, judgement=judge(line, ""))
    call = ToolCall(id="c", name="execute_command", arguments={"command": line})
    return reading_verdict(rules, call, action, Layout(root, root))[0]


DENIED = [
    "cat settings.ini",
    "head -1 < settings.ini",
    "cat open.txt && cat ./vault/../settings.ini",
    "grep -r TOKEN .",
    "grep -r TOKEN deep",
    "cp settings.ini copy.txt",
    "mv settings.ini copy.txt",
    "mv vault open-vault",
    "bash -c 'cat settings.ini'",
    "cat linked.txt",
    "cat to_linked.txt",
    "git log -p",
    "git log -p -- vault",
    "git show HEAD",
    "git show HEAD~1",
    "git cat-file -p 1234567",
    "cd notes && git log -p",
    "git --git-dir=.git log -p",
    "GIT_DIR=.git git log -p",
    "git mv vault open",
    "git commit --allow-empty -F settings.ini",
]
OTHERS = {
    "cat notes/today.txt": Decision.ASK,
    "cat open.txt": Decision.NONE,
    "git log --oneline": Decision.NONE,
    "git show HEAD:open.txt": Decision.NONE,
    "git diff HEAD -- open.txt": Decision.NONE,
}


@each_row(("line", "decision"), [*((line, Decision.DENY) for line in DENIED), *OTHERS.items()])
def test_a_command_is_judged_by_all_that_it_reads(root: Path, line: str, decision: Decision):
    assert verdict(root, line) is decision


def test_a_file_that_git_tracks_by_another_name_is_denied(root: Path):
    linked = IntentPermissions(deny=("Read(linked.txt)",))
    for line in ("cat settings.ini", "cat deep/linked.txt"):
        assert verdict(root, line, linked) is Decision.DENY
