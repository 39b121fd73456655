"""What holds for a run, seen in what the real command tells a model and lets it do: settings,
modes, plans, and what is under way."""

import json
from collections.abc import Callable

import pytest

from llm_server import LlmServer, Recorded, call, finish
from support.terminal_session import Installed, a_pause, at

NOBODY = "Not interactive: this needs approval, so it was skipped."


def last_turn(request: Recorded) -> str:
    return json.dumps(request.body["messages"][-1], ensure_ascii=False)


def system(request: Recorded) -> str:
    return "".join(block["text"] for block in request.body["system"])


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


@pytest.mark.parametrize(
    ("setting", "act"),
    [("approve_subtasks", PART), ("approve_modes", SWITCH), ("approve_edits", EDIT)],
    ids=["sub-task", "switch", "edit"],
)
def test_what_the_settings_approve_needs_nobody(rookery: Installed, setting: str, act: object):
    with LlmServer([act], [finish()], [finish()]) as server:
        rookery.run("-p", "-a", *at(server), "go")
    assert NOBODY in last_turn(server.requests[1])
    set_up(rookery, f"{setting} = true\n")
    with LlmServer([act], [finish()], [finish()]) as server:
        done = rookery.run("-p", "-a", *at(server), "go")
    assert done.returncode == 0
    assert NOBODY not in "".join(map(last_turn, server.requests))


def test_what_a_mode_is_told_besides_and_only_that_mode(rookery: Installed):
    set_up(rookery, '[modes.ask]\ninstructions = "Answer in rhymes."\n')
    assert "Answer in rhymes." in first_system(rookery, "--mode", "ask")
    assert "Answer in rhymes." not in first_system(rookery)


def test_a_model_that_a_mode_cannot_have_is_told_and_the_usual_one_is_asked(
    rookery: Installed,
):
    set_up(rookery, '[modes.ask]\nprovider = "openai"\nmodel = "gpt-x"\n')
    listing = call("list_files", path=".", recursive=False)
    with LlmServer([listing], [finish("Fine.")]) as server:
        done = rookery.run("-p", *at(server), "--mode", "ask", "go")
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    assert [request.body["model"] for request in server.requests] == ["claude-x"] * 2
    assert done.stderr.count("Mode ask uses another model.") == 1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ('[context]\ninstructions = "Mind the gap."\n', lambda said: "Mind the gap." in said),
        ('[context]\nlanguage = "Basque"\n', lambda said: "Basque" in said),
        ("[context]\nagent_rules = false\n", lambda said: "Use tabs." not in said),
        ("[context]\nsubfolder_rules = true\n", lambda said: "sub/AGENTS.md" in said),
    ],
    ids=["instructions", "language", "agent-rules", "subfolder-rules"],
)
def test_what_models_are_told_goes_by_the_settings(
    rookery: Installed, settings: str, told: Callable[[str], bool]
):
    (rookery.workspace / "AGENTS.md").write_text("Use tabs.")
    (rookery.workspace / "sub").mkdir()
    (rookery.workspace / "sub" / "AGENTS.md").write_text("Use spaces.")
    assert not told(first_system(rookery))
    set_up(rookery, settings)
    assert told(first_system(rookery))


def test_a_plan_that_was_accepted_is_told_with_every_later_request(rookery: Installed):
    listing = call("list_files", path=".", recursive=False)
    with LlmServer([finish("First this, then that.")], [listing], [finish()]) as server:
        rookery.run("-p", *at(server), "--mode", "architect", "plan it")
        rookery.run("-p", *at(server), "-c", "go on")
    assert len(server.requests) == 3
    for later in server.requests[1:]:
        assert "Plan that the user has accepted" in last_turn(later)


def test_what_a_mode_has_not_tells_nothing_of_files(rookery: Installed):
    """Such a call is answered before anybody looks whether it could be done."""
    (rookery.workspace / "there.txt").write_text("x\n")
    edits = [
        call("edit", file_path=path, old_string="y", new_string="z")
        for path in ("there.txt", "not-there.txt")
    ]
    with LlmServer([edits[0]], [edits[1]], [finish()]) as server:
        rookery.run("-p", *at(server), "--mode", "ask", "edit it")
    for told in server.requests[1:]:
        assert "Mode ask does not have edit" in last_turn(told)


def test_a_command_that_runs_on_is_told_with_every_request(rookery: Installed):
    line = f"echo up; sleep {a_pause()}"
    begin = call("execute_command", command=line, cwd=None, timeout=1)
    listing = call("list_files", path=".", recursive=False)
    with LlmServer([begin], [listing], [finish()]) as server:
        rookery.run("-p", *at(server), "go")
    assert "# Running commands" not in last_turn(server.requests[0])
    for later in server.requests[1:]:
        assert f": {line}" in last_turn(later).partition("# Running commands")[2]


def test_a_command_that_brings_a_mode_along_gets_it_only_if_somebody_allows_it(
    rookery: Installed,
):
    folder = rookery.home / "config" / "commands"
    folder.mkdir(parents=True)
    (folder / "look.md").write_text("---\nmode: ask\n---\nLook at everything.")
    with LlmServer([finish()]) as server:
        rookery.run("-p", "-a", *at(server), "/look")
    told = last_turn(server.requests[0])
    assert "Look at everything." in told
    assert "The user did not want mode ask for /look." in told
    assert "<slug>code</slug>" in told


def test_a_session_whose_mode_is_gone_changes_nothing(rookery: Installed):
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


def test_the_key_in_use_is_not_sent_to_the_model(rookery: Installed):
    key = "the-key-of-this-user-0123456789"
    (rookery.workspace / "notes.txt").write_text(f"it is {key}, I think\n")
    with LlmServer([call("read_file", path="notes.txt")], [finish()]) as server:
        rookery.run("-p", *at(server), "read it", ANTHROPIC_API_KEY=key)
    told = last_turn(server.requests[1])
    assert "I think" in told
    assert key not in told
