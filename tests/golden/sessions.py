"""The sessions whose journals are kept in `journals/`, as `record.py` plays them."""

import json
import signal
import sys
from collections.abc import Callable
from typing import TypeAlias

import golden.scenarios as play
from golden.scenarios import EDIT, READ, SESSION, WRITE, at, command
from llm_server import Answer, LlmServer, call, finish, say
from support.governed_session import Governed, choose, intents, write
from support.json_io_client import JsonIo
from support.mcp_workspace import MISBEHAVING
from support.terminal_session import Installed

Play: TypeAlias = Callable[[Installed], object]


def _run(rookery: Installed, *answers: Answer, **environ: str) -> int:
    with LlmServer(*answers) as server:
        flags = ["-p", "-y", "--create-with-session-id", SESSION, *at(server)]
        return rookery.run(*flags, "Change it", **environ).returncode


def rewound(rookery: Installed) -> None:
    """Two edits and a new file; the last two are undone, and the session goes on."""
    again = call("edit", file_path="a.txt", old_string="two", new_string="three")
    assert _run(rookery, [READ], [EDIT], [again], [WRITE], [finish("Three.")]) == 0
    events = _facts(rookery)
    point = [each["seq"] for each in events if each["kind"] == "checkpoint_saved"][1] - 1
    assert rookery.run("rewind", SESSION, "--to", str(point), "-y").returncode == 0
    with LlmServer([finish("Two it is.")]) as server:
        done = rookery.run("-p", "-y", "--session-id", SESSION, *at(server), "Leave it at two")
    assert done.returncode == 0
    assert (rookery.workspace / "a.txt").read_text(encoding="utf-8") == "two\n"


def killed(rookery: Installed) -> None:
    """The process is gone when the new text is written, and before it has its place."""
    ended = _run(rookery, [READ], [EDIT], ROOKERY_KILLPOINT="files.before_rename:1")
    assert ended == -signal.SIGKILL
    assert _facts(rookery)[-1]["kind"] == "tool_started"


def mcp(rookery: Installed) -> None:
    server = {"command": sys.executable, "args": ["-S", "-E", str(MISBEHAVING), "well"]}
    config = rookery.home / "config" / "mcp.json"
    text = json.dumps({"mcpServers": {"one": {**server, "alwaysAllow": ["greet"]}}})
    config.write_text(text, encoding="utf-8")
    greet = call("use_mcp_tool", server="one", tool="greet", arguments={"whom": "Ada"})
    assert _run(rookery, [greet], [finish("Greeted.")]) == 0


def condensed(rookery: Installed) -> None:
    summary = say("Read a.txt, which says one, and changed it to two.")
    answers = [READ], [EDIT], [READ], [finish("Two.")], [summary], [finish("Still two.")]
    with LlmServer(*answers) as server, JsonIo(rookery, "-y", *at(server)) as driver:
        driver.send("newTask", text="Change it", taskId=SESSION)
        done = driver.wait_row(ask="completion_result")
        driver.send("condenseTaskContextRequest")
        driver.wait(type="condenseTaskContextResponse")
        driver.send("askResponse", askResponse="messageResponse", messageTs=done["ts"], text="And?")
        driver.wait_row(ask="completion_result")
        driver.end()


def large(rookery: Installed) -> None:
    """A result that is kept beside the journal, and the output of a command that is kept whole."""
    file = rookery.workspace / "large.txt"
    file.write_text("".join(f"{number:0100}\n" for number in range(700)), encoding="utf-8")
    lines = command("cat large.txt | head -n 400")
    read = call("read_file", path="large.txt")
    assert _run(rookery, [read], [lines], [finish("It is large.")]) == 0
    kept = [path.parent.name for path in rookery.home.rglob("data/tasks/*/*/*")]
    assert sorted(kept) == ["blobs", "command-output"], kept
    file.unlink()


def governed(rookery: Installed) -> None:
    """An intent is selected, one change outside its scope is allowed, another is not."""
    world = Governed(rookery, intents(more=play.CRITERION))
    done, outside, other = write("src/auth/done.py"), write("src/api/a.py"), write("src/api/b.py")
    made = command("echo hi > src/auth/note.txt")
    world.play([choose()], [done], [outside], [other], [made], book=["yes", "no keep to the scope"])


SESSIONS: dict[str, Play] = {
    "work": play.stream_json_work,
    "approvals": play.control_approvals,
    "subtask": play.stream_json_subtask,
    "queue": play.control_queue_and_cancel,
    **{each.__name__: each for each in (rewound, killed, mcp, condensed, large, governed)},
}


def _facts(rookery: Installed) -> list[dict[str, object]]:
    done = rookery.run("show", "--json", SESSION)
    return [json.loads(line) for line in done.stdout.splitlines()]
