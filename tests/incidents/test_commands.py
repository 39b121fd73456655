"""Misleading commands in a trusted folder: they do not run without approval."""

import os
import shutil
from collections.abc import Iterator

import pytest
from msgspec import Struct

from llm_server import call
from rookery.core.settings import Settings
from rookery.core.settings_reference import all_settings
from rookery.workspace.search import find_ripgrep
from support.canaries import Visit, World, remove, run
from support.each_row import each_row
from support.hostile_repositories import programs

NOT_ALLOWED = "Not interactive: this needs approval"

NOT_UNDERSTOOD = {
    "newline": "ls\ntouch M",
    "carriage return": "ls\rtouch M",
    "process substitution": "cat <(touch M)",
    "command substitution": "echo $(touch M)",
    "braces": "{touch,M}",
    "here-document": "cat <<E\n$(touch M)\nE",
    "a reader writes": "sort -o M README.md",
    "a reader executes": "sed '1e touch M' README.md",
    "a reader executes for files": "find . -exec touch M +",
    "a reader of the project runs": "rg --pre ./evil.sh needle",
    "git external": "git log -p --ext-diff",
    "git setting": "git -c core.pager=./evil.sh log",
    "wrapper": "sudo -n touch M",
    "shell": "sh -c 'touch M'",
    "variable": "export PAGER=./evil.sh && git log",
    "project code": "pip install .",
    "like an allowed one": "catx README.md",
    "sixty commands": " && ".join(["ls"] * 60 + ["touch M"]),
}
"""One of each kind; all of them are in tests/vectors/commands.yaml."""
UNASKED = {
    "ls": "README.md",
    "cat README.md && ls": "needle",
    "grep needle README.md": "needle",
    "rg needle README.md": "needle",
}


class Asked(Struct):
    world: World
    visit: Visit
    results: dict[str, str]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """All of them in one task; the folder is full of programs with the names of real ones, and
    it comes first in the PATH."""
    world = World(tmp_path_factory.mktemp("commands"))
    programs(world)
    commands = [text.replace("M", f"{world.marks}/mark") for text in NOT_UNDERSTOOD.values()]
    turns = [[run(command)] for command in (*commands, *UNASKED)]
    path = f"{world.workspace}/bin:.:node_modules/.bin:{os.environ['PATH']}"
    visit = world.visit(*turns, PATH=path, PAGER=f"{world.workspace}/evil.sh")
    yield Asked(world, visit, dict(zip((*NOT_UNDERSTOOD, *UNASKED), visit.results, strict=True)))
    remove(world)


@each_row("which", NOT_UNDERSTOOD)
def test_commands_that_are_not_understood_need_approval(asked: Asked, which: str):
    assert NOT_ALLOWED in asked.results[which]


def test_commands_without_approval_are_not_run(asked: Asked):
    assert asked.world.harm(asked.visit) == []
    assert asked.visit.code == 5


@pytest.mark.parametrize("command", UNASKED)
def test_read_only_commands_run_the_systems_own_programs(asked: Asked, command: str):
    """The folder's own `ls`, `cat` and `rg` come first in the PATH, and are not taken."""
    if not shutil.which(command.split()[0]):
        pytest.skip(f"{command.split()[0]} is not installed")
    assert UNASKED[command] in asked.results[command]


def test_the_default_settings_allow_no_command():
    assert Settings().commands.allow == ()
    assert Settings().approval != "auto"


def test_automatic_approval_is_reported_and_limited(world: World):
    (world.home / "config" / "settings.toml").write_text("max_requests = 2\n")
    visit = world.visit([run("ls")], [run("ls -a")], [run("ls -l")], flags=("-p",))
    assert len(visit.requests) == 2
    assert visit.code == 4
    assert "auto-approve" in visit.err
    assert "max_requests" in visit.err


def test_the_deny_list_is_documented_as_a_convenience():
    sentence = all_settings()[("commands", "deny")].sentence.lower()
    assert "convenience" in sentence
    assert "what protects you is the sandbox" in sentence


def test_the_model_cannot_declare_a_command_safe(world: World):
    mark = world.marks / "safe"
    claims = ({"safe": True}, {"requires_approval": False}, {"sandbox": "off"}, {"risk": "low"})
    turns = [
        [call("execute_command", command=f"touch {mark}", cwd=None, timeout=None, **claim)]
        for claim in claims
    ]
    visit = world.visit(*turns)
    assert world.harm(visit) == []
    assert all("Unknown argument" in result for result in visit.results)


def test_a_denied_command_is_denied_in_any_combination_and_with_yes(world: World):
    (world.home / "config" / "settings.toml").write_text('[commands]\ndeny = ["touch"]\n')
    mark = f"{world.workspace}/executed-deny"
    forms = [
        f"touch {mark}",
        " && ".join(["true"] * 80 + [f"touch {mark}"]),
        f"sh -c 'sh -c \"touch {mark}\"'",
        f"env -i nice timeout 5 touch {mark}",
        f"ls; (cd . && {{ touch {mark}; }})",
        f"x=$(touch {mark})",
    ]
    visit = world.visit(*[[run(form)] for form in forms], flags=("-p", "-y"))
    assert world.harm(visit) == []
    assert [("deny" in r or "denied" in r) for r in visit.results] == [True] * len(forms)


HOSTILE_ENVIRONMENT = {
    name: "./evil.sh"
    for name in (
        *(
            "LD_PRELOAD_X",
            "LD_LIBRARY_PATH",
            "DYLD_INSERT_LIBRARIES",
            "GIT_SSH_COMMAND",
            "BASH_ENV",
        ),
        *("GIT_EXTERNAL_DIFF", "ENV", "PS4", "PROMPT_COMMAND", "EDITOR", "VISUAL", "LESSOPEN"),
        *("NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "RIPGREP_CONFIG_PATH"),
        *("SSH_ASKPASS", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "AWS_SECRET_ACCESS_KEY"),
        *("GITHUB_TOKEN", "ROOKERY_TIMEOUT_X", "GIT_DIR", "GIT_CONFIG_COUNT", "BASH_FUNC_ls%%"),
    )
}


def test_commands_get_no_hostile_environment_variables_and_no_key(world: World):
    visit = world.visit(
        [run("env; echo end")], [run("export STAYS=1; cd /")], [run("echo [$STAYS]; pwd")],
        flags=("-p", "-y"), **HOSTILE_ENVIRONMENT,
    )  # fmt: skip
    given = {line.partition("=")[0] for line in visit.results[0].splitlines()}
    assert "PATH" in given
    assert given & set(HOSTILE_ENVIRONMENT) == set()
    assert "ANTHROPIC_API_KEY" not in given
    assert "[]" in visit.results[2], "nothing stays behind for the next command"
    assert str(world.workspace) in visit.results[2]
    assert world.harm(visit) == []


def test_the_shell_itself_is_not_taken_from_the_workspace(world: World):
    programs(world)
    path = f"{world.workspace}/bin:{os.environ['PATH']}"
    visit = world.visit([run("echo hi > said.txt")], flags=("-p", "-y"), PATH=path)
    assert world.harm(visit) == []


def test_ripgrep_is_not_taken_from_the_workspace(world: World, monkeypatch: pytest.MonkeyPatch):
    """Searching needs no trust, so a `ripgrep` found here would run in every opened folder."""
    programs(world)
    monkeypatch.setattr("sys.executable", str(world.home / "python"))
    monkeypatch.setenv("PATH", f"{world.workspace}/bin:.:{os.environ['PATH']}")
    monkeypatch.chdir(world.workspace)
    found = find_ripgrep()
    assert not found or not os.path.realpath(found).startswith(str(world.workspace))
