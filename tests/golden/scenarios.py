"""Runs of the real command whose whole output is kept in `streams/`.

Each scenario gets a new installation and returns its exit code and the lines it printed. Every
wait is for a line, so that no scenario depends on how fast the machine is.
"""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from golden.frozen import quiet
from llm_server import Answer, LlmServer, call, finish, gate, say, status
from support.control_stream_client import Driver
from support.governed_session import FILE, choose, intents
from support.json_io_client import JsonIo
from support.terminal_session import Installed, at

Lines: TypeAlias = list[dict[str, Any]]
Scenario: TypeAlias = Callable[[Installed], tuple[int, Lines]]

SESSION = "3f0c3a5e-6c5e-4d2a-9d0b-0c7a1d6f2b11"
OTHER = "7a1b9c04-1d2e-4f3a-8b5c-6d7e8f901234"
READ = call("read_file", path="a.txt")
EDIT = call("edit", file_path="a.txt", old_string="one", new_string="two")
WRITE = call("write_to_file", path="made.txt", content="made\n")
TODOS = call("update_todo_list", todos="[x] look\n[ ] change")
ASK = call(
    "ask_followup_question", question="Which port?", follow_up=[{"text": "8080", "mode": None}]
)
REFUSED = status(400, b'{"error": {"message": "No such thing."}}')
CRITERION = (
    "acceptance_criteria:\n  - id: AC-1\n    text: The file is there.\n"
    '    verify: { command: "test -e src/auth/done.py" }\n'
)


def command(line: str) -> Any:
    return call("execute_command", command=line, cwd=None, timeout=None)


def prepare(rookery: Installed) -> Installed:
    """One file to work on."""
    (rookery.workspace / "a.txt").write_text("one\n", encoding="utf-8")
    return quiet(rookery)


# ── --stdin-prompt-stream ───────────────────────────────────────────────────────────────


def control_work(rookery: Installed) -> tuple[int, Lines]:
    answers = (
        [say("I will look."), READ],
        [EDIT],
        [command("cat a.txt")],
        [TODOS],
        [finish("It says two.")],
    )
    with LlmServer(*answers) as server, Driver(rookery, *at(server)) as driver:
        driver.send("ping", "p1")
        driver.send("start", "s1", prompt="Change it", taskId=SESSION, images=[])
        driver.wait(type="control", subtype="done", requestId="s1")
        return driver.end(), driver.lines


def control_approvals(rookery: Installed) -> tuple[int, Lines]:
    answers = [command("touch one")], [command("touch two")], [WRITE], [EDIT], [finish("Over.")]
    with LlmServer(*answers) as server, Driver(rookery, *at(server), "-a") as driver:
        driver.send("start", "s1", prompt="Make them", taskId=SESSION)
        driver.wait(type="system", subtype="waiting")
        driver.send("approve", "a1", text="but quietly")
        driver.wait(type="system", subtype="waiting")
        driver.send("reject", "a2", text="not that one")
        third = driver.wait(type="system", subtype="waiting")
        driver.send("answer", "a3", id=third["id"], choice="yes")
        driver.wait(type="system", subtype="waiting")
        driver.send("message", "m1", prompt="leave that file")
        driver.done("s1")
        return driver.end(), driver.lines


def control_mistakes(rookery: Installed) -> tuple[int, Lines]:
    """Every command at a moment at which it is refused, one after the other."""
    with LlmServer([ASK], [finish("One.")]) as server, Driver(rookery, *at(server)) as driver:
        driver.send("message", "m0", prompt="too early")
        driver.error("m0")
        driver.send("approve", "a0")
        driver.error("a0")
        driver.send("dance", "x0")
        driver.error("x0")
        driver.send("start", "s1", prompt="Ask me", taskId=SESSION)
        asked = driver.wait(type="system", subtype="waiting")
        driver.send("start", "s2", prompt="Another")
        driver.error("s2")
        driver.send("approve", "a1")
        driver.error("a1")
        driver.send("answer", "a2", id=asked["id"], text="8081")
        driver.done("s1")
        driver.send("start", "s3", prompt="The same", taskId=SESSION)
        driver.error("s3")
        return driver.end(), driver.lines


def control_queue_and_cancel(rookery: Installed) -> tuple[int, Lines]:
    held, last = gate(), gate()
    answers = [say("Hm."), held, finish("One.")], [finish("Two.")], [say("Once more."), last]
    with LlmServer(*answers) as server, Driver(rookery, *at(server)) as driver:
        driver.send("start", "s1", prompt="Go", taskId=SESSION)
        driver.wait(type="assistant")
        for number in ("m1", "m2"):
            driver.send("message", number, prompt="and the docs")
            driver.wait(type="queue")
        held.open()
        driver.wait(type="result", requestId="m2")
        driver.send("message", "m3", prompt="and the tests")
        said = ""
        while said != "Once more.":
            said += driver.wait(type="assistant", requestId="m3")["content"]
        driver.send("cancel", "c1")
        driver.wait(type="system", subtype="waiting")
        driver.send("shutdown", "q1")
        return driver.exit_code(), driver.lines


# ── --json-io ───────────────────────────────────────────────────────────────────────────


def _answer(driver: JsonIo, kind: str, row: dict[str, Any], **fields: Any) -> None:
    driver.send("askResponse", askResponse=kind, messageTs=row["ts"], **fields)


def _talk(driver: JsonIo) -> int:
    driver.send("newTask", text="Make them", taskId=SESSION)
    _answer(driver, "yesButtonClicked", driver.wait_row(ask="command"), text="but quietly")
    _answer(driver, "noButtonClicked", driver.wait_row(ask="tool"), text="not that one")
    asked = driver.wait_row(ask="followup")
    _answer(driver, "yesButtonClicked", asked)
    driver.wait(event="error")
    _answer(driver, "messageResponse", asked, text="8081")
    _answer(driver, "messageResponse", driver.wait_row(ask="completion_result"), text="and more")
    driver.wait_row(ask="completion_result")
    return driver.end()


TALK = [say("I will."), command("touch one")], [EDIT], [ASK], [finish("Made.")], [finish("More.")]


def json_io_lines(rookery: Installed) -> tuple[int, Lines]:
    with LlmServer(*TALK) as server, JsonIo(rookery, *at(server)) as driver:
        return _talk(driver), driver.lines


def json_io_webview(rookery: Installed) -> tuple[int, Lines]:
    with LlmServer(*TALK) as server, JsonIo(rookery, *at(server)) as driver:
        driver.send("webviewDidLaunch")
        driver.wait(type="mcpServers")
        return _talk(driver), driver.lines


def json_io_sessions(rookery: Installed) -> tuple[int, Lines]:
    """Two sessions; one is shown again and one is deleted."""
    answers = [finish("One.")], [finish("Two.")]
    with LlmServer(*answers) as server, JsonIo(rookery, *at(server), "-y") as driver:
        driver.send("ping")
        driver.send("newTask", text="First", taskId=SESSION)
        driver.wait_row(ask="completion_result")
        driver.send("clearTask")
        driver.send("newTask", text="Second", taskId=OTHER)
        driver.wait_row(ask="completion_result")
        driver.send("showTaskWithId", text=SESSION)
        driver.wait_row(ask="resume_completed_task")
        driver.send("showTaskWithId", text="no-such-session")
        driver.wait(event="error")
        driver.send("deleteTaskWithId", text=SESSION)
        driver.wait(event="status")
        return driver.end(), driver.lines


# ── --output-format ─────────────────────────────────────────────────────────────────────


def _run(rookery: Installed, form: str, *answers: Answer, flags: tuple[str, ...] = ("-p",)) -> Any:
    with LlmServer(*answers) as server:
        session = ("--create-with-session-id", SESSION)
        done = rookery.run(*flags, "--output-format", form, *session, *at(server), "Change it")
    texts = done.stdout.splitlines() if form == "stream-json" else [done.stdout]
    return done.returncode, [json.loads(text) for text in texts]


def stream_json_work(rookery: Installed) -> tuple[int, Lines]:
    work = [say("I will look."), READ], [EDIT], [command("cat a.txt; exit 3")], [finish("Two.")]
    return _run(rookery, "stream-json", *work)


def stream_json_subtask(rookery: Installed) -> tuple[int, Lines]:
    child = call("new_task", mode="code", message="Look at a.txt", todos=None)
    return _run(rookery, "stream-json", [child], [READ], [finish("It says one.")], [finish("So.")])


def stream_json_refused(rookery: Installed) -> tuple[int, Lines]:
    return _run(rookery, "stream-json", [READ], REFUSED)


def json_work(rookery: Installed) -> tuple[int, Lines]:
    return _run(rookery, "json", [READ], [EDIT], [command("cat a.txt")], [finish("Two.")])


def json_needs_human(rookery: Installed) -> tuple[int, Lines]:
    return _run(rookery, "json", [READ], [ASK], flags=("-a",))


def json_governed(rookery: Installed) -> tuple[int, Lines]:
    """A change inside the scope, one outside of it, and a criterion that holds."""
    file = rookery.workspace / FILE
    file.parent.mkdir()
    file.write_text(intents(more=CRITERION), encoding="utf-8")
    done = call("write_to_file", path="src/auth/done.py", content="new\n")
    answers = [choose()], [done], [WRITE], [finish("Done.")]
    return _run(rookery, "json", *answers, flags=("-p", "--governance-allow", "unknown"))


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        control_work,
        control_approvals,
        control_mistakes,
        control_queue_and_cancel,
        json_io_lines,
        json_io_webview,
        json_io_sessions,
        stream_json_work,
        stream_json_subtask,
        stream_json_refused,
        json_work,
        json_needs_human,
        json_governed,
    )
}
