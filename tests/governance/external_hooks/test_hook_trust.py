"""What trusting a hook covers."""

from typing import Any

import pytest
from msgspec.structs import replace

from rookery.governance.external_hooks.hook_config import (
    Dialect,
    HookCommand,
    HookEvent,
    Matcher,
    OnFailure,
)
from rookery.governance.external_hooks.hook_trust import (
    covered,
    differences,
    named_paths,
)
from support.each_row import each_row

ROOT = "/home/ada/project"
HOOK = HookCommand(event=HookEvent.PRE_TOOL_USE, name="scan", command="sh tools/scan.sh")


@pytest.mark.parametrize(
    "change",
    [
        {"event": HookEvent.POST_TOOL_USE},
        {"matcher": Matcher("Edit")},
        {"condition": "Bash"},
        {"command": "sh tools/scan.sh -q"},
        {"args": ()},
        {"args": ("x",)},
        {"env": (("A", "b"),)},
        {"timeout": 5.0},
        {"on_failure": OnFailure.BLOCK},
        {"dialect": Dialect.NATIVE},
        {"background": True},
        {"sequential": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_change_of_the_definition_makes_another_hook(change: dict[str, Any]):
    before, after = covered(HOOK, {}), covered(replace(HOOK, **change), {})
    assert before != after
    assert len(differences(before, after)) == 1


def test_name_and_description_do_not_affect_trust():
    other = replace(HOOK, name="other", description="text")
    assert covered(HOOK, {}) == covered(other, {})


def test_another_content_of_a_file_makes_another_hook():
    before = covered(HOOK, {"tools/scan.sh": "aaa", "gone": "x"})
    after = covered(HOOK, {"tools/scan.sh": "bbb", "new": "x"})
    assert before != after
    assert differences(before, after) == (
        "file gone: gone",
        "file new: new",
        "file tools/scan.sh: changed (aaa -> bbb)",
    )
    assert differences(before, before) == ()


def test_of_a_hook_that_was_never_trusted_everything_is_shown():
    shown = differences(None, covered(HOOK, {"tools/scan.sh": "ab" * 32}))
    assert "command: sh tools/scan.sh" in shown
    assert "file tools/scan.sh (sha256 abababababababab)" in shown


NAMED = {
    "sh tools/scan.sh": "tools/scan.sh",
    "./tools/scan.sh --all": "tools/scan.sh",
    '"$CLAUDE_PROJECT_DIR"/tools/scan.py': "tools/scan.py",
    "python3 ${CLAUDE_PROJECT_DIR}/tools/scan.py": "tools/scan.py",
    "python3 ${CLAUDE_PROJECT_DIR:-.}/tools/scan.py": "tools/scan.py",
    "$ROOKERY_PROJECT_DIR/a": "a",
    "/home/ada/project/a b/../c": "c",
    "lint --config=conf/lint.toml": "conf/lint.toml",
    "cat x|tools/scan.sh": "tools/scan.sh",
    "(tools/scan.sh;true)": "tools/scan.sh",
    "bash -c 'tools/scan.sh; exit 2'": "tools/scan.sh",
    'echo "it\'s $(tools/scan.sh)"': "tools/scan.sh",
    "tools/scan.sh 'unbalanced": "tools/scan.sh",
    "tools/scan.sh > out/log": "out/log",
    "sh 'my tools/scan.sh'": "my tools/scan.sh",
}


@each_row("command", NAMED)
def test_every_argument_that_may_name_a_file_is_checked(command: str):
    assert NAMED[command] in named_paths(replace(HOOK, command=command), ROOT)


def test_arguments_and_variables_name_files_too():
    hook = replace(HOOK, command="python3", args=("tools/a.py",), env=(("CONF", "conf/b"),))
    assert {"tools/a.py", "conf/b"} <= set(named_paths(hook, ROOT))


@each_row("command", ["/bin/ls", "../other/x", "~/x", "$HOME/x", "/home/ada/projects/x"])
def test_paths_outside_the_project_are_not_project_files(command: str):
    found = named_paths(replace(HOOK, command=command), ROOT)
    assert not any(path.startswith(("/", "..")) for path in found)
