"""Which files git may show, by the words of the command."""

import shlex

from rookery.commands.git_use import shown_by_git
from rookery.engine.ports.actions import GitShown
from rookery.governance.scope.read_rules import names_repository
from support.each_row import each_row

ANYTHING = [
    *("git log -p", "git log --patch-with-stat", "git log --unknown", "git log -L1,5:open.txt"),
    *("git log --follow -p -- open.txt", "git log --full-diff -p -- open.txt"),
    *("git log -p -- '*.txt'", "git log -p -- :/", "git log $OPTIONS", "git reflog -p"),
    *("git stash list -p", "git stash list --patch", "git stash show", "git stash show -p"),
    *("git stash -p", "git stash push --patch", "git show", "git show HEAD"),
    *("git show HEAD:a.txt HEAD", "git show HEAD@{1}:a.txt", "git show :/fix", "git diff"),
    *("git diff HEAD open.txt", "git grep token HEAD", "git status -v", "git commit -v --dry-run"),
    *("git commit -F settings.ini", "git commit -ap", "git commit --pat", "git add -p"),
    *("git add -i", "git add $OPTION", "git checkout -p", "git rebase --show-current-patch"),
    *("git am --show-current-patch=diff", "git archive HEAD", "git format-patch --stdout HEAD~1"),
    *("git fast-export --all", "git bundle create all.bundle --all"),
    *("git checkout-index --temp open.txt", "git worktree add copy", "git clone . copy"),
    *("git config -f settings.ini --list", "git for-each-ref --format='%(raw)'"),
    *("git alias-of-somebody", "/usr/bin/git log -p", "./git log -p"),
    *("git --no-pager log -p", "git -c a.b=c -C src diff"),
]
NAMED = ["git log -p -- src", "git diff HEAD -- open.txt src", "git mv a b"]
NOTHING = [
    *("git", "git --version", "git log --oneline -n 5", "git log --stat -- src"),
    *("git status --short", "git stash", "git stash list", "git stash pop -q"),
    *("git stash show --stat", "git diff --stat", "git show --name-only HEAD"),
    *("git show HEAD:open.txt", "git cat-file -p HEAD:open.txt", "git branch -d old", "git add -A"),
    *("git add -- -p", "git commit -am 'a message'", 'git commit -m "$(cat x)"'),
    *("git commit --message=x --amend", "git commit -F -", "git push -u origin main"),
    *("git pull --rebase", "git rebase --continue", "git apply -p1 x.patch"),
    *("git clone https://example.com/a.git", "git ls-files -m", "grep -p x"),
]


@each_row(
    ("shown", "command"),
    [
        *((GitShown.ANYTHING, command) for command in ANYTHING),
        *((GitShown.NAMED, command) for command in NAMED),
        *((GitShown.NOTHING, command) for command in NOTHING),
    ],
)
def test_git_commands_that_show_file_contents_are_recognised(shown: GitShown, command: str):
    assert shown_by_git(shlex.split(command)) is shown


@each_row(
    ("command", "other"),
    [("git --git-dir=x log -p", True), ("git --work-tree x diff", True), ("git log -p", False)],
)
def test_options_that_name_another_repository_are_recognised(command: str, other: bool):
    assert names_repository(shlex.split(command)) is other
