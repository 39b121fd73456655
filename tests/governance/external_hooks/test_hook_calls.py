"""Calls as hooks are shown them, and back."""

from typing import Any

import pytest

from rookery.core.blocks import ToolCall
from rookery.governance.external_hooks.hook_calls import (
    CannotMap,
    map_back,
    names_of,
    sample_call,
    shown_calls,
    touched_paths,
)
from rookery.governance.external_hooks.hook_config import Dialect
from support.each_row import each_row

ROOT = "/home/ada/project"
DIFF = """\
<<<<<<< SEARCH
:start_line:1
-------
old one
=======
new one
>>>>>>> REPLACE

<<<<<<< SEARCH
old two
=======
new two
>>>>>>> REPLACE
"""
PATCH = """\
*** Begin Patch
*** Add File: a.txt
+hello
*** Update File: b/c.txt
*** Move to: b/d.txt
@@
-old
+new
*** Delete File: e.txt
*** End Patch
"""


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="c1", name=name, arguments=arguments)


A = f"{ROOT}/a.txt"


def edit(path: str, old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"file_path": path, "old_string": old, "new_string": new, **more}


SHOWN: dict[str, tuple[ToolCall, str, list[dict[str, Any]]]] = {
    "command": (
        call("execute_command", command="ls", cwd="src", timeout=1.5),
        "Bash",
        [{"command": "ls", "timeout": 1500}],
    ),
    "no limit": (call("execute_command", command="ls"), "Bash", [{"command": "ls"}]),
    "write": (
        call("write_to_file", path="src/../a.txt", content="x"),
        "Write",
        [{"file_path": A, "content": "x"}],
    ),
    "edit": (
        call("edit", file_path="a.txt", old_string="x", new_string="y", replace_all=True),
        "Edit",
        [edit(A, "x", "y", replace_all=True)],
    ),
    "edit_file": (
        call("edit_file", file_path="/x/a.txt", old_string="x", new_string="y"),
        "Edit",
        [edit("/x/a.txt", "x", "y")],
    ),
    "apply_diff": (
        call("apply_diff", path="a.txt", diff=DIFF),
        "Edit",
        [edit(A, "old one\nold two", "new one\nnew two")],
    ),
    "apply_patch": (
        call("apply_patch", patch=PATCH),
        "Edit",
        [
            edit(A, "", "hello\n"),
            edit(f"{ROOT}/b/c.txt", "old", "new"),
            edit(f"{ROOT}/b/d.txt", "old", "new"),
            {"file_path": f"{ROOT}/e.txt"},
        ],
    ),
    "read": (
        call("read_file", path="a.txt", offset=2, limit=5),
        "Read",
        [{"file_path": A, "offset": 2, "limit": 5}],
    ),
    "read several": (
        call("read_file", files=[{"path": "a.txt"}, {"path": "b.txt"}]),
        "Read",
        [{"file_path": A}, {"file_path": f"{ROOT}/b.txt"}],
    ),
    "list": (
        call("list_files", path="src", recursive=True),
        "Glob",
        [{"path": f"{ROOT}/src", "pattern": "**/*"}],
    ),
    "search": (
        call("search_files", path=".", regex="x+", file_pattern="*.py"),
        "Grep",
        [{"path": ROOT, "pattern": "x+", "glob": "*.py"}],
    ),
    "todos": (call("update_todo_list", todos="[ ] x"), "TodoWrite", [{"todos": "[ ] x"}]),
    "task": (
        call("new_task", mode="code", message="do it"),
        "Task",
        [{"prompt": "do it", "subagent_type": "code"}],
    ),
    "ask": (call("ask_followup_question", question="?"), "AskUserQuestion", [{"question": "?"}]),
    "mcp": (call("mcp--files--read--all", path="x"), "mcp__files__read--all", [{"path": "x"}]),
    "use_mcp_tool": (
        call("use_mcp_tool", server="files", tool="read", arguments={"path": "x"}),
        "mcp__files__read",
        [{"path": "x"}],
    ),
    "other": (call("switch_mode", mode="ask"), "switch_mode", [{"mode": "ask"}]),
    "malformed patch": (call("apply_patch", patch="no"), "Edit", [{"patch": "no"}]),
}


@each_row("case", SHOWN)
def test_the_widespread_names_and_shapes(case: str):
    made, name, inputs = SHOWN[case]
    shown = shown_calls(made, Dialect.CLAUDE, ROOT)
    assert [dict(each.tool_input) for each in shown] == inputs
    assert {each.tool_name for each in shown} == {name}
    assert {name, made.name} <= set(names_of(made))
    (native,) = shown_calls(made, Dialect.NATIVE, ROOT)
    assert (native.tool_name, dict(native.tool_input)) == (made.name, dict(made.arguments))


def test_a_task_is_also_matched_as_an_agent():
    assert "Agent" in names_of(call("new_task", mode="code", message="x"))


@each_row("case", SHOWN)
def test_an_input_that_comes_back_unchanged_changes_nothing(case: str):
    made = SHOWN[case][0]
    for dialect in Dialect:
        shown = shown_calls(made, dialect, ROOT)
        for at, each in enumerate(shown):
            assert map_back(made, shown, at, dict(each.tool_input), ROOT) is None


BACK: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "command": ("command", {"command": "ls -l", "timeout": 1500}, {"command": "ls -l"}),
    "write": ("write", {"file_path": f"{ROOT}/b.txt", "content": "x"}, {"path": "b.txt"}),
    "write elsewhere": ("write", {"file_path": "/b.txt", "content": "x"}, {"path": "/b.txt"}),
    "content": ("write", {"file_path": A, "content": "y", "unknown": 1}, {"content": "y"}),
    "diff elsewhere": (
        "apply_diff",
        edit(f"{ROOT}/b.txt", "old one\nold two", "new one\nnew two"),
        {"path": "b.txt"},
    ),
    "search": ("search", {"pattern": "y", "path": ROOT, "glob": "*.py"}, {"regex": "y"}),
    "task": ("task", {"prompt": "no", "subagent_type": "code"}, {"message": "no"}),
    "use_mcp_tool": ("use_mcp_tool", {"path": "y"}, {"arguments": {"path": "y"}}),
    "other": ("other", {"mode": "code"}, {"mode": "code"}),
}


@each_row("case", BACK)
def test_a_new_input_becomes_arguments_of_ours(case: str):
    name, updated, changed = BACK[case]
    made = SHOWN[name][0]
    shown = shown_calls(made, Dialect.CLAUDE, ROOT)
    assert map_back(made, shown, 0, updated, ROOT) == {**made.arguments, **changed}


def test_an_argument_left_out_of_the_new_input_is_removed():
    made = SHOWN["command"][0]
    shown = shown_calls(made, Dialect.CLAUDE, ROOT)
    assert map_back(made, shown, 0, {"command": "ls"}, ROOT) == {"command": "ls", "cwd": "src"}


@each_row(
    ("name", "at", "updated"),
    [
        ("apply_patch", 1, {"file_path": f"{ROOT}/x"}),
        ("read several", 0, {"file_path": f"{ROOT}/x"}),
        ("apply_diff", 0, {"file_path": f"{ROOT}/a.txt", "new_string": "other"}),
        ("list", 0, {"path": ROOT, "pattern": "*.py"}),
        ("malformed patch", 0, {"patch": "other"}),
    ],
)
def test_an_input_that_cannot_be_mapped_back_is_refused(
    name: str, at: int, updated: dict[str, Any]
):
    made = SHOWN[name][0]
    with pytest.raises(CannotMap):
        map_back(made, shown_calls(made, Dialect.CLAUDE, ROOT), at, updated, ROOT)


def test_paths_of_a_call_are_relative_to_the_workspace():
    made = call("apply_patch", patch=PATCH)
    assert touched_paths(made, ROOT) == ("a.txt", "b/c.txt", "b/d.txt", "e.txt")
    assert touched_paths(call("read_file", path=f"{ROOT}/a/../b"), ROOT) == ("b",)
    assert touched_paths(call("read_file", path="../x"), ROOT) == ("/home/ada/x",)


def test_a_sample_is_named_in_either_way():
    made = sample_call("Write", {"file_path": "a", "content": "b"}, "c1")
    assert made == call("write_to_file", path="a", content="b")
    assert sample_call("mcp__a__b", {}, "c1") == call("mcp--a--b")
    assert sample_call("execute_command", {"command": "x"}, "c1") == call(
        "execute_command", command="x"
    )
