"""Commands, servers, sub-tasks, and runs that nobody sees."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from llm_server import call
from rookery.core.facts import Asked, Reminded
from support.governed_session import FILE, Governed, choose, intents, run, wait, write
from support.ledger_lines import told_of

SERVER = Path(__file__).parents[2] / "support/mcp_file_server.py"
ALLOW = 'permissions: {allow: ["execute_command(./pytest *)"]}'


def codes(asked: Asked) -> list[str]:
    """Why a person was asked."""
    return [each.code for each in asked.governance.reasons] if asked.governance else []


def program(governed: Governed, name: str, text: str) -> None:
    governed.put(name, f"#!/bin/sh\n{text}\n").chmod(0o755)


def test_what_the_intent_allows_is_not_asked_about(governed: Governed):
    governed.put(FILE, intents(more=ALLOW))
    program(governed, "pytest", "echo tested")
    told = governed.play(
        [choose()], [run("./pytest -q")], [run("./pytest -q; ./other")], book=["no"]
    )
    assert "tested" in told.results[1]
    [asked] = told.questions
    assert asked.text == "./pytest -q; ./other", "every part of a line must be allowed"
    ran, *_ = told_of(governed.root, "command")
    assert (ran["outcome"], ran["command"]["text"]) == ("success", "./pytest -q")


def test_commands_are_judged_by_what_they_would_write(governed: Governed):
    governed.put("a.txt")
    governed.put("build/out.txt")
    governed.put("src/auth/old.txt")
    governed.put("src/api/user.py")
    told = governed.play(
        [choose()],
        [run("make build")],
        [run("cat a.txt && rm -rf build")],
        [run("echo x > src/api/user.py")],
        [run("cat a.txt")],
        [run("echo x > src/auth/new.txt")],
        book=["no", "no", "no"],
    )
    make, remove, redirect = told.questions
    assert codes(make) == ["REQ-002"]
    assert make.governance
    assert make.governance.analysis == "unbounded"
    assert told.refusal(1)["error_type"] == "unknown_targets"
    assert remove.governance
    assert remove.governance.analysis == "bounded"
    assert ("build/out.txt", "delete") in {
        (each.path, each.op) for each in remove.governance.targets
    }
    assert governed.text("build/out.txt") == "old\n"
    assert codes(redirect) == ["REQ-001"]
    assert told.refusal(3)["filename"] == "src/api/user.py"
    assert governed.text("src/api/user.py") == "old\n"
    assert governed.text("src/auth/new.txt") == "x\n"
    assert told.codes == ["", "REQ-002", "REQ-001", "REQ-001", "", ""]
    assert [each["outcome"] for each in told_of(governed.root, "command")] == ["success", "success"]


def test_what_looks_harmless_is_not_read_only(governed: Governed):
    governed.put("f", "b\na\n")
    governed.put("src/x.py")
    lines = [
        "cat $(touch pwned)",
        "git diff --output=src/x.py",
        "find . -delete",
        "sort -o f f",
        "rg --pre sh x",
    ]
    told = governed.play([choose()], *([run(line)] for line in lines), book=["no"] * len(lines))
    assert [each.text for each in told.questions] == lines
    analyses = [each.governance.analysis for each in told.questions if each.governance]
    assert len(analyses) == len(lines)
    assert "read_only" not in analyses
    assert all(code for code in told.codes[1:6])
    assert (governed.text("f"), governed.text("src/x.py")) == ("b\na\n", "old\n")
    assert not governed.there("pwned")


def generator(governed: Governed) -> None:
    program(governed, "gen.sh", "mkdir -p src/api; echo made > src/api/gen.py")


@pytest.mark.parametrize(("answer", "kept"), [("yes", False), ("no", True)])
def test_what_a_command_wrote_outside_is_told_and_may_be_put_back(
    governed: Governed, answer: str, kept: bool
):
    generator(governed)
    told = governed.play([choose()], [run("./gen.sh")], book=["yes", answer])
    first, second = told.questions
    assert codes(first) == ["REQ-002"]
    assert "src/api/gen.py" in second.text
    said = "".join(each.text for each in told.of(Reminded))
    assert "CMD-002" in said
    assert "src/api/gen.py" in said
    [command] = told_of(governed.root, "command")
    assert command["scope"] == "out_of_scope_detected"
    assert command["error"]["code"] == "CMD-002"
    [file] = command["files"]
    assert (file["path"], file["before"], file["after"]["size"]) == ("src/api/gen.py", None, 5)
    assert governed.there("src/api/gen.py") is kept
    assert governed.is_whole()


def test_with_nobody_there_the_run_ends_with_20_and_the_file_is_kept(governed: Governed):
    generator(governed)
    told = governed.alone([choose()], [run("./gen.sh")], flags=["--governance-allow", "unknown"])
    assert told.exit_code == 20
    assert governed.text("src/api/gen.py") == "made\n"
    assert told.governance
    assert told.governance["out_of_scope"] == ["src/api/gen.py"]
    [command] = told_of(governed.root, "command")
    assert command["approval"]["by"] == "flag"


def test_what_a_command_writes_after_its_call_is_recorded_too(governed: Governed):
    """It writes when the person does, so after the call of its own has ended."""
    governed.put("src/auth/a.py")
    line = "until test -e src/auth/go; do sleep 0.02; done; echo late > src/auth/late.py"
    server = call("execute_command", command=line, cwd=None, timeout=1)

    def let_it_write(_: Asked) -> str:
        governed.put("src/auth/go")
        until_there(governed, "src/auth/late.py")
        return "message Go on"

    told = governed.play(
        [choose()],
        [server],
        [wait()],
        [run("cat src/auth/a.py")],
        book=["yes", let_it_write],
    )
    first, *rest = told_of(governed.root, "command")
    assert "src/auth/late.py" not in paths(first), "it was not there when the call had ended"
    [late] = [each for each in rest if "src/auth/late.py" in paths(each)]
    assert late["tool_use_id"] == first["tool_use_id"]
    assert {each["attribution"] for each in late["files"]} == {"window"}
    assert "CMD-002" not in str([*told.of(Reminded)])


def paths(record: dict[str, Any]) -> list[str]:
    return [each["path"] for each in record.get("files", ())]


def until_there(governed: Governed, path: str) -> None:
    deadline = time.monotonic() + 10
    while not governed.there(path):
        assert time.monotonic() < deadline, f"{path} never came."


def test_without_a_sandbox_that_is_required_no_command_runs(governed: Governed):
    governed.put(FILE, intents(policy="commands: {sandbox: required}"))
    generator(governed)
    governed.settings('[sandbox]\nuse = "off"\n')
    told = governed.play([choose()], [run("./gen.sh")])
    assert told.codes[1] == "CMD-001"
    assert told.questions == []
    assert not governed.there("src/api/gen.py")


def test_in_the_sandbox_a_write_outside_the_scope_fails(governed: Governed):
    governed.put(FILE, intents(policy="commands: {sandbox: auto}"))
    generator(governed)
    program(governed, "in.sh", "echo mine > src/auth/mine.py && touch other.txt")
    governed.put("src/auth/a.py")
    told = governed.play([choose()], [run("./gen.sh")], [run("./in.sh")])
    assert told.questions == [], "what cannot write elsewhere need not be asked about"
    assert not governed.there("src/api/gen.py")
    assert not governed.there("other.txt")
    assert governed.text("src/auth/mine.py") == "mine\n"
    assert [
        each["command"].get("exit_code", 0) != 0 for each in told_of(governed.root, "command")
    ] == [
        True,
        True,
    ]


@pytest.fixture
def heard(governed: Governed) -> Path:
    """What the server `files` was called with."""
    heard = governed.root.parent / "heard"
    server = {"command": sys.executable, "args": ["-S", "-E", str(SERVER), str(heard)]}
    folder = governed.rookery.home / "config"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"files": server}}))
    return heard


def over_mcp(**arguments: str) -> Any:
    return call("use_mcp_tool", server="files", tool="write_file", arguments=arguments)


def test_a_servers_tool_is_asked_about_by_the_paths_it_is_given(governed: Governed, heard: Path):
    outside = governed.root.parent / "outside.txt"
    told = governed.play(
        [choose()],
        [over_mcp(path="src/api/u.py")],
        [over_mcp(path="src/auth/u.py")],
        [over_mcp(uri=outside.as_uri())],
        [over_mcp(uri=f"file://{governed.root}/src/auth/../../../outside.txt")],
        book=["no", "yes", "no"],
    )
    out, unknown, elsewhere = told.questions
    assert "REQ-001" in codes(out)
    assert told.code(1) == "REQ-001"
    assert codes(unknown) == ["REQ-002"]
    assert [json.loads(line) for line in heard.read_text().splitlines()] == [
        {"path": "src/auth/u.py"}
    ]
    assert "REQ-001" in codes(elsewhere)
    assert told.code(3) == "REQ-001"
    assert told.code(4) == "REQ-015"
    assert str(outside) not in told.results[3]
    [external] = told_of(governed.root, "external")
    assert external["mcp"] == {"server": "files", "tool": "write_file"}
    assert external["scope"] == "unknown_approved"


def new_task(words: str) -> Any:
    return call("new_task", mode="code", message=words)


def test_a_sub_task_three_levels_deep_is_refused_the_same(governed: Governed):
    told = governed.alone(
        [choose()],
        [new_task("one")],
        [new_task("two")],
        [new_task("three")],
        [write("src/api/user.py")],
        [write("src/auth/deep.py")],
        [call("attempt_completion", result="Three.")],
        [call("attempt_completion", result="Two.")],
        [call("attempt_completion", result="One.")],
    )
    [blocked] = told_of(governed.root, "blocked")
    assert blocked["error"]["code"] == "REQ-001"
    assert blocked["parent_task_id"]
    assert not governed.there("src/api/user.py")
    assert governed.there("src/auth/deep.py")
    [mutation] = told_of(governed.root, "mutation")
    assert mutation["task_id"] == blocked["task_id"] != told_of(governed.root)[0]["task_id"]
    assert told.codes.count("REQ-001") == 1


def test_yes_to_everything_is_no_yes_to_what_is_out_of_scope(governed: Governed):
    told = governed.alone([choose()], [write("src/api/user.py")], flags=["-y"])
    assert told.exit_code == 20
    assert told.code(1) == "REQ-001"
    assert told.refusal(1)["reason"] == "non_interactive"
    assert not governed.there("src/api/user.py")
    assert told.governance
    assert (told.governance["blocked"], told.governance["mutations"]) == (1, 0)


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ('allow: ["custom_tool"]', ""),
        ('deny: ["custom_tool"]', "CMD-001"),
        ('allow: ["custom_tool"], deny: ["execute_command"]', "CMD-001"),
        ('allow: ["custom_tool"], deny: ["Bash(sh *)"]', "CMD-001"),
        ('allow: ["execute_command"]', "REQ-002"),
    ],
)
def test_a_tool_of_the_user_has_rules_of_its_own_and_is_forbidden_like_a_command(
    governed: Governed, rules: str, code: str
):
    governed.put(FILE, intents(more=f"permissions: {{{rules}}}"))
    folder = governed.rookery.home / "config" / "tools"
    folder.mkdir(parents=True)
    (folder / "say_it.toml").write_text('description = "Say"\ncommand = ["sh", "-c", "echo 42"]\n')
    told = governed.alone([choose()], [call("say_it")])
    assert (code or "42") in told.results[1]
