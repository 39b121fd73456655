"""A command that tests start warm behaves like one that is started normally."""

import os
import re
import signal
from pathlib import Path

import pytest

from support.terminal_session import COMMAND, Installed, TerminalSession
from support.warm_start import needs_plain_start

ANSWER = "- calls: [{tool: attempt_completion, arguments: {result: Grüße.}}]\n"
WAYS = {
    "a result": ["-p", "--output-format", "json", "--provider", "scripted", "-m", "s.yaml", "go"],
    "a mistake": ["--contniue"],
    "another folder": ["settings", "-w", ".."],
}


@pytest.mark.parametrize("arguments", WAYS.values(), ids=WAYS.keys())
def test_a_warm_start_prints_and_ends_like_a_plain_start(tmp_path: Path, arguments: list[str]):
    said = []
    for way in ("started-warm", "started-plainly"):
        (tmp_path / way).mkdir()
        rookery = Installed(tmp_path / way)
        (rookery.workspace / "s.yaml").write_text(ANSWER, encoding="utf-8")
        if way == "started-warm":
            done = rookery.run(*arguments)
        else:
            done = rookery.run(*arguments, PYTHONHASHSEED="1")
        said.append((done.returncode, _shape(done.stdout, way), _shape(done.stderr, way)))
    assert said[0] == said[1]


def _shape(text: str, way: str) -> str:
    """The text without times, ids and folder names, which differ each time."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d[\d.]*", "0", text.replace(way, ""))


def test_a_terminal_is_its_own_and_a_kill_is_reported(tmp_path: Path):
    rookery = Installed(tmp_path)
    with rookery.terminal(*rookery.script(ANSWER), "go") as terminal:
        terminal.wait_for("[Enter accepts")
        assert os.getsid(terminal.process.pid) == terminal.process.pid
        terminal.process.kill()
        assert terminal.process.wait(60) == -signal.SIGKILL
        assert not Path(f"/proc/{terminal.process.pid}").exists()


def test_it_has_only_what_it_was_given(tmp_path: Path):
    rookery = Installed(tmp_path)
    script = rookery.script(ANSWER)
    seen = []
    for command in ([COMMAND], ["/usr/bin/env", COMMAND]):
        with TerminalSession(
            [*command, "--no-tui", *script, "go"], cwd=rookery.workspace, environ=rookery.environ
        ) as terminal:
            terminal.wait_for("[Enter accepts")
            terminal.wait_until_it_listens()
            own = Path(f"/proc/{terminal.process.pid}")
            seen.append((os.readlink(own / "cwd"), _names_of_open_files(own)))
    assert seen[0] == seen[1]


def _names_of_open_files(process: Path) -> list[str]:
    """Names of open files; a terminal may have any number."""
    links = (os.readlink(each) for each in (process / "fd").iterdir())
    names = (os.path.basename(link).partition(":")[0] for link in links)
    return sorted("a terminal" if name.isdecimal() else name for name in names)


def test_options_of_the_interpreter_start_a_new_one():
    assert not needs_plain_start({"LANG": "C.UTF-8", "HOME": "/x"})
    assert needs_plain_start({"LANG": "C"})
    assert needs_plain_start({"LANG": "C.UTF-8", "LC_ALL": "C"})
    assert needs_plain_start({"LANG": "C.UTF-8", "PYTHONHASHSEED": "1"})
