"""Commands, servers and sub-tasks under an intent. How far a line reaches is found in
tests/governance/scope; here it is run, or not."""

import json
import sys
from pathlib import Path
from typing import Any

from llm_server import call
from rookery.core.facts import Asked, Reminded
from support.governed_session import (
    FILE,
    UNKNOWN,
    Governed,
    Row,
    choose,
    intents,
    new_task,
    reasons,
    run,
    wait,
    write,
)
from support.ledger_lines import own_records, paths

SERVER = Path(__file__).parents[2] / "support/mcp_file_server.py"
ALLOW = 'permissions: {allow: ["execute_command(./pytest *)"]}'
NO_SANDBOX = '[sandbox]\nuse = "off"\n'


def test_commands_are_checked_by_rules_and_by_their_writes(governed: Governed):
    governed.settings(NO_SANDBOX)
    governed.put(FILE, intents(more=ALLOW))
    rules = "rules:\n  - {prefix: [./lint], decision: allow}\n"
    governed.put(".orchestration/command_policy.yaml", rules)
    for path in ("a.txt", "build/out.txt", "src/auth/old.txt", "src/api/user.py"):
        governed.put(path)
    for name in ("pytest", "lint", "gen.sh"):
        governed.program(name, "echo done")
    unknown = ["./pytest -q; ./other", "PATH=src/auth:$PATH ./lint all"]
    line = "./gen.sh build"
    others = [f"{line} all", f"X=1 {line}"]
    reported, asked = governed.play_rows(
        {
            "allowed by the intent": Row(run("./pytest -q")),
            "allowed by the project": Row(run("./lint all")),
            **{each: Row(run(each), "no", "REQ-002") for each in unknown},
            "nobody knows": Row(run("make build"), "no", "REQ-002"),
            "removes": Row(run("cat a.txt && rm -rf build"), "no", "REQ-001"),
            "redirects": Row(run("echo x > src/api/user.py"), "no", "REQ-001"),
            "only reads": Row(run("cat a.txt")),
            "in scope": Row(run("echo x > src/auth/new.txt")),
            "yes for the task": Row(run(line), "task"),
            "the very line again": Row(run(line)),
            **{each: Row(run(each), "no", "REQ-002") for each in others},
        }
    )
    assert "done" in reported.results[1]
    for each in (*unknown, *others):
        assert (asked[each].text, reasons(asked[each])) == (each, ["REQ-002"])
    make, remove = asked["nobody knows"].governance, asked["removes"].governance
    assert make
    assert make.analysis == "unbounded"
    assert remove
    assert remove.analysis == "bounded"
    assert ("build/out.txt", "delete") in {(each.path, each.op) for each in remove.targets}
    question = asked["yes for the task"].governance
    assert question
    assert question.grant == line
    assert reported.refusal(5)["error_type"] == "unknown_targets"
    assert reported.refusal(7)["filename"] == "src/api/user.py"
    assert {governed.text(path) for path in ("build/out.txt", "src/api/user.py")} == {"old\n"}
    assert governed.text("src/auth/new.txt") == "x\n"
    ran = own_records(governed.root, "command")
    assert [each["outcome"] for each in ran] == ["success"] * 6
    assert ran[0]["command"]["text"] == "./pytest -q"


def test_out_of_scope_writes_of_a_command_are_reported_and_revertible(governed: Governed):
    for name in ("one", "two"):
        governed.program(f"{name}.sh", f"mkdir -p src/api; echo made > src/api/{name}.py")
    reported = governed.play(
        [choose()], [run("./one.sh")], [run("./two.sh")], book=["yes", "yes", "yes", "no"]
    )
    first, put_back, _, kept = reported.questions
    assert reasons(first) == ["REQ-002"]
    assert "src/api/one.py" in put_back.text
    assert "src/api/two.py" in kept.text
    said = "".join(each.text for each in reported.of(Reminded))
    assert said.count("CMD-002") == 2
    assert "src/api/one.py" in said
    commands = own_records(governed.root, "command")
    for command, path in zip(commands, ("src/api/one.py", "src/api/two.py"), strict=True):
        assert (command["scope"], command["error"]["code"]) == ("out_of_scope_detected", "CMD-002")
        [file] = command["files"]
        assert (file["path"], file["before"], file["after"]["size"]) == (path, None, 5)
    assert (governed.there("src/api/one.py"), governed.there("src/api/two.py")) == (False, True)
    assert governed.is_whole()


def test_a_noninteractive_run_exits_with_20_and_keeps_the_file(governed: Governed):
    """Nor does it help to give the call a name of a check: names are the model's to choose."""
    governed.program("gen.sh", "mkdir -p src/api; echo made > src/api/gen.py")
    disguised = call(
        "execute_command", id="check-INT-001-AC-1", command="./gen.sh", cwd=None, timeout=None
    )
    reported = governed.alone([choose()], [disguised], flags=UNKNOWN)
    assert reported.exit_code == 20
    assert "CMD-002" in reported.requests[2]
    assert governed.text("src/api/gen.py") == "made\n"
    assert reported.governance
    assert reported.governance["out_of_scope"] == ["src/api/gen.py"]
    [command] = own_records(governed.root, "command")
    assert command["approval"]["by"] == "flag"


def test_background_writes_of_a_command_are_recorded(governed: Governed):
    """It writes when the user answers, after its own call has ended."""
    governed.put("src/auth/a.py")
    line = "until test -e src/auth/go; do sleep 0.02; done; echo late > src/auth/late.py"
    server = call("execute_command", command=line, cwd=None, timeout=1)

    def let_it_write(_: Asked) -> str:
        governed.put("src/auth/go")
        governed.until_there("src/auth/late.py")
        return "message Go on"

    reported = governed.play(
        [choose()], [server], [wait()], [run("cat src/auth/a.py")], book=["yes", let_it_write]
    )
    first, *rest = own_records(governed.root, "command")
    assert "src/auth/late.py" not in paths(first), "it was not there when the call had ended"
    [late] = [each for each in rest if "src/auth/late.py" in paths(each)]
    assert late["tool_use_id"] == first["tool_use_id"]
    assert {each["attribution"] for each in late["files"]} == {"window"}
    assert "CMD-002" not in str([*reported.of(Reminded)])


def test_no_command_runs_without_the_required_sandbox(governed: Governed):
    governed.put(FILE, intents(policy="commands: {sandbox: required}"))
    governed.program("gen.sh", "touch made")
    governed.settings(NO_SANDBOX)
    reported = governed.play([choose()], [run("./gen.sh")])
    assert reported.codes[1] == "CMD-001"
    assert reported.questions == []
    assert not governed.there("made")


def test_in_the_sandbox_a_write_outside_the_scope_fails(governed: Governed):
    governed.put(FILE, intents(policy="commands: {sandbox: auto}"))
    governed.program("gen.sh", "mkdir -p src/api; echo made > src/api/gen.py")
    governed.program("in.sh", "echo mine > src/auth/mine.py && touch other.txt")
    governed.put("src/auth/a.py")
    reported = governed.play([choose()], [run("./gen.sh")], [run("./in.sh")])
    assert reported.questions == [], "what cannot write elsewhere need not be asked about"
    assert not governed.there("src/api/gen.py")
    assert not governed.there("other.txt")
    assert governed.text("src/auth/mine.py") == "mine\n"
    codes = [each["command"].get("exit_code", 0) for each in own_records(governed.root, "command")]
    assert [code != 0 for code in codes] == [True, True]


def over_mcp(**arguments: Any) -> Any:
    return call("use_mcp_tool", server="files", tool="write_file", arguments=arguments)


def test_an_mcp_tool_is_checked_by_its_path_arguments(governed: Governed):
    received = governed.root.parent / "heard"
    server = {"command": sys.executable, "args": ["-S", "-E", str(SERVER), str(received)]}
    folder = governed.rookery.home / "config"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"files": server}}))
    outside = governed.root.parent / "outside.txt"
    reported, asked = governed.play_rows(
        {
            "out of scope": Row(over_mcp(edits=[{"path": "src/api/u.py"}]), "no", "REQ-001"),
            "in scope": Row(over_mcp(path="src/auth/u.py"), "yes"),
            "outside": Row(over_mcp(uri=outside.as_uri()), "no", "REQ-001"),
            "up": Row(
                over_mcp(uri=f"file://{governed.root}/src/auth/../../../outside.txt"), "", "REQ-015"
            ),
        }
    )
    assert "REQ-001" in reasons(asked["out of scope"])
    assert reasons(asked["in scope"]) == ["REQ-002"], "the effects of a server are unknown"
    assert "REQ-001" in reasons(asked["outside"])
    assert [json.loads(line) for line in received.read_text().splitlines()] == [
        {"path": "src/auth/u.py"}
    ]
    assert str(outside) not in reported.results[3]
    [external] = own_records(governed.root, "external")
    assert external["mcp"] == {"server": "files", "tool": "write_file"}
    assert external["scope"] == "unknown_approved"


def test_a_sub_task_at_any_depth_has_the_intent_of_its_parent(governed: Governed):
    reported = governed.alone(
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
    [blocked], [mutation] = (
        own_records(governed.root, "blocked"),
        own_records(governed.root, "mutation"),
    )
    assert blocked["error"]["code"] == "REQ-001"
    assert not governed.there("src/api/user.py")
    assert governed.text("src/auth/deep.py") == "new\n"
    assert mutation["intent_id"] == "INT-001"
    assert mutation["task_id"] == blocked["task_id"]
    [selected] = own_records(governed.root, "intent_selected")
    own = {selected["task_id"], mutation["task_id"], mutation["parent_task_id"]}
    assert len(own) == 3
    assert reported.codes.count("REQ-001") == 1
    assert '<intent_context id=\\"INT-001\\"' in reported.requests[2]


CUSTOM_TOOL = {
    'allow: ["custom_tool"]': "42",
    'deny: ["custom_tool"]': "CMD-001",
    'allow: ["custom_tool"], deny: ["execute_command"]': "CMD-001",
    'allow: ["execute_command"]': "REQ-002",
}


def test_a_custom_tool_has_its_own_rules_and_can_be_denied(
    governed: Governed,
):
    listed = "active_intents:\n"
    folder = governed.rookery.home / "config" / "tools"
    folder.mkdir(parents=True)
    calls: list[Any] = []
    for number, rules in enumerate(CUSTOM_TOOL):
        listed += (
            f"  - {{id: INT-{number}, name: n, status: IN_PROGRESS, owned_scope: [src/{number}],"
            f" permissions: {{{rules}}}}}\n"
        )
        tool = 'description = "Say"\ncommand = ["sh", "-c", "echo 42"]\n'
        (folder / f"say_{number}.toml").write_text(tool)
        calls += [[choose(f"INT-{number}")], [call(f"say_{number}")]]
    governed.put(FILE, listed)
    reported = governed.alone(*calls)
    for (rules, said), result in zip(CUSTOM_TOOL.items(), reported.results[1::2], strict=True):
        assert said in result, rules
