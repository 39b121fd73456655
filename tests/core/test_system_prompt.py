import itertools
import re

import pytest

from rookery.core.system_prompt import MODES, system_prompt

TOOLS = (
    "read_file",
    "edit",
    "write_to_file",
    "apply_diff",
    "execute_command",
    "ask_followup_question",
    "attempt_completion",
)


def prompt(mode: str = "code", tools: tuple[str, ...] = TOOLS, **more: str) -> str:
    return system_prompt(
        mode=mode,
        workspace="/home/me/project",
        tools=tools,
        surroundings=more.get("surroundings", "Linux, shell bash"),
        custom=more.get("custom", ""),
    )


@pytest.mark.parametrize("mode", MODES)
def test_it_is_short(mode: str):
    assert len(prompt(mode)) < 600 * 4


def test_it_says_who_where_and_on_what():
    said = prompt()
    assert said.startswith("You are rookery, ")
    assert "The workspace is /home/me/project. " in said
    assert said.endswith("The system: Linux, shell bash.\n")


def test_each_mode_has_its_own_line():
    assert set(MODES) == {"code", "ask", "architect", "debug", "orchestrator"}
    for mode, line in MODES.items():
        said = prompt(mode)
        assert f"Mode {mode}: {line}" in said
        assert sum(other in said for other in MODES.values()) == 1


def test_a_mode_it_does_not_know_is_named():
    assert "Mode gardener.\n" in prompt("gardener")


def test_the_same_task_gets_the_same_bytes_in_whatever_order_its_tools_come():
    assert len({prompt(tools=tools) for tools in itertools.permutations(TOOLS)}) == 1


def test_nothing_in_it_changes_with_the_day():
    assert not re.search(r"\d", prompt())


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("edit", "Read a file before you change it."),
        ("apply_diff", "Read a file before you change it."),
        ("write_to_file", "Read a file before you change it."),
        ("execute_command", "run the tests"),
        ("ask_followup_question", "ask_followup_question only"),
        ("attempt_completion", "call attempt_completion"),
    ],
)
def test_a_rule_is_there_only_with_its_tool(tool: str, words: str):
    assert words in prompt(tools=(tool,))
    assert words not in prompt(tools=("read_file",))


def test_what_the_user_adds_comes_last_and_nothing_is_added_for_nothing():
    assert prompt(custom=" Speak French.\n").endswith("\n\nThe user adds:\nSpeak French.\n")
    assert prompt(custom=" \n") == prompt()
    assert "The system" not in prompt(surroundings="")
