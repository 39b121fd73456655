"""Reading hooks from files, and reporting invalid ones."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.governance.external_hooks.hook_config import (
    Dialect,
    HookCommand,
    HookEvent,
    HookFile,
    InvalidMatcher,
    Matcher,
    OnFailure,
    matcher,
    read_hooks,
)
from support.each_row import each_row


def of(*entries: Any, event: str = "PreToolUse", **group: Any) -> dict[str, Any]:
    return {"version": 1, "hooks": {event: [{"hooks": list(entries), **group}]}}


def only(file: HookFile) -> HookCommand:
    assert file.problems == ()
    (hook,) = file.hooks
    return hook


def test_the_example_of_the_specification():
    entry = {
        "type": "command",
        "name": "secrets",
        "command": 'python3 "$CLAUDE_PROJECT_DIR"/tools/secret_scan.py',
        "timeout": 20,
        "on_failure": "block",
    }
    hook = only(read_hooks(of(entry, matcher="Edit|Write")))
    assert hook == HookCommand(
        event=HookEvent.PRE_TOOL_USE,
        name="secrets",
        command='python3 "$CLAUDE_PROJECT_DIR"/tools/secret_scan.py',
        matcher=Matcher("Edit|Write"),
        timeout=20.0,
        on_failure=OnFailure.BLOCK,
    )


def test_missing_keys_have_default_values():
    hook = only(read_hooks({"hooks": {"PostToolUse": [{"hooks": [{"command": "fmt"}]}]}}))
    assert (hook.name, hook.timeout, hook.on_failure) == ("PostToolUse-1", 60.0, OnFailure.UNSET)
    assert (hook.dialect, hook.background, hook.args) == (Dialect.CLAUDE, False, None)
    assert hook.sequential
    assert not only(read_hooks(of({"command": "x"}))).sequential


def test_no_two_hooks_of_an_event_have_the_same_name():
    same = {"command": "x", "name": "scan"}
    file = read_hooks(of(same, same, {"command": "x", "name": "PreToolUse-4"}, {"command": "x"}))
    names = [hook.name for hook in file.hooks]
    assert names == ["scan", "scan-2", "PreToolUse-4", "PreToolUse-4-2"]


@each_row(
    ("event", "said", "sequential"),
    [("PreToolUse", True, True), ("PostToolUse", False, False), ("Stop", True, True)],
)
def test_a_group_says_whether_its_hooks_wait(event: str, said: bool, sequential: bool):
    hook = only(read_hooks(of({"command": "x"}, event=event, sequential=said)))
    assert hook.sequential is sequential


@each_row(
    "entry",
    [
        {"on_failure": "block"},
        {"onFailure": "block"},
        {"failClosed": True},
        {"on_failure": "warn", "failClosed": True},
    ],
)
def test_every_spelling_of_block_on_failure_is_accepted(entry: dict[str, Any]):
    assert only(read_hooks(of({"command": "x", **entry}))).on_failure is OnFailure.BLOCK


FAULTY = {
    "no command": ({}, "command", "command is missing"),
    "blank command": ({"command": "  "}, "command", "command is missing"),
    "http": ({"type": "http", "url": "http://x"}, "type", "type http are not supported"),
    "prompt": ({"type": "prompt", "prompt": "?"}, "type", "type prompt are not supported"),
    "agent": ({"type": "agent"}, "type", "type agent are not supported"),
    "mcp_tool": ({"type": "mcp_tool"}, "type", "type mcp_tool are not supported"),
    "unknown type": ({"type": ["x"]}, "type", "unknown type"),
    "milliseconds": ({"command": "x", "timeout": 30_000}, "timeout", "not of milliseconds"),
    "too short": ({"command": "x", "timeout": 0}, "timeout", "from 1 to 3600"),
    "not a number": ({"command": "x", "timeout": "20"}, "timeout", "from 1 to 3600"),
    "yes is no number": ({"command": "x", "timeout": True}, "timeout", "from 1 to 3600"),
    "nan": ({"command": "x", "timeout": float("nan")}, "timeout", "from 1 to 3600"),
    "long name": ({"command": "x", "name": "n" * 65}, "name", "at most 64"),
    "name of two lines": ({"command": "x", "name": "a\nb"}, "name", "not one line"),
    "args": ({"command": "x", "args": "y"}, "args", "must be a list of texts"),
    "env": ({"command": "x", "env": {"A": 1}}, "env", "names and texts"),
    "env name": ({"command": "x", "env": {"A=B": "1"}}, "env", "names and texts"),
    "on_failure": ({"command": "x", "on_failure": ["block"]}, "on_failure", "warn or block"),
    "dialect": ({"command": "x", "dialect": {}}, "dialect", "claude or native"),
    "async": ({"command": "x", "async": "yes"}, "async", "true or false"),
    "if": ({"command": "x", "if": "Nonsense(("}, "if", "a rule is Tool"),
    "if of no tool": ({"command": "x", "if": "no_such_tool"}, "if", "no such tool"),
}


@each_row("case", FAULTY)
def test_a_faulty_entry_is_reported_and_spoils_no_other(case: str):
    entry, key, said = FAULTY[case]
    file = read_hooks(of({"command": "before"}, entry, {"command": "after"}))
    assert [hook.command for hook in file.hooks] == ["before", "after"]
    (problem,) = file.problems
    assert problem.where == f"hooks.PreToolUse[0].hooks[1].{key}"
    assert said in problem.text


@each_row(
    ("events", "where"),
    [
        ({"BeforeTool": []}, "hooks.BeforeTool"),
        ({"PreToolUse": {}}, "hooks.PreToolUse"),
        ({"PreToolUse": [7]}, "hooks.PreToolUse[0]"),
        ({"PreToolUse": [{"matcher": "x"}]}, "hooks.PreToolUse[0]"),
        ({"PreToolUse": [{"hooks": [7]}]}, "hooks.PreToolUse[0].hooks[0]"),
        (
            {"PreToolUse": [{"matcher": "(", "hooks": [{"command": "x"}]}]},
            "hooks.PreToolUse[0].matcher",
        ),
    ],
)
def test_an_unknown_event_or_group_is_reported_and_skipped(events: Any, where: str):
    file = read_hooks({"hooks": {**events, "Stop": [{"hooks": [{"command": "kept"}]}]}})
    assert [problem.where for problem in file.problems] == [where]
    assert [hook.command for hook in file.hooks] == ["kept"]


def test_another_version_is_not_guessed_at():
    later = {**of({"command": "x"}), "version": 2}
    assert read_hooks(later).hooks == ()
    assert read_hooks(later).problems[0].where == "version"
    assert read_hooks(later, imported=True).hooks


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["hooks", "matcher", "command", "type", "timeout", "env", "if", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*HookEvent, "Other"]), _JSON, max_size=3))
def test_nothing_that_is_json_breaks_the_reading(events: Any):
    file = read_hooks({"hooks": events})
    assert all(problem.text for problem in file.problems)


MATCHES = [
    ("", ["Bash"], True),
    ("*", [], True),
    ("Edit|Write", ["Write", "write_to_file"], True),
    ("Edit,Write", ["Write"], True),
    ("write_to_file", ["Write", "write_to_file"], True),
    ("Edit", ["NotebookEdit"], False),
    ("edit", ["Edit"], False),
    ("mcp__memory__.*", ["mcp__memory__read"], True),
    ("^Notebook", ["NotebookEdit"], True),
    ("Edit.*", ["NotebookEdit"], True),
    ("Edit", [], False),
    ("Edit | Write", ["Write"], True),
    (" Bash\n", ["Bash"], True),
    (" ", ["Bash"], True),
    ("|", ["Bash"], True),
    ("__delete$", ["mcp__" + "x" * 200 + "__delete"], True),
]


@each_row(("text", "names", "fits"), MATCHES)
def test_matchers(text: str, names: list[str], fits: bool):
    assert matcher(text).matches(names) is fits


@each_row("text", ["(", "a" * 1100 + ".", r"(a)\1", "a++"])
def test_a_matcher_that_cannot_be_used_is_refused(text: str):
    with pytest.raises(InvalidMatcher):
        matcher(text)


@each_row(
    "text",
    [
        "mcp__a__.*|mcp__b__.*|mcp__c__.*|mcp__d__.*|mcp__e__.*",
        r"[+*]{2}",
        r"(Edit|Write)?",
        "mcp__.*?__(?:get|list).*",
        "(a+)+$",
    ],
)
def test_usual_expressions_are_taken(text: str):
    assert matcher(text) == Matcher(text)


@given(st.text(alphabet="ab()|*+?{}2,[].\\^$", max_size=20))
def test_an_accepted_matcher_is_fast(text: str):
    try:
        taken = matcher(text)
    except InvalidMatcher:
        return
    began = time.process_time()
    taken.matches(["a" * 200])
    assert time.process_time() - began < 3
