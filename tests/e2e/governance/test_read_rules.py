"""Permission rules about reading hold for every way to read a file."""

import shutil

import pytest

from llm_server import call
from rookery.core.facts import Asked
from rookery.sandbox.layers import PROGRAMS
from support.governed_session import FILE, Governed, choose, intents, patch, read, run, wait, write
from support.hostile_repositories import git

from .test_hooks import hooked, script

SECRET = "TOKEN_IN_THE_FILE"
RULES = 'permissions: {deny: ["Read(settings.ini)", "Read(vault/**)"], ask: ["Read(notes/**)"]}'

hides_files = pytest.mark.skipif(
    not shutil.which("bwrap", path=PROGRAMS),
    reason="bubblewrap is not installed; Landlock alone cannot hide files of the workspace",
)


@pytest.fixture
def guarded(governed: Governed) -> Governed:
    governed.put(FILE, intents(more=RULES))
    governed.put("settings.ini", f"{SECRET}\n")
    governed.put("vault/keys.py", f"def {SECRET}(): ...\n")
    governed.put("notes/today.txt", "dear diary\n")
    governed.put("open.txt", "public\n")
    return governed


def test_a_denied_file_is_not_read_in_any_way(guarded: Governed):
    readings = [
        read("settings.ini"),
        read("vault/keys.py"),
        call("list_code_definition_names", path="vault/keys.py"),
        run("cat settings.ini"),
        run("head -1 < settings.ini"),
        run("cat open.txt && cat ./vault/../settings.ini"),
        run("grep -r TOKEN ."),
        run("cp settings.ini copy.txt"),
        run("mv settings.ini copy.txt"),
        run("mv vault open-vault"),
        run("bash -c 'cat settings.ini'"),
    ]
    told = guarded.play([choose()], *([each] for each in readings))
    assert told.codes == ["", *["CMD-001"] * len(readings)]
    assert told.questions == []
    assert SECRET not in "".join(told.requests)


def test_git_prints_no_denied_file_that_it_tracks(guarded: Governed):
    git(guarded.root, "init", "-q")
    git(guarded.root, "add", "-A")
    git(guarded.root, "commit", "-qm", "all")
    denied = [
        "git log -p",
        "git show HEAD",
        "git --no-pager show",
        "git diff 4b825dc642cb6eb9a060e54bf8d69288fbee4904 HEAD",
        "git log -p -- vault",
        "git cat-file -p 1234567",
        "git stash show -p",
        "git stash list -p",
        "git archive HEAD",
        "git log --some-option",
        "cd notes && git log -p",
        "git --git-dir=.git log -p",
        "GIT_DIR=.git git log -p",
        "git mv vault open",
    ]
    allowed = [
        "git log --oneline",
        "git stash list",
        "git diff --stat",
        "git show HEAD:open.txt",
        "git diff HEAD -- open.txt",
    ]
    told = guarded.play([choose()], *([run(each)] for each in denied + allowed))
    assert told.codes == ["", *["CMD-001"] * len(denied), *[""] * len(allowed)]
    assert SECRET not in "".join(told.requests)


def test_git_prints_no_denied_file_that_only_old_commits_hold(guarded: Governed):
    git(guarded.root, "init", "-q")
    git(guarded.root, "add", "-A")
    git(guarded.root, "commit", "-qm", "all")
    git(guarded.root, "rm", "-rq", "--cached", "vault", "settings.ini")
    git(guarded.root, "commit", "-qm", "fewer")
    commands = ["git log -p", "git show HEAD~1", "git log -p -- vault"]
    told = guarded.play([choose()], *([run(each)] for each in commands))
    assert told.codes == ["", "CMD-001", "CMD-001", "CMD-001"]
    assert SECRET not in "".join(told.requests)


def test_git_reads_no_denied_file_that_it_does_not_track(guarded: Governed):
    git(guarded.root, "init", "-q")
    git(guarded.root, "add", "open.txt")
    git(guarded.root, "commit", "-qm", "one")
    told = guarded.play(
        [choose()], [run("git commit --allow-empty -F settings.ini")], flags=("-y",)
    )
    assert told.code(1) == "CMD-001"


def test_git_may_print_changes_if_no_denied_file_is_tracked(guarded: Governed):
    git(guarded.root, "init", "-q")
    git(guarded.root, "add", "open.txt")
    git(guarded.root, "commit", "-qm", "one")
    told = guarded.play([choose()], [run("git show HEAD")], flags=("-y",))
    assert told.code(1) == ""
    assert "+public" in told.results[1]


def test_folders_are_listed_and_searched_without_what_is_denied(guarded: Governed):
    told = guarded.play(
        [choose()],
        [call("search_files", path=".", regex="TOKEN|public", file_pattern=None)],
        [call("list_files", path=".", recursive=True)],
        [call("list_code_definition_names", path=".")],
        [call("search_files", path="vault", regex="TOKEN", file_pattern=None)],
        [call("list_files", path="vault", recursive=False)],
    )
    assert told.codes == [""] * 6
    assert "public" in told.results[1]
    assert "settings.ini" not in told.results[2]
    assert "keys.py" not in told.results[5]
    assert SECRET not in "".join(told.requests)


def test_a_hard_link_does_not_show_a_denied_file(guarded: Governed):
    link_denied_files(guarded)
    told = guarded.play(
        [choose()],
        [read("linked.txt")],
        [call("list_code_definition_names", path="linked.py")],
        [run("cat linked.txt")],
        [run("cat to_linked.txt")],
        [run("grep -r TOKEN deep")],
    )
    assert told.codes == ["", *["CMD-001"] * 5]
    assert SECRET not in "".join(told.requests)


def test_folders_are_searched_without_hard_links_to_denied_files(guarded: Governed):
    link_denied_files(guarded)
    (guarded.root / "open_too.txt").hardlink_to(guarded.root / "open.txt")
    told = guarded.play(
        [choose()],
        [call("search_files", path=".", regex="TOKEN|public", file_pattern=None)],
        [call("list_code_definition_names", path=".")],
        [call("list_files", path=".", recursive=True)],
        [read("open_too.txt")],
        [wait()],
        book=["message look at @/linked.txt"],
    )
    assert "public" in told.results[1]
    assert "linked" not in told.results[3]
    assert "public" in told.results[4]
    assert SECRET not in "".join(told.requests)


@hides_files
def test_the_sandbox_hides_hard_links_to_denied_files(guarded: Governed):
    link_denied_files(guarded)
    guarded.put(FILE, intents(policy="commands: {sandbox: auto}", more=RULES))
    told = guarded.play([choose()], [run("python3 -c 'print(*open(\"linked.txt\"))'")])
    assert SECRET not in "".join(told.requests)


def link_denied_files(guarded: Governed) -> None:
    guarded.put("deep/open.txt", "public\n")
    (guarded.root / "linked.txt").hardlink_to(guarded.root / "settings.ini")
    (guarded.root / "to_linked.txt").symlink_to("linked.txt")
    (guarded.root / "deep/linked.txt").hardlink_to(guarded.root / "settings.ini")
    (guarded.root / "linked.py").hardlink_to(guarded.root / "vault/keys.py")


def test_what_a_rule_asks_about_is_read_once_somebody_agrees(guarded: Governed):
    told = guarded.play(
        [choose()], [read("notes/today.txt")], [read("notes/today.txt")], book=["no", "yes"]
    )
    assert told.code(1) == "CMD-001"
    assert "dear diary" in told.results[2]
    assert len(told.questions) == 2


def test_a_mention_attaches_nothing_that_is_denied(guarded: Governed):
    book = ["message look at @/settings.ini and @/open.txt"]
    told = guarded.play([choose()], [wait()], [read("open.txt")], book=book)
    assert SECRET not in "".join(told.requests)
    assert "about reading applies: Read(settings.ini)" in told.requests[2]
    assert "public" in told.requests[2]


@hides_files
def test_the_sandbox_shows_no_command_what_is_denied(guarded: Governed):
    policy = "commands: {sandbox: auto}"
    guarded.put(FILE, intents(policy=policy, more=RULES))
    told = guarded.play([choose()], [run("python3 -c 'print(*open(\"settings.ini\"))'")])
    assert SECRET not in "".join(told.requests)


def test_rules_about_reading_hold_only_under_their_intent(guarded: Governed):
    told = guarded.play([read("settings.ini")])
    assert SECRET in told.results[0]


def test_an_edit_of_a_stale_file_does_not_show_what_a_rule_keeps_from_the_agent(
    governed: Governed,
):
    governed.put(FILE, intents(more='permissions: {deny: ["Read(src/auth/own.py)"]}'))

    def somebody_adds(asked: Asked) -> str:
        governed.put("src/auth/own.py", f"a\nb\nc\nd\n{SECRET}\n")
        return "message Go on"

    told = governed.play(
        [choose()],
        [write("src/auth/own.py", "a\nb\nc\nd\n")],
        [wait()],
        [call("edit", file_path="src/auth/own.py", old_string="a\n", new_string="A\n")],
        book=[somebody_adds],
    )
    assert told.codes == ["", "", "", "REQ-007"]
    assert SECRET not in "".join(told.requests)


OWN = "src/auth/own.py"
LINES = ("first = 1", "second = 2", f"third = '{SECRET}'", "fourth = 4")
NEARLY = f"second = 2\nthird = '{SECRET[:-1]}'\nfourth = 4"


def blocks(*pairs: tuple[str, str]) -> str:
    parts = [f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n" for old, new in pairs]
    return "".join(parts)


def quoted(tool: str, old: str, new: str) -> object:
    return call(tool, file_path=OWN, old_string=old, new_string=new)


def hunk(old: str, new: str) -> object:
    removed = [f"-{line}" for line in old.splitlines()]
    return patch(f"*** Update File: {OWN}", "@@", *removed, f"+{new}")


@pytest.fixture
def own(governed: Governed) -> Governed:
    """A file that the agent may change, but not read."""
    governed.put(FILE, intents(more=f'permissions: {{deny: ["Read({OWN})"]}}'))
    governed.put(OWN, "".join(f"{line}\n" for line in LINES))
    return governed


def test_an_edit_that_does_not_fit_shows_nothing_of_a_denied_file(own: Governed):
    edits = [
        call("apply_diff", path=OWN, diff=blocks((NEARLY, "x"))),
        call("apply_diff", path=OWN, diff=blocks(("first = 1", "first = 0"), (NEARLY, "x"))),
        quoted("edit", NEARLY, "x"),
        quoted("edit", " = ", "x"),
        quoted("edit_file", NEARLY, "x"),
        quoted("search_replace", NEARLY, "x"),
        hunk(NEARLY, "x"),
        patch(f"*** Update File: {OWN}", "*** Move to: src/auth/open.py", "@@", "-first = 1"),
        write(OWN),
    ]
    told = own.play([choose()], *([each] for each in edits))
    assert {*told.codes[1:]} <= {"CMD-001", "REQ-007"}
    assert len(told.codes) == 1 + len(edits)
    assert SECRET not in "".join(told.requests)


@pytest.mark.parametrize(
    "edit",
    [
        call("apply_diff", path=OWN, diff=blocks(("second = 2", "second = 0"))),
        quoted("edit", "second = 2", "second = 0"),
        quoted("edit_file", "second = 2", "second = 0"),
        quoted("search_replace", "second = 2", "second = 0"),
        hunk("second = 2", "second = 0"),
    ],
    ids=lambda made: str(made)[:60],
)
def test_what_a_formatter_does_to_a_denied_file_is_not_shown(own: Governed, edit: object):
    formats = script(own, "format.sh", f"sed -i 's/ = /=/' {OWN}\n")
    hooked(own, formats, event="PostToolUse", matcher="Edit")
    told = own.play([choose()], [edit], flags=("-y",))
    assert told.code(1) == ""
    assert f"third='{SECRET}'" in (own.root / OWN).read_text(encoding="utf-8")
    assert SECRET not in "".join(told.requests)
