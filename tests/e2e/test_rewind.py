"""Undoing a run: its files, byte for byte, and its conversation."""

import json
import re
from pathlib import Path

import pytest

from llm_server import LlmServer, call, finish
from support.model_words import DONE, shell
from support.terminal_session import CTRL_C, Installed, at

RUN = "rm gone.bin; echo more >> run.sh; chmod 600 run.sh; mkdir -p deep/er; echo c > deep/er/c.txt"
WORK = f"""
- calls: [{{tool: read_file, arguments: {{path: a.txt}}}}]
- calls: [{{tool: edit, arguments: {{file_path: a.txt, old_string: one, new_string: two}}}}]
- calls: [{{tool: write_to_file, arguments: {{path: new/b.txt, content: hi}}}}]
- calls: [{{tool: execute_command, arguments: {{command: "{RUN}"}}}}]
- calls: [{{tool: attempt_completion, arguments: {{result: Worked.}}}}]
"""

State = dict[str, tuple[int, bytes]]


@pytest.fixture
def files(rookery: Installed) -> State:
    return laid_out(rookery)


@pytest.fixture
def worked(rookery: Installed, files: State) -> State:
    return at_work(rookery, files)


def laid_out(rookery: Installed) -> State:
    """The files and their modes before the run."""
    work = rookery.workspace
    (work / "a.txt").write_bytes(b"one\r\nno newline at the end")
    (work / "gone.bin").write_bytes(bytes(range(256)))
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o750)
    (work / "untouched.txt").write_text("the user's own\n")
    return state(work)


def at_work(rookery: Installed, files: State) -> State:
    """The files after the run."""
    done = rookery.run("-p", *rookery.script(WORK), "go")
    assert (done.returncode, done.stdout) == (0, "Worked.\n"), done.stderr
    after = state(rookery.workspace)
    assert after.keys() - files.keys() == {"new", "new/b.txt", "deep", "deep/er", "deep/er/c.txt"}
    assert files.keys() - after.keys() == {"gone.bin"}
    assert (after["run.sh"][0] & 0o777, after["run.sh"][1]) == (0o600, b"#!/bin/sh\nmore\n")
    return after


def state(root: Path) -> State:
    return {
        str(path.relative_to(root)): (
            path.stat().st_mode,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in root.rglob("*")
    }


def rewound(rookery: Installed, *arguments: str) -> str:
    done = rookery.run("rewind", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def points(rookery: Installed) -> list[tuple[int, str]]:
    """The points that are listed, and what came next at each."""
    rows = re.findall(r"^ *(\d+)  +just now  (.*)$", rewound(rookery), re.MULTILINE)
    return [(int(number), what.strip()) for number, what in rows]


def way_back(reported: str) -> list[str]:
    """The command to undo a rewind, as printed."""
    (command,) = re.findall(r"^Done\. To undo this: rookery rewind (.*)$", reported, re.MULTILINE)
    return str(command).split()


def received(rookery: Installed, *words: str) -> str:
    """The request after the session continues, without the list of files."""
    with LlmServer([finish("Heard.")]) as server:
        at = ["--provider", "anthropic", "-m", "claude-x", "--base-url", server.url]
        done = rookery.run("-p", "-c", *at, *words)
        assert (done.returncode, done.stdout) == (0, "Heard.\n"), done.stderr
        sent = json.dumps(server.requests[0].body["messages"])
        return re.sub("<environment_details>.*?</environment_details>", "", sent)


def test_points_are_listed_and_a_rewind_can_be_undone(
    rookery: Installed, files: State, worked: State
):
    listed = points(rookery)
    assert [what for _, what in listed] == [
        "you go",
        "±     Edit a.txt",
        "±     Create new/b.txt",
        f"±     Run {RUN}"[: len("±     ") + 89] + "…",
    ]
    words, count, *rows = rewound(rookery, "--last", "--dry-run").splitlines()
    assert words == f"The conversation will be rewound to {listed[-1][0]}: 1 step undone."
    assert count == "3 files to restore."
    assert sorted(rows) == [
        "  change    run.sh",
        "  create    gone.bin",
        "  remove    deep/er/c.txt",
    ]
    assert state(rookery.workspace) == worked
    assert points(rookery) == listed
    reported = rewound(rookery, "--to", "1", "-y")
    assert "3 steps undone.\n" in reported
    assert state(rookery.workspace) == files
    again = rewound(rookery, *way_back(reported), "-y")
    assert state(rookery.workspace) == worked
    rewound(rookery, *way_back(again), "-y")
    assert state(rookery.workspace) == files
    rewound(rookery, *way_back(reported), "-y")
    assert "new/b.txt" in received(rookery, "and now?")


def test_files_changed_meanwhile_are_listed_and_kept(
    rookery: Installed, files: State, worked: State
):
    work = rookery.workspace
    (work / "a.txt").write_text("mine\n")
    (work / "new" / "mine.txt").write_text("mine\n")
    reported = rewound(rookery, "--to", "1", "-y")
    kept = "Skipped, because someone else changed them (--overwrite restores them too):\n"
    assert kept + "  a.txt\n" in reported
    assert (work / "a.txt").read_text() == "mine\n"
    assert (work / "new" / "mine.txt").read_text() == "mine\n"
    assert not (work / "new" / "b.txt").exists()
    reported = rewound(rookery, "--to", "1", "--overwrite", "-y")
    assert "  change    a.txt\n" in reported
    assert (work / "new" / "mine.txt").read_text() == "mine\n"
    now = state(work)
    assert {name: now[name] for name in files} == files
    rewound(rookery, *way_back(reported), "-y")
    assert (work / "a.txt").read_text() == "mine\n"


REFUSED = {
    "--to 999 -y": "No such event: 999. The events are 1 to ",
    "--to 0 -y": "No such event: 0. The events are 1 to ",
    "--to -3 -y": "No such event: -3. The events are 1 to ",
    "--to soon": "Invalid value for '--to': 'soon' is not a valid integer.",
    "--to 1 --last": "Give --to or --last, not both.",
    "--files --conversation": "Give --files or --conversation, not both",
    "00000000": "No session begins with 00000000. See rookery list",
    "--to 1": "Not interactive: use -y to approve, or --dry-run to look.",
}


def test_impossible_or_unconfirmed_rewinds_change_nothing(
    rookery: Installed, files: State, worked: State
):
    for arguments, sentence in REFUSED.items():
        done = rookery.run("rewind", *arguments.split())
        assert done.returncode == 2, arguments
        assert done.stderr.startswith(f"Error: {sentence}"), arguments
        assert done.stderr.count("\n") == 1, arguments
    assert state(rookery.workspace) == worked
    for answer, code in ((b"\r", 1), (CTRL_C, 130), (b"y\r", 0)):
        with rookery.terminal("rewind", "--to", "1") as terminal:
            assert "  create    gone.bin\n" in terminal.wait_for("Rewind? [y/N] ")
            assert state(rookery.workspace) == worked
            terminal.wait_until_it_listens()
            terminal.press(answer)
            assert terminal.exit_code() == code
        assert state(rookery.workspace) == (worked if code else files)


def test_a_user_can_undo_changes_before_accepting_the_result(rookery: Installed, files: State):
    with LlmServer(
        [call("read_file", path="a.txt")],
        [call("edit", file_path="a.txt", old_string="one", new_string="two")],
        [shell(RUN)],
        [finish("First.")],
        [finish("Second.")],
    ) as server:
        with rookery.terminal("-y", *at(server), "go") as terminal:
            terminal.wait_for("✔ First.\nauto · " + DONE)
            worked = state(rookery.workspace)
            terminal.type("/undo")
            asked = terminal.wait_for("Rewind the conversation and the files? [y/N] ")
            assert "2 files restored:\n  ← gone.bin\n  ← run.sh\n1 file removed:" in asked
            terminal.type("n")
            terminal.wait_for("Nothing was rewound.\nauto · " + DONE)
            assert state(rookery.workspace) == worked
            terminal.type("/undo")
            terminal.wait_for("Rewind the conversation and the files? [y/N] ")
            terminal.type("y")
            assert "Done." not in terminal.wait_for("Restored 3 files")
            terminal.wait_for("The conversation was rewound to ")
            now = state(rookery.workspace)
            assert now["a.txt"] != files["a.txt"]
            assert {name: now[name] for name in files if name != "a.txt"} == {
                name: version for name, version in files.items() if name != "a.txt"
            }
            terminal.wait_for("Continue? [Y/n, or say what to do instead] ")
            terminal.type("do without it")
            terminal.wait_for("✔ Second.\nauto · " + DONE)
            terminal.type("")
            assert terminal.exit_code() == 0
        sent = json.dumps(server.requests[-1].body["messages"])
        assert "do without it" in sent
        assert "First." not in sent
        assert "The user has undone this call. These files are again as they were" in sent
        assert "deep/er/c.txt, gone.bin, run.sh" in sent
        assert "This call was not run" not in sent


TESTED = """
- calls: [{tool: write_to_file, arguments: {path: a.txt, content: "one\\n"}}]
- calls: [{tool: execute_command, arguments: {command: "./tests"}}]
- calls: [{tool: write_to_file, arguments: {path: b.txt, content: "two\\n"}}]
- calls: [{tool: execute_command, arguments: {command: "./tests"}}]
- calls: [{tool: attempt_completion, arguments: {result: Worked.}}]
"""
TESTS = """#!/bin/sh
mkdir -p .cache/v out
echo '*' > .cache/.gitignore
date +%N > .cache/v/$$
date +%N > out/$$.log
"""


@pytest.fixture
def with_tests(tmp_path: Path) -> Installed:
    """A project whose tests write only ignored files, some below a folder that is not."""
    made = Installed(tmp_path)
    (made.workspace / ".gitignore").write_text("*.log\n")
    (made.workspace / "tests").write_text(TESTS)
    (made.workspace / "tests").chmod(0o755)
    return made


def written(rookery: Installed) -> set[str]:
    return {name for name in ("a.txt", "b.txt") if (rookery.workspace / name).exists()}


def test_undo_skips_commands_that_wrote_only_ignored_files(with_tests: Installed):
    assert with_tests.run("-p", *with_tests.script(TESTED), "go").returncode == 0
    assert "Restored 1 file: b.txt.\n" in rewound(with_tests, "--last", "-y")
    assert written(with_tests) == {"a.txt"}
    assert "Restored 1 file: a.txt.\n" in rewound(with_tests, "--last", "-y")
    assert written(with_tests) == set()
    done = with_tests.run("rewind", "--last", "-y")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No step is left that changed files." in done.stderr
    assert (with_tests.workspace / "out").is_dir()


HIDING = """
- calls: [{tool: write_to_file, arguments: {path: .gitignore, content: "src/\\n"}}]
- calls: [{tool: execute_command, arguments: {command: "rm -r src keep.log"}}]
- calls: [{tool: execute_command, arguments: {command: "head -c 30000000 /dev/zero > README.md"}}]
- calls: [{tool: execute_command, arguments: {command: "rm large.bin"}}]
- calls: [{tool: attempt_completion, arguments: {result: Worked.}}]
"""


def test_files_the_run_tries_to_hide_can_be_restored(rookery: Installed):
    work = rookery.workspace
    for path in ("src/a.py", "README.md", "keep.log"):
        (work / path).parent.mkdir(exist_ok=True)
        (work / path).write_text("mine\n")
    with (work / "large.bin").open("wb") as file:
        file.truncate(21 * 1024 * 1024)
    before = state(work)
    done = rookery.run("-p", *rookery.script(HIDING), "go")
    assert (done.returncode, done.stdout) == (0, "Worked.\n"), done.stderr
    reported = rewound(rookery, "--to", "1", "--files", "-y")
    after = state(work)
    del before["large.bin"]
    assert after == before
    assert (
        "could not be saved (too large, or not files) and stay as they are: large.bin" in reported
    )
    assert "README.md to " in reported
