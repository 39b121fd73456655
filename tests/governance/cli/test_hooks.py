"""`rookery hooks`: listed without being started, trusted after a look, tried on a sample."""

import json
from pathlib import Path
from typing import Any

import pytest

from rookery.errors import SettingsError
from rookery.governance.cli.hooks_command import EXITS_WITH_1, command
from rookery.governance.external_hooks.hook_config import HookEvent
from rookery.permissions.trust import TrustStore
from support.intent_files import SPEC_EXAMPLE, laid_out


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]):
    def call(*arguments: str, code: int = 0) -> str:
        assert (
            command.main(list(arguments), standalone_mode=False, help_option_names=["-h", "--help"])
            == code
        )
        return capsys.readouterr().out

    return call


@pytest.fixture
def work(home: Path) -> Path:
    work = Path.cwd()
    TrustStore(home / "config" / "trust.json").trust(work)
    return work


def define(file: Path, *entries: dict[str, Any], event: str = "PreToolUse", **group: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"hooks": {event: [{"hooks": list(entries), **group}]}}))


def user_file(home: Path) -> Path:
    return home / "config" / "hooks.json"


def project_file(work: Path) -> Path:
    return work / ".orchestration" / "hooks.json"


def test_without_hooks_it_says_where_they_belong(printed, home: Path):
    assert printed("list") == f"No hooks. Put yours into {user_file(home)}.\n"
    assert printed() == printed("list")
    assert json.loads(printed("list", "--json")) == {"hooks": [], "problems": [], "trust": None}


def test_listing_starts_nothing(printed, home: Path, work: Path):
    define(user_file(home), {"command": "touch started"}, event="SessionStart")
    define(project_file(work), {"command": "touch started", "name": "p"}, matcher="Edit")
    rows = [line.split() for line in printed("list").splitlines()]
    assert rows[0][:5] == ["SessionStart-1", "user", "SessionStart", "*", "trusted"]
    assert rows[1][:5] == ["p", "project", "PreToolUse", "Edit", "untrusted"]
    assert rows[2][-1] == "p"
    assert not (work / "started").exists()


def test_the_list_for_programs(printed, home: Path):
    define(user_file(home), {"command": "x", "args": ["a b"], "name": "n", "if": "Bash"}, {})
    reported = json.loads(printed("list", "--json"))
    assert reported["hooks"] == [
        {
            "name": "n",
            "source": "user",
            "file": str(user_file(home)),
            "event": "PreToolUse",
            "matcher": "",
            "if": "Bash",
            "command": "x 'a b'",
            "timeout": 60.0,
            "on_failure": "default",
            "dialect": "claude",
            "async": False,
            "status": "trusted",
        }
    ]
    assert [each["where"] for each in reported["problems"]] == [
        "hooks.PreToolUse[0].hooks[1].command"
    ]


def test_hook_definitions_cannot_control_the_terminal(printed, work: Path):
    define(project_file(work), {"command": "x\x1b[2Jy\nz", "name": "\x1b[31mn"}, matcher="a\x07.")
    listed = printed("list")
    assert "\x1b" not in listed
    assert "\x07" not in listed
    assert len(listed.splitlines()) == 2


def test_trusting_shows_what_would_run_and_then_what_changed(printed, work: Path):
    (work / "scan.sh").write_text("exit 0\n")
    define(project_file(work), {"command": "sh scan.sh", "name": "scan"})
    first = printed("trust", "scan", "-y")
    assert "command: sh scan.sh" in first
    assert "file scan.sh (sha256 " in first
    assert "scan is trusted as it is now." in first
    assert "  trusted  " in printed("list")
    assert printed("trust", "scan") == "scan is already trusted.\n"
    (work / "scan.sh").write_text("exit 2\n")
    assert "  modified  " in printed("list")
    again = printed("trust", "scan", "-y")
    assert "file scan.sh: changed (" in again
    assert "command:" not in again
    assert "  trusted  " in printed("list")


def test_trust_is_kept_outside_of_the_workspace(printed, home: Path, work: Path):
    define(project_file(work), {"command": "x", "name": "scan"})
    printed("trust", "scan", "-y")
    assert [path.name for path in work.rglob("*")] == [".orchestration", "hooks.json"]
    assert len(list((home / "config" / "governance").rglob("hook_trust.json"))) == 1


def test_without_confirmation_nothing_is_trusted(printed, work: Path):
    define(project_file(work), {"command": "x", "name": "scan"})
    with pytest.raises(SettingsError, match="use -y"):
        printed("trust", "scan")
    assert "untrusted" in printed("list")
    with pytest.raises(SettingsError, match="No such hook: nope"):
        printed("trust", "nope")


def test_in_a_folder_that_is_not_trusted_it_does_not_run(printed):
    define(project_file(Path.cwd()), {"command": "touch started", "name": "scan"})
    assert "only when the folder is trusted" in printed("trust", "scan", "-y")
    reported = printed("test", "PreToolUse")
    assert "No hook was run." in reported
    assert "the folder is not trusted" in reported
    assert not Path("started").exists()


def test_a_trial_prints_input_output_status_and_verdict(printed, home: Path):
    define(user_file(home), {"command": "echo out; echo no >&2; exit 2"}, matcher="Bash")
    reported = printed("test", "PreToolUse", "--tool", "Bash", "--input", '{"command": "rm x"}')
    assert '"tool_input": {"command": "rm x"}' in reported
    assert "  stdout: out\n  stderr: no\n  exit status 2 after " in reported
    assert reported.endswith("verdict: deny (HOOK-001): no\n")
    assert "No hook was run." in printed("test", "PreToolUse")


MODES = {
    "nothing is governed": (False, "", "off"),
    "there are intents": (True, "", "enforce"),
    "the user says so": (True, 'mode = "observe"', "observe"),
    "switched off": (True, 'mode = "off"', "off"),
    "required": (False, 'mode = "required"', "required"),
}


@pytest.mark.parametrize(("there", "settings", "mode"), MODES.values(), ids=MODES)
def test_a_trial_passes_the_mode_that_a_task_would_have(
    printed, home: Path, work: Path, there: bool, settings: str, mode: str
):
    define(user_file(home), {"command": "cat"})
    (home / "config" / "settings.toml").write_text(f"[governance]\n{settings}\n")
    if there:
        laid_out(work, SPEC_EXAMPLE)
    (run,) = json.loads(printed("test", "PreToolUse", "--json"))["runs"]
    assert run["input"]["governance"]["mode"] == mode


def test_a_trial_warns_that_exit_status_1_blocks_nothing(printed, home: Path):
    define(user_file(home), {"command": "exit 1"})
    reported = printed("test", "PreToolUse")
    assert EXITS_WITH_1 in reported
    assert "verdict: none" in reported


def test_a_trial_for_programs(printed, home: Path):
    own = {"hookEventName": "PreToolUse", "updatedInput": {"file_path": "b", "content": "c"}}
    answer = json.dumps({"systemMessage": "hello", "hookSpecificOutput": own})
    define(user_file(home), {"command": f"echo '{answer}'", "name": "n"})
    reported = json.loads(printed("test", "PreToolUse", "--json"))
    (run,) = reported["runs"]
    assert (run["hook"], run["exit_status"], run["stderr"]) == ("n", 0, "")
    assert run["input"]["native_tool_name"] == "write_to_file"
    assert reported["verdict"]["updated_input"] == {"path": "b", "content": "c"}
    assert reported["verdict"]["system_messages"] == ["hello"]


@pytest.mark.parametrize("event", HookEvent)
def test_every_event_has_a_sample(printed, home: Path, event: HookEvent):
    define(user_file(home), {"command": "cat"}, event=event)
    (run,) = json.loads(printed("test", event, "--json"))["runs"]
    assert run["input"]["hook_event_name"] == event


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Nope"], "No such event: Nope"),
        (["Stop", "--tool", "Bash"], "not a tool event"),
        (["PreToolUse", "--input", "{"], "--input is not JSON"),
        (["PreToolUse", "--input", "[]"], "--input must be a JSON object"),
    ],
)
def test_invalid_input_is_reported(printed, arguments: list[str], said: str):
    with pytest.raises(SettingsError, match=said):
        printed("test", *arguments)


def test_the_users_settings_decide_about_files_of_another_product(printed, home: Path, work: Path):
    define(work / ".claude" / "settings.json", {"command": "x", "name": "imported"})
    assert "imported" not in printed("list")
    (home / "config" / "settings.toml").write_text("[hooks]\nimport_claude = true\n")
    assert "imported  claude  PreToolUse  *  untrusted  x" in printed("list")
    with (home / "config" / "settings.toml").open("a") as settings:
        settings.write("[context]\nother_agents = false\n")
    assert "imported" not in printed("list")
