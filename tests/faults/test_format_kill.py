"""A run killed between an edit, its formatter and the record continues, and can be undone."""

import os
import signal
import sys
from pathlib import Path

import pytest

from rookery.core.facts import Ending, ToolFinished
from rookery.storage.verify import verify
from support.command_server import CommandServer
from support.terminal_session import processes_with
from support.twelve_turns import BEFORE, Playground, check_undone

SERVER = Path(__file__).parents[1] / "support" / "scripted_language_server.py"
SCRIPT = """\
- calls:
    - tool: edit
      arguments: {file_path: app.py, old_string: "return 1", new_string: "return 2"}
- calls:
    - tool: attempt_completion
      arguments: {result: Done.}
"""
EDITED = BEFORE["app.py"].replace(b"return 1", b"return 2")
FORMATTED = EDITED.replace(b"return 2", b"return 3")
INSTANTS = {
    "tool.started:1": (BEFORE["app.py"], "the change was not done."),
    "tool.performed:1": (EDITED, "the change was done."),
    "format.started:1": (EDITED, "the change was done."),
    "command.ended:1": (FORMATTED, "was done, and then formatted"),
    "format.ended:1": (FORMATTED, "was done, and then formatted"),
    "journal.synced:8": (FORMATTED, "a formatter or another program changed app.py"),
}
"""The file at each instant, and the result that the model gets afterwards."""


@pytest.fixture
def ground(tmp_path: Path) -> Playground:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT)
    return Playground(tmp_path / "run", script=script)


def settings(ground: Playground, text: str) -> None:
    folder = ground.home / "config"
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text(text)


@pytest.mark.parametrize("instant", INSTANTS)
def test_a_run_killed_around_its_formatter_resumes_and_is_undone_exactly(
    instant: str, server: CommandServer, ground: Playground
):
    settings(ground, 'formatters = ["*.py: sed -i s/2/3/ {file}"]\n')
    ended = ground.run(server, ground.first, ROOKERY_KILLPOINT=instant)
    assert ended.code == -signal.SIGKILL, f"{instant} was never reached: {ended.err}"
    assert verify(ground.task) == []
    content, reported = INSTANTS[instant]
    assert ground.files()["app.py"] == content

    ended = ground.run(server, ground.again)
    assert (ended.code, ended.left) == (0, False), ended.err
    results = [each.fact for each in ground.events() if isinstance(each.fact, ToolFinished)]
    assert reported in results[0].text
    assert (results[0].ending is Ending.DONE) is (content != BEFORE["app.py"])
    assert ground.files()["app.py"] == content
    check_undone(ground, server)
    assert verify(ground.task) == []


@pytest.mark.parametrize("sandbox", ["on", "off"])
def test_no_language_server_outlives_a_killed_run(
    sandbox: str, mark: str, server: CommandServer, ground: Playground
):
    command = f"*.py: {sys.executable} {SERVER} well {os.devnull} {mark}"
    use = f'[sandbox]\nuse = "{sandbox}"\n[language_servers]\nuse = "always"\n'
    settings(ground, f'{use}add = ["{command}"]\nskip = ["python", "ruff"]\nseconds = 30\n')
    ended = ground.run(server, ground.first, ROOKERY_KILLPOINT="checkpoint.entered:2")
    assert ended.code == -signal.SIGKILL, ended.err
    assert ended.left  # the warden, which ended the server
    assert processes_with(mark) == []
