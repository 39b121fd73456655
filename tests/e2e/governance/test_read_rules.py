"""Permission rules about reading hold for every way to read a file."""

import shutil

import pytest

from llm_server import call
from rookery.core.facts import Asked
from rookery.sandbox.layers import PROGRAMS
from support.governed_session import (
    FILE,
    Governed,
    Row,
    choose,
    intents,
    patch,
    read,
    run,
    wait,
    write,
)
from support.hostile_repositories import git

from .test_hooks import hooked, script

SECRET = "TOKEN_IN_THE_FILE"
RULES = 'permissions: {deny: ["Read(settings.ini)", "Read(vault/**)"], ask: ["Read(notes/**)"]}'
DENIED = "CMD-001"

hides_files = pytest.mark.skipif(
    not shutil.which("bwrap", path=PROGRAMS),
    reason="bubblewrap is not installed; Landlock alone cannot hide files of the workspace",
)


@pytest.fixture
def guarded(governed: Governed) -> Governed:
    """Files that must not be read, and one that is asked about."""
    governed.put(FILE, intents(more=RULES))
    governed.put("settings.ini", f"{SECRET}\n")
    governed.put("vault/keys.py", f"def {SECRET}(): ...\n")
    governed.put("notes/today.txt", "dear diary\n")
    governed.put("open.txt", "public\n")
    return governed


def link_denied_files(governed: Governed) -> None:
    """Hard links are other names of the same files."""
    governed.put("deep/open.txt", "public\n")
    for name, target in {
        "linked.txt": "settings.ini",
        "deep/linked.txt": "settings.ini",
        "linked.py": "vault/keys.py",
        "open_too.txt": "open.txt",
    }.items():
        (governed.root / name).hardlink_to(governed.root / target)
    (governed.root / "to_linked.txt").symlink_to("linked.txt")


def test_a_denied_file_cannot_be_read(guarded: Governed):
    link_denied_files(guarded)
    refused = [
        read("settings.ini"),
        read("vault/keys.py"),
        read("linked.txt"),
        call("list_code_definition_names", path="vault/keys.py"),
        call("list_code_definition_names", path="linked.py"),
        run("cat settings.ini"),
        run("grep -r TOKEN ."),
    ]
    whole = {"path": ".", "file_pattern": None}
    reported, _ = guarded.play_rows(
        {
            **{f"denied {number}": Row(each, "", DENIED) for number, each in enumerate(refused)},
            "no": Row(read("notes/today.txt"), "no", DENIED),
            "yes": Row(call("read_file", path="notes/today.txt", offset=1), "yes"),
            "searched": Row(call("search_files", regex="TOKEN|public", **whole)),
            "listed": Row(call("list_files", path=".", recursive=True)),
            "definitions": Row(call("list_code_definition_names", path=".")),
            "searched below": Row(call("search_files", **{**whole, "path": "vault"}, regex="TOK")),
            "listed below": Row(call("list_files", path="vault", recursive=False)),
            "two open names": Row(read("open_too.txt")),
            "mentioned": Row(wait(), "message look at @/settings.ini @/linked.txt @/open.txt"),
        }
    )
    yes, searched, listed, _, _, below, open_too, _ = reported.results[-8:]
    assert "dear diary" in yes
    assert "public" in searched
    assert not any(name in listed for name in ("settings.ini", "linked"))
    assert "keys.py" not in below
    assert "public" in open_too
    assert "about reading applies: Read(settings.ini)" in reported.requests[-1]
    assert "public" in reported.requests[-1].rpartition("look at")[2]
    assert SECRET not in "".join(reported.requests)


def test_git_does_not_print_denied_files(guarded: Governed):
    """Which commands that are is in tests/governance/scope/test_read_rules.py."""
    link_denied_files(guarded)
    git(guarded.root, "init", "-q")
    git(guarded.root, "add", "open.txt")
    git(guarded.root, "commit", "-qm", "one")

    def tracks_a_link(_: Asked) -> str:
        git(guarded.root, "add", "linked.txt")
        git(guarded.root, "commit", "-qm", "two")
        return "message It is tracked as linked.txt."

    reported, _ = guarded.play_rows(
        {
            "nothing denied": Row(run("git show HEAD")),
            "linked": Row(wait(), tracks_a_link),
            "named": Row(run("git show HEAD:linked.txt"), "", DENIED),
            "all": Row(run("git log -p"), "", DENIED),
        }
    )
    assert "+public" in reported.results[1]
    assert SECRET not in "".join(reported.requests)


@hides_files
def test_the_sandbox_hides_denied_files_from_commands(guarded: Governed):
    link_denied_files(guarded)
    guarded.put(FILE, intents(policy="commands: {sandbox: auto}", more=RULES))
    names = '"open_too.txt", "settings.ini", "linked.txt"'
    script = f"for name in ({names}):\n  try: print(*open(name))\n  except OSError: pass"
    guarded.put("src/auth/reads.py", script)
    reported = guarded.play([choose()], [run("python3 -SE src/auth/reads.py")])
    assert "public" in reported.results[1]
    assert SECRET not in "".join(reported.requests)


def test_read_rules_apply_only_under_their_intent(guarded: Governed):
    reported = guarded.play([read("settings.ini")])
    assert SECRET in reported.results[0]


OWN = "src/auth/own.py"
LINES = ("first = 1", "second = 2", f"third = '{SECRET}'", "fourth = 4")
NEARLY = f"second = 2\nthird = '{SECRET[:-1]}'\nfourth = 4"


def blocks(*pairs: tuple[str, str]) -> str:
    parts = [f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n" for old, new in pairs]
    return "".join(parts)


def quoted(tool: str, old: str, new: str, path: str = OWN) -> object:
    return call(tool, file_path=path, old_string=old, new_string=new)


def hunk(old: str, new: str, path: str = OWN) -> object:
    removed = [f"-{line}" for line in old.splitlines()]
    return patch(f"*** Update File: {path}", "@@", *removed, f"+{new}")


def test_an_edit_reveals_nothing_of_a_file_that_may_not_be_read(governed: Governed):
    governed.put(FILE, intents(more='permissions: {deny: ["Read(src/auth/own*)"]}'))
    files = [f"src/auth/own_{number}.py" for number in range(5)]
    for path in (OWN, *files):
        governed.put(path, "".join(f"{line}\n" for line in LINES))
    formats = "for f in src/auth/own_*.py; do sed -i 's/ = /=/' $f; done\n"
    hooked(governed, script(governed, "format.sh", formats), event="PostToolUse", matcher="Edit")
    old, new = "second = 2", "second = 0"
    do_not_fit = [
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
    formatted = [
        call("apply_diff", path=files[0], diff=blocks((old, new))),
        quoted("edit", "second=2", new, files[1]),
        quoted("edit_file", "second=2", new, files[2]),
        quoted("search_replace", "second=2", new, files[3]),
        hunk("second=2", new, files[4]),
    ]

    def user_adds(asked: Asked) -> str:
        governed.put("src/auth/own_new.py", f"a\nb\nc\nd\n{SECRET}\n")
        return "message Go on"

    reported = governed.play(
        [choose()],
        *([each] for each in (*do_not_fit, *formatted)),
        [write("src/auth/own_new.py", "a\nb\nc\nd\n")],
        [wait()],
        [quoted("edit", "a\n", "A\n", "src/auth/own_new.py")],
        book=[user_adds],
    )
    count = len(do_not_fit)
    assert {*reported.codes[1 : count + 1]} <= {DENIED, "REQ-007"}
    assert reported.codes[count + 1 :] == ["", "", "", "", "", "", "", "REQ-007"]
    for path in files:
        assert governed.text(path) == f"first=1\nsecond=0\nthird='{SECRET}'\nfourth=4\n", path
    assert SECRET not in "".join(reported.requests)
