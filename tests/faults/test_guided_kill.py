"""A guided attempt killed between edit, check and restore continues where it was."""

import signal
from pathlib import Path

import pytest

from guided.test_guided_tasks import BROKEN, CHECK, MODEL, TASK, five_attempts
from llm_server import LlmServer
from rookery.storage.verify import verify
from support.command_server import CommandServer
from support.twelve_turns import SESSION, Playground

BEFORE = BROKEN.removesuffix("\n").encode()
ATTEMPT = "def add(a, b):\n    return [{}]\n"
FILES = {BEFORE, *(ATTEMPT.format(number).encode() for number in range(5))}
LIVES = {
    "edit and check": [
        *("files.before_rename:1", "files.renamed:1"),
        *("command.before_start:1", "command.ended:1", "files.temp_written:1"),
    ],
    "restore": ["files.before_rename:6", "files.renamed:1"],
}
"""Where each process of a task dies; the last one lives."""


@pytest.mark.parametrize("lives", LIVES.values(), ids=LIVES)
def test_a_killed_attempt_is_resumed_and_undone_byte_for_byte(
    lives: list[str], server: CommandServer, tmp_path: Path
):
    ground = Playground(tmp_path / "run")
    (ground.work / "calc.py").write_bytes(BEFORE)
    (ground.work / "check.sh").write_text(CHECK)
    with LlmServer(*five_attempts("calc.py", ATTEMPT)) as model:
        where = ["--provider", "vllm", "-m", MODEL, "--base-url", f"{model.url}/v1"]
        always = ["--print", "--trust", "-y", "--workspace", str(ground.work), *where]
        first = [*always, "--create-with-session-id", SESSION, TASK]
        again = [*always, "--session-id", SESSION]
        for instant in lives:
            arguments = again if ground.begun else first
            ended = ground.run(server, arguments, ROOKERY_KILLPOINT=instant)
            assert ended.code == -signal.SIGKILL, f"{instant} was never reached: {ended.err}"
            assert verify(ground.task) == []
            assert ground.files()["calc.py"] in FILES
        ended = ground.run(server, again)
    assert (ended.code, ended.left) == (0, False), ended.err
    assert "the files are as they were" in ended.out
    assert ground.files()["calc.py"] == BEFORE
    assert len(model.requests) == 8
    assert verify(ground.task) == []
