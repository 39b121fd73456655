"""The npm SDK of the protocol drives the real `rookery acp`. It checks every message against the
protocol's types; the updates and questions are checked against its JSON schema here."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from llm_server import LlmServer, call, finish, gate, say
from rookery.compat.acp.agent import NOT_FOUND
from rookery.protocol.jsonrpc import CANCELLED, METHOD_NOT_FOUND
from support.model_words import question, received, shell, write
from support.npm_servers import acp_kit
from support.terminal_session import COMMAND, Installed, at

CLIENT = Path(__file__).parents[1] / "support" / "acp_client.mjs"
TODOS = call("update_todo_list", todos="[x] Write\n[ ] Test")


def check(schema: dict[str, Any], name: str, messages: list[Any]) -> None:
    validator = jsonschema.Draft202012Validator({**schema, "anyOf": [{"$ref": f"#/$defs/{name}"}]})
    for each in messages:
        validator.validate(each)


@pytest.mark.usefixtures("unconfined")
def test_a_client_of_the_npm_kit_drives_a_whole_session(rookery: Installed):
    sdk = acp_kit()
    node = shutil.which("node")
    assert node
    slow = [say("Working", gate())]
    answers = (
        [say("I will."), TODOS, write("a.txt", "one\n")],
        [question()],
        [shell("touch forbidden")],
        [finish("Done.")],
        slow,
        slow,
        [say("All is well.")],
    )
    with LlmServer(*answers) as server:
        done = subprocess.run(
            [node, CLIENT, sdk, rookery.workspace, COMMAND, "acp", *at(server)],
            env=rookery.environ,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.stderr == ""
        assert "8080" in received(server.requests[2])
    seen = json.loads(done.stdout)
    schema = json.loads((sdk / "schema" / "v1" / "schema.json").read_text())
    check(schema, "SessionUpdate", seen["updates"])
    check(schema, "RequestPermissionRequest", seen["permissions"])
    check(schema, "InitializeResponse", [seen["initialized"]])
    assert seen["stops"] == ["end_turn", "cancelled", CANCELLED, "end_turn"]
    assert [each["toolCall"]["kind"] for each in seen["permissions"]] == ["edit", "execute"]
    assert [each["requestedSchema"]["properties"]["answer"]["enum"] for each in seen["forms"]] == [
        ["8080"]
    ]
    assert seen["written"] == [str(rookery.workspace / "a.txt")]
    assert (rookery.workspace / "a.txt").read_text() == "one\n"
    assert not (rookery.workspace / "forbidden").exists()
    kinds = [each["sessionUpdate"] for each in seen["updates"]]
    assert {"plan", "tool_call", "usage_update", "available_commands_update"} < {*kinds}
    assert [each["type"] for each in seen["initialized"]["authMethods"][1:]] == ["terminal"]
    assert seen["resumed"]["modes"]["currentModeId"] == "debug"
    assert (seen["forked"], seen["stranger"]) == ("debug", NOT_FOUND)
    assert [each["id"] for each in seen["options"]] == ["mode", "model", "permissions"]
    assert (seen["unknown"], seen["left"], seen["exit"]) == (METHOD_NOT_FOUND, 0, 0)
