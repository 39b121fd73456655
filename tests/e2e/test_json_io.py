"""A webview or a manager drives the real command over its pipes, in both spellings. What each
line means is in tests/compat/json_io."""

import itertools
import json
import os
import random
import signal
from typing import Any

import pytest

from llm_server import LlmServer, call, finish, gate, hang, say, status
from support.json_io_client import JsonIo, rows_in
from support.model_words import LOOK, last_turn, question, shell
from support.terminal_session import Installed, at

pytestmark = pytest.mark.usefixtures("unconfined")

ONE_ID = "3f0c3a5e-6c5e-4d2a-9d0b-0c7a1d6f2b11"


def answer(driver: JsonIo, kind: str, row: dict[str, Any] | None = None, **fields: Any) -> None:
    ts = {"messageTs": row["ts"]} if row else {}
    driver.send("askResponse", askResponse=kind, **ts, **fields)


SPELLINGS = pytest.mark.parametrize("webview", [False, True], ids=["lines", "webview"])


@SPELLINGS
def test_a_whole_conversation_with_approvals_and_a_followup(rookery: Installed, webview: bool):
    with (
        LlmServer(
            [say("I will."), shell("touch made")],
            [shell("touch other")],
            [shell("touch third")],
            [question()],
            [finish("It is made.")],
            [finish("More is made.")],
            [finish("All is made.")],
        ) as server,
        JsonIo(rookery, *at(server)) as driver,
    ):
        if webview:
            driver.send("webviewDidLaunch")
        driver.send("newTask", text="make it", taskId=ONE_ID)
        created = driver.wait(event="session_created")
        assert driver.wait(event="session_title_generated")["title"] == "make it"
        first = driver.wait_row(ask="command")
        assert (first["text"], first["title"]) == ("touch made", "Run touch made")
        answer(driver, "yesButtonClicked", first, text="but quietly")
        second = driver.wait_row(ask="command", text="touch other")
        answer(driver, "yesButtonClicked", first)  # late: it is about the first one
        answer(driver, "noButtonClicked", second, text="not that one")
        third = driver.wait_row(ask="command", text="touch third")
        answer(driver, "messageResponse", text="rather not")
        asked = driver.wait_row(ask="followup")
        assert json.loads(asked["text"]) == {
            "question": "Which port?",
            "suggest": [{"answer": "8080"}],
        }
        answer(driver, "yesButtonClicked", asked)
        assert "needs text" in driver.wait(event="error")["error"]
        answer(driver, "objectResponse", asked, text='{"port":8080}')
        done = driver.wait_row(ask="completion_result")
        answer(driver, "messageResponse", done, text="and more")
        driver.wait_row(ask="completion_result")
        driver.send("queueMessage", text="and the docs")
        assert driver.wait_row(say="user_feedback")["text"] == "and the docs"
        driver.wait_row(ask="completion_result")
        assert driver.end() == 0
    assert driver.lines[0]["event"] == "welcome"
    assert created["sessionId"] == ONE_ID
    assert driver.rows(say="text")[0]["text"] == "make it"
    assert all(row["ts"] >= created["timestamp"] for row in driver.rows())
    assert driver.lines[-1] == {"event": "complete", "exitCode": 0}
    assert (rookery.workspace / "made").exists()
    assert not (rookery.workspace / "other").exists()
    assert not (rookery.workspace / "third").exists()
    assert "but quietly" in last_turn(server.requests[1])
    assert "not that one" in last_turn(server.requests[2])
    assert "rather not" in last_turn(server.requests[3])
    assert "8080" in last_turn(server.requests[4])
    assert "and more" in last_turn(server.requests[5])
    assert "and the docs" in last_turn(server.requests[6])
    assert third["ts"] > second["ts"] > first["ts"]
    spelled = [line for line in driver.lines if rows_in(line) and "state" not in line]
    assert {line["type"] for line in spelled} == ({"messageUpdated"} if webview else {"say", "ask"})
    assert [row for row in driver.rows() if row.get("partial")] == []
    if webview:
        assert driver.client.current_ask == "completion_result"
        assert [row["ts"] for row in driver.client.messages] == [row["ts"] for row in driver.rows()]
        assert len(driver.of(type="interactionRequired")) == 4


def test_a_webview_gets_the_full_state_and_then_changes(rookery: Installed):
    todos = call("update_todo_list", todos="[ ] one\n[x] two")
    held = gate()
    with (
        LlmServer([say("Hm.", held), todos], [finish("One.")], [finish("Two.")]) as server,
        JsonIo(rookery, *at(server), "-y") as driver,
    ):
        driver.send("webviewDidLaunch")
        state = driver.wait(type="state")["state"]
        assert (state["clineMessages"], state["currentTaskId"], state["taskHistory"]) == (
            [],
            None,
            [],
        )
        assert (state["mode"], state["cwd"]) == ("code", str(rookery.workspace))
        assert state["apiConfiguration"] == {"apiProvider": "anthropic", "apiModelId": "claude-x"}
        assert state["autoApprovalEnabled"] is state["alwaysAllowExecute"] is True
        driver.send("newTask", text="go", taskId=ONE_ID)
        assert driver.wait(type="invoke")["invoke"] == "newChat"
        begun = driver.wait(type="state")["state"]
        assert begun["currentTaskId"] == begun["currentTaskItem"]["id"] == ONE_ID
        assert begun["clineMessagesSeq"] == 2
        assert driver.wait(type="taskHistoryUpdated")["taskHistory"][0]["task"] == "go"
        held.wait_until_reached()
        driver.send("mode", text="debug")
        assert driver.wait_state("mode") == "debug"
        driver.send("mode", text="nobody")
        assert "No such mode: 'nobody'" in driver.wait(event="error")["error"]
        driver.send("updateSettings", updatedSettings={"autoApprovalEnabled": False, "x": 1})
        assert driver.wait_state("autoApprovalEnabled") is False
        driver.send("autoApprovalEnabled", bool=True)
        assert driver.wait_state("autoApprovalEnabled") is True
        driver.send("updateSettings", updatedSettings={"apiModelId": "claude-y"})
        assert driver.wait_state("apiConfiguration")["apiModelId"] == "claude-y"
        held.open()
        assert [todo["status"] for todo in driver.wait_state("currentTaskTodos")] == [
            "pending",
            "completed",
        ]
        driver.wait_row(ask="completion_result")
        driver.send("clearTask")
        cleared = driver.wait(type="state")["state"]
        assert (cleared["clineMessages"], cleared["currentTaskId"]) == ([], None)
        driver.send("newTask", text="again")
        driver.wait_row(ask="completion_result")
        assert driver.end() == 0
    assert server.requests[1].body["model"] == server.requests[2].body["model"] == "claude-y"
    versions = [
        s["state"]["clineMessagesSeq"]
        for s in driver.of(type="state")
        if "clineMessages" in s["state"]
    ]
    assert versions == sorted(set(versions))
    assert sorted(each["mode"] for each in rookery.sessions()) == ["debug", "debug"]


LOUD = "for i in $(seq 1000); do echo line $i; sleep 0.1; done"


def test_command_output_streams_and_can_be_ended_or_continued(rookery: Installed):
    with (
        LlmServer([shell(LOUD)], [shell(f"{LOUD};")], [finish("Enough.")]) as server,
        JsonIo(rookery, *at(server), "-y") as driver,
    ):
        driver.send("webviewDidLaunch")
        driver.send("newTask", text="go")
        status_of(driver, "output")
        driver.send("terminalOperation", terminalOperation="abort")  # perhaps before it may be
        status_of(driver, "exited")
        first = len(driver.of(type="commandExecutionStatus"))
        status_of(driver, "output")
        driver.send("terminalOperation", terminalOperation="continue")
        driver.wait_row(ask="completion_result")
        driver.send("terminalOperation", terminalOperation="abort")
        status_of(driver, "exited")
        assert driver.end() == 0
    reported = [json.loads(line["text"]) for line in driver.of(type="commandExecutionStatus")]
    for asked, lines in zip(
        driver.rows(ask="command"), (reported[:first], reported[first:]), strict=True
    ):
        assert {each["executionId"] for each in lines} == {str(asked["ts"])}
        assert lines[0] == {**lines[0], "status": "started", "command": asked["text"]}
        outputs = [each["output"] for each in lines if each["status"] == "output"]
        assert outputs[0].startswith("line 1\n")
        assert all(later.startswith(sooner) for sooner, later in itertools.pairwise(outputs))
        assert lines[-1]["status"] == "exited"
    assert "Ended by the user" in last_turn(server.requests[1])
    assert "Ended by the user" not in last_turn(server.requests[2])


def status_of(driver: JsonIo, wanted: str) -> dict[str, Any]:
    while True:
        reported = json.loads(driver.wait(type="commandExecutionStatus")["text"])
        if reported["status"] == wanted:
            return dict(reported)


BAD_LINES = [b"no json", b'{"type":7}', b'{"type":"newTask","text":" "}', b"[" * 100_000]


def test_a_malformed_line_is_an_error_and_the_run_continues(rookery: Installed):
    with LlmServer([finish("One.")]) as server, JsonIo(rookery, *at(server), "-d") as driver:
        for line in BAD_LINES:
            driver.write(line + b"\n")
            driver.wait(event="error")
        driver.write(b"\n\r\n")
        driver.send("playSound", audioType="celebration")
        driver.send("cancelAutoApproval")
        driver.send("queueMessage", text="to nobody")
        assert "No task is open" in driver.wait(event="error")["error"]
        answer(driver, "yesButtonClicked")
        driver.send("ping")
        driver.wait(event="pong")
        driver.send("newTask", text="go", images=None, taskConfiguration={"terminalShell": "zsh"})
        driver.wait_row(ask="completion_result")
        driver.send("shutdown")
        assert driver.exit_code() == 0
    assert len(driver.of(event="error")) == len(BAD_LINES) + 1
    [log] = rookery.home.rglob("*debug*.log")
    noted = log.read_text(encoding="utf-8")
    assert "'playSound'" in noted
    assert "terminalShell" in noted
    assert "[Facts] TaskOpened" in noted


def test_queries_of_a_webview_are_answered(rookery: Installed):
    (rookery.workspace / "prices.py").write_text("x = 1\n", encoding="utf-8")
    servers = rookery.home / "config" / "mcp.json"
    servers.write_text('{"mcpServers": {"notes": {"command": "no-such-program"}}}')
    with LlmServer() as server, JsonIo(rookery, *at(server)) as driver:
        driver.send("webviewDidLaunch")
        assert driver.wait(type="theme")["text"] == "{}"
        [known] = driver.wait(type="mcpServers")["mcpServers"]
        assert [known[name] for name in ("name", "source")] == ["notes", "global"]
        assert known["status"] == "disconnected"
        driver.send("requestModes")
        modes = {mode["slug"]: mode for mode in driver.wait(type="modes")["modes"]}
        assert modes["architect"]["source"] == "built-in"
        driver.send("requestCommands")
        assert isinstance(driver.wait(type="commands")["commands"], list)
        driver.send("searchFiles", query="price", requestId="r1")
        found = driver.wait(type="fileSearchResults")
        assert found["requestId"] == "r1"
        assert found["results"] == [{"path": "prices.py", "type": "file", "label": "prices.py"}]
        driver.send("requestRooModels")
        fetched = driver.wait(type="singleRouterModelFetchResponse")
        assert fetched["success"] is True
        assert fetched["values"]["provider"] == "anthropic"
        driver.send("requestRouterModels")
        assert isinstance(driver.wait(type="routerModels")["routerModels"], dict)
        driver.send("checkpointDiff", payload={"mode": "full"})
        assert driver.wait(event="error")["error"].startswith("No task is open")
        driver.send("requestModes")
        assert driver.end() == 0  # pending requests are answered first
    assert len(driver.of(type="modes")) == 2


def test_files_and_messages_are_restored_to_a_checkpoint(rookery: Installed):
    def write(text: str) -> object:
        return call("write_to_file", path="a.txt", content=text)

    with (
        LlmServer([write("one\n")], [write("two\n")], [finish("Done.")]) as server,
        JsonIo(rookery, *at(server), "-y") as driver,
    ):
        driver.send("webviewDidLaunch")
        driver.send("newTask", text="go")
        first = driver.wait_row(say="checkpoint_saved")
        second = driver.wait_row(say="checkpoint_saved")
        driver.wait_row(ask="completion_result")
        for span, row, change, last in (
            ("checkpoint", first, "added", "+one"),
            ("to-current", second, "changed", "+two"),
            ("full", None, "added", "+two"),
        ):
            ts = {"ts": row["ts"]} if row else {}
            driver.send("checkpointDiff", payload={"mode": span, "commitHash": "x", **ts})
            [file] = driver.wait(type="checkpointDiffResult")["files"]
            assert (file["path"], file["change"]) == ("a.txt", change)
            assert last in file["diff"]
        driver.send("condenseTaskContextRequest")
        driver.wait(type="condenseTaskContextStarted")
        driver.wait(type="condenseTaskContextResponse")
        driver.send("checkpointRestore", payload={"ts": 7, "mode": "preview"})
        assert "No checkpoint" in driver.wait(event="error")["error"]
        driver.send("checkpointRestore", payload={"ts": second["ts"], "mode": "restore"})
        driver.wait_row(ask="resume_task")
        assert (rookery.workspace / "a.txt").read_text() == "one\n"
        assert driver.end() == 6
    rows = driver.rows()
    assert second["ts"] in [row["ts"] for row in rows]
    assert [row for row in rows if row.get("ask") == "completion_result"] == []
    assert [dict(row) for row in driver.client.messages] == rows


CHILD = """
part one:
  - calls:
      - tool: ask_followup_question
        arguments: {question: "Which port?", follow_up: [{text: "8080"}]}
  - calls: [{tool: execute_command, arguments: {command: touch made}}]
  - calls: [{tool: attempt_completion, arguments: {result: Part one is done.}}]
"":
  - calls: [{tool: new_task, arguments: {mode: code, message: Do part one.}}]
  - calls: [{tool: attempt_completion, arguments: {result: All is done.}}]
"""


def test_questions_of_a_sub_task_are_answered_like_others(rookery: Installed):
    with JsonIo(rookery, *rookery.script(CHILD)) as driver:
        driver.send("newTask", text="go", taskId=ONE_ID)
        answer(driver, "yesButtonClicked", driver.wait_row(ask="tool"))
        asked = driver.wait_row(ask="followup")
        assert asked["taskId"] != ONE_ID
        driver.send("queueMessage", text="hurry")
        answer(driver, "messageResponse", asked, text="8080")
        answer(driver, "yesButtonClicked", driver.wait_row(ask="command"))
        while (row := driver.wait_row(say="completion_result"))["text"] != "All is done.":
            pass
        driver.wait_row(ask="completion_result")
        assert driver.end() == 0
    assert (rookery.workspace / "made").exists()
    assert {line.get("taskId") for line in driver.of(ask="tool")} == {None}
    reported = [each.get("text") for each in driver.of(say="completion_result")]
    assert "Part one is done." not in reported
    assert row["text"] == "All is done."


class TestEnding:
    def test_a_question_left_open_needs_a_human(self, rookery: Installed):
        with LlmServer([question()]) as server, JsonIo(rookery, *at(server)) as driver:
            driver.send("newTask", text="go", taskId=ONE_ID)
            assert driver.end() == 6  # a task at work is waited for
        assert driver.rows(ask="followup")
        assert driver.lines[-1] == {"event": "complete", "exitCode": 6}
        assert len(driver.of(event="error")) == 1
        assert [session["id"] for session in rookery.sessions()] == [ONE_ID]

    def test_a_signal_ends_the_run_and_another_run_continues_the_task(self, rookery: Installed):
        with (
            LlmServer([say("Hm."), hang()]) as server,
            JsonIo(rookery, *at(server), "--create-with-session-id", ONE_ID) as driver,
        ):
            driver.send("newTask", text="go")
            assert driver.wait(event="session_created")["sessionId"] == ONE_ID
            driver.wait_row(say="api_req_started")
            driver.signal(signal.SIGTERM)
            assert driver.exit_code() == 143
        assert driver.lines[-1]["event"] == "interrupted"
        assert driver.of(event="complete") == []
        with (
            LlmServer([finish("At last.")]) as server,
            JsonIo(rookery, *at(server), "--session-id", ONE_ID) as driver,
        ):
            created = driver.wait(event="session_created")
            asked = driver.wait_row(ask="resume_task")
            old = [row for row in driver.rows() if row["ts"] < created["timestamp"]]
            assert old[0]["text"] == "go"
            assert asked["ts"] >= created["timestamp"]
            answer(driver, "yesButtonClicked", asked)
            driver.wait_row(ask="completion_result")
            assert driver.end() == 0

    def test_a_prompt_on_the_command_line_starts_or_resumes_a_task(self, rookery: Installed):
        with (
            LlmServer([finish("One.")], [finish("Two.")]) as server,
            JsonIo(rookery, *at(server), "go") as driver,
        ):
            driver.wait_row(ask="completion_result")
            assert driver.end() == 0
            with JsonIo(rookery, *at(server), "--continue", "and the docs") as again:
                again.wait_row(say="user_feedback", text="and the docs")
                again.wait_row(ask="completion_result")
                assert again.end() == 0
        assert "and the docs" in last_turn(server.requests[1])

    def test_exit_on_error_applies_to_json_io(self, rookery: Installed):
        with (
            LlmServer(status(401)) as server,
            JsonIo(rookery, *at(server), "--exit-on-error") as driver,
        ):
            driver.send("newTask", text="go")
            assert driver.exit_code() == 3
        assert driver.lines[-1] == {"event": "complete", "exitCode": 3}

    def test_the_task_is_kept_when_the_driver_stops_reading(self, rookery: Installed):
        with LlmServer([say("Hm."), hang()]) as server, JsonIo(rookery, *at(server)) as driver:
            driver.send("newTask", text="go", taskId=ONE_ID)
            driver.wait_row(say="api_req_started")
            driver.stop_reading()
            driver.send("cancelTask")
            assert driver.process.wait(60) == 0
        assert [session["id"] for session in rookery.sessions()] == [ONE_ID]


SEEDS = range(20) if os.environ.get("ROOKERY_TORTURE") else range(1)
STORM: list[dict[str, Any]] = [
    {"type": "newTask", "text": "go"},
    {"type": "askResponse", "askResponse": "yesButtonClicked"},
    {"type": "askResponse", "askResponse": "noButtonClicked", "messageTs": 1},
    {"type": "askResponse", "askResponse": "messageResponse", "text": "words"},
    {"type": "queueMessage", "text": "more"},
    {"type": "cancelTask"},
    {"type": "clearTask"},
    {"type": "terminalOperation", "terminalOperation": "abort"},
    {"type": "webviewDidLaunch"},
    {"type": "mode", "text": "debug"},
    {"type": "updateSettings", "updatedSettings": {"autoApprovalEnabled": True}},
    {"type": "removeQueuedMessage", "text": "x"},
    {"type": "requestModes"},
    {"type": "condenseTaskContextRequest"},
    {"type": "showTaskWithId", "text": "SOME"},
    {"type": "deleteTaskWithId", "text": "SOME"},
    {"type": "nonsense"},
]


@pytest.mark.parametrize("seed", SEEDS)
def test_any_driver_input_is_answered_and_the_run_ends_cleanly(rookery: Installed, seed: int):
    chance = random.Random(seed)
    one = [[finish()], [say("Hm."), LOOK], [question()], [say("Hm.")], [shell("echo x")]]
    with (
        LlmServer(*[chance.choice(one) for _ in range(600)]) as server,
        JsonIo(rookery, *at(server)) as driver,
    ):
        for number in range(150):
            message = dict(chance.choice(STORM))
            known = [line["sessionId"] for line in driver.of(event="session_created")]
            if message.get("text") == "SOME":
                message["text"] = chance.choice(known or ["nobody"])
            driver.send(**message)
            if chance.random() < 0.3:
                driver.send("ping")
                driver.wait(event="pong")
            if number % 50 == 49:
                driver.send("clearTask")
        driver.send("webviewDidLaunch")
        driver.send("newTask", text="the last")
        while driver.client.current_ask is None or driver.client.messages[0]["text"] != "the last":
            driver.wait()
        driver.send("shutdown")
        assert driver.exit_code() == 0
    assert driver.lines[-1] == {"event": "complete", "exitCode": 0}
    assert driver.client.messages[0]["text"] == "the last"


def test_a_message_can_be_edited_or_deleted_and_the_task_deleted(rookery: Installed):
    write = call("write_to_file", path="made.txt", content="one\n")
    ends = [[finish(f"{word}.")] for word in ("Second", "Changed", "Third")]
    with (
        LlmServer([finish("First.")], [write], *ends) as server,
        JsonIo(rookery, *at(server), "-y") as driver,
    ):
        driver.send("webviewDidLaunch")
        driver.send("newTask", text="go", taskId=ONE_ID)
        done = driver.wait_row(ask="completion_result")
        answer(driver, "messageResponse", done, text="make a file")
        said = driver.wait_row(say="user_feedback")
        driver.wait_row(say="completion_result", text="Second.")
        assert (rookery.workspace / "made.txt").exists()
        driver.send("submitEditedMessage", value=said["ts"], editedMessageContent="make none")
        dialog = driver.wait(type="showEditMessageDialog")
        assert (dialog["messageTs"], dialog["hasCheckpoint"]) == (said["ts"], True)
        confirmed = {"messageTs": said["ts"], "restoreCheckpoint": True}
        driver.send("editMessageConfirm", text="make none", **confirmed)
        driver.wait_row(say="completion_result", text="Changed.")
        assert not (rookery.workspace / "made.txt").exists()
        changed = json.dumps(server.requests[-1].body["messages"])
        assert "make none" in changed
        assert "make a file" not in changed
        driver.send("deleteMessageConfirm", messageTs=driver.rows(say="text")[0]["ts"])
        assert "first message cannot be changed" in driver.wait(event="error")["error"]
        [said] = driver.rows(say="user_feedback", text="make none")
        driver.send("deleteMessage", value=said["ts"])
        assert driver.wait(type="showDeleteMessageDialog")["messageTs"] == said["ts"]
        driver.send("deleteMessageConfirm", messageTs=said["ts"])
        resumes = driver.wait_row(ask="resume_completed_task")
        answer(driver, "messageResponse", resumes, text="go on")
        driver.wait_row(say="completion_result", text="Third.")
        [packs] = (rookery.home / "data" / "checkpoints").glob("*.git/objects/pack")
        assert list(packs.glob("*.pack"))
        driver.send("deleteTaskWithId", text=ONE_ID)
        while driver.wait(type="taskHistoryUpdated")["taskHistory"]:
            pass
        assert driver.end() == 0
    assert list(packs.iterdir()) == []
    assert "make none" not in json.dumps(server.requests[-1].body["messages"])


def test_task_events_have_their_documented_names(rookery: Installed):
    with (
        LlmServer([LOOK], [question()], [finish("Done.")]) as server,
        JsonIo(rookery, *at(server), "-y") as driver,
    ):
        driver.send("newTask", text="go", taskId=ONE_ID)
        asked = driver.wait_row(ask="followup")
        answer(driver, "messageResponse", asked, text="8080")
        driver.wait(event="taskCompleted")
        driver.wait(event="taskIdle")
        assert driver.end() == 0
    events = [line for line in driver.lines if "payload" in line]
    assert {line["payload"][0] for line in events} == {ONE_ID}
    names = [line["event"] for line in events if line["event"] != "taskTokenUsageUpdated"]
    assert names == [
        *("taskCreated", "taskStarted", "taskInteractive", "taskAskResponded", "taskActive"),
        *("taskCompleted", "taskIdle"),
    ]
    usage, tools, about = driver.of(event="taskCompleted")[0]["payload"][1:]
    assert usage["totalTokensIn"] > 0
    assert tools["list_files"] == {"attempts": 1, "failures": 0}
    assert about == {"isSubtask": False}
