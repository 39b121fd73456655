import pytest

from rookery.core.asks import Decision
from rookery.core.tool_traits import known_tools, traits_of
from rookery.governance.intents.intent import IntentPermissions
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.permission_rules import (
    RuleCall,
    decide,
    permission_rule,
    rule_fault,
)
from support.each_row import each_row


def command(*commands: str, all_known: bool = True) -> RuleCall:
    words = tuple(tuple(each.split()) for each in commands)
    return RuleCall(tool="execute_command", commands=words, all_known=all_known)


def file(*paths: str, tool: str = "write_to_file") -> RuleCall:
    return RuleCall(tool=tool, paths=paths)


ALLOWED = [
    ("execute_command(pytest *)", command("pytest -q"), True),
    ("execute_command(pytest *)", command("pytest"), True),
    ("execute_command(pytest *)", command("pytestx -q"), False),
    ("execute_command(pytest*)", command("pytestx -q"), True),
    ("Bash(git push:*)", command("git push origin"), True),
    ("Bash(git push:*)", command("git pushy"), False),
    ("Bash(git status)", command("git status"), True),
    ("Bash(git status)", command("git status -s"), False),
    ("Bash", command("anything at all"), True),
    ("Bash(pytest *)", command("pytest -q", "rm x"), False),
    ("Bash(pytest *)", command("pytest -q", "pytest -x"), True),
    ("Bash(pytest *)", command("pytest", all_known=False), False),
    ("Bash", command(), False),
    ("Bash(pytest *)", command("/tmp/pytest -q"), False),
    ("Bash(*)", file("a"), False),
    ("Write(src/**)", file("src/a"), True),
    ("Write(src/**)", file("src/a", "lib/b"), False),
    ("Write(src/**)", file("src/a", tool="apply_diff"), False),
    ("Edit(src/**)", file("src/a", tool="apply_diff"), True),
    ("Edit(*.md)", file("docs/a.md", tool="edit"), False),
    ("write_to_file", file("anywhere"), True),
    ("Write(src/**)", RuleCall(tool="write_to_file"), False),
    ("mcp--db--query", RuleCall(tool="mcp--db--query"), True),
    ("mcp__db__query", RuleCall(tool="mcp--db--query"), True),
    ("mcp--db--*", RuleCall(tool="mcp__db__drop"), True),
    ("mcp--db", RuleCall(tool="mcp--db--x"), True),
    ("mcp--db--q*", RuleCall(tool="mcp--db--drop"), False),
    ("mcp--db--*", RuleCall(tool="mcp--dbx--q"), False),
    ("new_task", RuleCall(tool="new_task"), True),
    ("Agent", RuleCall(tool="new_task"), True),
]
FORBIDDEN = [
    ("Bash(git push *)", command("ls", "git push"), True),
    ("Bash(git push *)", command("/usr/bin/git push"), True),
    ("Bash(rm *)", command("rm -rf x", all_known=False), True),
    ("Bash(git push *)", command("git pull"), False),
    ("Edit(*.key)", file("deep/a.key", tool="edit"), True),
    ("Edit(secrets)", file("a/secrets/b", "c", tool="apply_patch"), True),
    ("Edit(/secrets)", file("a/secrets/b", tool="apply_patch"), False),
    ("Read(.env)", file("x/.env", tool="read_file"), True),
]


@each_row(("rule", "call", "fits"), ALLOWED)
def test_what_allows_covers_every_part(rule: str, call: RuleCall, fits: bool):
    expected = Decision.ALLOW if fits else Decision.NONE
    assert decide(IntentPermissions(allow=(rule,)), call)[0] is expected


@each_row(("rule", "call", "fits"), FORBIDDEN)
@each_row("which", ["deny", "ask"])
def test_what_forbids_needs_one_part(rule: str, call: RuleCall, fits: bool, which: str):
    expected = Decision[which.upper()] if fits else Decision.NONE
    assert decide(IntentPermissions(**{which: (rule,)}), call)[0] is expected


def test_quotes_cannot_make_one_command_look_like_another():
    call = RuleCall(tool="execute_command", commands=(("echo", "a; b"),))
    assert decide(IntentPermissions(allow=("Bash(echo a; b)",)), call)[0] is Decision.NONE
    assert decide(IntentPermissions(deny=("Bash(echo a; b)",)), call)[0] is Decision.DENY


def test_deny_then_ask_then_allow_whatever_is_more_special():
    call = command("git push origin main")
    special, general = "Bash(git push origin main)", "Bash(git *)"
    assert decide(IntentPermissions(allow=(special,), deny=(general,)), call) == (
        Decision.DENY,
        general,
    )
    assert decide(IntentPermissions(allow=(special,), ask=(general,)), call) == (
        Decision.ASK,
        general,
    )
    both = IntentPermissions(ask=(special,), deny=(general,))
    assert decide(both, call)[0] is Decision.DENY


def test_every_part_may_be_allowed_by_another_rule():
    rules = IntentPermissions(allow=("Bash(pytest *)", "Bash(ruff *)"))
    assert decide(rules, command("pytest -q", "ruff check"))[0] is Decision.ALLOW


@each_row(
    ("rule", "says"),
    [
        ("", "Tool or Tool"),
        ("Bash(", "Tool or Tool"),
        ("two words", "Tool or Tool"),
        ("Bash()", "empty"),
        ("Nonsense(x)", "no such tool: Nonsense"),
        ("new_task(src/**)", "never matches"),
        ("mcp--db--q(x)", "never matches"),
        ("Edit(../x)", "climb above"),
        ("Edit(!x)", "cannot be negated"),
        ("mcp--*--x", "last part"),
    ],
)
def test_E214_a_rule_that_is_faulty_or_never_fits_is_reported(rule: str, says: str):
    with pytest.raises(PatternError, match=says):
        permission_rule(rule)
    assert rule_fault(rule)


ALIASES = {
    "Bash": ("execute_command",),
    "Write": ("write_to_file", "generate_image"),
    "Edit": ("edit", "edit_file", "search_replace", "apply_diff", "apply_patch"),
    "Read": ("read_file",),
    "Glob": ("list_files",),
    "Grep": ("search_files",),
    "TodoWrite": ("update_todo_list",),
    "Task": ("new_task",),
    "Agent": ("new_task",),
    "AskUserQuestion": ("ask_followup_question",),
}


@each_row("alias", ALIASES)
def test_every_alias_names_existing_tools(alias: str):
    for tool in ALIASES[alias]:
        words = (("x",),) if tool == "execute_command" else ()
        call = RuleCall(tool=tool, commands=words)
        assert decide(IntentPermissions(allow=(alias,)), call)[0] is Decision.ALLOW


@each_row("tool", known_tools())
def test_a_rule_may_name_every_tool_by_every_name(tool: str):
    for name in traits_of(tool).names:
        assert tool in permission_rule(name).tools
