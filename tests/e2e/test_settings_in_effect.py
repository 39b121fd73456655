"""Settings, modes and plans of a run, seen in its requests and in what it allows."""

import json

from llm_server import LlmServer, call, finish
from support.model_words import last_turn, system
from support.terminal_session import Installed, a_pause, at

NOBODY = "Not interactive: this needs approval, so it was skipped."


def set_up(rookery: Installed, settings: str) -> None:
    folder = rookery.home / "config"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.toml").write_text(settings)


def first_system(rookery: Installed, *flags: str) -> str:
    with LlmServer([finish()]) as server:
        done = rookery.run("-p", *at(server), *flags, "go")
    assert done.returncode == 0, done.stderr
    return system(server.requests[0])


PART = call("new_task", mode="ask", message="Look at it.")
SWITCH = call("switch_mode", mode_slug="ask", reason="to explain")
EDIT = call("write_to_file", path="a.txt", content="x\n")


def test_actions_approved_by_settings_run_without_a_question(rookery: Installed):
    acts = [EDIT], [PART], [SWITCH]
    with LlmServer(*acts, [finish()]) as server:
        rookery.run("-p", "-a", *at(server), "go")
    assert all(NOBODY in last_turn(request) for request in server.requests[1:])
    set_up(rookery, "approve_edits = true\napprove_subtasks = true\napprove_modes = true\n")
    with LlmServer([EDIT], [PART], [finish()], [SWITCH], [finish()]) as server:
        done = rookery.run("-p", "-a", *at(server), "go")
    assert done.returncode == 0
    assert len(server.requests) == 5
    assert NOBODY not in "".join(map(last_turn, server.requests))


def test_instructions_of_a_mode_reach_only_that_mode(rookery: Installed):
    set_up(rookery, '[modes.ask]\ninstructions = "Answer in rhymes."\n')
    assert "Answer in rhymes." in first_system(rookery, "--mode", "ask")
    assert "Answer in rhymes." not in first_system(rookery)


def test_an_unusable_mode_model_is_reported_and_the_default_used(
    rookery: Installed,
):
    set_up(rookery, '[modes.ask]\nprovider = "openai"\nmodel = "gpt-x"\n')
    listing = call("list_files", path=".", recursive=False)
    with LlmServer([listing], [finish("Fine.")]) as server:
        done = rookery.run("-p", *at(server), "--mode", "ask", "go")
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    assert [request.body["model"] for request in server.requests] == ["claude-x"] * 2
    assert done.stderr.count("Mode ask uses another model.") == 1


def test_context_settings_change_the_system_prompt(rookery: Installed):
    (rookery.workspace / "AGENTS.md").write_text("Use tabs.")
    (rookery.workspace / "CLAUDE.md").write_text("Use braces.")
    rules = rookery.workspace / "sub" / ".rookery" / "rules"
    rules.mkdir(parents=True)
    (rules / "a.md").write_text("Use spaces.")
    words = ("Mind the gap.", "Basque", "Use spaces.", "Use tabs.", "Use braces.")
    chosen = 'instructions = "Mind the gap."\nlanguage = "Basque"\nsubfolder_rules = true\n'
    for settings, expected in (
        ("", [False, False, False, True, True]),
        (chosen, [True, True, True, True, True]),
        ("other_agents = false\n", [False, False, False, True, False]),
        ("agent_rules = false\n", [False, False, False, False, False]),
    ):
        set_up(rookery, f"[context]\n{settings}")
        reported = first_system(rookery)
        assert [word in reported for word in words] == expected, settings


def test_an_accepted_plan_is_in_every_later_request_once(rookery: Installed):
    listing = call("list_files", path=".", recursive=False)
    with LlmServer([finish("First this, then that.")], [listing], [finish()]) as server:
        rookery.run("-p", *at(server), "--mode", "architect", "plan it")
        rookery.run("-p", *at(server), "-c", "go on")
    assert len(server.requests) == 3
    title = "Plan that the user has accepted"
    assert title in last_turn(server.requests[1])
    assert [json.dumps(each.body).count(title) for each in server.requests] == [0, 1, 1]


def test_a_tool_outside_the_mode_reveals_nothing_about_files(rookery: Installed):
    """Such a call is answered before it is checked whether it could run."""
    (rookery.workspace / "there.txt").write_text("x\n")
    edits = [
        call("edit", file_path=path, old_string="y", new_string="z")
        for path in ("there.txt", "not-there.txt")
    ]
    with LlmServer([edits[0]], [edits[1]], [finish()]) as server:
        rookery.run("-p", *at(server), "--mode", "ask", "edit it")
    for reported in server.requests[1:]:
        assert "Mode ask does not have edit" in last_turn(reported)


def test_a_background_command_is_in_every_later_request_once(rookery: Installed):
    line = f"echo up; sleep {a_pause()}"
    begin = call("execute_command", command=line, cwd=None, timeout=1)
    listing = call("list_files", path=".", recursive=False)
    with LlmServer([begin], [listing], [finish()]) as server:
        rookery.run("-p", *at(server), "go")
    assert "# Running commands" not in last_turn(server.requests[0])
    assert f": {line}" in last_turn(server.requests[1]).partition("# Running commands")[2]
    titles = [json.dumps(each.body).count("# Running commands") for each in server.requests]
    assert titles == [0, 1, 1]


def test_a_command_with_a_mode_needs_approval_to_switch(
    rookery: Installed,
):
    folder = rookery.home / "config" / "commands"
    folder.mkdir(parents=True)
    (folder / "look.md").write_text("---\nmode: ask\n---\nLook at everything.")
    with LlmServer([finish()]) as server:
        rookery.run("-p", "-a", *at(server), "/look")
    reported = last_turn(server.requests[0])
    assert "Look at everything." in reported
    assert "The user did not want mode ask for /look." in reported
    assert "<slug>code</slug>" in reported


def test_a_session_with_a_missing_mode_changes_nothing(rookery: Installed):
    modes = rookery.workspace / ".roomodes"
    modes.write_text(
        "customModes:\n- {slug: docs, name: Docs, roleDefinition: You write., groups: [edit]}\n"
    )
    with LlmServer([finish()], [EDIT], [finish()]) as server:
        rookery.run("-p", *at(server), "--mode", "docs", "begin")
        modes.unlink()
        rookery.run("-p", *at(server), "-c", "go on")
    assert len(server.requests) == 3
    assert not (rookery.workspace / "a.txt").exists()
