"""K1 to K5: commands that are not what they look like, put to the real command in a trusted
folder where nobody can be asked: what is not completely understood is not run.
"""

import os
import shutil
from collections.abc import Iterator

import pytest
from msgspec import Struct

from llm_server import call
from rookery.core.command_lines import plain
from rookery.core.settings import Settings
from rookery.core.settings_reference import all_settings
from rookery.workspace.search import find_ripgrep
from support.canaries import Visit, World, remove, run
from support.hostile_repositories import programs

NOT_ALLOWED = "Not interactive: this needs approval"

SHELL_TEXTS = {
    "K1 CMD-2 newline": "ls\ntouch M",
    "K1 CMD-2 carriage return": "ls\rtouch M",
    "K1 CMD-2 background": "ls & touch M",
    "K1 CMD-2 process substitution": "cat <(touch M)",
    "K1 CMD-2 output substitution": "ls >(touch M)",
    "K1 CMD-2 command substitution": "echo $(touch M)",
    "K1 CMD-2 backtick": "echo `touch M`",
    "K1 CMD-2 prompt expansion": "x='$(touch M)'; echo ${x@P}",
    "K1 CMD-2 indirect expansion": "x=y; echo ${!x}$(touch M)",
    "K1 CMD-2 zsh equals": "ls =(touch M)",
    "K1 CMD-2 substitution as program": "$(echo touch) M",
    "K1 CMD-2 backslash before quote": "echo 'a\\'; touch M #'",
    "K1 CMD-2 line continuation": "ls $\\\n(touch M)",
    "K1 CMD-2 assignment": "X=$(touch M) ls",
    "K1 CMD-2 arithmetic": "echo $((a[$(touch M)]))",
    "K1 CMD-2 redirection": "ls > M",
    "K1 CMD-2 here-document": "cat <<E\n$(touch M)\nE",
    "K1 CMD-2 cmd caret": "ls ^& touch M",
    "K1 CMD-2 ansi quotes": "$'touch' M",
    "K1 CMD-2 braces": "{touch,M}",
    "K1 CMD-2 history": "ls !$(touch M)",
    "K1 CMD-2 comment": "ls #\ntouch M",
    "K1 CMD-2 no-break space": "ls\u00a0touch M",
    "K1 CMD-2 full-width semicolon": "ls \uff1b touch M\n touch M",
    "K1 CMD-2 null glob": "ls [[:alpha:]]*; eval touch M",
}
READERS = {
    "K2 CMD-4 sort writes": "sort -o M README.md",
    "K2 CMD-4 sort abbreviated": "sort --outpu=M README.md",
    "K2 CMD-4 sort program": "sort --compress-program=./evil.sh README.md",
    "K2 CMD-4 sed writes": "sed -n 'w M' README.md",
    "K2 CMD-4 sed in place": "sed -i s/a/b/ README.md",
    "K2 CMD-4 sed executes": "sed '1e touch M' README.md",
    "K2 CMD-4 find executes": "find . -exec touch M +",
    "K2 CMD-4 find writes": "find . -fprint M",
    "K2 CMD-4 find deletes": "find . -name README.md -delete",
    "K2 CMD-4 git output": "git diff --output=M",
    "K2 CMD-4 git output apart": "git log --output M",
    "K2 CMD-4 git external": "git log -p --ext-diff",
    "K2 CMD-4 git setting": "git -c core.pager=./evil.sh log",
    "K2 CMD-4 git elsewhere": "git -C / log",
    "K2 CMD-4 git exec path": "git --exec-path=. log",
    "K2 CMD-4 git no index": "git diff --no-index /etc/passwd README.md",
    "K2 CMD-4 git grep opens": "git grep -O./evil.sh needle",
    "K2 CMD-4 git upload": "git ls-remote --upload-pack=./evil.sh .",
    "K2 CMD-4 git branch": "git branch M",
    "K2 CMD-4 rg pre": "rg --pre ./evil.sh needle",
    "K2 CMD-4 rg pre attached": "rg --pre=./evil.sh needle",
    "K2 CMD-4 rg hostname": "rg --hostname-bin=./evil.sh needle",
    "K2 CMD-4 awk": "awk 'BEGIN { system(\"touch M\") }'",
    "K2 CMD-4 man": "man -P ./evil.sh ls",
    "K2 CMD-4 less": "less -o M README.md",
    "K2 CMD-4 tar": "tar cf M --checkpoint-action=exec=./evil.sh README.md",
    "K2 CMD-4 xxd": "xxd -r README.md M",
    "K2 CMD-4 uniq writes": "uniq README.md M",
    "K2 CMD-4 tree writes": "tree -o M",
    "K2 CMD-4 tee": "cat README.md | tee M",
    "K2 CMD-4 split": "split README.md M",
    "K2 CMD-4 date": "date -s 2000-01-01",
    "K2 CMD-4 file compiles": "file -C -m README.md",
    "K2 CMD-4 curl": "curl -o M http://127.0.0.1:9",
}
WRAPPERS = {
    "K3 CMD-8 env": "env touch M",
    "K3 CMD-8 sudo": "sudo -n touch M",
    "K3 CMD-8 nice": "nice touch M",
    "K3 CMD-8 timeout": "timeout 9 touch M",
    "K3 CMD-8 xargs": "echo M | xargs touch",
    "K3 CMD-8 sh": "sh -c 'touch M'",
    "K3 CMD-8 command": "command touch M",
    "K3 CMD-8 builtin": "builtin eval 'touch M'",
    "K3 CMD-8 busybox": "busybox touch M",
    "K3 CMD-7 export": "export PAGER=./evil.sh && git log",
    "K3 CMD-7 typeset": "typeset -i PAGER && git log",
    "K3 CMD-6 by path": "./ls",
    "K3 CMD-6 by absolute path": "/bin/ls",
    "K3 CMD-7 variable": "GIT_PAGER=./evil.sh git log",
}
PROJECT_CODE = {
    f"K4 CMD-1 {command.split()[0]} {number}": command
    for number, command in enumerate(
        (
            "npm install",
            "npm test",
            "yarn",
            "pnpm i",
            "pip install .",
            "make",
            "pytest",
            "cargo build",
            "go test",
            "mvn test",
            "python3 -c pass",
            "node -e 1",
            "ruff check",
            "eslint .",
            "git commit -m x",
            "git checkout main",
            "git fetch",
            "ping -c 1 127.0.0.1",
            "nslookup example.invalid",
        )
    )
}
RULES = {
    "K5 CMD-5 git logout": "git logout",
    "K5 CMD-5 lsof": "lsof",
    "K5 CMD-5 catx": "catx README.md",
    "K5 GATE-2 fifty commands": " && ".join(["ls"] * 60 + ["touch M"]),
}
ALL = SHELL_TEXTS | READERS | WRAPPERS | PROJECT_CODE | RULES
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
    commands = [text.replace("M", f"{world.marks}/mark") for text in ALL.values()]
    turns = [[run(command)] for command in (*commands, *UNASKED)]
    path = f"{world.workspace}/bin:.:node_modules/.bin:{os.environ['PATH']}"
    visit = world.visit(*turns, PATH=path, PAGER=f"{world.workspace}/evil.sh")
    yield Asked(world, visit, dict(zip((*ALL, *UNASKED), visit.results, strict=True)))
    remove(world)


@pytest.mark.parametrize("which", ALL)
def test_what_is_not_understood_is_asked_about(asked: Asked, which: str):
    assert NOT_ALLOWED in asked.results[which]


def test_K1_K2_K3_K4_K5_CMD_3_nothing_of_it_was_run(asked: Asked):
    assert asked.world.harm(asked.visit) == []
    assert asked.visit.code == 5


@pytest.mark.parametrize("command", UNASKED)
def test_K3_CMD_6_what_is_understood_is_run_by_the_programs_of_the_system(
    asked: Asked, command: str
):
    """The folder's own `ls`, `cat` and `rg` come first in the PATH, and are not taken."""
    if not shutil.which(command.split()[0]):
        pytest.skip(f"{command.split()[0]} is not installed")
    assert UNASKED[command] in asked.results[command]


@pytest.mark.parametrize("text", SHELL_TEXTS.values(), ids=SHELL_TEXTS)
def test_the_positive_grammar_does_not_know_it(text: str):
    assert plain(text) is None


def test_K4_CMD_1_no_command_is_allowed_by_what_is_shipped():
    assert Settings().commands.allow == ()
    assert Settings().approval != "auto"


def test_K4_GATE_8_acting_unasked_has_a_limit_and_is_said(world: World):
    (world.home / "config" / "settings.toml").write_text("max_requests = 2\n")
    visit = world.visit([run("ls")], [run("ls -a")], [run("ls -l")], flags=("-p",))
    assert len(visit.requests) == 2
    assert visit.code == 4
    assert "acts without asking" in visit.err
    assert "max_requests" in visit.err


def test_K5_CMD_10_a_list_of_denied_commands_is_not_called_a_protection():
    sentence = all_settings()[("commands", "deny")].sentence.lower()
    assert "convenience" in sentence
    assert "what protects you is the sandbox" in sentence


def test_K5_CMD_9_GATE_9_the_model_cannot_call_a_command_safe(world: World):
    mark = world.marks / "safe"
    claims = ({"safe": True}, {"requires_approval": False}, {"sandbox": "off"}, {"risk": "low"})
    turns = [
        [call("execute_command", command=f"touch {mark}", cwd=None, timeout=None, **claim)]
        for claim in claims
    ]
    visit = world.visit(*turns)
    assert world.harm(visit) == []
    assert all("There is no argument" in result for result in visit.results)


def test_K5_GATE_2_GATE_9_a_denied_command_is_denied_in_any_company_and_with_yes(world: World):
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


def test_K3_CMD_7_a_command_gets_none_of_what_changes_programs_and_no_key(world: World):
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


def test_K3_CMD_6_the_shell_itself_is_not_taken_from_the_workspace(world: World):
    programs(world)
    path = f"{world.workspace}/bin:{os.environ['PATH']}"
    visit = world.visit([run("echo hi > said.txt")], flags=("-p", "-y"), PATH=path)
    assert world.harm(visit) == []


def test_K3_CMD_6_TRUST_1_ripgrep_is_not_taken_from_the_workspace(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    """Searching needs no trust, so whatever this finds is run in any folder that is opened."""
    programs(world)
    monkeypatch.setattr("sys.executable", str(world.home / "python"))
    monkeypatch.setenv("PATH", f"{world.workspace}/bin:.:{os.environ['PATH']}")
    monkeypatch.chdir(world.workspace)
    found = find_ripgrep()
    assert not found or not os.path.realpath(found).startswith(str(world.workspace))
