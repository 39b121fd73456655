"""Results of edits that the model gets: new problems, formatted text, failed checks."""

import shlex
import sys
from pathlib import Path

import pytest

from llm_server import LlmServer, call, finish, say
from support.model_words import ALLOW, DONE, received, write
from support.terminal_session import Installed, at

SERVER = Path(__file__).parents[1] / "support" / "scripted_language_server.py"
UPPER = "import sys, pathlib; f = pathlib.Path(sys.argv[1]); f.write_text(f.read_text().upper())"
NEW_PROBLEM = "New problems:\na.toy:2:1: error: new [toy T1]"


def settings(rookery: Installed, text: str) -> None:
    file = rookery.home / "config" / "settings.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def language_server(*more: str) -> str:
    command = " ".join(["*.toy:", sys.executable, str(SERVER), "well", *more])
    return f'[language_servers]\nadd = ["{command}"]\nseconds = 30\nuse = "always"\n'


def python(code: str) -> str:
    """A command line that runs a piece of Python, as it stands in a settings file."""
    return f"{sys.executable} -c {shlex.quote(code)}".replace("\\", "\\\\").replace('"', '\\"')


def test_new_problems_come_with_the_result_of_the_edit(rookery: Installed):
    settings(rookery, language_server())
    (rookery.workspace / "a.toy").write_text("error: old\n")
    read, edit = call("read_file", path="a.toy"), write("a.toy", "error: old\nerror: new\n")
    with LlmServer([read], [edit], [finish()]) as server:
        done = rookery.run("-p", *at(server), "go")
    assert done.returncode == 0, done.stderr
    assert received(server.requests[2]).endswith(NEW_PROBLEM)


@pytest.mark.parametrize("trust", [(), ("--trust",)], ids=["not trusted", "trusted"])
def test_servers_and_checks_run_only_in_a_trusted_folder(fresh: Installed, trust: tuple[str, ...]):
    starts = fresh.workspace.parent / "starts"
    settings(fresh, 'checks = ["touch checked"]\n' + language_server(str(starts)))
    with LlmServer([write("a.toy", "error: new\n")], [finish()], [finish()]) as server:
        done = fresh.run("-p", "-y", *trust, *at(server), "go", ROOKERY_SANDBOX_USE="off")
    assert done.returncode == 0, done.stderr
    assert (fresh.workspace / "a.toy").exists()
    assert ("New problems" in received(server.requests[1])) is bool(trust)
    assert starts.exists() is (fresh.workspace / "checked").exists() is bool(trust)


def test_a_formatted_file_is_what_the_model_knows_and_edits_next(rookery: Installed):
    settings(rookery, f'formatters = ["*.txt: {python(UPPER)} {{file}}"]\n')
    edit = call("edit", file_path="a.txt", old_string="ONE", new_string="two")
    with LlmServer([write("a.txt", "one\n")], [edit], [finish()]) as server:
        done = rookery.run("-p", *at(server), "go")
    assert done.returncode == 0, done.stderr
    assert "-one\n+ONE" in received(server.requests[1])
    assert "-two\n+TWO" in received(server.requests[2])
    assert (rookery.workspace / "a.txt").read_text() == "TWO\n"
    rewound = rookery.run("rewind", "--to", "1", "-y")
    assert rewound.returncode == 0, rewound.stderr
    assert not (rookery.workspace / "a.txt").exists()


def test_a_formatter_can_write_no_other_file(rookery: Installed):
    (rookery.workspace / "deep").mkdir()
    (rookery.workspace / "deep" / "b.txt").write_text("mine\n")
    hostile = "open('deep/b.txt', 'w').write('theirs')"
    settings(rookery, f'formatters = ["*.txt: {python(hostile)} {{file}}"]\n')
    with LlmServer([write("deep/a.txt", "one\n")], [finish()]) as server:
        done = rookery.run("-p", *at(server), "go")
    assert "The formatter failed" in done.stderr
    assert (rookery.workspace / "deep" / "b.txt").read_text() == "mine\n"


def test_undo_covers_what_a_formatter_changed_beside_its_file(unconfined: Installed):
    (unconfined.workspace / "b.txt").write_text("mine\n")
    settings(unconfined, 'formatters = ["a.txt: echo theirs >> b.txt; echo {file}"]\n')
    with LlmServer([write("a.txt", "one\n")], [finish()]) as server:
        done = unconfined.run("-p", *at(server), "go")
    assert "others changed too; undo covers them: b.txt." in done.stderr
    assert (unconfined.workspace / "b.txt").read_text() == "mine\ntheirs\n"
    assert unconfined.run("rewind", "--to", "1", "-y").returncode == 0
    assert (unconfined.workspace / "b.txt").read_text() == "mine\n"
    assert not (unconfined.workspace / "a.txt").exists()


def test_the_model_learns_that_a_formatter_removed_the_file(unconfined: Installed):
    settings(unconfined, 'formatters = ["a.txt: rm {file}"]\n')
    with LlmServer([write("a.txt", "one\n")], [finish()]) as server:
        unconfined.run("-p", *at(server), "go")
    told = received(server.requests[1])
    assert "as you specified" not in told
    assert "a formatter or another program removed a.txt" in told


def test_a_server_that_builds_the_project_writes_only_what_it_builds(rookery: Installed):
    own = rookery.workspace / ".venv" / "bin" / "rust-analyzer"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\nmkdir -p target; echo > target/built; echo > Cargo.toml\n")
    own.chmod(0o755)
    (rookery.workspace / "Cargo.toml").write_text("mine\n")
    settings(rookery, "[language_servers]\nseconds = 60\n")
    with LlmServer([write("a.rs", "fn main() {}\n")], [finish()]) as server:
        done = rookery.run("-p", *at(server), "go")
    assert done.returncode == 0, done.stderr
    assert (rookery.workspace / "target" / "built").exists()
    assert (rookery.workspace / "Cargo.toml").read_text() == "mine\n"


def test_a_check_that_fails_since_the_work_goes_back_to_the_model_once(rookery: Installed):
    settings(rookery, 'checks = ["! grep -n bad a.txt", "cat missing"]\n')
    (rookery.workspace / "a.txt").write_text("good\n")
    edit = call("edit", file_path="a.txt", old_string="good", new_string="bad")
    read = call("read_file", path="a.txt")
    worse = call("edit", file_path="a.txt", old_string="bad", new_string="bad bad")
    with LlmServer([read], [edit], [say("Done.")], [worse], [say("It stays.")]) as server:
        done = rookery.run("-p", *at(server), "go")
    assert (done.returncode, done.stdout) == (0, "It stays.\n"), done.stderr
    assert "Some checks still fail" in done.stderr
    returned = received(server.requests[3])
    assert "`! grep -n bad a.txt` fails:\n1:bad" in returned
    assert "missing" not in returned


def test_a_check_of_a_file_is_part_of_the_result(rookery: Installed):
    settings(rookery, 'checks = ["! grep -n bad {file}"]\n')
    (rookery.workspace / "a.txt").write_text("bad\n")
    read = call("read_file", path="a.txt")
    edit = write("a.txt", "more\nbad\n")
    again = write("a.txt", "more\nbad\nbad too\n")
    with LlmServer([read], [edit], [again], [finish()]) as server:
        done = rookery.run("-p", *at(server), "go")
    assert done.returncode == 0, done.stderr
    assert "grep" not in received(server.requests[2])
    assert received(server.requests[3]).endswith("and now also says:\n3:bad too")


def test_a_projects_check_asks_once_even_if_refused(rookery: Installed):
    own = rookery.workspace / ".rookery" / "settings.toml"
    own.parent.mkdir()
    own.write_text('checks = ["touch ran"]\n')
    with (
        LlmServer([write("a.txt")], [write("b.txt")], [say("Done.")]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for("touch ran")
        terminal.wait_for(ALLOW)
        terminal.type("n")
        for file in ("a.txt", "b.txt"):
            terminal.wait_for(file)
            terminal.wait_for(ALLOW)
            terminal.type("y")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert not (rookery.workspace / "ran").exists()
